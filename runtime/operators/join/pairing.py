"""Finds the pairs of both sides that are within bounds of each other: many keys at once, in bounded pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..binary_search import first_at_least
from ..keyed.keyed_rows import NO_TIME
from .columns import LEFT
from .definition import TimeBounds

#: So that sums with event times stay within 64 bits.
_FAR_US = 2**62


@dataclass(frozen=True)
class PairingRows:
    """Rows by key, and within a key by event time."""

    #: The place of each row's key, ascending.
    keys: np.ndarray
    #: In microseconds; ``NO_TIME``: it has none.
    times_us: np.ndarray
    sides: np.ndarray
    #: True: it has had a partner.  What is found later is set here.
    matched: np.ndarray
    #: Their numbers in a pool.
    numbers: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, kept: np.ndarray) -> PairingRows:
        """Some of them; ``kept``: a mask, or places."""
        return PairingRows(
            self.keys[kept], self.times_us[kept], self.sides[kept], self.matched[kept], self.numbers[kept]
        )


@dataclass(frozen=True)
class SideRows:
    """Those of one side."""

    side: int
    rows: PairingRows
    #: Their places in what they are taken from.
    places: np.ndarray
    #: Where each key's begin, and the last one's end.
    starts: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


def side_of(rows: PairingRows, side: int, keys: int) -> SideRows:
    """The rows of one side; ``keys``: how many keys there are."""
    places = np.flatnonzero(rows.sides == side)
    one = rows.where(places)
    return SideRows(side, one, places, np.searchsorted(one.keys, np.arange(keys + 1)))


def in_bounds(
    keys: np.ndarray, times_us: np.ndarray, side: int, others: SideRows, bounds: TimeBounds
) -> tuple[np.ndarray, np.ndarray]:
    """For each row the stretch of the other side's rows that are within bounds: where it begins and ends.

    Args:
        keys: the key of each row.
        times_us: its event time.
        side: its side.
        others: rows of the other side.
        bounds: of left minus right event time.
    """
    low, high = others.starts[keys], others.starts[keys + 1]
    if bounds.least_us is None and bounds.greatest_us is None:
        return low, high
    earliest, latest = partner_times(times_us, side, bounds)
    low = first_at_least(others.rows.times_us, low, high, earliest)
    # A bound that is far away may not get past the end of time.
    high = first_at_least(others.rows.times_us, low, high, latest + 1) if len(others) else high
    return low, np.where(times_us == NO_TIME, low, high)


def partner_times(times_us: np.ndarray, side: int, bounds: TimeBounds) -> tuple[np.ndarray, np.ndarray]:
    """Between which event times the partners of rows are; both are partners'.

    Args:
        times_us: of the rows.
        side: of the rows.
        bounds: at least one is given.
    """
    least, greatest = bounds.least_us, bounds.greatest_us
    if side == LEFT:
        before, after = greatest, None if least is None else -least
    else:
        before, after = None if least is None else -least, greatest
    earliest = np.full(len(times_us), NO_TIME + 1)
    latest = np.full(len(times_us), 2**63 - 2)
    if before is not None:
        earliest = np.clip(times_us, -_FAR_US, _FAR_US) - _near(before)
    if after is not None:
        latest = np.clip(times_us, -_FAR_US, _FAR_US) + _near(after)
    return earliest, latest


def pairs_of(low: np.ndarray, high: np.ndarray, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each row with each of its stretch: ``(places of rows, places in the other side)``, so many at a time.

    Args:
        low: where the stretch of each row begins.
        high: where it ends.
        most: pairs at a time.
    """
    counts = high - low
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    shift = low - (ends - counts)
    for start in range(0, total, most):
        pairs = np.arange(start, min(start + most, total))
        rows = np.searchsorted(ends, pairs, side="right")
        yield rows, pairs + shift[rows]


def slices_of(sizes: np.ndarray, most: int, most_in_all: int) -> Iterator[slice]:
    """Cut things up one after the other: so many at a time, and of about such a size together.

    Args:
        sizes: of each.
        most: how many.
        most_in_all: what they may come to; one that is larger is alone, or the last.
    """
    pieces = np.cumsum(sizes) // most_in_all + np.arange(len(sizes)) // most
    cuts = np.flatnonzero(np.diff(pieces)) + 1
    for start, stop in pairwise([0, *cuts.tolist(), len(sizes)]):
        yield slice(start, stop)


def covered(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """Which of so many places are in any of the stretches."""
    steps = np.zeros(count + 1, dtype=np.int64)
    np.add.at(steps, low, 1)
    np.add.at(steps, high, -1)
    return np.cumsum(steps[:-1]) > 0


def merged_places(old: PairingRows, new: PairingRows, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the rows of each go if both are brought into one order, by key and event time.

    Args:
        old: rows of ``keys`` keys.
        new: other ones.
        keys: how many keys there are.
    """
    starts = np.searchsorted(old.keys, np.arange(keys + 1))
    low, high = starts[new.keys], starts[new.keys + 1]
    behind = first_at_least(old.times_us, low, high, new.times_us + 1)
    new_places = behind + np.arange(len(new))
    is_new = np.zeros(len(old) + len(new), dtype=bool)
    is_new[new_places] = True
    return np.flatnonzero(~is_new), new_places


def _near(bound_us: int) -> int:
    return max(-_FAR_US + 2, min(bound_us, _FAR_US - 2))
