"""Concatenation and deduplication of list columns, without a Python object per element."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.codec.byte_arrays import ends_of, owners_of, ragged
from ..columnar.record_codec import RecordCodec


def list_lengths(array: pa.Array) -> np.ndarray:
    """Number of elements of each list; 0 for null."""
    return pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def list_from_lengths(lengths: np.ndarray, values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Lists of the given lengths over consecutive values."""
    return pa.ListArray.from_arrays(pa.array(ends_of(lengths, np.int32)), values, type=data_type)


def concat_lists(old: pa.Array, new: pa.Array) -> pa.Array:
    """Each row's old elements, then its new ones; null counts as empty."""
    left, right = list_lengths(old), list_lengths(new)
    lengths = np.empty(2 * len(left), dtype=np.int64)
    lengths[0::2], lengths[1::2] = left, right
    starts = np.empty(2 * len(left), dtype=np.int64)
    starts[0::2] = np.cumsum(left) - left
    starts[1::2] = np.cumsum(right) - right + left.sum()
    values = pa.concat_arrays([old.flatten(), new.flatten()]).take(pa.array(ragged(starts, lengths)))
    return list_from_lengths(left + right, values, new.type)


def distinct_lists(array: pa.Array) -> pa.Array:
    """Each list with its first occurrence of every value."""
    lengths = list_lengths(array)
    values = array.flatten()
    if len(values) == 0:
        return list_from_lengths(lengths, values, array.type)
    codec = RecordCodec([pa.field("value", values.type)], normalise_floats=True)
    codes = codec.encode([values]).dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    rows = owners_of(lengths)
    _, first = np.unique(rows * (int(codes.max()) + 1) + codes, return_index=True)
    first.sort()
    return list_from_lengths(np.bincount(rows[first], minlength=len(lengths)), values.take(pa.array(first)), array.type)
