"""Spark's own test suites, run on stock Structured Streaming and on mixedmode over the same micro-batches."""
