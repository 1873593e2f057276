"""Comparisons, arithmetic and rounding, as Spark has them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.codec.byte_arrays import null_mask
from ..decimal_words import of_unscaled, unscaled
from ..parquet_scan import NotTakenError
from .values import FUNCTIONS, Function, Value

_LONG = 1 << 63


def numbers_of(array: pa.Array, data_type: Any = np.int64) -> tuple[np.ndarray, np.ndarray | None]:
    """The values of an array of whole numbers, dates, times or floats, 0 where they are null; and where they are.

    Args:
        array: it.
        data_type: numpy's, that the values are read as.
    """
    nulls = null_mask(array)
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    numbers: np.ndarray = (array if nulls is None else array.fill_null(0)).to_numpy(zero_copy_only=False)
    return numbers.astype(data_type, copy=False), nulls


def array_of(numbers: np.ndarray, nulls: np.ndarray | None, data_type: pa.DataType) -> pa.Array:
    """An array of whole numbers, dates or times.

    Args:
        numbers: the values.
        nulls: where they are null; None: nowhere.
        data_type: the array's.
    """
    if pa.types.is_date32(data_type):
        return pa.array(numbers.astype(np.int32, copy=False), mask=nulls).view(data_type)
    if pa.types.is_timestamp(data_type):
        return pa.array(numbers.astype(np.int64, copy=False), mask=nulls).view(data_type)
    return pa.array(numbers, mask=nulls)


def either(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    """Where one of two is null."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _both(
    one: pa.Array, other: pa.Array, data_type: Any = np.int64
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The numbers of two arrays, and where one of them is null."""
    (left, left_nulls), (right, right_nulls) = numbers_of(one, data_type), numbers_of(other, data_type)
    return left, right, either(left_nulls, right_nulls)


def _plain(one: Any) -> Any:
    """Values that Arrow compares."""
    if pa.types.is_boolean(one.type):
        return one.cast(pa.int8())
    return one


def _compared(name: str) -> Callable[..., Any]:
    """NaN is equal to itself and greater than all others."""

    def compute(value: Value, one: Any, other: Any) -> Any:
        found = pc.call_function(name, [_plain(one), _plain(other)])
        if not pa.types.is_floating(one.type):
            return found
        is_nan, other_is_nan = pc.is_nan(one), pc.is_nan(other)
        if name == "equal":
            return pc.or_(found, pc.and_(is_nan, other_is_nan))
        if name == "less":
            return pc.or_(found, pc.and_(pc.invert(is_nan), other_is_nan))
        return pc.or_(found, other_is_nan)  # less_equal

    return compute


def _equal_or_null(value: Value, one: Any, other: Any) -> Any:
    both = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(pc.fill_null(_EQUAL(value, one, other), False), both)


_EQUAL = _compared("equal")


def _is_in(value: Value, one: pa.Array) -> pa.Array:
    known, has_null = value.options
    found = pc.is_in(one, value_set=pa.array(known, one.type))
    unknown = one.is_null()
    if has_null:
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _arithmetic(name: str) -> Callable[..., Any]:
    """With options ``("checked",)`` an overflow is Spark's to find."""

    def compute(value: Value, one: Any, other: Any) -> Any:
        if pa.types.is_decimal(value.type):
            return _decimals(name, value, one, other)
        checked = value.options == ("checked",) and not pa.types.is_floating(value.type)
        return pc.call_function(f"{name}_checked" if checked else name, [one, other])

    return compute


def _decimals(name: str, value: Value, one: Any, other: Any) -> pa.Array:
    """Exact sums and products; the type has their scale."""
    one, other = same_length(one, other)
    left, right = unscaled(one), unscaled(other)
    nulls = either(null_mask(one), null_mask(other))
    found: Any = None
    if left is not None and right is not None:
        left, right = (np.where(nulls, 0, side) if nulls is not None else side for side in (left, right))
        found = _in_words(name, left, right, value.type.scale, one.type.scale, other.type.scale)
    if found is not None:
        if value.type.precision < 19 and len(found) and np.abs(found).max() >= 10**value.type.precision:
            raise NotTakenError(f"{value.type} may overflow")
        return of_unscaled(found, value.type, nulls)
    wide = [side.cast(pa.decimal256(side.type.precision, side.type.scale)) for side in (one, other)]
    return pc.call_function(name, wide).cast(value.type)


def _in_words(
    name: str, left: np.ndarray, right: np.ndarray, scale: int, left_scale: int, right_scale: int
) -> np.ndarray | None:
    """The unscaled results; None: they may need more than 64 bits."""
    most = [max(abs(int(side.min())), abs(int(side.max()))) if len(side) else 0 for side in (left, right)]
    if name == "multiply":
        return None if most[0] * most[1] >= _LONG else left * right
    factors = [10 ** (scale - its) for its in (left_scale, right_scale)]
    if most[0] * factors[0] + most[1] * factors[1] >= _LONG:
        return None
    one, other = left * np.int64(factors[0]), right * np.int64(factors[1])
    found: np.ndarray = one + other if name == "add" else one - other
    return found


def same_length(one: Any, other: Any) -> tuple[pa.Array, pa.Array]:
    """Two arrays, one of which may be given as one value for all rows."""
    if isinstance(one, pa.Scalar):
        one = pa.repeat(one, len(other))
    if isinstance(other, pa.Scalar):
        other = pa.repeat(other, len(one))
    return one, other


def _divisor(value: Value, other: Any) -> Any:
    """A divisor with null in place of zero, where Spark has null; it raises with options ``("checked",)``."""
    is_zero = pc.equal(other, pa.scalar(0, other.type))
    if value.options == ("checked",):
        if pc.any(is_zero).as_py():
            raise NotTakenError("division by zero")
        return other
    return pc.if_else(is_zero, pa.scalar(None, other.type), other)


def _divided(value: Value, one: Any, other: Any) -> Any:
    return pc.divide(one, _divisor(value, other))


def _whole_divided(value: Value, one: Any, other: Any) -> Any:
    one, other = same_length(one, _divisor(value, other))
    left, right, nulls = _both(one, other)
    right = np.where(right == 0, 1, right)
    if ((left == np.iinfo(np.int64).min) & (right == -1)).any():
        raise NotTakenError("a quotient may overflow")
    found = left // right
    found += (found * right != left) & ((left < 0) != (right < 0))  # towards zero
    return pa.array(found, mask=nulls)


def _remainder(value: Value, one: Any, other: Any) -> Any:
    """The sign is that of the dividend."""
    one, other = same_length(one, _divisor(value, other))
    data_type = one.type.to_pandas_dtype()
    left, right, nulls = _both(one, other, data_type)
    if not pa.types.is_floating(one.type):
        right = np.where((right == 0) | (right == -1), 1, right)  # of which the remainder is 0, as of -1
    with np.errstate(invalid="ignore"):
        return pa.array(np.fmod(left, right), mask=nulls)


def _of_sign(name: str) -> Callable[..., Any]:
    def compute(value: Value, one: Any) -> Any:
        checked = value.options == ("checked",) and pa.types.is_integer(value.type)
        return pc.call_function(f"{name}_checked" if checked else name, [one])

    return compute


def _rounded(name: str) -> Callable[..., Any]:
    """Doubles to longs."""

    def compute(value: Value, one: pa.Array) -> pa.Array:
        if pa.types.is_integer(one.type):
            return one.cast(value.type)
        numbers, nulls = numbers_of(one, np.float64)
        found = getattr(np, name)(numbers)
        if not (np.abs(found) < 2.0**62).all():
            raise NotTakenError(f"{name} of a number that is no long")
        return pa.array(found.astype(np.int64), mask=nulls)

    return compute


def _square_root(value: Value, one: pa.Array) -> pa.Array:
    numbers, nulls = numbers_of(one, np.float64)
    with np.errstate(invalid="ignore"):
        return pa.array(np.sqrt(numbers), mask=nulls)


def _extreme(name: str) -> Callable[..., Any]:
    def compute(value: Value, *each: Any) -> Any:
        if pa.types.is_timestamp(value.type):
            each = tuple(one.cast(pa.int64()) for one in each)
        found = pc.call_function(name, list(each), options=pc.ElementWiseAggregateOptions(skip_nulls=True))
        return found.cast(value.type)

    return compute


def _bits(of: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compute(value: Value, one: Any, other: Any) -> Any:
        one, other = same_length(one, other)
        data_type = one.type.to_pandas_dtype()
        left, right, nulls = _both(one, other, data_type)
        return pa.array(of(left, right), mask=nulls)

    return compute


FUNCTIONS |= {
    "equal": Function(_EQUAL),
    "less": Function(_compared("less")),
    "less_equal": Function(_compared("less_equal")),
    "equal_or_null": Function(_equal_or_null),
    "is_nan": Function(lambda value, one: pc.fill_null(pc.is_nan(one), False)),
    "is_in": Function(_is_in),
    "add": Function(_arithmetic("add"), can_fail=True),
    "subtract": Function(_arithmetic("subtract"), can_fail=True),
    "multiply": Function(_arithmetic("multiply"), can_fail=True),
    "divide": Function(_divided, can_fail=True),
    "whole_divide": Function(_whole_divided, can_fail=True),
    "remainder": Function(_remainder, can_fail=True),
    "negate": Function(_of_sign("negate"), can_fail=True),
    "abs": Function(_of_sign("abs"), can_fail=True),
    "floor": Function(_rounded("floor"), can_fail=True),
    "ceil": Function(_rounded("ceil"), can_fail=True),
    "sqrt": Function(_square_root),
    "greatest": Function(_extreme("max_element_wise")),
    "least": Function(_extreme("min_element_wise")),
    "bit_and": Function(_bits(operator.and_)),
    "bit_or": Function(_bits(operator.or_)),
    "bit_xor": Function(_bits(operator.xor)),
}
