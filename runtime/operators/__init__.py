"""The operators of a keyed stage: what runs once per shard and epoch inside a Spark task."""
