"""Takes a processor through its keys: the rows of each, and the timers that are due between them and at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ....state.backend.keyed import KeyedState
from ....state.backend.sorted_pass import BatchKeyedState
from ....state.backend.timer_index import due_keys
from ....state.backend.timer_walk import TimerWalk
from ....state.keys.keys import KeyCodec
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..contract import ShardContext
from ..keyed.keyed_rows import NO_TIME, Keyed, KeyedRows
from .handler_calls import HandlerCalls
from .key_clock import KeyClock

#: A key without rows of its own: as :data:`Keyed`, without an event time and rows.
_Due = tuple[int, bytes, tuple[Any, ...], int, None]


class KeyByKey:
    """The order of a shard's keys, rows and timers in one epoch."""

    def __init__(self, calls: HandlerCalls, codec: KeyCodec, context: ShardContext) -> None:
        self._calls = calls
        self._codec = codec
        self._context = context
        self._epoch = context.epoch
        self._counters = context.counters
        #: The current key has, or may have, due timers from before.
        self.had_due = False

    def sorted_pass(self, state: BatchKeyedState, keyed: KeyedRows) -> None:
        """A sorted pass: each key's rows, then its timers that are due; keys without rows whose timers are due, too."""
        epoch, calls = self._epoch, self._calls
        fires = epoch.firing_watermark_ms != MIN_WATERMARK or epoch.processing_timers_upto_ms != MIN_WATERMARK
        from_before = fires and self._context.base is not None
        entries: Iterable[Keyed | _Due] = self._with_due_keys(keyed) if from_before else keyed
        if calls.clock is not None:
            self.in_order(calls.clock, state, entries)
            return
        walk, keys, had_due = state.walk_timers("event"), 0, False
        at: tuple[int, bytes] | None = None
        for key_group, key, values, _, rows in entries:
            if at != (key_group, key):
                # Most keys have no timer: looking for one in their cells would cost more than the rest of this loop.
                if at is not None and fires and (had_due or state.has_new_timers):
                    self.fire_due(state, walk)
                at, had_due = (key_group, key), self.had_due
                calls.begin_key(state, key_group, key, values)
                keys += 1
            if rows is not None:
                calls.handle_rows(rows, calls.row_times)
        if at is not None and fires and (had_due or state.has_new_timers):
            self.fire_due(state, walk)
        self._counters.keys += keys

    def _with_due_keys(self, keyed: KeyedRows) -> Iterator[Keyed | _Due]:
        """The keys with rows, and in their places the keys without rows whose timers from before are due.

        Says in ``had_due`` whether the key at hand has such timers, when it comes for the first time.
        """
        due = self.due_keys()
        head = next(due, None)
        for entry in keyed:
            here = entry[:2]
            while head is not None and head < here:
                self.had_due = True
                yield (*head, self._codec.decode(head[1]), NO_TIME, None)
                head = next(due, None)
            self.had_due = head == here
            yield entry
            if head == here:
                head = next(due, None)
        self.had_due = True
        while head is not None:
            yield (*head, self._codec.decode(head[1]), NO_TIME, None)
            head = next(due, None)

    def due_keys(self) -> Iterator[tuple[int, bytes]]:
        """The keys whose timers from before this pass are due, in stored order; there is state from before."""
        epoch, base = self._epoch, self._context.base
        assert base is not None, "timers from before are in state from before"
        return (
            (group, key)
            for group in self._context.key_groups
            for key in due_keys(base, group, epoch.firing_watermark_ms, epoch.processing_timers_upto_ms)
        )

    def fire_due(self, state: BatchKeyedState, walk: TimerWalk) -> None:
        """Fire the current key's due timers, event time first."""
        epoch = self._epoch
        walk.begin(list(state.list_timers("event")))
        self._fire_at_the_end(state, walk)
        if epoch.processing_timers_upto_ms == MIN_WATERMARK:
            return
        state.ignore_new_timers = epoch.processing_timers_upto_ms == MAX_WATERMARK
        for ts_ms in state.pop_due_timers("processing", epoch.processing_timers_upto_ms):
            self._calls.fire(ts_ms, self._calls.times(epoch.firing_watermark_ms))
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
            self._fire(walk.due(upto_ms), upto_ms)
        if at_max:
            state.ignore_new_timers = epoch.timers_at_max == "ignore"
            self._fire(walk.due(MAX_WATERMARK, newcomers=False), MAX_WATERMARK)
            state.ignore_new_timers = False

    def in_order(self, clock: KeyClock, state: KeyedState, entries: Iterable[Keyed | _Due]) -> None:
        """Each key's event times one by one, each after the timers that are due by then; at its end the others."""
        walk, begun = state.walk_timers("event"), False
        at: tuple[int, bytes] | None = None
        for key_group, key, values, time_us, rows in entries:
            if at != (key_group, key):
                if begun:
                    self._end_key(clock, state, walk)
                begun, at = True, (key_group, key)
                self._calls.begin_key(state, key_group, key, values)
                clock.begin()
                walk.begin(list(state.list_timers("event")) if self.had_due else [])
                self._counters.keys += 1
            if rows is not None:
                watermark_ms = clock.of_rows(time_us)
                for ts_ms in walk.due(watermark_ms):
                    self._calls.fire(ts_ms, self._calls.at_timer(ts_ms, watermark_ms))
                self._calls.handle_rows(rows, self._calls.times(clock.pass_on(watermark_ms)))
        if begun:
            self._end_key(clock, state, walk)

    def _end_key(self, clock: KeyClock, state: KeyedState, walk: TimerWalk) -> None:
        if self._epoch.style == "sorted":
            self._fire_at_the_end(state, walk)
            return
        # The watermark will have passed the key's rows when the epoch ends: what they have registered may be due.
        upto_ms = max(self._epoch.firing_watermark_ms, clock.now_ms)
        self._fire(walk.due(upto_ms), upto_ms)

    def _fire(self, due: Iterable[int], watermark_ms: int) -> None:
        for ts_ms in due:
            self._calls.fire(ts_ms, self._calls.at_timer(ts_ms, watermark_ms))
