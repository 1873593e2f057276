"""One execution of an aggregate over one shard: rows in, state, results out.

:class:`AggregateRun` is what aggregates with and without session windows share; :class:`KeyedRun` is the case in which
a key (window included) has one row of buffers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.keys.keys import KeyCodec
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ...support.arrow_columns import as_micros, typed
from ..admission import can_be_late, note_event_time, windows_over
from ..columnar.cells import ShardCells
from ..columnar.key_batches import DueKeys, Work, all_keys, whole_keys, works
from ..columnar.record_codec import RecordCodec
from ..contract import ShardContext
from ..keyed.keyed_rows import KEY_GROUP_COLUMN
from .buffers import merge_buffers, reduce_segments
from .columns import GROUPING_ID_COLUMN, MAX_TIME_COLUMN
from .output import ResultWriter

if TYPE_CHECKING:
    from .definition import Aggregation

#: Rows of a sorted pass that are worked on at once: what is done for all of them together costs each the less.
_PIECE_ROWS = 65_536


class AggregateRun(ABC):
    """Takes the rows of a shard apart and walks over its keys."""

    def __init__(self, operator: Aggregation, context: ShardContext) -> None:
        self.operator = operator
        self.context = context
        self.epoch = context.epoch
        self.counters = context.counters
        self.partials = operator.partials
        self.key_codec = KeyCodec(operator.key_schema)
        self.records = RecordCodec([pa.field(f"b{i}", data_type) for i, data_type in enumerate(self.partials.types)])
        self.cells = ShardCells(context, operator.slot)
        self.output = ResultWriter(operator, context, self.key_codec)

    def execute(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Process all rows and all due keys."""
        if self.epoch.whole_result:
            self._show_all()
            return
        due = None
        if self.context.base is not None and self.operator.timed and self.epoch.firing_watermark_ms > MIN_WATERMARK:
            due = DueKeys(self.context.base, self.context.key_groups, self.epoch.firing_watermark_ms)
        least_rows = _PIECE_ROWS if self.epoch.style == "sorted" else 1
        admitted = self._admitted(rows)
        for work in works(whole_keys(admitted, self.operator.key_columns, self.key_codec, least_rows), due):
            self.counters.keys += len(work.touched)
            self._process(work)
        self.cells.close(self.operator.timed)
        self.output.close()

    def _show_all(self) -> None:
        """Output every key's row; nothing changes, and what the shard waits for stays as it is: nothing."""
        if self.context.base is not None:
            for work in all_keys(self.context.base, self.context.key_groups):
                self._show(work)
        self.output.close()

    @abstractmethod
    def _show(self, work: Work) -> None:
        """Output the rows of some keys as they stand."""

    @abstractmethod
    def _process(self, work: Work) -> None:
        """Merge, emit and write some keys."""

    @abstractmethod
    def _ends_ms(self, batch: pa.RecordBatch) -> np.ndarray | None:
        """When the watermark is past each row's window; None: never."""

    def _admitted(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count rows and drop late ones."""
        late_ms = self.epoch.late_watermark_ms
        # Without keys Spark makes a row of no rows, too: it shows none of a stream that has not begun.
        has_begun = self.epoch.has_input or not self.epoch.keep_state or self.context.base is not None
        waits_for_rows = self.operator.begins_without_rows and not has_begun
        for batch in rows:
            if batch.num_rows == 0:
                continue
            counts = batch.column(self.operator.rows_column)
            self.counters.rows_in += pc.sum(counts).as_py()
            if waits_for_rows:
                batch = batch.filter(pc.greater(counts, 0))
                if batch.num_rows == 0:
                    continue
            drops_late = can_be_late(late_ms) and not self.operator.gives_whole_result
            ends_ms = self._ends_ms(batch) if drops_late else None
            if ends_ms is not None and (over := windows_over(ends_ms, late_ms)).any():
                late = pa.array(over)
                self.counters.rows_late += pc.sum(counts.filter(late)).as_py()
                batch = batch.filter(pc.invert(late))
                if batch.num_rows == 0:
                    continue
            if self.operator.event_time is not None:
                note_event_time(self.counters, batch.column(MAX_TIME_COLUMN))
            yield batch

    def buffer_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The partial columns in the types and forms of the buffers."""
        columns = [
            typed(batch.column(name), data_type)
            for name, data_type in zip(self.partials.places, self.partials.types, strict=True)
        ]
        for buffer in self.partials.buffers:
            arrived = buffer.arrive([columns[i] for i in buffer.columns])
            for place, column in zip(buffer.columns, arrived, strict=True):
                columns[place] = column
        return columns


class KeyedRun(AggregateRun):
    """A cell holds one row of buffers."""

    def _ends_ms(self, batch: pa.RecordBatch) -> np.ndarray | None:
        key = self.operator.time_key
        if key is None:
            return None
        column = batch.column(key.column)
        ends_ms = micros_to_ms(pc.struct_field(column, "end") if key.kind == "window" else column)
        if self.operator.timeless_ids:
            ids = batch.column(GROUPING_ID_COLUMN).to_numpy(zero_copy_only=False)
            ends_ms = np.where(np.isin(ids, self.operator.timeless_ids), MAX_WATERMARK, ends_ms)
        return ends_ms

    def _show(self, work: Work) -> None:
        exists, data, offsets = self.cells.read(self.cells.names(work.groups, work.keys))
        self.output.write(work, np.flatnonzero(exists), self.records.decode(data, offsets), None)

    def _process(self, work: Work) -> None:
        count = len(work)
        new = self._new_buffers(work)
        timers = self._timers(work)
        exists = np.zeros(count, dtype=bool)
        merged = new
        if self.context.base is None and len(work.touched) == count:
            self._begin(work, new, timers)
            return
        names = self.cells.names(work.groups, work.keys) if self._uses_state() else []
        if self.context.base is not None:
            exists, data, offsets = self.cells.read(names)
            if exists.any():
                found = self.records.decode(data, offsets)
                old = found if exists.all() else spread(found, np.flatnonzero(exists), count)
                merged = merge_buffers(self.partials.buffers, old, new)
        touched = np.zeros(count, dtype=bool)
        touched[work.touched] = True
        firing = self._firing(timers, count)
        self.counters.timers_fired += int(firing.sum()) if self.operator.uses_event_time else 0
        emitted = firing & (touched | exists) if self.operator.output_mode == "append" else touched
        if self.operator.gives_whole_result:
            emitted = np.zeros(count, dtype=bool)
        if emitted.any():
            self.output.write(work, np.flatnonzero(emitted), merged, timers)
        if self.epoch.keep_state:
            self._store(work, names, merged, timers, touched & ~firing, firing & exists, exists)

    def output_unsorted(
        self, rows: Iterator[pa.RecordBatch], done: Callable[[pa.RecordBatch], None]
    ) -> Iterator[pa.RecordBatch]:
        """Output rows that leave no state, each of a key of its own; the others are for :meth:`execute`.

        Args:
            rows: rows in any order, of a shard without state.
            done: is told of rows that are output.
        """
        for batch in rows:
            leaves_none = self._leaves_none(batch)
            if not leaves_none.any():
                yield batch
                continue
            if leaves_none.all():
                complete, batch = batch, batch.slice(0, 0)
            else:
                complete = batch.filter(pa.array(leaves_none))
                batch = batch.filter(pa.array(~leaves_none))
            for admitted in self._admitted(iter([complete])):
                self.counters.keys += admitted.num_rows
                work = _unsorted(admitted)
                self._emit_first(work, self._new_buffers(work), self._timers(work))
            done(complete)
            if batch.num_rows:
                yield batch

    def _leaves_none(self, batch: pa.RecordBatch) -> np.ndarray:
        """Which rows' keys are over at the end of this epoch."""
        if not self.epoch.keep_state:
            return np.ones(batch.num_rows, dtype=bool)
        if not self.operator.timed or self.epoch.firing_watermark_ms == MIN_WATERMARK:
            return np.zeros(batch.num_rows, dtype=bool)
        ends_ms = self._ends_ms(batch)
        return self._firing(np.full(batch.num_rows, MAX_WATERMARK) if ends_ms is None else ends_ms, batch.num_rows)

    def _firing(self, timers: np.ndarray | None, count: int) -> np.ndarray:
        """Which of so many keys this epoch completes."""
        if timers is None or self.epoch.firing_watermark_ms == MIN_WATERMARK:
            return np.zeros(count, dtype=bool)
        return np.asarray(timers <= self.epoch.firing_watermark_ms)

    def _begin(self, work: Work, new: list[pa.Array], timers: np.ndarray | None) -> None:
        """The first rows of keys that have no state yet, as in most backlogs."""
        firing = self._emit_first(work, new, timers)
        if not self.epoch.keep_state:
            return
        if timers is None:
            self.cells.write_all(work.groups, work.keys, self.records.encode(new))
            return
        groups, keys = work.groups, work.keys
        if firing.any():
            kept = np.flatnonzero(~firing)
            at = pa.array(kept)
            groups, keys, timers, new = groups[kept], keys.take(at), timers[kept], [one.take(at) for one in new]
        if len(groups):
            self.cells.write_new(groups, keys, self.records.encode(new), timers, np.ones(len(groups), dtype=bool))

    def _emit_first(self, work: Work, new: list[pa.Array], timers: np.ndarray | None) -> np.ndarray:
        """Output what is due of keys that have no state; returns which of them are over."""
        firing = self._firing(timers, len(work))
        self.counters.timers_fired += int(firing.sum()) if self.operator.uses_event_time else 0
        places = np.flatnonzero(firing) if self.operator.output_mode == "append" else np.arange(len(work))
        if len(places) and not self.operator.gives_whole_result:
            self.output.write(work, places, new, timers)
        return firing

    def _uses_state(self) -> bool:
        return self.epoch.keep_state or self.context.base is not None

    def _new_buffers(self, work: Work) -> list[pa.Array]:
        if work.batch is None:
            return [pa.nulls(len(work), data_type) for data_type in self.partials.types]
        columns = self.buffer_columns(work.batch)
        if len(work.starts) < work.batch.num_rows:
            columns = reduce_segments(self.partials.buffers, columns, work.starts)
        return columns if len(work.touched) == len(work) else spread(columns, work.touched, len(work))

    def _timers(self, work: Work) -> np.ndarray | None:
        """Per key the watermark that completes it."""
        if not self.operator.timed:
            return None
        if self.operator.time_key is None:
            return np.full(len(work), MAX_WATERMARK, dtype=np.int64)
        timers = work.due_ms.copy()
        if work.batch is not None:
            ends_ms = self._ends_ms(work.batch)
            assert ends_ms is not None
            timers[work.touched] = ends_ms[work.starts]
        return timers

    def _store(
        self,
        work: Work,
        names: list[bytes],
        merged: list[pa.Array],
        timers: np.ndarray | None,
        kept: np.ndarray,
        removed: np.ndarray,
        existed: np.ndarray,
    ) -> None:
        changes: list[tuple[bytes, bytes | None]] = []
        if timers is not None:
            for where, put in ((kept & ~existed, True), (removed, False)):
                at = np.flatnonzero(where)
                changes += self.cells.index_changes(work.groups[at], work.keys.take(pa.array(at)), timers[at], put)
        if kept.all():
            values: list[bytes | None] = list(self.records.encode(merged).to_numpy(zero_copy_only=False))
            self.cells.write(work.groups, names, values, changes)
            return
        at = np.flatnonzero(kept | removed)
        values = [None] * len(at)
        stored = np.flatnonzero(kept)
        if len(stored):
            taken = [column.take(pa.array(stored)) for column in merged]
            encoded = self.records.encode(taken).to_numpy(zero_copy_only=False)
            for place, value in zip(np.searchsorted(at, stored).tolist(), encoded, strict=True):
                values[place] = value
        self.cells.write(work.groups[at], [names[i] for i in at.tolist()], values, changes)


def _unsorted(batch: pa.RecordBatch) -> Work:
    """Rows as the work that they are where nobody asks for their encoded keys."""
    places = np.arange(batch.num_rows)
    groups = batch.column(KEY_GROUP_COLUMN).to_numpy(zero_copy_only=False)
    return Work(groups, pa.array([], pa.binary()), batch, places, places, np.zeros(batch.num_rows, dtype=np.int64))


def spread(columns: list[pa.Array], places: np.ndarray, count: int) -> list[pa.Array]:
    """Rows at the given places of ``count`` rows, nulls elsewhere."""
    index = np.zeros(count, dtype=np.int64)
    missing = np.ones(count, dtype=bool)
    index[places] = np.arange(len(places))
    missing[places] = False
    taken = pa.array(index, mask=missing)
    return [column.take(taken) for column in columns]


def micros_to_ms(times: pa.Array) -> np.ndarray:
    """The first watermark in ms that is not before each time; MIN for null, which nothing can wait for."""
    micros = as_micros(times)
    values = -(-pc.fill_null(micros, 0).to_numpy(zero_copy_only=False) // 1000)
    if times.null_count:
        values = np.where(times.is_null().to_numpy(zero_copy_only=False), MIN_WATERMARK, values)
    return values
