"""Converts Arrow columns to a wanted type, and times to numbers."""

from __future__ import annotations

import pyarrow as pa


def typed(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The column in a type, cast only if it has another: Spark's times come in the session's time zone."""
    return column if column.type == data_type else column.cast(data_type)


def as_micros(times: pa.Array) -> pa.Int64Array:
    """Timestamps of any unit as microseconds since the epoch; null stays null."""
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
