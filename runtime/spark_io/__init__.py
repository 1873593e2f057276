"""Spark's sources, sinks and formats: Kafka, Delta, Iceberg, files, the live query's log."""
