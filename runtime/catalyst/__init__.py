"""Spark's logical plans: read, built and compared."""
