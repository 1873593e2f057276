"""Doing it on Spark: query handle, phases, epochs, checkpoints, sinks."""
