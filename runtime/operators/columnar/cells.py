"""One cell per key, and for keys that wait for a watermark one timer index entry.

Layout as in ``state.keys.key_space``; the cell's timer slots are not used, since a key has one timer at most and its
cell says which (the end of its window, or of its first session).

Invariant: entries leave in strictly ascending stored order: all cells of a key group, then its index entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ....state.codec.byte_arrays import bytes_of, end_to_end
from ....state.keys.key_space import (
    CELL_SECTION,
    TIMER_SECTIONS,
    after_prefix,
    encode_all_ts,
    parse_timer_index,
    stored_keys,
    timer_index_key,
    timer_index_prefix,
)
from ...protocols.event_time import MAX_WATERMARK
from ..contract import ShardContext


class ShardCells:
    """Reads and writes the cells of one shard in one epoch."""

    def __init__(self, context: ShardContext, slot: int) -> None:
        self._context = context
        self._slot = bytes([slot])
        self._group: int | None = None
        #: Index changes of the key group that is being written; None: to be deleted.
        self._index: list[tuple[bytes, bytes | None]] = []
        #: Times and keys of its index entries that are new, where all of the shard are.
        self._new_index: list[tuple[np.ndarray, pa.BinaryArray]] = []
        self._deleted: set[bytes] = set()
        self._next_ms: int | None = None

    def names(self, groups: np.ndarray, keys: pa.BinaryArray) -> list[bytes]:
        """Stored keys of the cells."""
        return bytes_of(stored_keys(groups, CELL_SECTION, keys, self._slot))

    def read(self, names: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which cells exist, and their values end to end: ``(exists, data, offsets)``."""
        base = self._context.base
        values = base.multi_get(names) if base is not None and names else [None] * len(names)
        found = [value for value in values if value is not None]
        if len(found) == len(values):
            exists = np.ones(len(values), dtype=bool)
        else:
            exists = np.fromiter((value is not None for value in values), dtype=bool, count=len(values))
        return exists, *end_to_end(found)

    def write(
        self,
        groups: np.ndarray,
        names: Sequence[bytes],
        values: Sequence[bytes | None],
        index: Sequence[tuple[bytes, bytes | None]],
    ) -> None:
        """Write cells (None: delete) and index changes; calls ascend, and ``names`` within a call."""
        if not self._context.epoch.keep_state or not len(groups):
            return
        changes = sorted(index)
        at = 0
        for start, stop in _group_bounds(groups):
            group = int(groups[start])
            if group != self._group:
                self._flush_index()
                self._group = group
            self._context.writer.put_many(names[start:stop], values[start:stop])
            prefix = group.to_bytes(2, "big")
            while at < len(changes) and changes[at][0].startswith(prefix):
                self._index.append(changes[at])
                at += 1

    def write_all(self, groups: np.ndarray, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """Write cells of which none has an index entry; calls ascend, and so do ``keys`` within a call."""
        if not self._context.epoch.keep_state or not len(groups):
            return
        self._flush_index()
        self._group = int(groups[-1])
        # Python's bytes are made of them few at a time, in memory that is used over and over.
        self._context.writer.put_arrays(stored_keys(groups, CELL_SECTION, keys, self._slot), values)

    def write_new(
        self, groups: np.ndarray, keys: pa.BinaryArray, values: pa.BinaryArray, ts_ms: np.ndarray, timed: np.ndarray
    ) -> None:
        """Write cells of keys that have had none, some of them with an index entry; calls ascend, and so do ``keys``.

        Args:
            groups: of each key.
            keys: encoded, distinct, ascending within their group.
            values: of the cells.
            ts_ms: of the index entries.
            timed: which keys have one.
        """
        if not self._context.epoch.keep_state or not len(groups):
            return
        if timed.any():
            self._note_timers(ts_ms[timed])
        names = stored_keys(groups, CELL_SECTION, keys, self._slot)
        for start, stop in _group_bounds(groups):
            if int(groups[start]) != self._group:
                self._flush_index()
                self._group = int(groups[start])
            self._context.writer.put_arrays(names.slice(start, stop - start), values.slice(start, stop - start))
            at = start + np.flatnonzero(timed[start:stop])
            if len(at):
                self._new_index.append((ts_ms[at], keys.take(pa.array(at))))

    def _note_timers(self, ts_ms: np.ndarray) -> None:
        earliest = int(ts_ms.min())
        self._next_ms = earliest if self._next_ms is None else min(self._next_ms, earliest)

    def index_changes(
        self, groups: np.ndarray, keys: pa.BinaryArray, ts_ms: np.ndarray, put: bool
    ) -> list[tuple[bytes, bytes | None]]:
        """Index entries to put or to delete."""
        if not len(groups):
            return []
        names = bytes_of(stored_keys(groups, TIMER_SECTIONS["event"], encode_all_ts(ts_ms), keys))
        if put:
            self._note_timers(ts_ms)
            return [(name, b"") for name in names]
        self._deleted.update(
            name for name, ts in zip(names, ts_ms.tolist(), strict=True) if ts > self._context.epoch.firing_watermark_ms
        )
        return [(name, None) for name in names]

    def close(self, timed: bool) -> None:
        """Write what is left and report the earliest timer that is still pending."""
        self._flush_index()
        if timed and self._context.epoch.keep_state:
            pending = [ts_ms for ts_ms in (self._next_ms, self._next_in_base()) if ts_ms is not None]
            self._context.counters.next_event_timer_ms = min(pending, default=None)

    def _flush_index(self) -> None:
        if self._index:
            self._index.sort()
            self._context.writer.put_many([name for name, _ in self._index], [value for _, value in self._index])
            self._index = []
        if self._new_index:
            assert self._group is not None
            ts_ms = np.concatenate([times for times, _ in self._new_index])
            # Keys ascend, so the order of their times is that of the entries.
            order = np.argsort(ts_ms, kind="stable")
            keys = pa.concat_arrays([some for _, some in self._new_index]).take(pa.array(order))
            times = encode_all_ts(ts_ms[order])
            entries = stored_keys(np.full(len(order), self._group), TIMER_SECTIONS["event"], times, keys)
            self._context.writer.put_arrays(entries, pa.array([b""], pa.binary()).take(pa.array(np.zeros_like(order))))
            self._new_index = []

    def _next_in_base(self) -> int | None:
        """Earliest timer after the firing watermark that this epoch has not deleted; those at MAX count too."""
        base, firing_ms = self._context.base, self._context.epoch.firing_watermark_ms
        earliest: int | None = None
        if base is None or firing_ms == MAX_WATERMARK:
            return None
        for group in self._context.key_groups:
            prefix = timer_index_prefix("event", group)
            lower = timer_index_key("event", group, firing_ms + 1, b"")
            # Timers at or beyond the earliest one so far do not matter.
            upper = after_prefix(prefix)
            if earliest is not None:
                upper = min(upper, timer_index_key("event", group, earliest, b""))
            for stored, _ in base.scan(lower, upper):
                if stored not in self._deleted:
                    earliest = parse_timer_index(stored)[1]
                    break
        return earliest


def _group_bounds(groups: np.ndarray) -> Iterator[tuple[int, int]]:
    """Where the rows of each key group begin and end."""
    return pairwise([0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)])
