"""Runs a shard of a live phase in Real-Time Mode, in a Spark task that lives as long as an epoch."""
