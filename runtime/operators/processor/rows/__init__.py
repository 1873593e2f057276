"""Rows that a processor gets and gives, one after the other."""
