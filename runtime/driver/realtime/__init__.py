"""Drives a live phase in Real-Time Mode: one Spark query, whose batches are the epochs."""
