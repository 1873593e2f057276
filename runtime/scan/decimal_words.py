"""Decimals as whole numbers of 64 bits, where they are small enough: numpy and Acero are much faster with those."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...state.codec.byte_arrays import decimal_words, null_mask


def unscaled(array: pa.Array) -> np.ndarray | None:
    """The unscaled values of decimals, anything where they are null; None: one of them needs more than 64 bits."""
    low, high = decimal_words(array).T
    differ = high != low >> 63
    if array.null_count:
        differ &= array.is_valid().to_numpy(zero_copy_only=False)
    return None if differ.any() else np.ascontiguousarray(low)


def unscaled_or_zero(array: pa.Array) -> tuple[np.ndarray | None, np.ndarray | None]:
    """As :func:`unscaled`, but 0 where they are null; and where they are."""
    numbers, nulls = unscaled(array), null_mask(array)
    return (numbers if numbers is None or nulls is None else np.where(nulls, 0, numbers)), nulls


def of_unscaled(numbers: np.ndarray, data_type: pa.Decimal128Type, nulls: np.ndarray | None = None) -> pa.Array:
    """Decimals of unscaled values.

    Args:
        numbers: the values, as int64.
        data_type: their type.
        nulls: which of them are null; None: none.
    """
    words = np.empty((len(numbers), 2), dtype=np.int64)
    words[:, 0] = numbers
    words[:, 1] = numbers >> 63
    validity = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(data_type, len(numbers), [validity, pa.py_buffer(words)])
