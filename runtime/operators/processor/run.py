"""Runs a PySpark ``StatefulProcessor`` over one shard of one epoch.

``sorted`` style: one key at a time in encoded-key order over batch keyed state; at the end of a key its due timers
fire.
``random`` style: the rows of all keys first (also in key order), then all due timers of the shard in time order, as
stock ``transformWithState`` and Flink's streaming mode do.

Under ``in-order`` event-time timers also fire between the rows of their key, in both styles: a key's event times are
handed over one by one, each after the timers that are due by then (:mod:`.key_clock`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from ....state.backend.keyed import KeyedState
from ....state.backend.random_access import RandomAccessKeyedState
from ....state.backend.sorted_pass import BatchKeyedState
from ....state.keys.keygroups import ShardId
from ....state.keys.keys import KeyCodec
from ...protocols.event_time import MIN_WATERMARK
from ...protocols.operator_events.event_codec import decode, encode, types_by_name
from ...support.failpoints import failpoint
from ..columnar.key_batches import KeyRows, whole_keys
from ..contract import ShardContext
from ..keyed.keyed_rows import KeyedRows, KeySlices
from .admitted import admitted
from .blocks.block_run import BlockRun
from .definition import BLOCK_HANDLER
from .handler_calls import HandlerCalls
from .key_by_key import KeyByKey
from .processor_handle import KIND_OF_MODE, TaskHandle
from .task_coordinator import TaskCoordinator

if TYPE_CHECKING:
    from .definition import ProcessorStage

#: Blocks of keys have about so many rows.
_BLOCK_ROWS = 131_072


class ProcessorRun:
    """One execution of a processor over one shard."""

    def __init__(self, operator: ProcessorStage, processor: StatefulProcessor, context: ShardContext) -> None:
        self._operator = operator
        #: The user's, in this task.
        self.processor = processor
        self._context = context
        self._epoch = context.epoch
        self._counters = context.counters
        self._codec = KeyCodec(operator.key_schema)
        #: Calls the handlers.
        self.calls = HandlerCalls(operator, processor, context)
        self._keys = KeyByKey(self.calls, self._codec, context)
        self._handle: TaskHandle | None = None
        #: Of a live epoch that has begun.
        self._state: RandomAccessKeyedState | None = None

    @property
    def epoch_number(self) -> int:
        return self._epoch.epoch

    @property
    def shard(self) -> ShardId:
        return self._context.shard

    def execute(self, rows: Iterator[pa.RecordBatch]) -> None:
        epoch, context = self._epoch, self._context
        if epoch.style == "random":
            self.begin()
            self.take(rows)
            self.finish()
            return
        state = BatchKeyedState(
            self._operator.registry, context.writer, epoch.processing_time_ms, context.base, epoch.keep_state
        )
        self._begin(state)
        if self._operator.hooks.takes_blocks:
            self._sorted_blocks(state, rows)
        else:
            self._keys.sorted_pass(state, self._keyed(rows))
        self._end()
        state.close()
        self._leave(state)

    def begin(self) -> None:
        """Begin a live epoch, whose rows may come in several portions."""
        context = self._context
        self._state = RandomAccessKeyedState(
            self._operator.registry, context.base, context.key_groups, self._epoch.processing_time_ms
        )
        self._begin(self._state)

    @property
    def live_state(self) -> RandomAccessKeyedState:
        """The state of a live epoch."""
        assert self._state is not None, "begin() comes first"
        return self._state

    def take(self, rows: Iterator[pa.RecordBatch], *, more: bool = False) -> None:
        """Process rows of a live epoch, in the order of keys.

        Args:
            rows: the rows.
            more: there were others before them.
        """
        if self._operator.hooks.takes_blocks:
            self._counters.keys += self._blocks(self.live_state).live_epoch(self._pieces(rows), self.calls.row_times)
        else:
            self._random(self.live_state, self._keyed(rows), more=more)

    def finish(self) -> None:
        """Fire what is due in a live epoch, and write what it has changed."""
        state = self.live_state
        self._fire_all_due(state)
        self._end()
        state.flush(self._context.writer)
        self._leave(state)

    def _leave(self, state: KeyedState) -> None:
        """Hand on the last rows, and report what waits."""
        self.calls.output.flush()
        self._counters.timers_ignored = state.ignored_timers
        self._counters.next_event_timer_ms = state.next_timer("event")
        self._counters.next_processing_timer_ms = state.next_timer("processing")

    def _keyed(self, rows: Iterator[pa.RecordBatch]) -> KeyedRows:
        """The shard's rows key by key, or each key's in parts: event time by event time, or as calls are cut."""
        time_column = None if self.calls.clock is None else self._operator.clock_column
        cut = self._operator.rows_per_call if self._epoch.style == "sorted" else None
        span_us = most_rows = None
        if cut is not None:
            most_rows = cut.rows
            if time_column is None and cut.span_ms is not None:
                time_column, span_us = self._operator.event_time, cut.span_ms * 1000
        slices = KeySlices(self._codec, self._operator.key_columns, time_column, span_us=span_us, most_rows=most_rows)
        return KeyedRows(admitted(self._operator, self._epoch, self._counters, rows), slices, self.calls.input)

    def _pieces(self, rows: Iterator[pa.RecordBatch]) -> Iterator[KeyRows]:
        """The shard's rows in pieces of whole keys."""
        taken = admitted(self._operator, self._epoch, self._counters, rows)
        return whole_keys(taken, self._operator.key_columns, self._codec, _BLOCK_ROWS)

    def _blocks(self, state: KeyedState) -> BlockRun:
        operator = self._operator
        return BlockRun(
            getattr(self.processor, BLOCK_HANDLER),
            state,
            operator.key_columns,
            operator.input_schema,
            operator.output_schema,
            KIND_OF_MODE.get(operator.time_mode),
            self._write_now,
        )

    def _write_now(self, rows: pa.RecordBatch) -> None:
        self.calls.output.flush()
        self._context.emit(rows, self._epoch.watermark_ms)

    def _sorted_blocks(self, state: BatchKeyedState, rows: Iterator[pa.RecordBatch]) -> None:
        epoch, walk = self._epoch, state.walk_timers("event")
        fires = epoch.firing_watermark_ms != MIN_WATERMARK or epoch.processing_timers_upto_ms != MIN_WATERMARK
        due = self._keys.due_keys() if fires and self._context.base is not None else iter(())

        def settle(group: int, key: bytes, was_due: bool) -> None:
            if was_due or state.has_new_timers:
                self.calls.show_key(self._codec.decode(key))
                self._keys.fire_due(state, walk)
                self.calls.key = ()

        kind = KIND_OF_MODE.get(self._operator.time_mode)
        upto_ms = epoch.firing_watermark_ms if kind == "event" else epoch.processing_timers_upto_ms
        self._counters.keys += self._blocks(state).sorted_pass(
            self._pieces(rows), self.calls.row_times, due, None if upto_ms == MIN_WATERMARK else upto_ms, settle
        )

    def _end(self) -> None:
        """The processor's own hooks, if the input has ended; there is no current key, and no state to use."""
        for hook in self._operator.hooks.at_end if self._epoch.ending else ():
            rows = getattr(self.processor, hook)()
            if rows is not None:
                self.calls.key = ()
                self.calls.take(rows, self._epoch.watermark_ms)
        if self._operator.hooks.keeps_own_state:
            failpoint("task-events-snapshot")
            kept = self.processor.snapshotShard()  # type: ignore[attr-defined]
            what = f"own state of a shard from {self._operator.processor_name}.snapshotShard()"
            self._context.events.own_state = encode(kept, what, self._operator.event_max_bytes)

    def _begin(self, state: KeyedState) -> None:
        """Bring the processor to where its shard stands, then hand over what has come from the coordinator."""
        operator, events = self._operator, self._context.events
        coordinator = TaskCoordinator(
            events,
            operator.processor_name,
            operator.event_max_bytes if operator.has_coordinator else None,
            is_backlog=self._epoch.is_backlog,
        )
        self._handle = TaskHandle(state, operator.time_mode, coordinator)
        self.processor.init(self._handle)
        self._handle.enter("handlers")
        if not (operator.hooks.restores_own_state or events.inbox.events):
            return
        types = types_by_name(getattr(self.processor, "eventTypes", ()), operator.processor_name)
        if operator.hooks.restores_own_state:
            self.processor.restoreShard([decode(kept, types) for kept in events.inbox.own_state])  # type: ignore[attr-defined]
        for event in events.inbox.events:
            failpoint("task-events-received")
            rows = self.processor.handleEvent(decode(event, types))  # type: ignore[attr-defined]
            if rows is not None:
                self.calls.take(rows, self._epoch.watermark_ms)
            failpoint("task-events-handled")

    def close(self) -> None:
        """Close the processor of a run that has come to its end; its handle is of no more use."""
        if self._handle is not None:
            self._handle.enter("close")
        self.processor.close()

    def _random(self, state: RandomAccessKeyedState, keyed: KeyedRows, *, more: bool) -> None:
        if self.calls.clock is not None:
            self._keys.had_due = more or state.has_base  # any key may have timers from before
            self._keys.in_order(self.calls.clock, state, keyed)
            self.calls.clock.begin()
        else:
            calls = self.calls
            for key_group, key, values, _, rows in keyed:
                calls.begin_key(state, key_group, key, values)
                calls.handle_rows(rows, calls.row_times)
                self._counters.keys += 1

    def _fire_all_due(self, state: RandomAccessKeyedState) -> None:
        """Behind all rows of the shard: its due timers in time order."""
        epoch, calls = self._epoch, self.calls
        for kind, upto_ms in (("event", epoch.firing_watermark_ms), ("processing", epoch.processing_timers_upto_ms)):
            if upto_ms == MIN_WATERMARK:
                continue
            for ts_ms, key_group, key in state.due_timers(kind, upto_ms):  # type: ignore[arg-type]
                calls.begin_key(state, key_group, key, self._codec.decode(key))
                fired_by_ms = epoch.firing_watermark_ms
                calls.fire(ts_ms, calls.at_timer(ts_ms, fired_by_ms) if kind == "event" else calls.times(fired_by_ms))
