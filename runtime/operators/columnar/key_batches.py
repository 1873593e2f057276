"""Walks over a shard's keys in stored order: those with rows and those whose timers are due, together.

Invariants:
- All rows of a key are in one :class:`Work`, every key is in exactly one, and works ascend by (key group, key).
- In memory at a time: the rows of one input batch, and of a small one before it, the due keys of one key group, and
  one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....sorter.batches import join
from ....state.codec.byte_arrays import binary_from_records, bytes_of, joined
from ....state.keys.key_space import (
    CELL_SECTION,
    after_prefix,
    group_prefix,
    parse_timer_index,
    timer_index_key,
    timer_index_prefix,
)
from ....state.keys.keygroups import KeyGroupRange
from ....state.keys.keys import KeyCodec
from ....state.store.local_copy import LocalStateCopy
from ..keyed.keyed_rows import KEY_GROUP_COLUMN

#: Keys handled in one go when due timers come in between.
_CHUNK_KEYS = 16_384
#: Batches are not gathered beyond that.
_GATHERED_BYTES = 16 * 1024 * 1024
#: Of a piece that stays in memory while the next one is made.
_SMALL_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Work:
    """Some consecutive keys of the shard."""

    groups: np.ndarray
    #: Encoded, distinct, ascending within their group.
    keys: pa.BinaryArray
    #: The rows of those keys that have any, in key order; None: there are none.
    batch: pa.RecordBatch | None
    #: Where in ``batch`` each key with rows begins.
    starts: np.ndarray
    #: Places in ``keys`` of the keys with rows.
    touched: np.ndarray
    #: For keys without rows the timer that is due, in ms; 0 elsewhere.
    due_ms: np.ndarray

    def __len__(self) -> int:
        return len(self.groups)


@dataclass(frozen=True)
class KeyRows:
    """A batch, and where its keys begin."""

    batch: pa.RecordBatch
    #: Of each row.
    groups: np.ndarray
    #: Encoded, of each key.
    keys: pa.BinaryArray
    #: The first row of each key.
    starts: np.ndarray

    def slice(self, first: int, stop: int) -> KeyRows:
        """The keys from ``first`` to ``stop`` with their rows."""
        if stop - first == len(self.keys):
            return self
        bounds = np.append(self.starts, self.batch.num_rows)
        low, high = int(bounds[first]), int(bounds[stop])
        keys, starts = self.keys.slice(first, stop - first), self.starts[first:stop] - low
        return KeyRows(self.batch.slice(low, high - low), self.groups[low:high], keys, starts)


def whole_keys(
    batches: Iterator[pa.RecordBatch], key_columns: tuple[str, ...], codec: KeyCodec, least_rows: int = 1
) -> Iterator[KeyRows]:
    """Cut the sorted input so that no key straddles two pieces: each batch's last key waits for the next batch.

    Args:
        batches: the input.
        key_columns: columns of the key.
        codec: encodes keys.
        least_rows: pieces have about so many, unless they are large: what is done for a piece as a whole costs each row
            the less, the more there are.
    """
    waiting: list[pa.RecordBatch] = []
    last: tuple[int, bytes] | None = None
    for gathered, is_last in _marking_the_last(_gathered(batches, least_rows)):
        parts = gathered
        if waiting and (is_last or sum(part.num_rows for part in waiting) <= sum(part.num_rows for part in parts)):
            # Most keys have few rows.  Those of a key with many are joined once, when all are there.
            parts, waiting = [*waiting, *parts], []
        batch = join(parts)
        rows = key_rows(batch, key_columns, codec)
        if is_last:
            yield rows
            return
        cut = int(rows.starts[-1])
        head = (int(rows.groups[0]), rows.keys[0].as_py())
        if cut > 0 or head != last:
            complete = [*waiting, batch.slice(0, cut)] if cut > 0 else waiting
            if complete:
                yield key_rows(join(complete), key_columns, codec) if waiting else rows.slice(0, len(rows.keys) - 1)
            waiting = []
        waiting.append(batch.slice(cut))
        last = (int(rows.groups[cut]), rows.keys[-1].as_py())
    if waiting:
        yield key_rows(join(waiting), key_columns, codec)


def _marking_the_last(pieces: Iterator[list[pa.RecordBatch]]) -> Iterator[tuple[list[pa.RecordBatch], bool]]:
    """Each, and whether it is known to be the last one: behind a small one it is looked what comes.

    Few rows are all there is of most shards of an epoch, and what is done for a piece as a whole is most of their cost.
    """
    piece = next(pieces, None)
    while piece is not None:
        is_small = sum(batch.nbytes for batch in piece) <= _SMALL_BYTES
        following = next(pieces, None) if is_small else None
        yield piece, is_small and following is None
        piece = following if is_small else next(pieces, None)


def _gathered(batches: Iterator[pa.RecordBatch], least_rows: int) -> Iterator[list[pa.RecordBatch]]:
    """Batches that have so many rows together, or are large."""
    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
            if rows >= least_rows or size_bytes >= _GATHERED_BYTES:
                yield held
                held, rows, size_bytes = [], 0, 0
    if held:
        yield held


def key_rows(batch: pa.RecordBatch, key_columns: tuple[str, ...], codec: KeyCodec) -> KeyRows:
    """Where each key of a sorted batch begins.

    Columns are compared as they are, row by row, and only rows that differ from the one before are encoded.  Values
    that differ may be one key (zeros with and without a sign), values that are equal are never two.
    """
    groups = batch.column(KEY_GROUP_COLUMN).to_numpy(zero_copy_only=False)
    changed = np.ones(batch.num_rows, dtype=bool)
    np.not_equal(groups[1:], groups[:-1], out=changed[1:])
    if not key_columns:
        starts = np.flatnonzero(changed)
        return KeyRows(batch, groups, pa.array([b""] * len(starts), pa.binary()), starts)
    columns = [batch.column(name) for name in key_columns]
    for column in columns:
        changed[1:] |= _differs(column)
    starts = np.flatnonzero(changed)
    heads = columns if len(starts) == batch.num_rows else [column.take(pa.array(starts)) for column in columns]
    keys = codec.encode_columns(heads)
    if len(starts) > 1 and not all(_is_plain(column.type) for column in columns):
        is_new = np.ones(len(starts), dtype=bool)
        is_new[1:] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        is_new[1:] |= groups[starts[1:]] != groups[starts[:-1]]
        if not is_new.all():
            starts, keys = starts[is_new], keys.filter(pa.array(is_new))
    return KeyRows(batch, groups, keys, starts)


def _differs(column: pa.Array) -> np.ndarray:
    """Which values differ from the one before, from the second on; all of those that cannot be compared."""
    types, kind = pa.types, column.type
    if not (_is_plain(kind) or types.is_floating(kind)):
        return np.ones(len(column) - 1, dtype=bool)
    if types.is_primitive(kind) and not types.is_boolean(kind) and not column.null_count:
        # Times as the numbers that they are: numpy takes the least one for none at all.
        numbers = column if types.is_floating(kind) else column.view(f"int{kind.bit_width}")
        values = numbers.to_numpy()
        return np.asarray(values[1:] != values[:-1])
    found = pc.not_equal(column[1:], column[:-1])
    if column.null_count:
        there = column.is_valid().to_numpy(zero_copy_only=False)
        return found.fill_null(False).to_numpy(zero_copy_only=False) | (there[1:] != there[:-1])
    differs: np.ndarray = found.to_numpy(zero_copy_only=False)
    return differs


def _is_plain(data_type: pa.DataType) -> bool:
    """Whether two values are one key if and only if they are equal."""
    types = pa.types
    return (
        types.is_integer(data_type)
        or types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_timestamp(data_type)
        or types.is_date32(data_type)
        or types.is_boolean(data_type)
        or types.is_decimal128(data_type)
    )


class DueKeys:
    """The keys of a shard whose timer in the committed state is due, group by group in key order."""

    def __init__(self, base: LocalStateCopy, key_groups: KeyGroupRange, firing_ms: int) -> None:
        self._base = base
        self._firing_ms = firing_ms
        self._groups = iter(key_groups)
        self._group = next(self._groups, None)
        self._loaded: list[tuple[bytes, int]] | None = None

    def before(self, group: int | None) -> Iterator[tuple[int, bytes, int]]:
        """``(group, key, ts_ms)`` of all that are left in the groups before this one (None: in all groups)."""
        while self._group is not None and (group is None or self._group < group):
            current = self._group
            for key, ts_ms in self._take():
                yield current, key, ts_ms

    def within(self, group: int, upto: bytes | None) -> list[tuple[int, bytes, int]]:
        """Those of one group, up to and with a key (None: all)."""
        if self._group != group:
            return []
        found = self._take() if upto is None else self._take_upto(upto)
        return [(group, key, ts_ms) for key, ts_ms in found]

    def _load(self) -> list[tuple[bytes, int]]:
        if self._loaded is None:
            assert self._group is not None
            lower = timer_index_prefix("event", self._group)
            upper = after_prefix(lower)
            if self._firing_ms < 2**63 - 1:
                upper = timer_index_key("event", self._group, self._firing_ms + 1, b"")
            due = (parse_timer_index(stored) for stored, _ in self._base.scan(lower, upper))
            self._loaded = sorted((key, ts_ms) for _, ts_ms, key in due)
        return self._loaded

    def _take(self) -> list[tuple[bytes, int]]:
        found, self._loaded = self._load(), None
        self._group = next(self._groups, None)
        return found

    def _take_upto(self, key: bytes) -> list[tuple[bytes, int]]:
        loaded = self._load()
        # A timer is never in the index twice for one key, so the key alone decides.
        count = next((i for i, (candidate, _) in enumerate(loaded) if candidate > key), len(loaded))
        found, self._loaded = loaded[:count], loaded[count:]
        return found


def all_keys(base: LocalStateCopy, key_groups: KeyGroupRange) -> Iterator[Work]:
    """Every key of a shard that has a cell, in stored order, without rows."""
    prefixes = ((group, group_prefix(group, CELL_SECTION)) for group in key_groups)
    # The last byte is the variable's slot.
    return _in_chunks(
        (group, stored[len(prefix) : -1], 0)
        for group, prefix in prefixes
        for stored, _ in base.scan(prefix, after_prefix(prefix))
    )


def _in_chunks(keys: Iterator[tuple[int, bytes, int]]) -> Iterator[Work]:
    while found := list(islice(keys, _CHUNK_KEYS)):
        yield work_of(None, 0, 0, found)


def works(rows: Iterator[KeyRows], due: DueKeys | None) -> Iterator[Work]:
    """Bring rows and due keys together."""
    for piece in rows:
        if due is None:
            yield work_of(piece, 0, len(piece.groups), [])
        else:
            yield from interleaved(piece, due)
    if due is not None:
        yield from _in_chunks(due.before(None))


def interleaved(piece: KeyRows, due: DueKeys) -> Iterator[Work]:
    """The keys of a piece, and those that are due before its last."""
    bounds = [0, *(np.flatnonzero(np.diff(piece.groups)) + 1).tolist(), len(piece.groups)]
    extras: list[tuple[int, bytes, int]] = []
    low = 0
    for start, stop in pairwise(bounds):
        group = int(piece.groups[start])
        for extra in due.before(group):
            extras.append(extra)
            if len(extras) >= _CHUNK_KEYS:
                yield work_of(piece, low, start, extras)
                low, extras = start, []
        is_last = stop == len(piece.groups)
        extras += due.within(group, piece.keys[-1].as_py() if is_last else None)
        if is_last or len(extras) + stop - low >= _CHUNK_KEYS:
            yield work_of(piece, low, stop, extras)
            low, extras = stop, []


def work_of(piece: KeyRows | None, low: int, high: int, extras: list[tuple[int, bytes, int]]) -> Work:
    """Some keys at once.

    Args:
        piece: keys with rows; None: there are none.
        low: the first of the piece's rows.
        high: where they end.
        extras: ``(group, key, ts_ms)`` of keys that are due, ascending; they may be among those with rows.
    """
    if piece is None or low == high:
        groups = np.array([group for group, _, _ in extras], dtype=np.int32)
        keys = pa.array([key for _, key, _ in extras], pa.binary())
        nothing = np.zeros(0, dtype=np.int64)
        return Work(groups, keys, None, nothing, nothing, np.array([ts for _, _, ts in extras], dtype=np.int64))
    first, last = np.searchsorted(piece.starts, [low, high])
    starts = piece.starts[first:last]
    groups, keys = piece.groups[starts], piece.keys.slice(first, last - first)
    batch = piece.batch.slice(low, high - low)
    if extras:
        with_rows = set(positions(groups, keys))
        extras = [extra for extra in extras if extra[0].to_bytes(2, "big") + extra[1] not in with_rows]
    touched = np.arange(len(starts))
    if not extras:
        return Work(groups, keys, batch, starts - low, touched, np.zeros(len(starts), dtype=np.int64))
    groups = np.concatenate([groups, np.array([group for group, _, _ in extras], dtype=groups.dtype)])
    keys = pa.concat_arrays([keys, pa.array([key for _, key, _ in extras], pa.binary())])
    due_ms = np.zeros(len(groups), dtype=np.int64)
    due_ms[len(starts) :] = [ts_ms for _, _, ts_ms in extras]
    places = positions(groups, keys)
    order = np.array(sorted(range(len(places)), key=places.__getitem__), dtype=np.int64)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Work(groups[order], keys.take(pa.array(order)), batch, starts - low, rank[touched], due_ms[order])


def positions(groups: np.ndarray, keys: pa.BinaryArray) -> list[bytes]:
    """Key group and key as bytes that compare like the pair."""
    return bytes_of(joined(binary_from_records(groups.astype(">u2")), keys))
