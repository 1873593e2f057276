"""Merging partial aggregates of neighbouring rows by numpy: one value for each segment."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.codec.byte_arrays import valid_mask
from .decimal_words import of_unscaled, unscaled
from .partial_calls import PartialCall, in_float_order

_LONG = 1 << 63


def merged_segments(column: pa.Array, call: PartialCall, starts: np.ndarray) -> pa.Array | None:
    """The merged values of segments; None: it is not known how, or whether a sum leaves its type.

    Args:
        column: partial aggregates.
        call: how they are merged.
        starts: where segments begin; the first is 0.
    """
    data_type = column.type
    valid = valid_mask(column)
    nulls = None if valid is None else ~np.logical_or.reduceat(valid, starts)
    is_extreme = call.function in ("min", "max")
    if pa.types.is_string(data_type):
        return _texts(column, call, starts, valid, nulls) if is_extreme else None
    if pa.types.is_float64(data_type) and not is_extreme:
        numbers = column.fill_null(0.0).to_numpy(zero_copy_only=False)
        return pa.array(np.add.reduceat(numbers, starts), mask=nulls)
    if pa.types.is_floating(data_type):
        return _floats(column, call, starts, valid, nulls)
    numbers = _whole_numbers(column)
    if numbers is None:
        return None
    if is_extreme:
        found = _extremes(numbers, call, starts, valid)
    else:
        numbers = numbers if valid is None else np.where(valid, numbers, numbers.dtype.type(0))
        longest = int(np.diff(np.append(starts, len(numbers))).max())
        if max(abs(int(numbers.min())), abs(int(numbers.max()))) * longest >= _LONG:
            return None
        found = np.add.reduceat(numbers, starts)
    return of_numbers(found, data_type, nulls)


def of_numbers(numbers: np.ndarray, data_type: pa.DataType, nulls: np.ndarray | None = None) -> pa.Array:
    """Values of the numbers that they are.

    Args:
        numbers: the numbers.
        data_type: of the values.
        nulls: which of them are null; None: none.
    """
    if pa.types.is_decimal128(data_type):
        return of_unscaled(numbers, data_type, nulls)
    if pa.types.is_boolean(data_type):
        return pa.array(numbers.astype(bool), mask=nulls)
    array = pa.array(numbers, mask=nulls)
    return array if array.type == data_type else array.view(data_type)


def _whole_numbers(column: pa.Array) -> np.ndarray | None:
    """Values as numbers of the same order, anything where they are null."""
    types, data_type = pa.types, column.type
    if types.is_decimal128(data_type):
        return unscaled(column)
    if types.is_boolean(data_type):
        column = column.cast(pa.int8())
    elif types.is_date32(data_type):
        column = column.view(pa.int32())
    elif types.is_timestamp(data_type) and data_type.unit == "us":
        column = column.view(pa.int64())
    if not types.is_signed_integer(column.type):
        return None
    numbers: np.ndarray = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    return numbers


def _extremes(numbers: np.ndarray, call: PartialCall, starts: np.ndarray, valid: np.ndarray | None) -> np.ndarray:
    is_min = call.function == "min"
    if valid is not None:
        limits = np.iinfo(numbers.dtype)
        numbers = np.where(valid, numbers, numbers.dtype.type(limits.max if is_min else limits.min))
    found: np.ndarray = (np.minimum if is_min else np.maximum).reduceat(numbers, starts)
    return found


def _floats(
    column: pa.Array, call: PartialCall, starts: np.ndarray, valid: np.ndarray | None, nulls: np.ndarray | None
) -> pa.Array:
    """NaN is the greatest."""
    numbers = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    bits = numbers.view(np.int64 if numbers.dtype.itemsize == 8 else np.int32)
    most = bits.dtype.type(np.iinfo(bits.dtype).max)
    found = _extremes(np.where(np.isnan(numbers), most, in_float_order(bits)), call, starts, valid)
    is_nan = found == most
    back = in_float_order(found).view(numbers.dtype)
    return pa.array(np.where(is_nan, numbers.dtype.type(np.nan), back), mask=nulls)


def _texts(
    column: pa.Array, call: PartialCall, starts: np.ndarray, valid: np.ndarray | None, nulls: np.ndarray | None
) -> pa.Array:
    """By the places of texts in the order of all different ones."""
    encoded = column.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
    if not len(order):
        return pa.nulls(len(starts), column.type)
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    numbers = places[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    found = _extremes(numbers, call, starts, valid)
    at = order[found if nulls is None else np.where(nulls, 0, found)]
    return encoded.dictionary.take(pa.array(at, mask=nulls))
