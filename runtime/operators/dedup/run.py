"""One execution of a deduplication over one shard: a row per key in, the keys that are new out.

Invariants:
- A key that has state puts out nothing, in whatever epoch its state goes.
- A key whose state would go in this very epoch leaves none.
- Late rows change nothing, and the rows of a key that are all late are no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.keys.keys import KeyCodec
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ...support.arrow_columns import as_micros, typed
from ..admission import note_event_time
from ..aggregate.run import micros_to_ms
from ..columnar.cells import ShardCells
from ..columnar.key_batches import DueKeys, Work, whole_keys, works
from ..columnar.record_codec import RecordCodec
from ..contract import ShardContext
from ..emission_watermark import emitted_by_time
from .clock import InOrderRows
from .columns import LATE_ROWS_COLUMN, MAX_TIME_COLUMN, ROWS_COLUMN, TIME_COLUMN

if TYPE_CHECKING:
    from .definition import Deduplication

#: Which cells and which timers of some keys, and the times of these.
_Change = tuple[np.ndarray, np.ndarray, np.ndarray]


class DedupRun:
    """Walks over the keys of a shard."""

    def __init__(self, operator: Deduplication, context: ShardContext) -> None:
        self._operator = operator
        self._context = context
        self._epoch = context.epoch
        self._counters = context.counters
        self._expires = operator.retention.kind != "for-ever"
        self._codec = KeyCodec(operator.key_schema)
        self._records = RecordCodec(list(operator.state_schema()))
        self._present: bytes | None = None
        if operator.retention.kind != "delay":
            self._present = self._records.encode([pa.array([True])])[0].as_py()
        self._cells = ShardCells(context, operator.slot)

    def execute(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Process all rows and all keys that are due."""
        due = None
        if self._context.base is not None and self._expires and self._epoch.firing_watermark_ms > MIN_WATERMARK:
            due = DueKeys(self._context.base, self._context.key_groups, self._epoch.firing_watermark_ms)
        taken = self._admitted(rows)
        clock = self._clock()
        if clock is not None:
            codec, columns = self._codec, self._operator.key_columns
            taken = clock.new(taken, columns, codec, lambda batch: as_micros(batch.column(TIME_COLUMN)))
        for work in works(whole_keys(taken, self._operator.key_columns, self._codec), due):
            if clock is None:
                self._counters.keys += len(work.touched)
                self._process(work)
            else:
                self._process_new(work)
        if clock is not None:
            self._counters.keys += clock.keys
        self._cells.close(self._expires)

    def _clock(self) -> InOrderRows | None:
        """What tells the new rows of an epoch in which keys may be forgotten between their rows."""
        if self._epoch.in_order is None or not self._operator.has_timers:
            return None

        def expiry_ms(groups: np.ndarray, keys: pa.BinaryArray) -> np.ndarray:
            return self._stored_ms(self._cells.names(groups, keys) if self._context.base is not None else [], len(keys))

        retention, in_order = self._operator.retention, self._epoch.in_order
        clock = replace(in_order, delay_ms=in_order.delay_ms + retention.lag_ms)
        return InOrderRows(clock, retention.delay_ms, expiry_ms)

    def _stored_ms(self, names: list[bytes], count: int) -> np.ndarray:
        """When keys are forgotten; MIN: they have no state."""
        expires_ms = np.full(count, MIN_WATERMARK, dtype=np.int64)
        if names:
            exists, data, offsets = self._cells.read(names)
            if exists.any():
                expires_ms[exists] = self._records.decode(data, offsets)[0].to_numpy()
        return expires_ms

    def _admitted(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count rows, and leave out keys of which all are late, or (a key without columns) there are none."""
        time_key = self._operator.event_time_key
        for batch in rows:
            if batch.num_rows == 0:
                continue
            counts = batch.column(ROWS_COLUMN)
            self._counters.rows_in += pc.sum(counts).as_py()
            late: pa.Array | int = 0
            if LATE_ROWS_COLUMN in batch.schema.names:
                late = batch.column(LATE_ROWS_COLUMN)
                self._counters.rows_late += pc.sum(late).as_py()
            used = pc.greater(counts, late)
            if not pc.all(used).as_py():
                batch = batch.filter(used)
                if batch.num_rows == 0:
                    continue
            if self._operator.event_time is not None:
                place = time_key or (MAX_TIME_COLUMN if MAX_TIME_COLUMN in batch.schema.names else TIME_COLUMN)
                note_event_time(self._counters, batch.column(place))
            yield batch

    def _process(self, work: Work) -> None:
        if self._context.base is None:
            self._process_first(work)
            return
        count = len(work)
        names = self._cells.names(work.groups, work.keys)
        exists, data, offsets = self._cells.read(names)
        new = np.zeros(count, dtype=bool)
        new[work.touched] = True
        new &= ~exists
        if new.any():
            assert work.batch is not None
            starts = work.starts[new[work.touched]]
            self._put_out(work.batch if len(starts) == work.batch.num_rows else work.batch.take(pa.array(starts)))
        if not self._epoch.keep_state:
            return
        if not self._expires:
            at = np.flatnonzero(new)
            self._write(work, names, at, [self._present] * len(at), [])
            return
        expires_ms = self._expiry_ms(work)
        if self._operator.retention.kind == "delay" and exists.any():
            expires_ms[exists] = self._records.decode(data, offsets)[0].to_numpy()
        due = self._due(expires_ms)
        kept, removed = new & ~due, exists & due
        self._store(
            work, names, (kept, kept & (expires_ms < MAX_WATERMARK), expires_ms), (removed, removed, expires_ms)
        )

    def _process_first(self, work: Work) -> None:
        """As :meth:`_process`, of keys of which none has state: names and values stay Arrow's."""
        assert work.batch is not None, "only keys with state are due"
        firsts = work.batch
        if len(work) < firsts.num_rows:
            firsts = firsts.take(pa.array(work.starts))
        self._put_out(firsts)
        if not self._epoch.keep_state:
            return
        if self._expires:
            expires_ms = self._expiry_ms(work)
            self._store_new(work, expires_ms, expires_ms < MAX_WATERMARK)
        else:
            self._cells.write_all(work.groups, work.keys, self._marks(len(work)))

    def _store_new(self, work: Work, expires_ms: np.ndarray, timed: np.ndarray) -> None:
        """Write keys of which none has state.

        Args:
            work: them.
            expires_ms: when each is forgotten.
            timed: whether there is a timer for that.
        """
        groups, keys = work.groups, work.keys
        due = self._due(expires_ms)
        if due.any():
            at = np.flatnonzero(~due)
            groups, keys, expires_ms, timed = groups[at], keys.take(pa.array(at)), expires_ms[at], timed[at]
        is_delay = self._operator.retention.kind == "delay"
        values = self._records.encode([pa.array(expires_ms)]) if is_delay else self._marks(len(keys))
        self._cells.write_new(groups, keys, values, expires_ms, timed)

    def _marks(self, count: int) -> pa.BinaryArray:
        """What is kept of keys that are there."""
        return pa.array([self._present], pa.binary()).take(pa.array(np.zeros(count, dtype=np.int64)))

    def _due(self, expires_ms: np.ndarray) -> np.ndarray:
        """Which keys the epoch forgets."""
        firing_ms = self._epoch.firing_watermark_ms
        due: np.ndarray = (expires_ms <= firing_ms) & (expires_ms < MAX_WATERMARK)
        return due if firing_ms > MIN_WATERMARK else np.zeros_like(due)

    def _process_new(self, work: Work) -> None:
        """As :meth:`_process`, of rows that are all new: the last one of a key says when it is forgotten."""
        if work.batch is not None:
            self._put_out(work.batch)
        if not self._epoch.keep_state:
            return
        if self._context.base is None:
            assert work.batch is not None, "only keys with state are due"
            self._store_new(work, self._last_expiry_ms(work, work.batch), np.ones(len(work), dtype=bool))
            return
        names = self._cells.names(work.groups, work.keys)
        stored_ms = self._stored_ms(names, len(work))
        exists = stored_ms > MIN_WATERMARK
        touched = np.zeros(len(work), dtype=bool)
        touched[work.touched] = True
        expires_ms = stored_ms.copy()
        if work.batch is not None:
            expires_ms[work.touched] = self._last_expiry_ms(work, work.batch)
        kept = touched & ~self._due(expires_ms)
        removed = exists & ~kept
        moved = exists & (removed | (stored_ms != expires_ms))
        self._store(work, names, (kept, kept & ~(exists & ~moved), expires_ms), (removed, moved, stored_ms))

    def _last_expiry_ms(self, work: Work, batch: pa.RecordBatch) -> np.ndarray:
        """When the keys that have rows are forgotten, by the last row of each."""
        last = np.append(work.starts[1:], batch.num_rows) - 1
        return self._delayed_ms(batch.column(TIME_COLUMN).take(pa.array(last)))

    def _put_out(self, batch: pa.RecordBatch) -> None:
        """Hand on rows of keys that have not been seen."""
        schema = self._operator.output_arrow_schema
        columns = [batch.column(source) for source in self._operator.sources]
        converted = [typed(column, field.type) for column, field in zip(columns, schema, strict=True)]
        self._context.emit(pa.RecordBatch.from_arrays(converted, schema=schema), self._emitted_ms(batch))

    def _emitted_ms(self, batch: pa.RecordBatch) -> np.ndarray | int:
        """The watermark that the orderly stream brings each row at."""
        column = self._operator.row_time_column
        times = None if column is None or not self._context.feeds_a_stage else batch.column(column)
        return emitted_by_time(times, self._epoch.late_watermark_ms, self._epoch.delay_ms)

    def _expiry_ms(self, work: Work) -> np.ndarray:
        """The watermark at which each key goes; MAX: it stays.  Of a key with state and a delay it is not known."""
        expires_ms = work.due_ms.copy()
        if work.batch is None:
            return expires_ms
        retention = self._operator.retention
        assert self._operator.time_column is not None
        times = work.batch.column(self._operator.time_column)
        if len(work.starts) < work.batch.num_rows:
            times = times.take(pa.array(work.starts))
        if retention.is_window:
            times = pc.struct_field(times, "end")
        if retention.kind == "delay":
            expires_ms[work.touched] = self._delayed_ms(times)
        else:
            ends_ms = micros_to_ms(times) if retention.is_window else past_ms(times)
            expires_ms[work.touched] = np.where(ends_ms == MIN_WATERMARK, MAX_WATERMARK, ends_ms)
        return expires_ms

    def _delayed_ms(self, times: pa.Array) -> np.ndarray:
        """When keys are forgotten whose rows have these event times; without one it is 1970, as in Spark."""
        times = pc.fill_null(times, pa.scalar(0, pa.int64()).cast(times.type))
        delayed_ms = micros_to_ms(times) + self._operator.retention.delay_ms
        # Without a delay another row of this very time is not late before the watermark is past it.
        return np.maximum(delayed_ms, past_ms(times))

    def _store(self, work: Work, names: list[bytes], put: _Change, deleted: _Change) -> None:
        """Write keys that are new and delete those that are over: (which cells, which timers, their times)."""
        kept, _, expires_ms = put
        removed, _, _ = deleted
        index: list[tuple[bytes, bytes | None]] = []
        for (_, timers, times_ms), is_put in ((put, True), (deleted, False)):
            at = np.flatnonzero(timers)
            index += self._cells.index_changes(work.groups[at], work.keys.take(pa.array(at)), times_ms[at], is_put)
        self._counters.timers_fired += int(removed.sum())
        at = np.flatnonzero(kept | removed)
        values: list[bytes | None]
        if self._operator.retention.kind == "delay":
            values = list(self._records.encode([pa.array(expires_ms[at])]).to_numpy(zero_copy_only=False))
        else:
            values = [self._present] * len(at)
        if removed.any():
            values = [None if gone else value for gone, value in zip(removed[at].tolist(), values, strict=True)]
        self._write(work, names, at, values, index)

    def _write(
        self,
        work: Work,
        names: list[bytes],
        at: np.ndarray,
        values: list[bytes | None],
        index: list[tuple[bytes, bytes | None]],
    ) -> None:
        if len(at) < len(work):
            names = [names[place] for place in at.tolist()]
        self._cells.write(work.groups[at], names, values, index)


def past_ms(times: pa.Array) -> np.ndarray:
    """The first watermark in ms that is past each time, so that rows of it are late; MIN for null."""
    micros = as_micros(times)
    after: np.ndarray = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False) // 1000 + 1
    return np.where(micros.is_null().to_numpy(zero_copy_only=False), MIN_WATERMARK, after)
