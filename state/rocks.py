"""Keyed state over RocksDB: keys in any order, as often as needed.

Reads come from the shard's replica (state after the previous epoch) and from the overlay, this epoch's own writes,
which are held back and written as one sorted change log at the end of the epoch.  Nothing is written to the replica.

Invariants: the overlay wins over the replica; an attempt that fails leaves no trace; memory follows the keys that were
changed in the epoch, not the state.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from .keyed import KeyedState, NoKey
from .keygroups import KeyGroupRange
from .layout import TIMER_KINDS, TIMER_SLOTS, TimerKind, after_prefix, encode_ts, state_prefix
from .registry import StateRegistry
from .replica import ShardReplica
from .sst import StateWriter
from .timers import FIRST_TIMER_SLOT, IndexChanges, earliest, stored_timers

_Ident = tuple[int, bytes]
_Changes = dict[bytes, "bytes | None"]
_NOT_READ = object()
#: Entries handed to the writer at a time.
_CHUNK_ENTRIES = 4096


class RocksDBKeyedState(KeyedState):
    """Keyed state of one random-access epoch over a shard; ``replica`` is None in a fresh job."""

    def __init__(
        self, registry: StateRegistry, replica: ShardReplica | None, key_groups: KeyGroupRange, now_ms: int
    ) -> None:
        super().__init__(registry, now_ms)
        self._replica = replica
        self._key_groups = key_groups
        self._index_cursor = replica.cursor() if replica is not None else None
        #: Changes of every key that has any, except the current one's, which join when the next key comes.
        self._overlay: dict[_Ident, _Changes] = {}
        self._ident: _Ident = (-1, b"")
        self._prefix = b""
        self.changes: _Changes = NoKey()
        #: Cells of the current key that were read already.
        self._read: _Changes = {}
        self._prefetched: dict[bytes, bytes | None] = {}
        #: Timers registered in this epoch, as heaps of (ts, key, key group); some may be deleted or fired since.
        self._new_timers: dict[TimerKind, list[tuple[int, bytes, int]]] = {kind: [] for kind in TIMER_KINDS}

    # -- the current key -------------------------------------------------------------------------------------------

    def set_current_key(self, key_group: int, key: bytes) -> None:
        """Make a key the current one."""
        ident = (key_group, key)
        if ident == self._ident:
            return
        if key_group not in self._key_groups:
            raise ValueError(
                f"key group {key_group} is not of this shard, which has {self._key_groups.first} to "
                f"{self._key_groups.last}"
            )
        self._leave_key()
        self._ident = ident
        self._prefix = state_prefix(key_group, key)
        self.changes = self._overlay.get(ident) or {}
        self._read = {}

    def _leave_key(self) -> None:
        if self.changes:
            self._overlay[self._ident] = self.changes

    def read_cell(self, suffix: bytes) -> bytes | None:
        """A cell of the current key."""
        changes = self.changes
        if suffix in changes:
            return changes[suffix]
        if self._replica is None:
            return None
        known = self._read.get(suffix, _NOT_READ)
        if known is _NOT_READ:
            stored_key = self._prefix + suffix
            known = self._prefetched.get(stored_key, _NOT_READ)
            if known is _NOT_READ:
                known = self._replica.get(stored_key)
            self._read[suffix] = known  # type: ignore[assignment]
        return known  # type: ignore[return-value]

    def write_cell(self, suffix: bytes, value: bytes) -> None:
        """Set a cell of the current key."""
        self.changes[suffix] = value

    def delete_cell(self, suffix: bytes) -> None:
        """Remove a cell of the current key."""
        self.changes[suffix] = None

    def scan_cells(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        """The current key's cells of one slot in order, as of the first ``next``."""
        first = bytes([slot])
        changed = {suffix: value for suffix, value in self.changes.items() if suffix[:1] == first}
        if self._replica is None:
            yield from sorted((suffix, value) for suffix, value in changed.items() if value is not None)
            return
        prefix = self._prefix + first
        cut = len(self._prefix)
        stored = ((key[cut:], value) for key, value in self._replica.scan(prefix, after_prefix(prefix)))
        if not changed:
            yield from stored
            return
        kept = (entry for entry in stored if entry[0] not in changed)
        yield from heapq.merge(kept, sorted((suffix, value) for suffix, value in changed.items() if value is not None))

    def prefetch(self, entries: Sequence[_Ident]) -> None:
        """Read the value states of many keys (``(key group, key)``) with one multi-get; forgets the prefetch before."""
        self._prefetched = {}
        slots = [descriptor.slot for descriptor in self.registry if descriptor.kind == "value"]
        if self._replica is None or not slots:
            return
        wanted = [state_prefix(key_group, key, slot) for key_group, key in entries for slot in slots]
        self._prefetched = dict(zip(wanted, self._replica.multi_get(wanted), strict=True))

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
        changes = self.changes if self._ident == (key_group, key) else self._overlay.get((key_group, key))
        return changes is None or changes.get(_suffix(kind, ts_ms), b"") is not None

    def _change_of(self, key_group: int, key: bytes) -> _Changes:
        ident = (key_group, key)
        if ident == self._ident:
            return self.changes
        return self._overlay.setdefault(ident, {})

    def _timer_registered(self, kind: TimerKind, ts_ms: int) -> None:
        key_group, key = self._ident
        heapq.heappush(self._new_timers[kind], (ts_ms, key, key_group))

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

    def flush(self, writer: StateWriter) -> None:
        """Write the overlay in stored order; call once, at the end of the epoch."""
        self._leave_key()
        fresh = self._replica is None
        index: IndexChanges | None = None
        entries: list[tuple[bytes, bytes | None]] = []
        for key_group, key in sorted(self._overlay):
            if index is None or index.key_group != key_group:
                if index is not None:
                    entries += index.entries()
                index = IndexChanges(key_group)
            prefix = state_prefix(key_group, key)
            for suffix, value in sorted(self._overlay[key_group, key].items()):
                if value is None and fresh:
                    continue
                if suffix[0] >= FIRST_TIMER_SLOT:
                    index.add(key, suffix, value)
                entries.append((prefix + suffix, value))
            if len(entries) >= _CHUNK_ENTRIES:
                _write(writer, entries)
                entries = []
        if index is not None:
            _write(writer, entries + index.entries())


def _suffix(kind: TimerKind, ts_ms: int) -> bytes:
    return bytes([TIMER_SLOTS[kind]]) + encode_ts(ts_ms)


def _write(writer: StateWriter, entries: list[tuple[bytes, bytes | None]]) -> None:
    if entries:
        writer.put_many([stored for stored, _ in entries], [value for _, value in entries])
