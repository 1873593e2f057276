"""Converts naive local datetimes to microseconds since the epoch and back, single values and whole columns, fast.

What :func:`~.conversions.local_micros` and :func:`~.conversions.micros_local` say, which ask the C library about each
value.  A zone's offset rarely changes, so it is asked for once per hour that occurs.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from .conversions import local_micros, micros_local, wall_micros

_EPOCH = datetime(1970, 1, 1)
_SECOND_US = 1_000_000
_HOUR_S = 3600
_HOUR_US = _HOUR_S * _SECOND_US
#: Hours whose offset is remembered.
_KEPT_HOURS = 100_000


class LocalMoments:
    """The zone of this process, as of the first question about an hour."""

    def __init__(self) -> None:
        #: Microseconds from the wall clock to UTC in an hour of the wall clock; None: it changes within.
        self._from_wall: dict[int, int | None] = {}
        #: Microseconds from UTC to the wall clock in an hour of UTC; None: it changes within, or comes twice.
        self._to_wall: dict[int, int | None] = {}

    def micros(self, value: Any) -> int:
        """Microseconds since the epoch of what Spark's ``TimestampType`` takes."""
        if value.__class__ is datetime and value.tzinfo is None and not value.fold:
            wall = value - _EPOCH
            seconds = wall.days * 86_400 + wall.seconds
            hour = seconds // _HOUR_S
            offset = self._from_wall[hour] if hour in self._from_wall else self._ask_wall(hour)
            if offset is not None:
                return seconds * _SECOND_US + wall.microseconds + offset
        return local_micros(value)

    def naive(self, micros: int) -> datetime:
        """The naive local datetime of microseconds since the epoch."""
        hour = micros // _HOUR_US
        offset = self._to_wall[hour] if hour in self._to_wall else self._ask_utc(hour)
        return micros_local(micros) if offset is None else _EPOCH + timedelta(0, 0, micros + offset)

    def naive_column(self, micros: np.ndarray) -> list[datetime]:
        """As :meth:`naive`, for many at once."""
        hours, places = np.unique(micros // _HOUR_US, return_inverse=True)
        offsets = [self._to_wall[hour] if hour in self._to_wall else self._ask_utc(hour) for hour in hours.tolist()]
        known = np.array([offset or 0 for offset in offsets], dtype=np.int64)
        values: list[datetime] = (micros + known[places]).astype("datetime64[us]").tolist()
        if None in offsets:
            unknown = np.array([offset is None for offset in offsets])
            for index in np.flatnonzero(unknown[places]).tolist():
                values[index] = micros_local(int(micros[index]))
        return values

    def _ask_wall(self, hour: int) -> int | None:
        try:
            ends = [_EPOCH + timedelta(0, 0, us) for us in (hour * _HOUR_US, (hour + 1) * _HOUR_US - 1)]
            first, last = [local_micros(end) - wall_micros(end) for end in ends]
        except (OverflowError, ValueError, OSError):  # the first and last hours of what a datetime can hold
            return _kept(self._from_wall, hour, None)
        return _kept(self._from_wall, hour, first if first == last else None)

    def _ask_utc(self, hour: int) -> int | None:
        try:
            instants = (hour * _HOUR_US, (hour + 1) * _HOUR_US - 1)
            ends = [micros_local(us) for us in instants]
        except (OverflowError, ValueError, OSError):
            return _kept(self._to_wall, hour, None)
        first, last = [wall_micros(end) - us for end, us in zip(ends, instants, strict=True)]
        once = first == last and not (ends[0].fold or ends[1].fold)
        return _kept(self._to_wall, hour, first if once else None)


def local_zone_is_utc() -> bool:
    """True if naive local datetimes equal UTC ones on this machine, now and in the past."""
    return time.timezone == 0 and not time.daylight and set(time.tzname) <= {"UTC", "GMT", "Etc/UTC"}


def _kept(offsets: dict[int, int | None], hour: int, offset: int | None) -> int | None:
    if len(offsets) >= _KEPT_HOURS:
        offsets.clear()
    offsets[hour] = offset
    return offset
