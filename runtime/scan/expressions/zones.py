"""Time zones as Java has them: when clocks change, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..parquet_scan import NotTakenError

_SECOND, _DAY = 1_000_000, 86_400_000_000
#: Clock changes that follow from a rule are known up to this year.
_LAST_YEAR = 2100
_LAST = 4_102_444_800 * _SECOND  # its begin


@dataclass(frozen=True)
class Zone:
    """A time zone."""

    name: str
    #: When clocks change, in µs since 1970.
    changes: tuple[int, ...]
    #: The offset from UTC in µs before the first change and after each.
    offsets: tuple[int, ...]

    def offsets_at(self, times: np.ndarray, nulls: np.ndarray | None) -> np.ndarray:
        """Offsets at times, which are µs since 1970.

        Args:
            times: the times.
            nulls: those that do not matter; None: all matter.

        Raises:
            NotTakenError: a time is too far ahead.
        """
        if not self.changes:
            return np.full(len(times), self.offsets[0], dtype=np.int64)
        if len(times) and times.max() >= _LAST and (nulls is None or times[~nulls].max(initial=0) >= _LAST):
            raise NotTakenError(f"a time in {self.name} is after {_LAST_YEAR}")
        changes, offsets = _arrays(self)
        found: np.ndarray = offsets[np.searchsorted(changes, times, side="right")]
        return found

    def local(self, times: np.ndarray, nulls: np.ndarray | None) -> np.ndarray:
        """What clocks show at times.

        Args:
            times: the times.
            nulls: those that do not matter.

        Raises:
            NotTakenError: a time is not known there.
        """
        _check(times, nulls)
        return times + self.offsets_at(times, nulls)

    def instants(self, local: np.ndarray, nulls: np.ndarray | None) -> np.ndarray:
        """The times at which clocks show something.

        Args:
            local: what they show.
            nulls: what does not matter.

        Raises:
            NotTakenError: clocks show it twice or never, or it is not known.
        """
        _check(local, nulls)
        if not self.changes:
            return local - self.offsets[0]
        found = local - self.offsets_at(local, nulls)
        found = local - self.offsets_at(found, nulls)
        changes, offsets = _arrays(self)
        unsure = found + self.offsets_at(found, nulls) != local
        at = np.searchsorted(changes, found, side="right")
        for place in (np.maximum(at - 1, 0), np.minimum(at, len(changes) - 1)):
            before, after = changes[place] + offsets[place], changes[place] + offsets[place + 1]
            unsure |= (local >= np.minimum(before, after)) & (local < np.maximum(before, after))
        if (unsure if nulls is None else unsure & ~nulls).any():
            raise NotTakenError(f"a time in {self.name} is when clocks change")
        return found


def _check(times: np.ndarray, nulls: np.ndarray | None) -> None:
    """Raise for times of years before 1 and after 9999."""
    wrong = (times < -62_135_596_800_000_000 + _DAY) | (times > 253_402_300_799_999_999 - _DAY)
    if (wrong if nulls is None else wrong & ~nulls).any():
        raise NotTakenError("a time is outside of the years 1 to 9999")


@lru_cache
def _arrays(zone: Zone) -> tuple[np.ndarray, np.ndarray]:
    return np.array(zone.changes, dtype=np.int64), np.array(zone.offsets, dtype=np.int64)


_KNOWN: dict[str, Zone] = {}


def zone_of(zone_id: Any) -> Zone:
    """A zone; ``zone_id``: Java's."""
    name = str(zone_id.getId())
    if name not in _KNOWN:
        _KNOWN[name] = _read(name, zone_id)
    return _KNOWN[name]


def _read(name: str, zone_id: Any) -> Zone:
    rules = zone_id.getRules()
    if rules.isFixedOffset():
        return Zone(name, (), (int(zone_id.normalized().getTotalSeconds()) * _SECOND,))
    listed = list(rules.getTransitions())
    if not listed:
        raise NotTakenError(f"time zone {name} has rules without a begin")
    last = int(listed[-1].toEpochSecond())
    years = range(int(listed[-1].getDateTimeBefore().getYear()), _LAST_YEAR + 1)
    by_rule = [rule.createTransition(year) for rule in rules.getTransitionRules() for year in years]
    following = sorted((one for one in by_rule if one.toEpochSecond() > last), key=lambda one: int(one.toEpochSecond()))
    changes = [*listed, *following]
    offsets = [listed[0].getOffsetBefore(), *(one.getOffsetAfter() for one in changes)]
    return Zone(
        name,
        tuple(int(one.toEpochSecond()) * _SECOND for one in changes),
        tuple(int(offset.getTotalSeconds()) * _SECOND for offset in offsets),
    )
