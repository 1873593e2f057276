"""Naive local time of whole timestamp columns: what PySpark shows for a ``TimestampType``.

PySpark converts value by value, several microseconds each.  A zone's offset rarely changes, so it is asked for once per
hour of the data, and added to all values of that hour at once.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import numpy as np

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND_US = 1_000_000
_HOUR_S = 3600
#: Hours whose offset is remembered.
_CACHED_HOURS = 100_000


class LocalClock:
    """The zone of this process, as of now."""

    def __init__(self) -> None:
        #: Microseconds to add in an hour of UTC; None: the offset changes within it, or Python cannot tell it.
        self._offsets_us: dict[int, int | None] = {}

    def naive(self, micros: np.ndarray) -> list[datetime]:
        """Naive local datetimes of microseconds since the epoch."""
        hours, places = np.unique(micros // (_HOUR_S * _SECOND_US), return_inverse=True)
        offsets = [self._offset_us(hour) for hour in hours.tolist()]
        known = np.array([offset or 0 for offset in offsets], dtype=np.int64)
        values: list[datetime] = (micros + known[places]).astype("datetime64[us]").tolist()
        if None in offsets:
            unknown = np.array([offset is None for offset in offsets])
            for index in np.flatnonzero(unknown[places]).tolist():
                values[index] = _naive(int(micros[index]))
        return values

    def _offset_us(self, hour: int) -> int | None:
        if hour not in self._offsets_us:
            if len(self._offsets_us) >= _CACHED_HOURS:
                self._offsets_us.clear()
            first_us = hour * _HOUR_S * _SECOND_US
            try:
                ends = [_naive(us) - _utc(us) for us in (first_us, first_us + _HOUR_S * _SECOND_US - 1)]
            except (OverflowError, ValueError, OSError):  # the first and last hours of what a datetime can hold
                ends = [timedelta(0), timedelta(1)]
            self._offsets_us[hour] = ends[0] // timedelta(microseconds=1) if ends[0] == ends[1] else None
        return self._offsets_us[hour]


def _utc(micros: int) -> datetime:
    return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None)


def _naive(micros: int) -> datetime:
    return (_EPOCH + timedelta(microseconds=micros)).astimezone().replace(tzinfo=None)


def local_zone_is_utc() -> bool:
    """True if naive local datetimes equal UTC ones on this machine, now and in the past."""
    return time.timezone == 0 and not time.daylight and set(time.tzname) <= {"UTC", "GMT", "Etc/UTC"}
