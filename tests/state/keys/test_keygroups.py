"""Numbers of shards: by key group, by partition of Spark's, in order."""

from __future__ import annotations

import pytest
from mixedmode.state.keys.keygroups import (
    by_shard,
    key_group_of,
    shard_of,
    shard_ranges,
    shards_of_hash_partitions,
)


@pytest.mark.parametrize("parallelism", [1, 2, 8, 64])
def test_a_partition_of_sparks_is_the_shard_of_its_keys(parallelism: int) -> None:
    """Whatever a key hashes to: the partition that Spark's hash partitioning puts it into is that of its shard."""
    shards = shards_of_hash_partitions(parallelism)
    for key_hash in (*range(-200, 200, 7), -(2**31), 2**31 - 1):
        assert shards[key_hash % parallelism] == shard_of(key_group_of(key_hash, 64), parallelism, 64)


@pytest.mark.parametrize("parallelism", [1, 3, 10])
def test_shards_own_the_key_groups_of_their_ranges(parallelism: int) -> None:
    """Also where the number of shards is no power of two."""
    for shard, groups in by_shard(shard_ranges(parallelism, 10)):
        assert {shard_of(group, parallelism, 10) for group in groups} == {shard}
