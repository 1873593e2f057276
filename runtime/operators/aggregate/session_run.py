"""Session windows: a cell holds the open sessions of a key, and new rows may join, bridge or begin sessions.

Two sessions are one if the later begins before, or exactly when, the earlier ends (as Spark has it).

Invariant: the sessions of a cell ascend by start and do not touch each other; the key's one index entry is the end of
the earliest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...protocols.event_time import MIN_WATERMARK
from ..columnar.key_batches import Work
from ..columnar.record_codec import RecordCodec, RecordListCodec
from ..contract import ShardContext
from .buffers import reduce_segments
from .columns import SESSION_END_COLUMN, SESSION_START_COLUMN
from .run import AggregateRun, micros_to_ms

if TYPE_CHECKING:
    from .definition import Aggregation


class SessionRun(AggregateRun):
    """An aggregate with a session window among its keys."""

    def __init__(self, operator: Aggregation, context: ShardContext) -> None:
        super().__init__(operator, context)
        assert operator.time_type is not None
        times = [pa.field(name, operator.time_type) for name in ("start", "end")]
        self._time_type = operator.time_type
        self._session_type = pa.struct(times)
        self._cells = RecordListCodec(RecordCodec([*times, *self.records.fields]))

    def _ends_ms(self, batch: pa.RecordBatch) -> np.ndarray | None:
        return micros_to_ms(batch.column(SESSION_END_COLUMN)) if self.operator.uses_event_time else None

    def _show(self, work: Work) -> None:
        _, data, offsets = self.cells.read(self.cells.names(work.groups, work.keys))
        columns, lengths = self._cells.decode(data, offsets)
        owners = np.repeat(np.arange(len(work)), lengths)
        self._write(work, np.arange(len(owners)), columns, None, owners)

    def _write(
        self, work: Work, places: np.ndarray, columns: list[pa.Array], ends_ms: np.ndarray | None, owners: np.ndarray
    ) -> None:
        """Output some sessions; ``columns``: their times and buffers, ``owners``: their keys."""
        sessions = pa.StructArray.from_arrays(columns[:2], fields=list(self._session_type))
        self.output.write(work, places, columns[2:], ends_ms, (owners, sessions))

    def _process(self, work: Work) -> None:
        count = len(work)
        names = self.cells.names(work.groups, work.keys)
        exists = np.zeros(count, dtype=bool)
        owners, columns = self._new_sessions(work)
        old_timers = np.zeros(count, dtype=np.int64)
        if self.context.base is not None:
            exists, data, offsets = self.cells.read(names)
            if exists.any():
                old, lengths = self._cells.decode(data, offsets)
                present = np.flatnonzero(exists)
                old_timers[present] = _first_ends_ms(old[1], lengths)
                owners = np.concatenate([np.repeat(present, lengths), owners])
                columns = [pa.concat_arrays([left, right]) for left, right in zip(old, columns, strict=True)]
        owners, columns = self._merged(owners, columns)
        ends_ms = self._completed_at_ms(columns[1])
        fired = np.zeros(len(owners), dtype=bool)
        if self.epoch.firing_watermark_ms > MIN_WATERMARK and not self.operator.gives_whole_result:
            fired = ends_ms <= self.epoch.firing_watermark_ms
        if self.operator.uses_event_time:
            self.counters.timers_fired += int(fired.sum())
        if fired.any():
            self._write(work, np.flatnonzero(fired), columns, ends_ms, owners)
        if self.epoch.keep_state:
            self._store(work, names, owners, columns, ends_ms, ~fired, exists, old_timers)

    def _completed_at_ms(self, ends: pa.Array) -> np.ndarray:
        """The watermark that completes each session: its end, or the end of input if there is no watermark."""
        if self.operator.uses_event_time:
            return micros_to_ms(ends)
        return np.full(len(ends), np.iinfo(np.int64).max, dtype=np.int64)

    def _new_sessions(self, work: Work) -> tuple[np.ndarray, list[pa.Array]]:
        if work.batch is None:
            types = [self._time_type, self._time_type, *self.partials.types]
            return np.zeros(0, dtype=np.int64), [pa.nulls(0, data_type) for data_type in types]
        times = [work.batch.column(name).cast(self._time_type) for name in (SESSION_START_COLUMN, SESSION_END_COLUMN)]
        lengths = np.diff(np.append(work.starts, work.batch.num_rows))
        return np.repeat(work.touched, lengths), [*times, *self.buffer_columns(work.batch)]

    def _merged(self, owners: np.ndarray, columns: list[pa.Array]) -> tuple[np.ndarray, list[pa.Array]]:
        """Sort by key and start, and make one of those that touch."""
        if not len(owners):
            return owners, columns
        begins, ends = (column.cast(pa.int64()).to_numpy(zero_copy_only=False) for column in columns[:2])
        # Stable: of sessions with equal starts, those from the state come first.
        order = np.lexsort((begins, owners))
        owners, begins, ends = owners[order], begins[order], ends[order]
        columns = [column.take(pa.array(order)) for column in columns]
        # The greatest end so far within the key.  Ranks instead of times keep keys apart without overflow.
        times, ranks = np.unique(ends, return_inverse=True)
        reach = np.maximum.accumulate(ranks + owners * len(times)) - owners * len(times)
        first = np.ones(len(owners), dtype=bool)
        first[1:] = (owners[1:] != owners[:-1]) | (begins[1:] > times[reach[:-1]])
        starts = np.flatnonzero(first)
        if len(starts) == len(owners):
            return owners, columns
        lasts = np.append(starts[1:], len(owners)) - 1
        merged_ends = pa.array(times[reach[lasts]], pa.int64()).cast(self._time_type)
        buffers = reduce_segments(self.partials.buffers, columns[2:], starts)
        return owners[starts], [columns[0].take(pa.array(starts)), merged_ends, *buffers]

    def _store(
        self,
        work: Work,
        names: list[bytes],
        owners: np.ndarray,
        columns: list[pa.Array],
        ends_ms: np.ndarray,
        kept: np.ndarray,
        existed: np.ndarray,
        old_timers: np.ndarray,
    ) -> None:
        at = np.flatnonzero(kept)
        lengths = np.bincount(owners[at], minlength=len(work))
        open_now = lengths > 0
        new_timers = np.zeros(len(work), dtype=np.int64)
        if len(at):
            new_timers[open_now] = ends_ms[at][(np.cumsum(lengths) - lengths)[open_now]]
        if not self.operator.uses_event_time:
            old_timers = np.full(len(work), np.iinfo(np.int64).max, dtype=np.int64)
        moved = open_now & existed & (new_timers != old_timers)
        changes: list[tuple[bytes, bytes | None]] = []
        for where, timers, put in (
            ((open_now & ~existed) | moved, new_timers, True),
            ((existed & ~open_now) | moved, old_timers, False),
        ):
            places = np.flatnonzero(where)
            changes += self.cells.index_changes(
                work.groups[places], work.keys.take(pa.array(places)), timers[places], put
            )
        values: list[bytes | None] = [None] * len(work)
        if len(at):
            encoded = self._cells.encode([column.take(pa.array(at)) for column in columns], lengths[open_now])
            for place, value in zip(
                np.flatnonzero(open_now).tolist(), encoded.to_numpy(zero_copy_only=False), strict=True
            ):
                values[place] = value
        changed = np.flatnonzero(open_now | existed)
        self.cells.write(
            work.groups[changed], [names[i] for i in changed.tolist()], [values[i] for i in changed.tolist()], changes
        )


def _first_ends_ms(ends: pa.Array, lengths: np.ndarray) -> np.ndarray:
    """The end of the first session of each cell."""
    return micros_to_ms(ends.take(pa.array(np.cumsum(lengths) - lengths)))
