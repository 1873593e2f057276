"""Shared by keyed operators: a shard's rows, cut into keys."""
