"""The state objects that a processor holds: ``ValueState``, ``ListState`` and ``MapState`` of the current key.

Exactly PySpark's methods, argument names and conventions, over four cell operations that a backend provides.  A cell's
suffix is ``slot (1) | sub``.  With a TTL every stored value starts with the time at which it expires.

A list keeps its length in the cell with empty ``sub`` and its elements under their index, so that appending reads one
cell and writes two whatever the list's length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ...errors import StateSchemaError
from ..codec.structs import StructClass, plain_tuple
from ..keys.key_space import decode_ts, encode_ts, has_expired
from ..keys.registry import StateDescriptor

Row = tuple[Any, ...]


class KeyCells(Protocol):
    """The cells of the current key.  Scans are point in time: the consumer may change cells while it iterates."""

    #: What was written to the current key since it was last stored, by suffix; None: deleted.  Setting an item is what
    #: write_cell() does, without the call: values are read and written for every key.
    changes: dict[bytes, bytes | None]

    def read_cell(self, suffix: bytes) -> bytes | None: ...

    def write_cell(self, suffix: bytes, value: bytes) -> None: ...

    def delete_cell(self, suffix: bytes) -> None: ...

    def scan_cells(self, slot: int) -> Iterator[tuple[bytes, bytes]]: ...


class _Variable:
    """What the three kinds share: codec and expiry.

    Args:
        cells: the cells of the current key.
        descriptor: the variable.
        now_ms: values that have expired by then are not there.
        struct_class: see :mod:`..codec.structs`.
        with_expiry: values of a variable with a TTL are read as ``(value, ms at which it expires)``.
    """

    def __init__(
        self,
        cells: KeyCells,
        descriptor: StateDescriptor,
        now_ms: int,
        struct_class: StructClass = plain_tuple,
        with_expiry: bool = False,
    ) -> None:
        self._cells = cells
        self.descriptor = descriptor
        self._suffix = bytes([descriptor.slot])
        codec = descriptor.row_codec(struct_class)
        self._encode = codec.encode
        self._decode: Callable[[bytes], Any] = codec.decode
        self._ttl = descriptor.ttl_ms is not None
        #: How much of a stored value with a TTL is not for whoever reads it.
        self._skipped = 8
        if with_expiry and self._ttl:
            self._skipped = 0
            self._decode = lambda stored: (codec.decode(stored[8:]), decode_ts(stored[:8]))
        self._now_ms = now_ms
        self._expiry = encode_ts(min(now_ms + (descriptor.ttl_ms or 0), 2**63 - 1))

    def _packed(self, value: Any) -> bytes:
        return self._expiry + self._encode(value) if self._ttl else self._encode(value)

    def _live(self, stored: bytes | None) -> bytes | None:
        """The stored value without its expiry; None if it has expired."""
        if stored is None or not self._ttl:
            return stored
        return None if has_expired(stored, self._now_ms) else stored[self._skipped :]


class ValueState(_Variable):
    """A single value."""

    def exists(self) -> bool:
        """True if there is a value."""
        stored = self._cells.read_cell(self._suffix)
        return stored is not None and (not self._ttl or self._live(stored) is not None)

    def get(self) -> Row | None:
        """The value; None if there is none."""
        stored = self._cells.read_cell(self._suffix)
        if stored is None:
            return None
        if self._ttl:
            stored = self._live(stored)
            if stored is None:
                return None
        return self._decode(stored)

    def update(self, newValue: Row) -> None:
        """Set the value; with a TTL its time starts again."""
        packed = self._encode(newValue)
        self._cells.changes[self._suffix] = self._expiry + packed if self._ttl else packed

    def clear(self) -> None:
        """Remove the value."""
        self._cells.delete_cell(self._suffix)


class ListState(_Variable):
    """A list of values; with a TTL each element has its own time."""

    def exists(self) -> bool:
        """True if the list has an element."""
        return self._live(self._cells.read_cell(self._suffix)) is not None

    def get(self) -> Iterator[Row]:
        """The elements in order."""
        for suffix, stored in self._cells.scan_cells(self.descriptor.slot):
            if len(suffix) > 1:
                live = self._live(stored)
                if live is not None:
                    yield self._decode(live)

    def put(self, newState: list[Row]) -> None:
        """Replace the whole list."""
        packed = self._packed_list(newState)
        for index in range(len(packed), self._length()):
            self._cells.delete_cell(self._element(index))
        self._write_from(0, packed)

    def appendValue(self, newState: Row) -> None:
        """Add one element at the end."""
        cells, suffix, packed = self._cells, self._suffix, self._encode(newState)
        stored = cells.read_cell(suffix)
        index = 0 if stored is None else int.from_bytes(stored[-8:], "big")
        place, length = index.to_bytes(8, "big"), (index + 1).to_bytes(8, "big")
        if self._ttl:
            packed, length = self._expiry + packed, self._expiry + length
        changes = cells.changes
        changes[suffix + place] = packed
        # The last element is the last to expire, and the list exists as long as it does.
        changes[suffix] = length

    def appendList(self, newState: list[Row]) -> None:
        """Add elements at the end."""
        packed = self._packed_list(newState)
        self._write_from(self._length(), packed)

    def clear(self) -> None:
        """Remove all elements."""
        for index in range(self._length()):
            self._cells.delete_cell(self._element(index))
        self._cells.delete_cell(self._suffix)

    def _packed_list(self, values: list[Row]) -> list[bytes]:
        packed = [self._packed(value) for value in self._checked(values)]
        if not packed:
            raise StateSchemaError(f"list state {self.descriptor.name!r} got an empty list; clear() empties the list")
        return packed

    def _checked(self, values: Any) -> list[Row]:
        if values is None or isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            raise StateSchemaError(f"list state {self.descriptor.name!r} got {values!r}; it takes a list of tuples")
        return list(values)

    def _element(self, index: int) -> bytes:
        return self._suffix + index.to_bytes(8, "big")

    def _length(self) -> int:
        """Elements stored, expired ones included: the next index."""
        stored = self._cells.read_cell(self._suffix)
        return 0 if stored is None else int.from_bytes(stored[-8:], "big")

    def _write_from(self, start: int, packed: list[bytes]) -> None:
        for index, value in enumerate(packed, start):
            self._cells.write_cell(self._element(index), value)
        length = (start + len(packed)).to_bytes(8, "big")
        self._cells.write_cell(self._suffix, self._expiry + length if self._ttl else length)


class MapState(_Variable):
    """Values by user key, iterated in key order; with a TTL each entry has its own time."""

    def __init__(
        self,
        cells: KeyCells,
        descriptor: StateDescriptor,
        now_ms: int,
        struct_class: StructClass = plain_tuple,
        with_expiry: bool = False,
    ) -> None:
        super().__init__(cells, descriptor, now_ms, struct_class, with_expiry)
        key_codec = descriptor.user_key_codec(struct_class)
        assert key_codec is not None
        self._key_codec = key_codec
        self._encode_key = key_codec.encode
        self._keeps_last = key_codec.is_flat
        self._last_key: Row | None = None
        self._last_entry = b""
        self._made = struct_class(descriptor.schema.names)

    def exists(self) -> bool:
        """True if the map has an entry."""
        return next(self._entries(), None) is not None

    def getValue(self, key: Row) -> Row | None:
        """The value of a user key, with names where structs have them, as in PySpark; None if there is none."""
        stored = self._cells.read_cell(self._entry(key))
        if self._ttl:
            stored = self._live(stored)
        return None if stored is None else tuple.__new__(self._made, self._decode(stored))

    def containsKey(self, key: Row) -> bool:
        """True if there is a value for the user key."""
        stored = self._cells.read_cell(self._entry(key))
        return stored is not None and (not self._ttl or self._live(stored) is not None)

    def updateValue(self, key: Row, value: Row) -> None:
        """Set the value of a user key; with a TTL its time starts again."""
        packed = self._encode(value)
        self._cells.changes[self._entry(key)] = self._expiry + packed if self._ttl else packed

    def iterator(self) -> Iterator[tuple[Row, Row]]:
        """All entries."""
        decode_key = self._key_codec.decode
        return ((decode_key(key), self._decode(value)) for key, value in self._entries())

    def keys(self) -> Iterator[Row]:
        """All user keys."""
        decode_key = self._key_codec.decode
        return (decode_key(key) for key, _ in self._entries())

    def values(self) -> Iterator[Row]:
        """All values."""
        return (self._decode(value) for _, value in self._entries())

    def removeKey(self, key: Row) -> None:
        """Remove a user key and its value."""
        self._cells.delete_cell(self._entry(key))

    def clear(self) -> None:
        """Remove all entries."""
        for suffix, _ in self._cells.scan_cells(self.descriptor.slot):
            self._cells.delete_cell(suffix)

    def _entry(self, key: Row) -> bytes:
        """The cell of a user key; one key is often asked for, and then set."""
        if key is self._last_key:
            return self._last_entry
        entry = self._suffix + self._encode_key(key)
        if self._keeps_last and isinstance(key, tuple):
            self._last_key, self._last_entry = key, entry
        return entry

    def _entries(self) -> Iterator[tuple[bytes, bytes]]:
        for suffix, stored in self._cells.scan_cells(self.descriptor.slot):
            live = self._live(stored)
            if live is not None:
                yield suffix[1:], live


# Not methods: processors get the classes above as they are, and would have them.


def expire_at(variable: _Variable, ts_ms: int) -> None:
    """What is written to a variable from now on expires then, whatever its time to live says."""
    variable._expiry = encode_ts(ts_ms)


def keep_until(state: ListState, ts_ms: int) -> None:
    """Have a list exist until then, whatever its last element says."""
    expire_at(state, ts_ms)
    state._write_from(state._length(), [])
