"""Picks values of Arrow columns: what ``take`` and ``filter`` do, several times faster, above all with nulls.

PyArrow looks at each index twice, once to see that it is in range, and values with nulls one by one.  Here indices come
from sorting or filtering the same rows, so they are in range; values and nulls are picked apart, each as fast as where
there are no nulls.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def gathered(column: pa.Array, places: pa.Array) -> pa.Array:
    """The values at some places.

    Args:
        column: the values.
        places: their indices, all of which are in range; for null there is null.
    """
    if not column.null_count or places.null_count or not _is_flat(column.type):
        return pc.take(column, places, boundscheck=False)
    valid = pc.take(column.is_valid(), places, boundscheck=False)
    plain = pa.Array.from_buffers(column.type, len(column), [None, *column.buffers()[1:]], 0, column.offset)
    values = pc.take(plain, places, boundscheck=False)
    return pa.Array.from_buffers(column.type, len(values), [valid.buffers()[1], *values.buffers()[1:]])


def gathered_rows(rows: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
    """The rows at some places; arguments are those of :func:`gathered`."""
    return pa.RecordBatch.from_arrays([gathered(column, places) for column in rows.columns], schema=rows.schema)


def places_where(mask: pa.BooleanArray) -> pa.Array:
    """The indices at which a mask is true; null counts as false."""
    sure = pc.fill_null(mask, False) if mask.null_count else mask
    bits = np.frombuffer(sure.buffers()[1], np.uint8) if len(sure) else np.zeros(0, np.uint8)
    flags = np.unpackbits(bits, count=sure.offset + len(sure), bitorder="little")[sure.offset :]
    return pa.array(np.flatnonzero(flags.view(bool)))


def _is_flat(data_type: pa.DataType) -> bool:
    """Whether the values lie in one place of their own, apart from what says which are null."""
    return not pa.types.is_boolean(data_type) and (
        pa.types.is_primitive(data_type)
        or pa.types.is_decimal128(data_type)
        or pa.types.is_string(data_type)
        or pa.types.is_binary(data_type)
    )
