"""Drops and counts the late rows of a processor's shard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ..admission import can_be_late, note_event_time, rows_in_time
from ..contract import EpochSpec, ShardCounters
from ..join.columns import RIGHT, SIDE_COLUMN
from ..keyed.keyed_rows import KIND_COLUMN

if TYPE_CHECKING:
    from .definition import ProcessorStage


def admitted(
    operator: ProcessorStage, epoch: EpochSpec, counters: ShardCounters, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Count rows, drop late ones, note the greatest event time."""
    column, late_ms = operator.event_time, epoch.late_watermark_ms
    drop_late = operator.uses_event_time and can_be_late(late_ms)
    for arrived in rows:
        batch = arrived
        is_input = None
        if operator.initial_schema is not None:
            is_input = batch.column(KIND_COLUMN)
            counters.rows_in += int(pc.sum(is_input).as_py() or 0)
        else:
            counters.rows_in += batch.num_rows
        if column is not None:
            if drop_late:
                in_time = rows_in_time(batch.column(column), late_ms)
                if is_input is not None:
                    in_time = pc.or_(in_time, pc.equal(is_input, 0))
                kept = batch.filter(in_time)
                counters.rows_late += batch.num_rows - kept.num_rows
                if counters.rows_late_right is not None:
                    is_right = pc.equal(batch.column(SIDE_COLUMN), RIGHT)
                    counters.rows_late_right += pc.and_not(is_right, in_time).true_count
                batch = kept
            note_event_time(counters, batch.column(column))
        if batch.num_rows:
            yield batch
