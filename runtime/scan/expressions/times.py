"""Functions of dates and times, as Spark has them in the proleptic Gregorian calendar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..parquet_scan import NotTakenError
from .numbers import array_of, numbers_of
from .values import FUNCTIONS, Function, Value

_SECOND, _MINUTE, _HOUR, _DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
#: The smallest part that a pattern has, and its seconds; without any of them it is of days.
_FORMATTED = {"%M": 60, "%H": 3600}
#: Days since 1970 of the years 1 to 9999.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


def checked_days(days: np.ndarray, nulls: np.ndarray | None) -> np.ndarray:
    """Days of the years 1 to 9999.

    Args:
        days: since 1970.
        nulls: those that do not matter.

    Raises:
        NotTakenError: one is outside.
    """
    wrong = (days < _FIRST_DAY) | (days > _LAST_DAY)
    if (wrong if nulls is None else wrong & ~nulls).any():
        raise NotTakenError("a date is outside of the years 1 to 9999")
    return days


def _part(name: str, **options: Any) -> Callable[..., Any]:
    """A part of a date."""

    def compute(value: Value, dates: pa.Array) -> pa.Array:
        checked_days(*numbers_of(dates))
        return pc.call_function(name, [dates], options=pc.DayOfWeekOptions(**options) if options else None)

    return compute


def _clock_part(whole: int, unit: int) -> Callable[..., Any]:
    """A part of what a clock shows: ``unit`` within ``whole``, both in µs."""

    def compute(value: Value, times: pa.Array) -> pa.Array:
        numbers, nulls = numbers_of(times)
        local = value.options[0].local(numbers, nulls)
        return pa.array((local % whole // unit).astype(np.int32), mask=nulls)

    return compute


def _date_of(value: Value, times: pa.Array) -> pa.Array:
    numbers, nulls = numbers_of(times)
    return array_of(value.options[0].local(numbers, nulls) // _DAY, nulls, value.type)


def _begin_of(value: Value, dates: pa.Array) -> pa.Array:
    """The time at which dates begin."""
    days, nulls = numbers_of(dates)
    return array_of(value.options[0].instants(checked_days(days, nulls) * _DAY, nulls), nulls, value.type)


def _wall_of(value: Value, times: pa.Array) -> pa.Array:
    numbers, nulls = numbers_of(times)
    return array_of(value.options[0].local(numbers, nulls), nulls, value.type)


def _time_of(value: Value, times: pa.Array) -> pa.Array:
    numbers, nulls = numbers_of(times)
    return array_of(value.options[0].instants(numbers, nulls), nulls, value.type)


def _days_truncated(days: np.ndarray, unit: str) -> np.ndarray:
    if unit == "week":
        return days - (days + 3) % 7  # to Monday
    months = days.astype("M8[D]").astype("M8[Y]" if unit == "year" else "M8[M]")
    if unit == "quarter":
        months = (months.astype(np.int64) // 3 * 3).astype("M8[M]")
    found: np.ndarray = months.astype("M8[D]").astype(np.int64)
    return found


def _truncated_date(value: Value, dates: pa.Array) -> pa.Array:
    days, nulls = numbers_of(dates)
    return array_of(_days_truncated(checked_days(days, nulls), value.options[0]), nulls, value.type)


def _truncated_time(value: Value, times: pa.Array) -> pa.Array:
    unit, zone = value.options
    numbers, nulls = numbers_of(times)
    local = zone.local(numbers, nulls)
    if unit == "second":  # of UTC, as in Spark
        return array_of(numbers - numbers % _SECOND, nulls, value.type)
    if unit == "minute":  # of the clock: once, clocks were apart by seconds
        begin = numbers - local % _MINUTE
        changed = zone.offsets_at(begin, nulls) != local - numbers
        if (changed if nulls is None else changed & ~nulls).any():
            raise NotTakenError(f"clocks in {zone.name} change within a minute")
        return array_of(begin, nulls, value.type)
    if unit == "hour":
        begin = local - local % _HOUR
    elif unit == "day":
        begin = local - local % _DAY
    else:
        begin = _days_truncated(checked_days(local // _DAY, nulls), unit) * _DAY
    return array_of(zone.instants(begin, nulls), nulls, value.type)


def _days_added(value: Value, dates: Any, days: Any) -> Any:
    dates = dates.cast(pa.int32())
    return pc.call_function(value.options[0], [dates, days.cast(pa.int32())]).cast(pa.date32())


def _days_between(value: Value, end: Any, start: Any) -> Any:
    return pc.subtract_checked(end.cast(pa.int32()), start.cast(pa.int32()))


def _time_added(value: Value, times: pa.Array) -> pa.Array:
    """Days by the calendar of the zone, then microseconds."""
    days, micros, zone = value.options
    numbers, nulls = numbers_of(times)
    local = zone.local(numbers, nulls)
    if days:
        numbers = zone.instants(local + days * _DAY, nulls)
    return array_of(numbers + micros, nulls, value.type)


def _seconds(value: Value, times: pa.Array) -> pa.Array:
    """Whole seconds since 1970; with options ``("down",)`` rounded down, else towards zero."""
    numbers, nulls = numbers_of(times)
    found = numbers // _SECOND
    if value.options != ("down",):
        found += (numbers < 0) & (numbers % _SECOND != 0)
    return pa.array(found, mask=nulls)


def _last_day(value: Value, dates: pa.Array) -> pa.Array:
    days, nulls = numbers_of(dates)
    following = checked_days(days, nulls).astype("M8[D]").astype("M8[M]") + 1
    return array_of(following.astype("M8[D]").astype(np.int64) - 1, nulls, value.type)


def _formatted(value: Value, times: pa.Array) -> pa.Array:
    pattern, zone = value.options
    numbers, nulls = numbers_of(times)
    seconds = zone.local(numbers, nulls) // _SECOND
    early = seconds < -30_610_224_000  # of years with less than four digits
    if (early if nulls is None else early & ~nulls).any():
        raise NotTakenError("a time is before the year 1000")
    if "%S" in pattern:
        return _texts_of(seconds, nulls, pattern)
    # Texts are slow to make, and most often the same ones: each that the pattern can tell apart is made once.
    unit = next((unit for part, unit in _FORMATTED.items() if part in pattern), _DAY // _SECOND)
    encoded = pa.array(seconds // unit, mask=nulls).dictionary_encode()
    return _texts_of(encoded.dictionary.to_numpy() * unit, None, pattern).take(encoded.indices)


def _texts_of(seconds: np.ndarray, nulls: np.ndarray | None, pattern: str) -> pa.Array:
    return pc.strftime(pa.array(seconds, mask=nulls).view(pa.timestamp("s")), format=pattern, locale="C")


FUNCTIONS |= {
    "year": Function(_part("year"), can_fail=True),
    "quarter": Function(_part("quarter"), can_fail=True),
    "month": Function(_part("month"), can_fail=True),
    "day": Function(_part("day"), can_fail=True),
    "day_of_year": Function(_part("day_of_year"), can_fail=True),
    "week": Function(_part("iso_week"), can_fail=True),
    "day_of_week": Function(_part("day_of_week", week_start=7, count_from_zero=False), can_fail=True),
    "weekday": Function(_part("day_of_week", week_start=1, count_from_zero=True), can_fail=True),
    "hour": Function(_clock_part(_DAY, _HOUR), can_fail=True),
    "minute": Function(_clock_part(_HOUR, _MINUTE), can_fail=True),
    "second": Function(_clock_part(_MINUTE, _SECOND), can_fail=True),
    "date_of": Function(_date_of, can_fail=True),
    "begin_of": Function(_begin_of, can_fail=True),
    "wall_of": Function(_wall_of, can_fail=True),
    "time_of": Function(_time_of, can_fail=True),
    "truncated_date": Function(_truncated_date, can_fail=True),
    "truncated_time": Function(_truncated_time, can_fail=True),
    "days_added": Function(_days_added, can_fail=True),
    "days_between": Function(_days_between, can_fail=True),
    "time_added": Function(_time_added, can_fail=True),
    "seconds": Function(_seconds),
    "last_day": Function(_last_day, can_fail=True),
    "formatted": Function(_formatted, can_fail=True),
}
