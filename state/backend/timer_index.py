"""Keeps the timer index of a key group: its changes, and reads of the stored index, for both backends.

Invariant: a timer's cell and its index entry are written and deleted together, in the same file.  (The bytes of both:
``state/keys/key_space.py``.)
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ..codec.byte_arrays import bytes_of
from ..keys.key_space import (
    TIMER_KINDS,
    TIMER_SECTIONS,
    TIMER_SLOTS,
    TimerKind,
    after_prefix,
    encode_ts,
    parse_timer_index,
    stored_keys,
    timer_index_prefix,
)
from ..store.cursor import LocalStateCursor
from ..store.local_copy import LocalStateCopy
from .blocks import BlockCells, BlockKeys

_KIND_OF_SLOT: dict[int, TimerKind] = {slot: kind for kind, slot in TIMER_SLOTS.items()}
#: Index entries read at a time.
_CHUNK = 256
#: Cells from this slot on are timers.
FIRST_TIMER_SLOT = min(TIMER_SLOTS.values())
_MIN_TS = -(2**63)


class IndexChanges:
    """Changes of the timer indexes of one key group, collected until the group's cells are written."""

    def __init__(self, key_group: int) -> None:
        self.key_group = key_group
        self._changes: dict[bytes, bytes | None] = {}
        self._prefixes = {kind: timer_index_prefix(kind, key_group) for kind in TIMER_KINDS}

    def __bool__(self) -> bool:
        """True if there are any."""
        return bool(self._changes)

    def add(self, key: bytes, suffix: bytes, value: bytes | None) -> None:
        """Note the change of a timer cell of ``key``."""
        self._changes[self._prefixes[_KIND_OF_SLOT[suffix[0]]] + suffix[1:] + key] = value

    def add_all(self, keys: BlockKeys, timers: BlockCells, fresh: bool) -> None:
        """Note changes of timer cells of a block; ``fresh``: there is nothing from before that could be deleted."""
        names = bytes_of(index_names(keys, timers))
        for name, value in zip(names, bytes_of(timers.values), strict=True):
            if value is not None or not fresh:
                self._changes[name] = value

    def entries(self) -> list[tuple[bytes, bytes | None]]:
        """All changes in stored order."""
        return sorted(self._changes.items())

    def deletes(self, stored: bytes) -> bool:
        """True if the index entry is deleted."""
        return self._changes.get(stored, b"") is None

    def earliest_put(self, kind: TimerKind) -> int | None:
        """The earliest timer among the new entries."""
        prefix = self._prefixes[kind]
        puts = [stored for stored, value in self._changes.items() if value is not None and stored.startswith(prefix)]
        return parse_timer_index(min(puts))[1] if puts else None


def index_names(keys: BlockKeys, timers: BlockCells) -> pa.BinaryArray:
    """The stored keys of the index entries of a block's timers."""
    assert timers.subs is not None
    own = keys.take(timers.places)
    return stored_keys(own.groups, TIMER_SECTIONS[kind_of(timers)], timers.subs, own.keys)


def kind_of(timers: BlockCells) -> TimerKind:
    """What kind of timers a block's timer cells are."""
    return _KIND_OF_SLOT[timers.suffix[0]]


def stored_timers(
    cursor: LocalStateCursor, kind: TimerKind, key_group: int, upto_ms: int | None = None
) -> Iterator[tuple[int, bytes, bytes]]:
    """``(ts_ms, key, index entry)`` of a key group's stored timers in (ts, key) order, read in chunks."""
    prefix = timer_index_prefix(kind, key_group)
    lower = prefix
    while True:
        chunk = cursor.read_from(lower, prefix, _CHUNK)
        for stored, _ in chunk:
            _, ts_ms, key = parse_timer_index(stored)
            if upto_ms is not None and ts_ms > upto_ms:
                return
            yield ts_ms, key, stored
        if len(chunk) < _CHUNK:
            return
        lower = chunk[-1][0] + b"\x00"


def due_keys(base: LocalStateCopy, key_group: int, upto_event_ms: int, upto_processing_ms: int) -> list[bytes]:
    """Sorted keys of a key group that have stored timers of either kind up to these times."""
    found: set[bytes] = set()
    for kind, upto_ms in zip(TIMER_KINDS, (upto_event_ms, upto_processing_ms), strict=True):
        if upto_ms > _MIN_TS:
            prefix = timer_index_prefix(kind, key_group)
            stored = base.scan(prefix, after_prefix(prefix + encode_ts(upto_ms)))
            found.update(parse_timer_index(entry)[2] for entry, _ in stored)
    return sorted(found)


def earliest(*candidates: int | None) -> int | None:
    """The smallest of the given times; None if there is none."""
    return min((candidate for candidate in candidates if candidate is not None), default=None)
