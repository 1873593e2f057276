"""What keyed operators share: a shard's rows cut into keys."""
