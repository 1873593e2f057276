"""Looking at committed state from outside a job: the keys of a shard in stored order, with a variable or with timers.

What is read is decoded by the same classes that a running processor uses (:mod:`.variables`), so expiry, list layout
and older schema versions mean here exactly what they mean there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from ..keys.key_space import CELL_SECTION, TimerKind, after_prefix, group_prefix, state_prefix
from ..keys.keygroups import KeyGroupRange
from ..keys.keys import KeyCodec
from ..keys.registry import StateDescriptor
from ..store.local_copy import LocalStateCopy
from .timer_index import stored_timers
from .variables import ListState, MapState, ValueState

_CLASSES: dict[str, type[Any]] = {"value": ValueState, "list": ListState, "map": MapState}

#: Encoded key of one key, with its key group.
Ident = tuple[int, bytes]


class StoredKeyCells:
    """The cells of one key, in stored order; what a state variable reads from.  Nothing can be written."""

    def __init__(self) -> None:
        self.cells: dict[bytes, bytes] = {}

    def read_cell(self, suffix: bytes) -> bytes | None:
        """A cell of the key at hand."""
        return self.cells.get(suffix)

    def scan_cells(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        """The cells of one slot of the key at hand, in order."""
        return ((suffix, value) for suffix, value in self.cells.items() if suffix[0] == slot)

    def write_cell(self, suffix: bytes, value: bytes) -> NoReturn:
        raise TypeError("state that is read from a checkpoint cannot be changed")

    def delete_cell(self, suffix: bytes) -> NoReturn:
        raise TypeError("state that is read from a checkpoint cannot be changed")


@dataclass(frozen=True)
class ShardView:
    """One shard of a checkpoint.

    Args:
        local copy: embodies the shard's manifest.
        key_groups: the shard's range.
        key_codec: codec of its keys.
        now_ms: values that have expired by then are not shown.
        only: look at this key alone; None: at all.
    """

    local_copy: LocalStateCopy
    key_groups: KeyGroupRange
    key_codec: KeyCodec
    now_ms: int
    only: Ident | None = None

    def cells(self, slot: int) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        """Every key that has cells in a slot, with those cells by suffix (``slot | sub``)."""
        key = b""
        found: dict[bytes, bytes] = {}
        for stored, value in self._stored(slot):
            end = self.key_codec.end_of(stored, 3)
            if stored[end] != slot:
                continue
            # Keys of different groups may follow each other, but equal bytes are always of one group.
            if found and stored[3:end] != key:
                yield key, found
                found = {}
            key = stored[3:end]
            found[stored[end:]] = value
        if found:
            yield key, found

    def _stored(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        if self.only is not None:
            prefix = state_prefix(*self.only, slot)
            yield from self.local_copy.scan(prefix, after_prefix(prefix))
            return
        for key_group in self.key_groups:
            prefix = group_prefix(key_group, CELL_SECTION)
            yield from self.local_copy.scan(prefix, after_prefix(prefix))

    def rows(self, descriptor: StateDescriptor) -> Iterator[tuple[bytes, tuple[Any, ...], int]]:
        """``(key, row, bytes)`` of a variable: ``(value,)``, ``(position, element)`` or ``(user key, value)``.

        With a TTL, value and element are ``(value, ms at which it expires)``.
        """
        holder = StoredKeyCells()
        variable = _CLASSES[descriptor.kind](holder, descriptor, self.now_ms, with_expiry=True)
        for key, cells in self.cells(descriptor.slot):
            holder.cells = cells
            share = sum(map(len, cells.values())) // len(cells)
            rows: Iterable[tuple[Any, ...]]
            if descriptor.kind == "value":
                value = variable.get()
                rows = [] if value is None else [(value,)]
            else:
                rows = enumerate(variable.get()) if descriptor.kind == "list" else variable.iterator()
            for row in rows:
                yield key, row, share

    def timers(self, kind: TimerKind) -> Iterator[tuple[bytes, int]]:
        """``(key, ts_ms)`` of the pending timers of one kind, by key group and time."""
        cursor = self.local_copy.cursor()
        for key_group in self.key_groups if self.only is None else [self.only[0]]:
            for ts_ms, key, _ in stored_timers(cursor, kind, key_group):
                if self.only is None or key == self.only[1]:
                    yield key, ts_ms
