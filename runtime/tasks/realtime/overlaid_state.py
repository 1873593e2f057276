"""A shard's state within an epoch of Real-Time Mode: the committed one, and what the epoch has changed so far.

An operator that runs once for each portion of rows finds here what it wrote for the portions before.  Nothing is
written to the local copy here; it may be brought up to what was written, which is here, too.  Memory follows the keys
that the epoch changes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import pyarrow as pa

from ....state.codec.byte_arrays import bytes_of
from ....state.store.files import SortedStateWriter
from ....state.store.local_copy import LocalStateCopy


class EpochChanges:
    """What an epoch changes; takes what operators write, run after run."""

    def __init__(self) -> None:
        #: By stored key; None: deleted.
        self.entries: dict[bytes, bytes | None] = {}
        #: The keys that have changed since :meth:`write`.
        self.unwritten: set[bytes] = set()

    def put(self, key: bytes, value: bytes) -> None:
        """Set a key."""
        self.put_many([key], [value])

    def delete(self, key: bytes) -> None:
        """Delete a key."""
        self.put_many([key], [None])

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set and delete keys."""
        self.entries.update(zip(keys, values, strict=True))
        self.unwritten.update(keys)

    def put_arrays(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """The same as Arrow has them."""
        self.put_many(bytes_of(keys), values.to_pylist())

    def write(self, writer: SortedStateWriter) -> None:
        """Write what has changed since the last call, in stored order."""
        keys = sorted(self.unwritten)
        writer.put_many(keys, [self.entries[key] for key in keys])
        self.unwritten = set()


class OverlaidState(LocalStateCopy):
    """Reads of the committed state with an epoch's changes on top.

    Args:
        base: the committed state.
        changes: what has changed since; later changes are seen, too.
    """

    def __init__(self, base: LocalStateCopy, changes: EpochChanges) -> None:
        self._base = base
        self._entries = changes.entries
        self.folder = base.folder
        self.manifest = base.manifest

    def get(self, key: bytes) -> bytes | None:
        """The value of a stored key."""
        return self._entries[key] if key in self._entries else self._base.get(key)

    def multi_get(self, keys: list[bytes]) -> list[bytes | None]:
        """The values of many stored keys."""
        asked = [key for key in keys if key not in self._entries]
        stored = dict(zip(asked, self._base.multi_get(asked), strict=True))
        return [self._entries[key] if key in self._entries else stored[key] for key in keys]

    def scan(self, lower: bytes, upper: bytes, check: bool = True) -> Iterator[tuple[bytes, bytes]]:
        """Entries with ``lower <= key < upper`` in order."""
        changed = sorted(key for key in self._entries if lower <= key < upper)
        present = ((key, value) for key in changed if (value := self._entries[key]) is not None)

        def is_changed(key: bytes) -> bool:
            place = bisect_left(changed, key)
            return place < len(changed) and changed[place] == key

        stored = (entry for entry in self._base.scan(lower, upper, check) if not is_changed(entry[0]))
        yield from heapq.merge(stored, present)
