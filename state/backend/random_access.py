"""Keyed state of a streaming epoch: keys in any order, as often as needed, over a local copy.

Reads come from the shard's local copy (state after the previous epoch) and from the overlay, this epoch's own writes,
which are held back and written as one sorted change log at the end of the epoch, or as several while it runs.  Nothing
is written to the local copy here; it may be brought up to what was written, which the overlay still has.

Invariants: the overlay wins over the local copy; an attempt that fails leaves no trace; memory follows the keys that
were changed in the epoch, not the state.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import pyarrow as pa

from ..codec.byte_arrays import array_of, bytes_of
from ..keys.key_space import TIMER_KINDS, TIMER_SLOTS, TimerKind, after_prefix, encode_ts, state_prefix
from ..keys.keygroups import KeyGroupRange
from ..keys.registry import StateRegistry
from ..store.files import SortedStateWriter
from ..store.local_copy import LocalStateCopy
from .blocks import BlockCells, BlockKeys, entries_of
from .keyed import KeyedState, NoKey
from .timer_index import FIRST_TIMER_SLOT, IndexChanges, earliest, stored_timers

_Changes = dict[bytes, "bytes | None"]
_NOT_READ = object()
#: Where the key begins in what its cells start with.
_KEY_AT = len(state_prefix(0, b""))
_FIRST_TIMER = bytes([FIRST_TIMER_SLOT])
#: Entries handed to the writer at a time.
_CHUNK_ENTRIES = 4096


class RandomAccessKeyedState(KeyedState):
    """Keyed state of one random-access epoch over a shard; ``local_copy`` is None in a fresh job."""

    def __init__(
        self, registry: StateRegistry, local_copy: LocalStateCopy | None, key_groups: KeyGroupRange, now_ms: int
    ) -> None:
        super().__init__(registry, now_ms)
        self._local_copy = local_copy
        self.has_base = local_copy is not None
        self._key_groups = key_groups
        self._database = local_copy.database if local_copy is not None else None
        self._index_cursor = local_copy.cursor() if local_copy is not None else None
        #: Changes of blocks of keys that nobody has asked for since, in the order of their keys.
        self._blocks: list[tuple[BlockKeys, list[BlockCells]]] = []
        #: Changes of every other key that has any, by what its stored cells start with; the current one's join when the
        #: next key comes.
        self._overlay: dict[bytes, _Changes] = {}
        #: Those of them that have changed since changes were written.
        self._unwritten: set[bytes] = set()
        self._has_written = False
        self._key_group = -1
        self._key = b""
        self._group_prefix = b""
        self._prefix = b""
        self.changes: _Changes = NoKey()
        #: Cells of the current key that were read already.
        self._read: _Changes = {}
        #: Timers registered in this epoch, as heaps of (ts, key, key group); some may be deleted or fired since.
        self._new_timers: dict[TimerKind, list[tuple[int, bytes, int]]] = {kind: [] for kind in TIMER_KINDS}

    # -- the current key -------------------------------------------------------------------------------------------

    def set_current_key(self, key_group: int, key: bytes) -> None:
        """Make a key the current one."""
        if self._blocks:
            self._take_blocks_apart()
        if key_group != self._key_group:
            if key_group not in self._key_groups:
                raise ValueError(
                    f"key group {key_group} is not of this shard, which has {self._key_groups.first} to "
                    f"{self._key_groups.last}"
                )
            self._key_group = key_group
            self._group_prefix = state_prefix(key_group, b"")
        elif key == self._key and self._prefix:
            return
        self._keep_changes()
        self._key = key
        self._prefix = prefix = self._group_prefix + key
        changes = self._overlay.get(prefix)
        self.changes = {} if changes is None else changes
        if self._read:
            self._read.clear()

    def _keep_changes(self) -> None:
        """Note the current key's changes with all others."""
        if self.changes:
            self._overlay[self._prefix] = self.changes
            self._unwritten.add(self._prefix)

    def begin_block(self) -> None:
        """Finish the current key: until :meth:`end_block` there is none."""
        self._keep_changes()
        self._key_group, self._key, self._prefix = -1, b"", b""
        self.changes = NoKey()

    def read_cells(self, keys: BlockKeys, suffix: bytes) -> pa.BinaryArray:
        """One cell of each key."""
        if self._blocks and keys.at(0) <= self._blocks[-1][0].at(-1):
            self._take_blocks_apart()
        overlay, slot = self._overlay, len(suffix)
        names = bytes_of(keys.cells(suffix)) if overlay or self._local_copy is not None else []
        asked = [name for name in names if suffix not in overlay.get(name[:-slot], ())] if overlay else names
        stored = self._local_copy.multi_get(asked) if self._local_copy is not None else [None] * len(asked)
        if len(asked) < len(names):
            found = iter(stored)
            changes = (overlay.get(name[:-slot], {}) for name in names)
            stored = [one[suffix] if suffix in one else next(found) for one in changes]
        return array_of(stored) if names else pa.nulls(len(keys), pa.binary())

    def write_cells(self, keys: BlockKeys, cells: Sequence[BlockCells]) -> None:
        """Note what changes."""
        changed = [one for one in cells if len(one.places)]
        if changed:
            self._blocks.append((keys, changed))

    def _take_blocks_apart(self) -> None:
        """Note the blocks' changes key by key: one of the keys is to be the current one."""
        for keys, cells in self._blocks:
            for one in cells:
                names = bytes_of(keys.take(one.places).cells())
                for prefix, value in zip(names, bytes_of(one.values), strict=True):
                    self._overlay.setdefault(prefix, {})[one.suffix] = value
                self._unwritten.update(names)
        self._blocks = []

    def end_block(self) -> None:
        """Keys come one by one again."""

    def read_cell(self, suffix: bytes) -> bytes | None:
        """A cell of the current key."""
        if suffix in self.changes:
            return self.changes[suffix]
        if self._database is None:
            return None
        known = self._read.get(suffix, _NOT_READ)
        if known is _NOT_READ:
            stored_key = self._prefix + suffix
            try:
                known = self._database.get(stored_key)
            except Exception:
                assert self._local_copy is not None
                known = self._local_copy.get(stored_key)  # says what is wrong
            self._read[suffix] = known
        return known  # type: ignore[return-value]

    def scan_cells(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        """The current key's cells of one slot in order, as of the first ``next``."""
        first = bytes([slot])
        changed = {suffix: value for suffix, value in self.changes.items() if suffix[:1] == first}
        if self._local_copy is None:
            yield from sorted((suffix, value) for suffix, value in changed.items() if value is not None)
            return
        prefix = self._prefix + first
        cut = len(self._prefix)
        stored = ((key[cut:], value) for key, value in self._local_copy.scan(prefix, after_prefix(prefix)))
        if not changed:
            yield from stored
            return
        kept = (entry for entry in stored if entry[0] not in changed)
        yield from heapq.merge(kept, sorted((suffix, value) for suffix, value in changed.items() if value is not None))

    # -- timers ----------------------------------------------------------------------------------------------------

    def due_timers(self, kind: TimerKind, upto_ms: int) -> Iterator[tuple[int, int, bytes]]:
        """``(ts_ms, key group, key)`` of the shard's timers up to ``upto_ms`` in (ts, key) order.

        Lazy; timers registered meanwhile are included if due, deleted ones are not.  The consumer makes the key the
        current one itself.  A timer is deleted when the consumer asks for the next one, so registering the same time
        again while it is handled has no effect, as in Spark.
        """
        stored = self._stored_due(kind, upto_ms)
        new = self._new_timers[kind]
        head = next(stored, None)
        while True:
            if new and new[0][0] <= upto_ms and (head is None or new[0] <= head):
                timer = heapq.heappop(new)
            elif head is not None:
                timer, head = head, next(stored, None)
            else:
                return
            ts_ms, key, key_group = timer
            if not self._is_pending(kind, timer):
                continue
            yield ts_ms, key_group, key
            self._change_of(key_group, key)[_suffix(kind, ts_ms)] = None

    def _stored_due(self, kind: TimerKind, upto_ms: int) -> Iterator[tuple[int, bytes, int]]:
        cursor = self._index_cursor
        if cursor is None:
            return iter(())

        def of_group(key_group: int) -> Iterator[tuple[int, bytes, int]]:
            for ts_ms, key, _ in stored_timers(cursor, kind, key_group, upto_ms):
                yield ts_ms, key, key_group

        return heapq.merge(*[of_group(key_group) for key_group in self._key_groups])

    def _is_pending(self, kind: TimerKind, timer: tuple[int, bytes, int]) -> bool:
        """True unless this epoch has deleted the timer (a new or stored one)."""
        ts_ms, key, key_group = timer
        prefix = state_prefix(key_group, key)
        changes = self.changes if self._prefix == prefix else self._overlay.get(prefix)
        return changes is None or changes.get(_suffix(kind, ts_ms), b"") is not None

    def _change_of(self, key_group: int, key: bytes) -> _Changes:
        prefix = state_prefix(key_group, key)
        if prefix == self._prefix:
            return self.changes
        self._unwritten.add(prefix)
        return self._overlay.setdefault(prefix, {})

    def _timer_registered(self, kind: TimerKind, ts_ms: int) -> None:
        heapq.heappush(self._new_timers[kind], (ts_ms, self._key, self._key_group))

    def next_timer(self, kind: TimerKind) -> int | None:
        """The earliest pending timer of the shard."""
        pending = (timer[0] for timer in self._new_timers[kind] if self._is_pending(kind, timer))
        found = min(pending, default=None)
        if self._index_cursor is not None:
            for key_group in self._key_groups:
                for ts_ms, key, _ in stored_timers(self._index_cursor, kind, key_group):
                    if self._is_pending(kind, (ts_ms, key, key_group)):
                        found = earliest(found, ts_ms)
                        break
        return found

    # -- writing ---------------------------------------------------------------------------------------------------

    @property
    def unwritten_keys(self) -> int:
        """How many keys have changed since changes were written, without the current one."""
        return len(self._unwritten) + sum(len(keys) for keys, _ in self._blocks)

    def flush(self, writer: SortedStateWriter, *, more: bool = False) -> None:
        """Write what has changed since the last call, in stored order.

        Args:
            writer: takes it; another one than that of the last call.
            more: the epoch goes on; False: this is its end.
        """
        self._keep_changes()
        if more:
            self._take_blocks_apart()
        # What was written before may have put what is deleted now.
        fresh = self._local_copy is None and not self._has_written
        if not self._overlay:
            for block, cells in self._blocks:
                names, stored = entries_of(block, cells, fresh)
                writer.put_arrays(names, stored)
            return
        self._take_blocks_apart()
        keys: list[bytes] = []
        values: list[bytes | None] = []
        index: IndexChanges | None = None
        group = b""
        overlay = self._overlay
        for prefix in sorted(self._unwritten):
            if prefix[:2] != group:
                if index is not None:
                    _add_index(index, keys, values)
                group = prefix[:2]
                index = IndexChanges(int.from_bytes(group, "big"))
            changes = overlay[prefix]
            for suffix, value in sorted(changes.items()) if len(changes) > 1 else changes.items():
                if value is None and fresh:
                    continue
                if suffix >= _FIRST_TIMER:
                    assert index is not None
                    index.add(prefix[_KEY_AT:], suffix, value)
                keys.append(prefix + suffix)
                values.append(value)
            if len(keys) >= _CHUNK_ENTRIES:
                writer.put_many(keys, values)
                keys, values = [], []
        if index is not None:
            _add_index(index, keys, values)
        if keys:
            writer.put_many(keys, values)
        self._unwritten, self._has_written = set(), True


def _suffix(kind: TimerKind, ts_ms: int) -> bytes:
    return bytes([TIMER_SLOTS[kind]]) + encode_ts(ts_ms)


def _add_index(index: IndexChanges, keys: list[bytes], values: list[bytes | None]) -> None:
    for stored, value in index.entries():
        keys.append(stored)
        values.append(value)
