"""Which rows an operator admits, and their event time: each rule once, for Arrow and for Spark.

An operator's run drops and counts late rows (``_admitted`` in ``run.py`` of its room; a processor's ``admitted.py``).
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

from ..catalyst.columns import event_time_sql, quoted
from ..protocols.event_time import MIN_WATERMARK
from ..support.arrow_columns import as_micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .contract import ShardCounters

#: The greatest number that Spark takes for a time.
_MAX_US = 2**63 - 1
#: Where a frame has this column, all of its rows have there what has fired, in microseconds; so a plan that is made
#: once holds for every bound.
LATE_BOUND_COLUMN = "__late_bound_us"


def can_be_late(late_ms: int) -> bool:
    """False as long as nothing has fired."""
    return late_ms > MIN_WATERMARK


def rows_in_time(times: pa.Array, late_ms: int) -> pa.BooleanArray:
    """Which rows of these event times are not late.

    Args:
        times: timestamps of any unit, with or without a zone.
        late_ms: what has fired, in ms since the epoch.
    """
    return pc.fill_null(pc.greater_equal(as_micros(times), late_ms * 1000), True)


def is_late(frame: DataFrame, column: str, late_ms: int) -> str:
    """Spark's form, as SQL, of the inverse of :func:`rows_in_time`; null for rows without event time.

    Args:
        frame: the rows.
        column: their event time.
        late_ms: what has fired, in ms since the epoch.
    """
    time = event_time_sql(frame, column)
    return f"({time} < {_bound(frame, late_ms, time)})"


def windows_over(ends_ms: np.ndarray, late_ms: int) -> np.ndarray:
    """Which windows have ended by ``late_ms``; both in ms since the epoch."""
    over: np.ndarray = ends_ms <= late_ms
    return over


def is_over(frame: DataFrame, end: str, late_ms: int) -> str:
    """Spark's form, as SQL, of :func:`windows_over`.

    Args:
        frame: the rows.
        end: the column of their windows' ends.
        late_ms: what has fired, in ms since the epoch.
    """
    time = event_time_sql(frame, end)
    return f"({quoted(end)} IS NULL OR {time} <= {_bound(frame, late_ms, time)})"


def bound_us(late_ms: int) -> int:
    """What has fired, in microseconds, as far as Spark can tell it; ``late_ms``: the same in ms."""
    return max(-_MAX_US, min(late_ms * 1000, _MAX_US))


def _bound(frame: DataFrame, late_ms: int, time: str) -> str:
    """What has fired, in microseconds, as SQL.

    A number stands in the code that Spark makes of a plan, so with another number in each epoch it would compile each
    epoch's code anew.  A list does not: its code refers to it.  So the number is taken out of one, at a place that
    Spark cannot tell before it has a row.

    Args:
        frame: the rows.
        late_ms: the same in ms.
        time: of a row.
    """
    bound = LATE_BOUND_COLUMN if LATE_BOUND_COLUMN in frame.columns else f"{bound_us(late_ms)}L"
    return f"element_at(array({bound}), 1 + CAST({time} & 0L AS INT))"


def note_event_time(counters: ShardCounters, times: pa.Array) -> None:
    """Count the greatest of the event times in; in ms, rounded down."""
    greatest = pc.max(as_micros(times)).as_py()
    if greatest is not None:
        known = counters.max_event_time_ms
        counters.max_event_time_ms = greatest // 1000 if known is None else max(known, greatest // 1000)
