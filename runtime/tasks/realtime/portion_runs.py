"""An operator that knows nothing of portions: it runs once for each of them, and once more behind the last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from ....state.store.files import SortedStateWriter
from ...operators.contract import KeyedOperator, ShardContext, ShardCounters
from ...operators.open_epoch import OpenEpoch
from ...operators.processor.definition import ProcessorStage
from ...operators.processor.open_processor import OpenProcessor
from ...protocols.event_time import MIN_WATERMARK
from .overlaid_state import EpochChanges, OverlaidState


class PortionRuns:
    """Each run is a live epoch in which nothing fires, over what the runs before have left; the last one fires.

    Args:
        operator: the stage's.
        context: of the shard, for the whole epoch; there is a local copy, if an empty one.
        has_state: whether anything is committed.
    """

    def __init__(self, operator: KeyedOperator, context: ShardContext, *, has_state: bool) -> None:
        assert context.base is not None, "of a shard without state it is empty"
        self._operator = operator
        self._context = context
        self._changes = EpochChanges()
        self._base = OverlaidState(context.base, self._changes)
        self._has_state = has_state
        self._quiet = replace(context.epoch, firing_watermark_ms=MIN_WATERMARK, processing_timers_upto_ms=MIN_WATERMARK)

    def take(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Run it over a portion."""
        counters = self._run(rows, replace(self._context, epoch=self._quiet))
        total = self._context.counters
        total.rows_in += counters.rows_in
        total.rows_late += counters.rows_late
        total.keys += counters.keys
        if counters.max_event_time_ms is not None:
            known = total.max_event_time_ms
            seen = counters.max_event_time_ms
            total.max_event_time_ms = seen if known is None else max(known, seen)

    @property
    def unwritten_keys(self) -> int:
        """How many stored keys have changed since changes were written."""
        return len(self._changes.unwritten)

    def write_changes(self, writer: SortedStateWriter) -> None:
        """Write what runs have changed since the last call."""
        self._changes.write(writer)

    def finish(self) -> None:
        """Run it without rows, and write what runs have changed since changes were written."""
        counters, total = self._run(iter(()), self._context), self._context.counters
        total.timers_fired += counters.timers_fired
        total.next_event_timer_ms = counters.next_event_timer_ms
        total.next_processing_timer_ms = counters.next_processing_timer_ms
        self._changes.write(self._context.writer)

    def _run(self, rows: Iterator[pa.RecordBatch], context: ShardContext) -> ShardCounters:
        counters = ShardCounters()
        base = self._base if self._has_state or self._changes.entries else None
        self._operator.run(replace(context, base=base, writer=self._changes, counters=counters), rows)
        return counters


def open_epoch(operator: KeyedOperator, context: ShardContext, *, has_state: bool) -> OpenEpoch:
    """An epoch of an operator whose rows come in portions.

    Args:
        operator: the stage's.
        context: of the shard.
        has_state: whether anything is committed.
    """
    if isinstance(operator, ProcessorStage):
        return OpenProcessor(operator, context if has_state else replace(context, base=None))
    return PortionRuns(operator, context, has_state=has_state)
