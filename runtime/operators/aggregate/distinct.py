"""Sums over the different values of a set: ``sum(DISTINCT ...)`` and ``avg(DISTINCT ...)``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .buffers import Buffer, DecimalSumBuffer, SumBuffer, reduce_segments
from .list_arrays import list_lengths

#: Digits that Spark's sum of decimals has more than its values.
_MORE_DIGITS = 10
_MAX_DIGITS = 38


def distinct_sum(sets: pa.Array, name: str, ansi: bool, data_type: pa.DataType | None = None) -> list[pa.Array]:
    """Sum of each set's values, and how many they are.

    Args:
        sets: lists of different values that are not null.
        name: what is summed up, for errors.
        ansi: whether an overflow is an error.
        data_type: in which to add up; None: the one in which Spark adds up decimals of these.
    """
    lengths, values = list_lengths(sets), sets.flatten()
    if data_type is None:
        digits = min(values.type.precision + _MORE_DIGITS, _MAX_DIGITS)
        data_type = pa.decimal128(digits, values.type.scale)
    total = values if values.type == data_type else values.cast(data_type)
    buffer: Buffer = SumBuffer((0,), ansi, name)
    if pa.types.is_decimal(data_type):
        buffer = DecimalSumBuffer((0, 1), ansi, name)
    filled = np.flatnonzero(lengths)
    starts = (np.cumsum(lengths) - lengths)[filled]
    columns = [total, pa.array(np.ones(len(values), dtype=np.int64))][: len(buffer.columns)]
    reduced = reduce_segments([buffer], columns, starts)[0]
    places = np.zeros(len(lengths), dtype=np.int64)
    places[filled] = np.arange(len(filled))
    return [reduced.take(pa.array(places, mask=lengths == 0)), pa.array(lengths)]


def distinct_mean(sets: pa.Array, name: str, ansi: bool) -> pa.Array:
    """Mean of each set's values, added up as doubles; null for an empty set."""
    total, count = distinct_sum(sets, name, ansi, pa.float64())
    return pc.divide(total, count.cast(pa.float64()))
