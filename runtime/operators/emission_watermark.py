"""The watermark at which a stage emits each row that it hands on to another.

The orderly stream's watermark passes through every millisecond, so a row is at the next stage when the watermark there
is where it was emitted: not at its own event time, which may be long before.  A later stage whose timers fire between
the rows of a key takes them in this order, and shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from ..catalyst.columns import event_time_us
from ..support.arrow_columns import as_micros

#: Column of what one stage hands on to another, behind the stage's own, in ms.
EMITTED_COLUMN = "__emitted_ms"
_FIELD = StructField(EMITTED_COLUMN, LongType(), False)


def emitted_schema(schema: StructType) -> StructType:
    """A stage's output columns as they are handed on."""
    return StructType([*schema.fields, _FIELD])


def emitted_at(rows: pa.RecordBatch, emitted_ms: np.ndarray | int) -> pa.RecordBatch:
    """Rows with the watermark at which they are emitted, one for each or one for all."""
    times = np.broadcast_to(np.asarray(emitted_ms, dtype=np.int64), (rows.num_rows,))
    field = pa.field(EMITTED_COLUMN, pa.int64(), nullable=False)
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(times)], schema=rows.schema.append(field))


def emitted_by_time(times: pa.Array | None, now_ms: int, delay_ms: int) -> np.ndarray | int:
    """The watermark that the orderly stream brings rows at; rows without an event time come now.

    Args:
        times: event times of the rows, or windows; None: nobody asks, or they have none.
        now_ms: the watermark before them.
        delay_ms: how far it stays behind event time.
    """
    if times is None:
        return now_ms
    is_window = pa.types.is_struct(times.type)
    ends = pc.struct_field(times, "end") if is_window else times
    micros = as_micros(ends)
    if is_window:  # its last instant, as Spark has it
        micros = pc.subtract(micros, 1)
    reached_ms = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False) // 1000 - delay_ms
    if micros.null_count:
        reached_ms = np.where(micros.is_null().to_numpy(zero_copy_only=False), now_ms, reached_ms)
    return np.maximum(reached_ms, now_ms)


def emitted_when_due(rows: DataFrame, event_time: str) -> DataFrame:
    """Rows that no stage has emitted, as if each were emitted when event time came to it."""
    return rows.withColumn(EMITTED_COLUMN, F.floor(event_time_us(rows, event_time) / 1000))


class EmissionLog:
    """Remembers at which watermark each row was yielded until it is written; rows are written in that order."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._times_ms: list[int] = []

    def yielded(self, items: Iterable[Any], now_ms: int) -> Iterator[Any]:
        """What a handler yields, rows or frames of rows, while the watermark is at ``now_ms``."""
        for item in items:
            self._counts.append(1 if not hasattr(item, "iloc") else len(item))
            self._times_ms.append(now_ms)
            yield item

    def stamped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The next rows with their watermarks."""
        ends = np.cumsum(self._counts)
        last = int(np.searchsorted(ends, rows.num_rows))  # the entry that the last of them is of
        counts, times_ms = self._counts[: last + 1], self._times_ms[: last + 1]
        rest = int(ends[last]) - rows.num_rows
        counts[-1] -= rest
        if rest:
            self._counts[: last + 1], self._times_ms[: last + 1] = [rest], [times_ms[-1]]
        else:
            del self._counts[: last + 1], self._times_ms[: last + 1]
        return emitted_at(rows, np.repeat(np.array(times_ms, dtype=np.int64), counts))
