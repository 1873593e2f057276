"""Runs a PySpark ``StatefulProcessor`` over one shard of one epoch.

``sorted`` style: one key at a time in encoded-key order over batch keyed state; at the end of a key its due timers
fire.
``random`` style: the rows of all keys first (also in key order), then all due timers of the shard in time order, as
stock ``transformWithState`` and Flink's streaming mode do.

Under ``in-order`` event-time timers also fire between the rows of their key, in both styles: a key's event times are
handed over one by one, each after the timers that are due by then (:mod:`.key_clock`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues

from ....state.backend.keyed import KeyedState
from ....state.backend.random_access import RocksDBKeyedState
from ....state.backend.sorted_pass import BatchKeyedState
from ....state.backend.timer_walk import TimerWalk
from ....state.keys.keys import KeyCodec
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ...protocols.operator_events.event_codec import decode, encode, types_by_name
from ...support.failpoints import failpoint
from ..columnar.key_batches import KeyRows, whole_keys
from ..contract import ShardContext
from ..emission import EmissionLog
from ..keyed.keyed_rows import NO_TIME, Keyed, KeyedRows, KeySlices
from .admitted import admitted
from .blocks.block_run import BlockRun
from .definition import BLOCK_HANDLER
from .handle import KIND_OF_MODE, TaskHandle
from .key_clock import KeyClock
from .task_coordinator import TaskCoordinator

if TYPE_CHECKING:
    from .definition import ProcessorStage

#: Blocks of keys have about so many rows.
_BLOCK_ROWS = 131_072
#: A key without rows of its own: as :data:`Keyed`, without an event time and rows.
_Due = tuple[int, bytes, tuple[Any, ...], int, None]


class ProcessorRun:
    """One execution of a processor over one shard: the current key, its rows, its timers, its output."""

    def __init__(self, operator: ProcessorStage, processor: StatefulProcessor, context: ShardContext) -> None:
        self._operator = operator
        self._processor = processor
        self._context = context
        self._epoch = context.epoch
        self._counters = context.counters
        self._codec = KeyCodec(operator.key_schema)
        self._input = operator.form.input(
            operator.input_schema, operator.initial_schema, context.local_dir, first=context.epoch.first
        )
        self._cogroups = operator.form.side_column is not None
        if self._cogroups:
            self._counters.rows_late_right = 0
        self._emissions = EmissionLog() if context.feeds_a_stage else None
        self._output = operator.form.output(operator.output_schema, self._write)
        self._shown_key = operator.form.key(operator.key_schema)
        self._handle: TaskHandle | None = None
        self._key: tuple[Any, ...] = ()
        #: The current key of a sorted pass has due timers from before.
        self._had_due = False
        self._row_times = self._times(self._epoch.watermark_ms)
        self._clock = None if self._epoch.in_order is None else KeyClock(self._epoch, self._epoch.in_order)

    @property
    def processor(self) -> StatefulProcessor:
        """The user's, in this task."""
        return self._processor

    @property
    def key(self) -> tuple[Any, ...]:
        """The current key."""
        return self._key

    @property
    def epoch_number(self) -> int:
        return self._epoch.epoch

    @property
    def shard(self) -> int:
        return self._context.shard

    def last_read(self, column: str) -> Any:
        """The value of an input column in the row that was handed over last; None: there is none."""
        return self._input.last_read(column)

    def execute(self, rows: Iterator[pa.RecordBatch]) -> None:
        epoch, context = self._epoch, self._context
        state: BatchKeyedState | RocksDBKeyedState
        if epoch.style == "sorted":
            state = BatchKeyedState(
                self._operator.registry, context.writer, epoch.processing_time_ms, context.base, epoch.keep_state
            )
            self._begin(state)
            if self._operator.takes_blocks:
                self._sorted_blocks(state, rows)
            else:
                self._sorted(state, self._keyed(rows))
            self._end()
            state.close()
        else:
            state = RocksDBKeyedState(
                self._operator.registry, context.base, context.key_groups, epoch.processing_time_ms
            )
            self._begin(state)
            if self._operator.takes_blocks:
                self._counters.keys += self._blocks(state).live_epoch(self._pieces(rows), self._row_times)
            else:
                self._random(state, self._keyed(rows))
            self._fire_all_due(state)
            self._end()
            state.flush(context.writer)
        self._output.flush()
        self._counters.timers_ignored = state.ignored_timers
        self._counters.next_event_timer_ms = state.next_timer("event")
        self._counters.next_processing_timer_ms = state.next_timer("processing")

    def _keyed(self, rows: Iterator[pa.RecordBatch]) -> KeyedRows:
        """The shard's rows key by key, or each key's in parts: event time by event time, or as calls are cut."""
        time_column = None if self._clock is None else self._operator.clock_column
        cut = self._operator.rows_per_call if self._epoch.style == "sorted" else None
        span_us = most_rows = None
        if cut is not None:
            most_rows = cut.rows
            if time_column is None and cut.span_ms is not None:
                time_column, span_us = self._operator.event_time, cut.span_ms * 1000
        slices = KeySlices(self._codec, self._operator.key_columns, time_column, span_us=span_us, most_rows=most_rows)
        return KeyedRows(admitted(self._operator, self._epoch, self._counters, rows), slices, self._input)

    def _pieces(self, rows: Iterator[pa.RecordBatch]) -> Iterator[KeyRows]:
        """The shard's rows in pieces of whole keys."""
        taken = admitted(self._operator, self._epoch, self._counters, rows)
        return whole_keys(taken, self._operator.key_columns, self._codec, _BLOCK_ROWS)

    def _blocks(self, state: KeyedState) -> BlockRun:
        operator = self._operator
        return BlockRun(
            getattr(self._processor, BLOCK_HANDLER),
            state,
            operator.key_columns,
            operator.input_schema,
            operator.output_schema,
            KIND_OF_MODE.get(operator.time_mode),
            self._write_now,
        )

    def _write_now(self, rows: pa.RecordBatch) -> None:
        self._output.flush()
        self._context.emit(rows, self._epoch.watermark_ms)

    def _sorted_blocks(self, state: BatchKeyedState, rows: Iterator[pa.RecordBatch]) -> None:
        epoch, walk = self._epoch, state.walk_timers("event")
        fires = epoch.firing_watermark_ms != MIN_WATERMARK or epoch.processing_timers_upto_ms != MIN_WATERMARK
        due = self._due_keys(state) if fires and self._context.base is not None else iter(())

        def settle(group: int, key: bytes, was_due: bool) -> None:
            if was_due or state.has_new_timers:
                self._show_key(self._codec.decode(key))
                self._fire_due(state, walk)
                self._key = ()

        kind = KIND_OF_MODE.get(self._operator.time_mode)
        upto_ms = epoch.firing_watermark_ms if kind == "event" else epoch.processing_timers_upto_ms
        self._counters.keys += self._blocks(state).sorted_pass(
            self._pieces(rows), self._row_times, due, None if upto_ms == MIN_WATERMARK else upto_ms, settle
        )

    def _end(self) -> None:
        """The processor's own hooks, if the input has ended; there is no current key, and no state to use."""
        for hook in self._operator.end_hooks if self._epoch.ending else ():
            rows = getattr(self._processor, hook)()
            if rows is not None:
                self._key = ()
                self._take(rows, self._epoch.watermark_ms)
        if self._operator.keeps_own_state:
            failpoint("task-events-snapshot")
            kept = self._processor.snapshotShard()  # type: ignore[attr-defined]
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
        self._processor.init(self._handle)
        self._handle.enter("handlers")
        if not (operator.restores_own_state or events.inbox.events):
            return
        types = types_by_name(getattr(self._processor, "eventTypes", ()), operator.processor_name)
        if operator.restores_own_state:
            self._processor.restoreShard([decode(kept, types) for kept in events.inbox.own_state])  # type: ignore[attr-defined]
        for event in events.inbox.events:
            failpoint("task-events-received")
            rows = self._processor.handleEvent(decode(event, types))  # type: ignore[attr-defined]
            if rows is not None:
                self._take(rows, self._epoch.watermark_ms)
            failpoint("task-events-handled")

    def close(self) -> None:
        """Close the processor of a run that has come to its end; its handle is of no more use."""
        if self._handle is not None:
            self._handle.enter("close")
        self._processor.close()

    def _sorted(self, state: BatchKeyedState, keyed: KeyedRows) -> None:
        epoch = self._epoch
        fires = epoch.firing_watermark_ms != MIN_WATERMARK or epoch.processing_timers_upto_ms != MIN_WATERMARK
        from_before = fires and self._context.base is not None
        entries: Iterable[Keyed | _Due] = self._with_due_keys(state, keyed) if from_before else keyed
        if self._clock is not None:
            self._in_order(self._clock, state, entries)
            return
        walk, keys, had_due = state.walk_timers("event"), 0, False
        at: tuple[int, bytes] | None = None
        for key_group, key, values, _, rows in entries:
            if at != (key_group, key):
                # Most keys have no timer: looking for one in their cells would cost more than the rest of this loop.
                if at is not None and fires and (had_due or state.has_new_timers):
                    self._fire_due(state, walk)
                at, had_due = (key_group, key), self._had_due
                self._begin_key(state, key_group, key, values)
                keys += 1
            if rows is not None:
                self._handle_rows(rows, self._row_times)
        if at is not None and fires and (had_due or state.has_new_timers):
            self._fire_due(state, walk)
        self._counters.keys += keys

    def _with_due_keys(self, state: BatchKeyedState, keyed: KeyedRows) -> Iterator[Keyed | _Due]:
        """The keys with rows, and in their places the keys without rows whose timers from before are due.

        Says in ``_had_due`` whether the key at hand has such timers, when it comes for the first time.
        """
        due = self._due_keys(state)
        head = next(due, None)
        for entry in keyed:
            here = entry[:2]
            while head is not None and head < here:
                self._had_due = True
                yield (*head, self._codec.decode(head[1]), NO_TIME, None)
                head = next(due, None)
            self._had_due = head == here
            yield entry
            if head == here:
                head = next(due, None)
        self._had_due = True
        while head is not None:
            yield (*head, self._codec.decode(head[1]), NO_TIME, None)
            head = next(due, None)

    def _due_keys(self, state: BatchKeyedState) -> Iterator[tuple[int, bytes]]:
        """The keys whose timers from before this pass are due, in stored order."""
        epoch = self._epoch
        return (
            (group, key)
            for group in self._context.key_groups
            for key in state.due_keys(group, epoch.firing_watermark_ms, epoch.processing_timers_upto_ms)
        )

    def _fire_due(self, state: BatchKeyedState, walk: TimerWalk) -> None:
        """Fire the current key's due timers, event time first."""
        epoch = self._epoch
        walk.begin(list(state.list_timers("event")))
        self._fire_at_the_end(state, walk)
        if epoch.processing_timers_upto_ms == MIN_WATERMARK:
            return
        state.ignore_new_timers = epoch.processing_timers_upto_ms == MAX_WATERMARK
        for ts_ms in state.pop_due_timers("processing", epoch.processing_timers_upto_ms):
            self._fire(ts_ms, self._times(epoch.firing_watermark_ms))
        state.ignore_new_timers = False

    def _fire_at_the_end(self, state: KeyedState, walk: TimerWalk) -> None:
        """Fire the current key's event-time timers that are due when a sorted pass has had its rows.

        Before MAX_WATERMARK come those that event times alone make due, as in a stream that comes to its end; a timer
        that they register may be due as well.  One that is registered while MAX_WATERMARK fires never is.
        """
        epoch = self._epoch
        at_max = epoch.firing_watermark_ms == MAX_WATERMARK
        upto_ms = epoch.reached_watermark_ms if at_max else epoch.firing_watermark_ms
        if upto_ms != MIN_WATERMARK:
            for ts_ms in walk.due(upto_ms):
                self._fire(ts_ms, self._at_timer(ts_ms, upto_ms))
        if at_max:
            state.ignore_new_timers = epoch.timers_at_max == "ignore"
            for ts_ms in walk.due(MAX_WATERMARK, newcomers=False):
                self._fire(ts_ms, self._at_timer(ts_ms, MAX_WATERMARK))
            state.ignore_new_timers = False

    def _in_order(self, clock: KeyClock, state: KeyedState, entries: Iterable[Keyed | _Due]) -> None:
        """Each key's event times one by one, each after the timers that are due by then; at its end the others."""
        walk, begun = state.walk_timers("event"), False
        at: tuple[int, bytes] | None = None
        for key_group, key, values, time_us, rows in entries:
            if at != (key_group, key):
                if begun:
                    self._end_key(clock, state, walk)
                begun, at = True, (key_group, key)
                self._begin_key(state, key_group, key, values)
                clock.begin()
                walk.begin(list(state.list_timers("event")) if self._had_due else [])
                self._counters.keys += 1
            if rows is not None:
                watermark_ms = clock.of_rows(time_us)
                for ts_ms in walk.due(watermark_ms):
                    self._fire(ts_ms, self._at_timer(ts_ms, watermark_ms))
                self._handle_rows(rows, self._times(clock.pass_on(watermark_ms)))
        if begun:
            self._end_key(clock, state, walk)

    def _end_key(self, clock: KeyClock, state: KeyedState, walk: TimerWalk) -> None:
        if self._epoch.style == "sorted":
            self._fire_at_the_end(state, walk)
            return
        # The watermark will have passed the key's rows when the epoch ends: what they have registered may be due.
        upto_ms = max(self._epoch.firing_watermark_ms, clock.now_ms)
        for ts_ms in walk.due(upto_ms):
            self._fire(ts_ms, self._at_timer(ts_ms, upto_ms))

    def _at_timer(self, ts_ms: int, upto_ms: int) -> TimerValues:
        """What a timer sees: its own time if the watermark passes through it, else the watermark that it fires by."""
        now_ms = upto_ms if self._clock is None else self._clock.pass_on(ts_ms)
        return self._times(max(now_ms, ts_ms + self._operator.past_timer_ms))

    def _random(self, state: RocksDBKeyedState, keyed: KeyedRows) -> None:
        if self._clock is not None:
            self._had_due = state.has_base  # any key may have timers from before
            self._in_order(self._clock, state, keyed)
            self._clock.begin()
        else:
            for key_group, key, values, _, rows in keyed:
                self._begin_key(state, key_group, key, values)
                self._handle_rows(rows, self._row_times)
                self._counters.keys += 1

    def _fire_all_due(self, state: RocksDBKeyedState) -> None:
        """Behind all rows of the shard: its due timers in time order."""
        epoch = self._epoch
        for kind, upto_ms in (("event", epoch.firing_watermark_ms), ("processing", epoch.processing_timers_upto_ms)):
            if upto_ms == MIN_WATERMARK:
                continue
            for ts_ms, key_group, key in state.due_timers(kind, upto_ms):  # type: ignore[arg-type]
                self._begin_key(state, key_group, key, self._codec.decode(key))
                fired_by_ms = epoch.firing_watermark_ms
                self._fire(ts_ms, self._at_timer(ts_ms, fired_by_ms) if kind == "event" else self._times(fired_by_ms))

    def _begin_key(self, state: KeyedState, key_group: int, key: bytes, values: tuple[Any, ...]) -> None:
        state.set_current_key(key_group, key)
        self._show_key(values)

    def _show_key(self, values: tuple[Any, ...]) -> None:
        self._key = values if self._shown_key is None else self._shown_key(values)

    def _handle_rows(self, rows: Any, times: TimerValues) -> None:
        input_rows = rows if self._operator.initial_schema is None else self._initial_first(rows, times)
        if input_rows is not None:
            handle: Callable[..., Iterable[Any]] = self._processor.handleInputRows
            if self._cogroups:
                yielded = handle(self._key, input_rows.left, input_rows.right, times)
            else:
                yielded = handle(self._key, input_rows, times)
            self._take(yielded, self._epoch.watermark_ms)

    def _take(self, rows: Iterable[Any], watermark_ms: int) -> None:
        """Output what a handler of the current key yields; ``watermark_ms``: the epoch's for it, if no clock runs."""
        if self._emissions is not None and rows is not None:
            rows = self._emissions.yielded(rows, watermark_ms if self._clock is None else self._clock.now_ms)
        self._output.extend(rows, self._key)

    def _write(self, rows: pa.RecordBatch) -> None:
        self._context.output.write(rows if self._emissions is None else self._emissions.stamped(rows))

    def _initial_first(self, pairs: Any, times: TimerValues) -> Any:
        """Hand the key's initial-state rows to ``handleInitialState``; returns the input rows, None without any."""
        if self._cogroups:
            for initial in pairs.initial:
                self._processor.handleInitialState(self._key, initial, times)
            return pairs if pairs.has_rows() else None
        for initial, row in pairs:
            if initial is None:
                return chain([row], (follower for _, follower in pairs))
            self._processor.handleInitialState(self._key, initial, times)
        return None

    def _fire(self, ts_ms: int, times: TimerValues) -> None:
        self._counters.timers_fired += 1
        yielded: Iterable[Any] = self._processor.handleExpiredTimer(
            key=self._key, timerValues=times, expiredTimerInfo=ExpiredTimerInfo(ts_ms)
        )
        self._take(yielded, self._epoch.firing_watermark_ms)

    def _times(self, watermark_ms: int) -> TimerValues:
        return self._operator.times(self._epoch.processing_time_ms, watermark_ms)
