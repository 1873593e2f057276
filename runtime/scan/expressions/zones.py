"""Time zones as Java has them: when clocks change, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ..parquet_scan import NotTakenError

_SECOND, _DAY = 1_000_000, 86_400_000_000
#: Clock changes that follow from a rule are known up to this year; later years are like earlier ones that begin on the
#: same day of the week and are as long, of which there is one of each kind among the 28 before this one.
_LAST_YEAR = 2100
_LAST = 4_102_444_800 * _SECOND  # its begin
_KINDS_SINCE = _LAST_YEAR - 28


@dataclass(frozen=True)
class Zone:
    """A time zone."""

    name: str
    #: When clocks change, in µs since 1970.
    changes: tuple[int, ...]
    #: The offset from UTC in µs before the first change and after each.
    offsets: tuple[int, ...]
    #: What is known of the years after the last change: clocks change as in all years ``by rule``, or ``never`` again.
    goes_on: Literal["unknown", "by rule", "never"] = "unknown"

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
        if len(times) and times.max() >= _LAST:
            if self.goes_on == "unknown":
                self._check_last(times, nulls)
            elif self.goes_on == "by rule":
                times = np.where(times < _LAST, times, _in_known_years(times))
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
        found: np.ndarray = times + self.offsets_at(times, nulls)
        _check(found, nulls)
        return found

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
        self._check_last(local, nulls)
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

    def _check_last(self, times: np.ndarray, nulls: np.ndarray | None) -> None:
        if len(times) and (times if nulls is None else times[~nulls]).max(initial=0) >= _LAST:
            raise NotTakenError(f"a time in {self.name} is after {_LAST_YEAR}")


#: Of wall time, which is as it is.
WALL = Zone("wall", (), (0,))


def _in_known_years(times: np.ndarray) -> np.ndarray:
    """Times of years whose clock changes are known, at which clocks are as at the given ones, by the same rule."""
    first, kinds = _years(times // _DAY)
    known, its = _years(
        np.arange(_KINDS_SINCE - 1970, _LAST_YEAR - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64)
    )
    begins = np.zeros(14, dtype=np.int64)
    begins[its] = known
    return times - (first - begins[kinds]) * _DAY


def _years(days: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first days of the years of some days, and what tells one calendar of a year from others."""
    years = days.astype("M8[D]").astype("M8[Y]")
    first = years.astype("M8[D]").astype(np.int64)
    lengths = (years + 1).astype("M8[D]").astype(np.int64) - first
    return first, first % 7 * 2 + (lengths == 366)


def _check(times: np.ndarray, nulls: np.ndarray | None) -> None:
    """Raise for times of years before 1 and after 9999."""
    wrong = (times < -62_135_596_800_000_000) | (times > 253_402_300_799_999_999)
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
    has_last = int(listed[-1].getDateTimeBefore().getYear()) < _KINDS_SINCE
    return Zone(
        name,
        tuple(int(one.toEpochSecond()) * _SECOND for one in changes),
        tuple(int(offset.getTotalSeconds()) * _SECOND for offset in offsets),
        "never" if not by_rule else "by rule" if has_last else "unknown",
    )
