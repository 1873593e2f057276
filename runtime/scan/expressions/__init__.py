"""Spark's expressions computed by Arrow and numpy, where the values are Spark's to the bit."""
