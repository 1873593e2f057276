"""Spark jobs of an epoch: prepared on the driver, and sent to the tasks."""
