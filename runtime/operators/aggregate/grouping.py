"""Grouping sets: a row is in one group of each of them, as after ``rollup``, ``cube`` and ``groupingSets``.

The groups of a set are by some of the keys; the others are null there, which is no value that a row has had.  So what
tells the groups of two sets apart, Spark's grouping id, is the last part of the key, though nobody has asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

#: The grouping id as Spark's analyzer writes it.
SPARKS_GROUPING_ID = "spark_grouping_id"


@dataclass(frozen=True)
class GroupingSets:
    """Which of the keys each set groups by."""

    #: The method of ``DataFrame`` that asked for them.
    method: str
    #: How many keys there are.
    keys: int
    #: Places of keys, one tuple a set.
    sets: tuple[tuple[int, ...], ...]

    @classmethod
    def rollup(cls, keys: int) -> GroupingSets:
        """All keys, all but the last, all but the last two…"""
        return cls("rollup", keys, tuple(tuple(range(count)) for count in range(keys, -1, -1)))

    @classmethod
    def cube(cls, keys: int) -> GroupingSets:
        """Every choice of keys."""
        chosen = (places for count in range(keys, -1, -1) for places in combinations(range(keys), count))
        return cls("cube", keys, tuple(chosen))

    def id_of(self, places: Sequence[int]) -> int:
        """Spark's grouping id of a set: a bit for each key, the first key's the highest, 1 if it is not in the set."""
        return sum(1 << (self.keys - 1 - place) for place in range(self.keys) if place not in places)

    def of(self, sets: Sequence[tuple[int, ...]]) -> GroupingSets:
        """Some of them."""
        return replace(self, sets=tuple(sets))

    def ids_without(self, place: int) -> tuple[int, ...]:
        """The ids of the sets that do not group by a key."""
        return tuple(self.id_of(places) for places in self.sets if place not in places)

    def counted(self, place: int | None) -> int:
        """The id of the set in which rows are counted: one that groups by this key, if there is one."""
        first = next((places for places in self.sets if place in places), self.sets[0])
        return self.id_of(first)

    def described(self, names: Sequence[str]) -> list[str]:
        """The sets, as people write them."""
        return [f"({', '.join(names[place] for place in places)})" for places in self.sets]
