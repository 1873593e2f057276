"""Rounding, and quotients of decimals, half up as Spark has them."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ..decimal_words import of_unscaled, unscaled_or_zero
from ..parquet_scan import NotTakenError
from .numbers import either, numbers_of, same_length
from .values import FUNCTIONS, Function, Value

#: Whole numbers up to here are exact as doubles, and so are their halves.
_EXACT = 2.0**52
_ROOM = 1 << 62
#: Java writes doubles of so many digits as everybody does.
_DIGITS = 15


def _rounded_real(value: Value, one: pa.Array) -> pa.Array:
    """Java rounds the decimal that it writes a double as.

    Where that is far from the middle between two results, multiplication tells which one it is.
    """
    (scale,) = value.options
    numbers, nulls = numbers_of(one, np.float64)
    has_digits = np.abs(numbers) < _EXACT  # no whole number, infinity or NaN that stays as it is
    scaled = np.abs(np.where(has_digits, numbers, 0.0)) * 10.0**scale
    if (scaled >= _EXACT).any():
        raise NotTakenError("round of a large number")
    whole = np.floor(scaled)
    rest = scaled - whole
    found = whole + (rest >= 0.5)
    for at in np.flatnonzero((np.abs(rest - 0.5) <= scaled * 2.0**-50) & (scaled > 0)):
        written = Decimal(repr(abs(float(numbers[at]))))
        if len(written.as_tuple().digits) > _DIGITS:
            raise NotTakenError(f"round of {numbers[at]!r}, which is close to the middle")
        found[at] = float(written.scaleb(scale).to_integral_value(ROUND_HALF_UP))
    result = np.where(found == 0, 0.0, np.copysign(found / 10.0**scale, numbers))
    return pa.array(np.where(has_digits, result, numbers), mask=nulls)


def _rounded_decimal(value: Value, one: pa.Array) -> pa.Array:
    numbers, nulls = _words(one)
    divisor = 10 ** (one.type.scale - value.type.scale)
    quotient, rest = np.divmod(np.abs(numbers), divisor)
    quotient += rest >= divisor - rest
    return of_unscaled(np.where(numbers < 0, -quotient, quotient), value.type, nulls)


def _divided(value: Value, one: Any, other: Any) -> pa.Array:
    """To the digits of the result; null for a division by zero, or nothing with options ``("checked",)``."""
    one, other = same_length(one, other)
    (left, left_nulls), (right, right_nulls) = _words(one), _words(other)
    nulls = either(left_nulls, right_nulls)
    known = np.ones(len(left), dtype=bool) if nulls is None else ~nulls
    is_zero = (right == 0) & known
    if is_zero.any():
        if value.options == ("checked",):
            raise NotTakenError("division by zero")
        nulls = is_zero if nulls is None else nulls | is_zero
        known &= ~is_zero
    factor = 10 ** (value.type.scale - one.type.scale + other.type.scale)
    dividends, divisors = np.abs(np.where(known, left, 0)), np.abs(np.where(known, right, 1))
    if int(dividends.max(initial=0)) * factor >= _ROOM:
        quotient = _long_quotients(dividends, divisors, factor)
    else:
        quotient, rest = np.divmod(dividends * np.int64(factor), divisors)
        quotient += rest >= divisors - rest
    if value.type.precision < 19 and (quotient >= 10**value.type.precision).any():
        raise NotTakenError(f"a quotient may leave {value.type}")
    return of_unscaled(np.where((left < 0) != (right < 0), -quotient, quotient), value.type, nulls)


def _long_quotients(dividends: np.ndarray, divisors: np.ndarray, factor: int) -> np.ndarray:
    """By Python, whose whole numbers have no end."""
    pairs = zip(dividends.tolist(), divisors.tolist(), strict=True)
    found = [(2 * one * factor + other) // (2 * other) for one, other in pairs]
    if max(found, default=0) >= _ROOM:
        raise NotTakenError("a quotient of many digits")
    return np.array(found, dtype=np.int64)


def _words(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """Decimals as whole numbers, 0 where they are null; and where they are."""
    numbers, nulls = unscaled_or_zero(array)
    if numbers is None or (np.abs(numbers.astype(np.float64)) >= _ROOM).any():
        raise NotTakenError("a decimal of many digits")
    return numbers, nulls


FUNCTIONS |= {
    "round_real": Function(_rounded_real, can_fail=True),
    "round_decimal": Function(_rounded_decimal, can_fail=True),
    "divide_decimals": Function(_divided, can_fail=True),
}
