"""The task of a shard in an epoch."""
