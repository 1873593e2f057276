"""Writes the state of a sorted pass: one key group after the other, its cells in stored order, then its timer index."""

from __future__ import annotations

import pyarrow as pa

from ..keys.key_space import TIMER_KINDS, TimerKind
from ..store.files import SortedStateWriter
from ..store.local_copy import LocalStateCopy
from .timer_index import FIRST_TIMER_SLOT, IndexChanges, earliest, stored_timers

#: Written entries are handed to the writer in chunks of about this size: 1,024 entries, fewer if they are large.
CHUNK_BYTES = 1 << 20
#: What an entry counts beside its value.
ENTRY_BYTES = CHUNK_BYTES // 1024
#: The cells of a new key that are taken at once.
_FEW_CELLS = 64
FIRST_TIMER = bytes([FIRST_TIMER_SLOT])


class GroupWriter:
    """Takes the entries of one shard in stored order, and notes the earliest timers that stay.

    Args:
        writer: takes the entries in chunks.
        base: state from before; None: there is none.
        keep_state: False: nothing is written.
    """

    def __init__(self, writer: SortedStateWriter, base: LocalStateCopy | None, keep_state: bool) -> None:
        self._writer = writer
        self._base = base
        self._keep_state = keep_state
        self._cursor = base.cursor() if base is not None else None
        #: Changes of the timer index of the current key group; None: there is no group.
        self.index: IndexChanges | None = None
        #: The earliest pending timer of each kind in the groups so far.
        self.next_timers: dict[TimerKind, int | None] = dict.fromkeys(TIMER_KINDS)
        self._visited: set[int] = set()
        #: Entries that wait to be a chunk, and their size.
        self.keys: list[bytes] = []
        self.values: list[bytes | None] = []
        self.bytes = 0

    def begin_group(self, key_group: int) -> None:
        """Begin a key group, which comes after all before."""
        self.index = IndexChanges(key_group)

    def add(self, stored_key: bytes, value: bytes | None) -> None:
        """The next entry of the current group; None: it is deleted."""
        self.keys.append(stored_key)
        self.values.append(value)
        self.bytes += ENTRY_BYTES if value is None else ENTRY_BYTES + len(value)
        if self.bytes >= CHUNK_BYTES:
            self.write_out()

    def add_new_key(self, prefix: bytes, key: bytes, changes: dict[bytes, bytes | None]) -> None:
        """All cells of a key of which nothing was there before."""
        cells = sorted([cell for cell in changes.items() if cell[1] is not None])
        for suffix, value in reversed(cells):
            if suffix < FIRST_TIMER:
                break
            assert self.index is not None
            self.index.add(key, suffix, value)
        if len(cells) > _FEW_CELLS:
            for suffix, value in cells:
                self.add(prefix + suffix, value)
            return
        values = [value for _, value in cells]
        self.bytes += sum(map(len, values)) + len(values) * ENTRY_BYTES  # type: ignore[arg-type]
        self.keys += [prefix + suffix for suffix, _ in cells]
        self.values += values
        if self.bytes >= CHUNK_BYTES:
            self.write_out()

    def add_arrays(self, stored_keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """The next entries, sorted."""
        if len(stored_keys):
            self.write_out()
            self._writer.put_arrays(stored_keys, values)

    def write_out(self) -> None:
        """Hand what waits to the writer."""
        if self.keys:
            self._writer.put_many(self.keys, self.values)
            self.keys.clear()
            self.values.clear()
            self.bytes = 0

    def finish_group(self) -> None:
        """Write the current group's timer index, if there is a group, and note its earliest pending timers."""
        index, self.index = self.index, None
        if index is None or not self._keep_state:
            return
        for stored, value in index.entries():
            self.add(stored, value)
        self._visited.add(index.key_group)
        for kind in TIMER_KINDS:
            self.note(kind, index.earliest_put(kind))
            self.note(kind, self._earliest_stored(kind, index.key_group, index))

    def note(self, kind: TimerKind, ts_ms: int | None) -> None:
        """A timer stays pending."""
        self.next_timers[kind] = earliest(self.next_timers[kind], ts_ms)

    def _earliest_stored(self, kind: TimerKind, key_group: int, index: IndexChanges | None) -> int | None:
        if self._cursor is None:
            return None
        for ts_ms, _, stored in stored_timers(self._cursor, kind, key_group):
            if index is None or not index.deletes(stored):
                return ts_ms
        return None

    def close(self) -> None:
        """Write what is left; the writer itself stays open."""
        self.finish_group()
        self.write_out()
        if self._base is not None and self._keep_state:
            for key_group in self._base.key_groups:
                if key_group not in self._visited:
                    for kind in TIMER_KINDS:
                        self.note(kind, self._earliest_stored(kind, key_group, None))
        self._cursor = None
