"""Helpers that know nothing of jobs."""
