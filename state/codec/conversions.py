"""Converts single Python values of Spark's types to the numbers, strings and bytes of keys and state values, and back.

A conversion takes what Spark's own encoder takes and stores what Spark would store: a naive datetime is local time in a
timestamp column, a decimal rounds half up to its scale, a number is text in a string column, numpy's and pandas'
scalars are the Python values that they stand for.  Where that encoder would silently store another value (an int that
wraps around, a type that becomes null, the Java name of an object), a :class:`MisfitError` says what is allowed.
"""

from __future__ import annotations

import calendar
import math
import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_SECOND_US = 1_000_000
#: Decimal arithmetic that never rounds a 38-digit number.
_DECIMAL = Context(prec=80, rounding=ROUND_HALF_UP)
#: What is said of a number that is none where there is no such number.
_NULL_HINT = "; for null give None"


class MisfitError(Exception):
    """A value does not fit a field; the codec turns it into an error that names the field."""


def python_value(value: Any) -> Any:
    """The Python value that a scalar of numpy or pandas stands for; anything else as it is."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime) and hasattr(value, "to_pydatetime") and value == value:
        return value.to_pydatetime(warn=False)
    if isinstance(value, timedelta) and hasattr(value, "to_pytimedelta"):
        return value.to_pytimedelta()
    return value


def is_missing(value: Any) -> bool:
    """True for None and for pandas' ``NA``, which stands for it."""
    return value is None or type(value).__name__ == "NAType"


def is_nan_decimal(value: Any) -> bool:
    """True for a Decimal that is no number, which PySpark stores as null in a decimal column."""
    return isinstance(value, Decimal) and value.is_nan()


def int_of(value: Any, low: int, high: int) -> int:
    """A Python or numpy integer within the range; bool is not an integer."""
    if type(value) is not int:
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            raise MisfitError(f"an int between {low} and {high}{_NULL_HINT if value != value else ''}")
        value = int(value)
    if not low <= value <= high:
        raise MisfitError(f"an int between {low} and {high}")
    return value


def bool_of(value: Any) -> bool:
    """A Python or numpy bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise MisfitError("a bool")
    return bool(value)


def float_of(value: Any) -> float:
    """A float, or an integer that a float represents exactly."""
    if type(value) is float:
        return value
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        try:
            converted = float(value)
        except OverflowError:
            converted = math.inf
        if converted == value:
            return converted
    raise MisfitError("a float (or an int that a float can represent exactly)")


def float32_of(value: Any) -> float:
    """The nearest 32-bit float, as Spark stores it; beyond its range infinity."""
    number = float_of(value)
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def str_of(value: Any) -> str:
    """A str that UTF-8 can encode; a number or bool as Spark writes it."""
    if not isinstance(value, str):
        value = _text_of(python_value(value))
    try:
        value.encode()
    except UnicodeEncodeError:
        raise MisfitError("a str without lone surrogates") from None
    return str(value)


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, float):
        return _float_text(value)
    raise MisfitError("a str, or a number or bool that is written as one")


def _float_text(value: float) -> str:
    """A double as Java writes it."""
    if not math.isfinite(value):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{Decimal(repr(value)):f}"
        return text if "." in text else f"{text}.0"
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    exponent = Decimal(repr(value)).adjusted()
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{exponent}"


def binary_value(value: Any) -> bytes:
    """bytes, bytearray or memoryview; of a str its UTF-8."""
    if isinstance(value, str):
        return str_of(value).encode()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise MisfitError("bytes, or a str")
    return bytes(value)


def date_days(value: Any) -> int:
    """Days since 1970-01-01; a datetime counts as its day, as in PySpark."""
    if type(value) is not date:
        value = python_value(value)
        if not isinstance(value, date) or value != value:  # pandas' NaT is a date, and no day
            raise MisfitError("a datetime.date")
    return value.toordinal() - _EPOCH_ORDINAL


def days_date(days: int) -> date:
    """Inverse of :func:`date_days`."""
    return date.fromordinal(days + _EPOCH_ORDINAL)


def local_micros(value: Any) -> int:
    """Microseconds since the epoch; a naive datetime is local time, as in PySpark's ``TimestampType``."""
    value = _datetime_of(value)
    if value.tzinfo is not None:
        seconds = calendar.timegm(value.utctimetuple())
    else:
        seconds = int(value.replace(microsecond=0).timestamp())
    return seconds * _SECOND_US + value.microsecond


def micros_local(micros: int) -> datetime:
    """Naive datetime in local time, as PySpark's ``TimestampType.fromInternal`` gives it."""
    return datetime.fromtimestamp(micros // _SECOND_US).replace(microsecond=micros % _SECOND_US)


def wall_micros(value: Any) -> int:
    """Microseconds of what a clock on the wall shows (``TimestampNTZType``); a zone is dropped, as in PySpark."""
    return (_datetime_of(value).replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)


def micros_wall(micros: int) -> datetime:
    """Inverse of :func:`wall_micros`."""
    return _EPOCH + timedelta(microseconds=micros)


def _datetime_of(value: Any) -> datetime:
    if type(value) is not datetime:
        value = python_value(value)
        if not isinstance(value, datetime) or value != value:  # pandas' NaT is a datetime, and no moment
            raise MisfitError("a datetime.datetime")
    return value


def delta_micros(value: Any) -> int:
    """Microseconds of a timedelta."""
    if type(value) is not timedelta:
        value = python_value(value)
        if not isinstance(value, timedelta):
            raise MisfitError("a datetime.timedelta")
    return value // timedelta(microseconds=1)


def micros_delta(micros: int) -> timedelta:
    """Inverse of :func:`delta_micros`."""
    return timedelta(microseconds=micros)


def time_nanos(value: Any) -> int:
    """Nanoseconds since midnight."""
    if not isinstance(value, time) or value.tzinfo is not None:
        raise MisfitError("a naive datetime.time")
    return (((value.hour * 60 + value.minute) * 60 + value.second) * _SECOND_US + value.microsecond) * 1000


def nanos_time(nanos: int) -> time:
    """Inverse of :func:`time_nanos`, to the microsecond."""
    return (datetime.min + timedelta(microseconds=nanos // 1000)).time()


def unscaled_of(value: Any, precision: int, scale: int) -> int:
    """The digits of a Decimal at the given scale, rounded half up as Spark does; too many digits are a misfit."""
    allowed = f"a decimal.Decimal of at most {precision} digits, {scale} of them after the point"
    if not isinstance(value, Decimal):
        raise MisfitError(allowed)
    try:
        unscaled = int(_DECIMAL.to_integral_value(_DECIMAL.scaleb(value, scale)))
    except (InvalidOperation, ValueError, OverflowError):
        raise MisfitError(allowed) from None
    if abs(unscaled) >= 10**precision:
        raise MisfitError(allowed)
    return unscaled


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """Inverse of :func:`unscaled_of`."""
    return _DECIMAL.scaleb(Decimal(unscaled), -scale)


def unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same conversion for a value that may be None, which stays."""
    return lambda value: None if value is None else convert(value)


def same(value: Any) -> Any:
    """The conversion of a value that stays as it is."""
    return value
