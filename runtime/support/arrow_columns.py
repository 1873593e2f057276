"""Converts Arrow columns: to a wanted type, from chunks to one array, from structs to columns, times to numbers."""

from __future__ import annotations

import pyarrow as pa


def typed(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The column in a type, cast only if it has another: Spark's times come in the session's time zone."""
    return column if column.type == data_type else column.cast(data_type)


def unchunked(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column of any number of chunks as one array; it is copied only if there are several."""
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        return column.chunk(0)
    found = column if isinstance(column, pa.Array) else column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def unpacked(structs: pa.StructArray) -> pa.RecordBatch:
    """The fields of structs as columns; null where a struct is."""
    # RecordBatch.from_struct_array takes all rows of a slice's buffers before PyArrow 23.
    return pa.RecordBatch.from_arrays(structs.flatten(), names=[field.name for field in structs.type])


def as_micros(times: pa.Array) -> pa.Int64Array:
    """Timestamps of any unit as microseconds since the epoch; null stays null."""
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
