"""Which rows an operator takes, and how far event time has come: each rule once, for Arrow and for Spark.

The tasks decide with Arrow, where the rows are; to hand late rows out, Spark is asked for the same rows of the epoch's
input.  So the two forms of a rule stand beside each other here.

A row is late if it is strictly before the bound; a window, or a session, is over as soon as the bound is at its end.
Rows without an event time are never late, windows without an end are always over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from ..platform.columns import event_time_us, quoted
from ..protocols.event_time import MIN_WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from .contract import ShardCounters


def can_be_late(late_ms: int) -> bool:
    """False as long as nothing has fired."""
    return late_ms > MIN_WATERMARK


def rows_in_time(times: pa.Array, late_ms: int) -> pa.BooleanArray:
    """Which rows of these event times are not late.

    Args:
        times: timestamps of any unit, with or without a zone.
        late_ms: what has fired, in ms since the epoch.
    """
    return pc.fill_null(pc.greater_equal(_micros(times), late_ms * 1000), True)


def is_late(frame: DataFrame, column: str, late_ms: int) -> Column:
    """Spark's form of the inverse of :func:`rows_in_time`; null for rows without event time.

    Args:
        frame: the rows.
        column: their event time.
        late_ms: what has fired, in ms since the epoch.
    """
    return event_time_us(frame, column) < late_ms * 1000


def windows_over(ends_ms: np.ndarray, late_ms: int) -> np.ndarray:
    """Which windows have ended by ``late_ms``; both in ms since the epoch."""
    over: np.ndarray = ends_ms <= late_ms
    return over


def is_over(frame: DataFrame, end: str, late_ms: int) -> Column:
    """Spark's form of :func:`windows_over`.

    Args:
        frame: the rows.
        end: the column of their windows' ends.
        late_ms: what has fired, in ms since the epoch.
    """
    return (event_time_us(frame, end) <= late_ms * 1000) | F.col(quoted(end)).isNull()


def note_event_time(counters: ShardCounters, times: pa.Array) -> None:
    """Count the greatest of the event times in; in ms, rounded down."""
    greatest = pc.max(_micros(times)).as_py()
    if greatest is not None:
        known = counters.max_event_time_ms
        counters.max_event_time_ms = greatest // 1000 if known is None else max(known, greatest // 1000)


def _micros(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
