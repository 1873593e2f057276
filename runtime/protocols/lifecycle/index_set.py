"""A set of small numbers: subtasks of a vertex, channels of a task.

The numbers are the bits of one integer, so what 512 subtasks do together costs about as much as what one of them does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexSet:
    """An immutable set of numbers >= 0, iterated in ascending order."""

    bits: int = 0

    @staticmethod
    def of(indices: Iterable[int]) -> IndexSet:
        """The set of these numbers."""
        bits = 0
        for index in indices:
            bits |= 1 << index
        return IndexSet(bits)

    @staticmethod
    def below(end: int) -> IndexSet:
        """All numbers from 0 up to, and without, ``end``."""
        return IndexSet((1 << end) - 1)

    def __or__(self, other: IndexSet) -> IndexSet:
        return IndexSet(self.bits | other.bits)

    def __and__(self, other: IndexSet) -> IndexSet:
        return IndexSet(self.bits & other.bits)

    def __sub__(self, other: IndexSet) -> IndexSet:
        return IndexSet(self.bits & ~other.bits)

    def __le__(self, other: IndexSet) -> bool:
        return not self.bits & ~other.bits

    def __contains__(self, index: int) -> bool:
        return bool(self.bits >> index & 1)

    def __bool__(self) -> bool:
        return bool(self.bits)

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __iter__(self) -> Iterator[int]:
        return (index for index in range(self.bits.bit_length()) if self.bits >> index & 1)

    def moved(self, by: int) -> IndexSet:
        """Every number plus ``by``; those that are below 0 then are left out."""
        return IndexSet(self.bits << by if by >= 0 else self.bits >> -by)

    @property
    def first(self) -> int:
        """The smallest number of a set that has one."""
        return next(iter(self))

    def __str__(self) -> str:
        """Runs of numbers: "0-2, 5"."""
        runs: list[list[int]] = []
        for index in self:
            if runs and runs[-1][1] == index - 1:
                runs[-1][1] = index
            else:
                runs.append([index, index])
        return ", ".join(f"{start}" if start == end else f"{start}-{end}" for start, end in runs)
