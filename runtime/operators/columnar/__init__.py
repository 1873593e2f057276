"""Keyed state by column: the rows of many keys at once, their records as bytes, and their cells in a shard."""
