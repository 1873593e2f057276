"""Batch keyed state: keys come in order, each once, and only the current key is in memory.

The state of a key goes to the writer as soon as the next key comes, in stored order, so a whole shard is written as one
sorted stream: bulk-loaded, never compacted.  If there is state from before (``base``), it is read in the same order and
only differences are written.

Invariants: keys are strictly ascending by (key group, encoded key); what is written for a key group is its cells, then
its timer-index entries; memory is bounded by one key's state plus the timers registered in one key group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..codec.byte_arrays import array_of, bytes_of, data_of, offsets_of
from ..codec.gather import gathered
from ..keys.key_space import TIMER_KINDS, TimerKind, decode_all_ts, state_prefix
from ..keys.registry import StateRegistry
from ..store.files import SortedStateWriter
from ..store.local_copy import LocalStateCopy
from .blocks import BlockCells, BlockKeys, entries_of
from .group_writer import CHUNK_BYTES, ENTRY_BYTES, FIRST_TIMER, GroupWriter
from .keyed import KeyedState, NoKey
from .timer_index import index_names, kind_of

#: Greater than any key group: what the pass stands at when it is over.
_NO_GROUP_AFTER = 1 << 16


class BatchKeyedState(KeyedState):
    """Keyed state of one sorted pass over a shard.  ``keep_state=False`` forgets each key at its end."""

    def __init__(
        self,
        registry: StateRegistry,
        writer: SortedStateWriter,
        now_ms: int,
        base: LocalStateCopy | None = None,
        keep_state: bool = True,
    ) -> None:
        super().__init__(registry, now_ms)
        self._base = base
        self.has_base = base is not None
        self._groups = GroupWriter(writer, base, keep_state)
        self._keep_state = keep_state
        #: True if a change needs a look at what was there, or goes nowhere.
        self._compares = base is not None or not keep_state
        self._cursor = base.cursor() if base is not None else None
        self._key_group = -1
        self._key = b""
        self._group_prefix = b""
        self._prefix = b""
        self.changes: dict[bytes, bytes | None] = NoKey()
        #: The key's cells in base; None: not read yet.
        self._stored: dict[bytes, bytes] | None = None
        #: True if a timer was registered since the current key began.
        self.has_new_timers = False
        self._closed = False

    # -- the current key -------------------------------------------------------------------------------------------

    def set_current_key(self, key_group: int, key: bytes) -> None:
        """Finish the key before and begin this one."""
        if key_group == self._key_group:
            if key <= self._key:
                raise _out_of_order(key_group, key, (self._key_group, self._key))
            changes = self.changes
            if changes:
                # One cell and nothing to compare it with, as for most keys of a migration, is done here at once.
                suffix, value = changes.popitem()
                if value is None or changes or self._compares or suffix >= FIRST_TIMER:
                    changes[suffix] = value
                    self._finish_key()
                    changes.clear()
                else:
                    groups = self._groups
                    groups.keys.append(self._prefix + suffix)
                    groups.values.append(value)
                    groups.bytes += len(value) + ENTRY_BYTES
                    if groups.bytes >= CHUNK_BYTES:
                        groups.write_out()
        else:
            if key_group < self._key_group:
                raise _out_of_order(key_group, key, (self._key_group, self._key))
            self._finish_key()
            self._groups.finish_group()
            self._begin_group(key_group)
            self.changes = {}
        self._key = key
        self._prefix = self._group_prefix + key
        self._stored = None
        self.has_new_timers = False

    def _begin_group(self, key_group: int) -> None:
        self._key_group = key_group
        self._group_prefix = state_prefix(key_group, b"")
        self._groups.begin_group(key_group)

    def begin_block(self) -> None:
        """Finish the current key: until :meth:`end_block` there is none."""
        self._finish_key()
        self.changes = NoKey()

    def read_cells(self, keys: BlockKeys, suffix: bytes) -> pa.BinaryArray:
        """One cell of each key, as it was before this pass."""
        if self._base is None:
            return pa.nulls(len(keys), pa.binary())
        return array_of(self._base.multi_get(bytes_of(keys.cells(suffix))))

    def write_cells(self, keys: BlockKeys, cells: Sequence[BlockCells]) -> None:
        """Write what changes; all keys come after those that were there before, and no timer is due."""
        # The key before may have timers, which go behind the cells of its group as those of earlier ones do.
        self.begin_block()
        groups, ends = keys.groups, [len(keys)]
        timers = next((one for one in cells if one.suffix >= FIRST_TIMER and len(one.places)), None)
        if timers is not None and self._base is None and self._keep_state:
            self._write_with_timers(keys, cells, timers.that_stay())
            return
        if timers is not None:
            ends = [*(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(keys)]
        elif self._groups.index and int(groups[0]) == self._key_group < int(groups[-1]):
            # Timers of keys before these go behind the cells of their group.
            ends = [int(np.searchsorted(groups, self._key_group, "right")), len(keys)]
        for start, stop in pairwise([0, *ends]):
            self._write_between(keys.slice(start, stop), [one.slice(start, stop) for one in cells])

    def _write_with_timers(self, keys: BlockKeys, cells: Sequence[BlockCells], timers: BlockCells) -> None:
        """The same where there was nothing before, so that index entries are known without a look at any."""
        self.set_current_key(*keys.at(0))
        names, values = entries_of(keys, cells, True)
        group, key = keys.at(-1)
        begun = 0
        if group != self._key_group:
            # The index entries of groups that end within the block are written with it, in the order of all.
            assert self._groups.index is not None
            begun = int(np.searchsorted(keys.groups, group))
            ended = timers.slice(0, begun)
            waiting = [stored for stored, _ in self._groups.index.entries()]
            names = pa.concat_arrays([names, pa.array(waiting, pa.binary()), index_names(keys, ended)])
            values = pa.concat_arrays([values, pa.array([b""] * (len(names) - len(values)), pa.binary())])
            order = pc.array_sort_indices(names)
            names, values = gathered(names, order), gathered(values, order)
            for kind in TIMER_KINDS:
                self._groups.note(kind, self._groups.index.earliest_put(kind))
            if len(ended.places):
                times = decode_all_ts(data_of(ended.subs), offsets_of(ended.subs)[:-1])
                self._groups.note(kind_of(ended), int(times.min()))
            self._begin_group(group)
        assert self._groups.index is not None
        self._groups.index.add_all(keys.slice(begun, len(keys)), timers.slice(begun, len(keys)), True)
        self._groups.add_arrays(names, values)
        self._key, self.changes = key, {}

    def _write_between(self, keys: BlockKeys, cells: Sequence[BlockCells]) -> None:
        """The same for some of the keys, of one group or all without timers."""
        self.set_current_key(*keys.at(0))
        if self._keep_state:
            names, values = entries_of(keys, cells, self._base is None)
            self._groups.add_arrays(names, values)
            for one in cells:
                if one.suffix >= FIRST_TIMER:
                    assert self._groups.index is not None
                    self._groups.index.add_all(keys, one, self._base is None)
        group, self._key = keys.at(-1)
        if group != self._key_group:
            self._begin_group(group)
        self.changes = {}

    def end_block(self) -> None:
        """Keys come one by one again."""
        if self._key_group >= 0:
            self.changes = {}

    def read_cell(self, suffix: bytes) -> bytes | None:
        """A cell of the current key."""
        changes = self.changes
        if suffix in changes:
            return changes[suffix]
        if self._cursor is None:
            return None
        return (self._stored if self._stored is not None else self._load()).get(suffix)

    def scan_cells(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        """The current key's cells of one slot in order, as of the first ``next``."""
        if self._cursor is None:
            cells: dict[bytes, bytes | None] = self.changes
        else:
            stored = self._stored if self._stored is not None else self._load()
            cells = {**stored, **self.changes} if self.changes else dict(stored)
        first = bytes([slot])
        found = [(suffix, value) for suffix, value in cells.items() if suffix[:1] == first and value is not None]
        found.sort()
        return iter(found)

    def _load(self) -> dict[bytes, bytes]:
        assert self._cursor is not None
        cut = len(self._prefix)
        self._stored = {stored[cut:]: value for stored, value in self._cursor.read_prefix(self._prefix)}
        return self._stored

    # -- timers ----------------------------------------------------------------------------------------------------

    def _timer_registered(self, kind: TimerKind, ts_ms: int) -> None:
        self.has_new_timers = True

    def next_timer(self, kind: TimerKind) -> int | None:
        """The earliest pending timer of the shard; only after :meth:`close`."""
        if not self._closed:
            raise ValueError("next_timer() of a sorted pass is known only after close()")
        return self._groups.next_timers[kind]

    # -- writing ---------------------------------------------------------------------------------------------------

    def _finish_key(self) -> None:
        """Hand the key's differences to the writer."""
        if not self.changes or not self._keep_state:
            return
        groups = self._groups
        if self._base is None:
            groups.add_new_key(self._prefix, self._key, self.changes)
            return
        stored = self._stored
        for suffix, value in sorted(self.changes.items()):
            if stored is not None and stored.get(suffix) == value:
                continue
            if suffix >= FIRST_TIMER:
                assert groups.index is not None
                groups.index.add(self._key, suffix, value)
            groups.add(self._prefix + suffix, value)

    def close(self) -> None:
        """Finish the last key and write what is left; the writer itself stays open."""
        if self._closed:
            return
        self._finish_key()
        self.changes = NoKey()
        self._groups.close()
        self._closed = True
        self._key_group = _NO_GROUP_AFTER
        self._cursor = None

    def __enter__(self) -> BatchKeyedState:
        return self

    def __exit__(self, error_type: Any, error: Any, trace: Any) -> None:
        if error_type is None:
            self.close()


def _out_of_order(key_group: int, key: bytes, last: tuple[int, bytes]) -> ValueError:
    if last[0] == _NO_GROUP_AFTER:
        return ValueError("batch keyed state is closed")
    return ValueError(
        f"keys of a sorted pass must be strictly ascending: key {key.hex()} of key group {key_group} came after "
        f"key {last[1].hex()} of key group {last[0]}"
    )
