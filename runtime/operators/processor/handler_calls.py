"""Calls the handlers of a processor for the key at hand, and takes what they yield."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues

from ....state.backend.keyed import KeyedState
from ..contract import ShardContext
from ..emission_watermark import EmissionLog
from .key_clock import KeyClock

if TYPE_CHECKING:
    from .definition import ProcessorStage


class HandlerCalls:
    """The current key of a processor in a task, its rows, its timers, its output."""

    def __init__(self, operator: ProcessorStage, processor: StatefulProcessor, context: ShardContext) -> None:
        self._operator = operator
        self._processor = processor
        self._context = context
        self._epoch = context.epoch
        #: What the shard's rows are read by.
        self.input = operator.form.input(
            operator.input_schema, operator.initial_schema, context.local_dir, first=context.epoch.first
        )
        self._cogroups = operator.form.side_column is not None
        if self._cogroups:
            context.counters.rows_late_right = 0
        self._emissions = EmissionLog() if context.feeds_a_stage else None
        #: Takes what handlers yield.
        self.output = operator.form.output(operator.output_schema, self._write)
        self._shown_key = operator.form.key(operator.key_schema)
        #: The current key; empty: there is none.
        self.key: tuple[Any, ...] = ()
        #: What handlers of rows see where no clock runs.
        self.row_times = self.times(self._epoch.watermark_ms)
        #: The event time within a key; None: timers fire after all rows.
        self.clock = None if self._epoch.in_order is None else KeyClock(self._epoch, self._epoch.in_order)

    def begin_key(self, state: KeyedState, key_group: int, key: bytes, values: tuple[Any, ...]) -> None:
        """Turn to a key, with its state."""
        state.set_current_key(key_group, key)
        self.show_key(values)

    def show_key(self, values: tuple[Any, ...]) -> None:
        """Have handlers see a key; its state is somebody else's matter."""
        self.key = values if self._shown_key is None else self._shown_key(values)

    def handle_rows(self, rows: Any, times: TimerValues) -> None:
        """Hand the current key's rows over."""
        input_rows = rows if self._operator.initial_schema is None else self._initial_first(rows, times)
        if input_rows is not None:
            handle: Callable[..., Iterable[Any]] = self._processor.handleInputRows
            if self._cogroups:
                yielded = handle(self.key, input_rows.left, input_rows.right, times)
            else:
                yielded = handle(self.key, input_rows, times)
            self.take(yielded, self._epoch.watermark_ms)

    def _initial_first(self, pairs: Any, times: TimerValues) -> Any:
        """Hand the key's initial-state rows to ``handleInitialState``; returns the input rows, None without any."""
        if self._cogroups:
            for initial in pairs.initial:
                self._processor.handleInitialState(self.key, initial, times)
            return pairs if pairs.has_rows() else None
        for initial, row in pairs:
            if initial is None:
                return chain([row], (follower for _, follower in pairs))
            self._processor.handleInitialState(self.key, initial, times)
        return None

    def fire(self, ts_ms: int, times: TimerValues) -> None:
        """Tell the current key that a timer has expired."""
        self._context.counters.timers_fired += 1
        yielded: Iterable[Any] = self._processor.handleExpiredTimer(
            key=self.key, timerValues=times, expiredTimerInfo=ExpiredTimerInfo(ts_ms)
        )
        self.take(yielded, self._epoch.firing_watermark_ms)

    def times(self, watermark_ms: int) -> TimerValues:
        """The clocks that a handler sees; ``watermark_ms``: that of event time."""
        return self._operator.times(self._epoch.processing_time_ms, watermark_ms)

    def at_timer(self, ts_ms: int, upto_ms: int) -> TimerValues:
        """What a timer sees: its own time if the watermark passes through it, else the watermark that it fires by."""
        now_ms = upto_ms if self.clock is None else self.clock.pass_on(ts_ms)
        return self.times(max(now_ms, ts_ms + self._operator.past_timer_ms))

    def take(self, rows: Iterable[Any], watermark_ms: int) -> None:
        """Output what a handler of the current key yields; ``watermark_ms``: the epoch's for it, if no clock runs."""
        if self._emissions is not None and rows is not None:
            rows = self._emissions.yielded(rows, watermark_ms if self.clock is None else self.clock.now_ms)
        self.output.extend(rows, self.key)

    def _write(self, rows: pa.RecordBatch) -> None:
        self._context.output.write(rows if self._emissions is None else self._emissions.stamped(rows))

    def last_read(self, column: str) -> Any:
        """The value of an input column in the row that was handed over last; None: there is none."""
        return self.input.last_read(column)
