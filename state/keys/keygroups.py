"""Key groups: the unit in which keyed state is assigned to shards.

A key belongs to the key group ``spread(pmod(hash(key), max_parallelism))``, where ``hash`` is Spark's public ``hash``
function (Murmur3, seed 42) over the key columns.  Shard ``i`` of ``n`` owns a contiguous range of key groups, so that a
job can be restarted with another number of shards by re-dealing ranges; the same assignment as Flink's
``KeyGroupRangeAssignment``.

``spread`` reverses the bits if max_parallelism is a power of two, and changes nothing otherwise.  Reversed, the leading
bits of a key group are the trailing bits of the hash: if the number of shards is a power of two as well, a shard is
exactly one partition of Spark's own hash partitioning, and rows that Spark has aggregated by key are in place already.

All of these rules are part of the on-disk contract.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NewType, TypeVar

_T = TypeVar("_T")

#: Of a shard of one stage, counted from 0: no key group, no partition of Spark's, and no number of shards.
ShardId = NewType("ShardId", int)

#: Key groups are stored as two big-endian bytes.
MAX_PARALLELISM_LIMIT = 32_768


def is_power_of_two(number: int) -> bool:
    """True for 1, 2, 4, ..."""
    return number > 0 and number & (number - 1) == 0


def bit_reversed(number: int, size: int) -> int:
    """``number`` with its bits in reverse order, as one of ``size`` (a power of two) numbers; its own inverse."""
    bits = size.bit_length() - 1
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0


def key_group_of(key_hash: int, max_parallelism: int) -> int:
    """The key group of a key with this hash (Spark's ``hash``, a signed 32-bit number)."""
    group = key_hash % max_parallelism
    return bit_reversed(group, max_parallelism) if is_power_of_two(max_parallelism) else group


@dataclass(frozen=True, order=True)
class KeyGroupRange:
    """Key groups ``first`` to ``last``, both included."""

    first: int
    last: int

    def __contains__(self, key_group: int) -> bool:
        return self.first <= key_group <= self.last

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(range(self.first, self.last + 1))

    def overlaps(self, other: KeyGroupRange) -> bool:
        """True if at least one key group is in both ranges."""
        return self.first <= other.last and other.first <= self.last

    def covers(self, other: KeyGroupRange) -> bool:
        """True if all key groups of the other range are in this one."""
        return self.first <= other.first and other.last <= self.last

    @property
    def lower_bound(self) -> bytes:
        """Smallest stored key of the range."""
        return self.first.to_bytes(2, "big")

    @property
    def upper_bound(self) -> bytes:
        """First stored key beyond the range (three bytes where the range ends at the greatest group)."""
        return (self.last + 1).to_bytes(2, "big") if self.last < 0xFFFF else b"\xff\xff\xff"


def all_shards(parallelism: int) -> tuple[ShardId, ...]:
    """The shards of a stage that has so many."""
    return tuple(map(ShardId, range(parallelism)))


def by_shard(items: Sequence[_T]) -> Iterator[tuple[ShardId, _T]]:
    """What belongs to each shard of a stage, in shard order, with its shard."""
    return zip(all_shards(len(items)), items, strict=True)


def shards_of_hash_partitions(parallelism: int) -> tuple[ShardId, ...]:
    """The shard of each partition of Spark's own hash partitioning; ``parallelism`` is a power of two."""
    return tuple(ShardId(bit_reversed(partition, parallelism)) for partition in range(parallelism))


def shard_ranges(parallelism: int, max_parallelism: int) -> list[KeyGroupRange]:
    """The key-group ranges of all shards, in shard order; ``1 <= parallelism <= max_parallelism``."""
    if not 1 <= parallelism <= max_parallelism:
        raise ValueError(f"parallelism must be between 1 and max_parallelism ({max_parallelism}), got {parallelism}")
    firsts = [-(-shard * max_parallelism // parallelism) for shard in range(parallelism + 1)]
    return [KeyGroupRange(first, following - 1) for first, following in pairwise(firsts)]


def shard_of(key_group: int, parallelism: int, max_parallelism: int) -> ShardId:
    """The shard that owns a key group: ``key_group * parallelism // max_parallelism``."""
    return ShardId(key_group * parallelism // max_parallelism)
