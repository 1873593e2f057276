"""Reads and writes the chunks of keys with many rows.

A chunk is written once; which of its rows have had a partner since is in a small cell beside it.  Cells of a key, in
stored order: its chunks, their marks, its head.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from typing import IO

import numpy as np

from .....errors import CorruptStateError
from .....state.keys.key_space import state_key
from .....state.store.local_copy import LocalStateCopy
from .....state.store.pool import writing
from ...columnar.key_batches import Work

CHUNK_SLOT, MARK_SLOT, HEAD_SLOT = 0, 1, 2


def cell_name(group: int, key: bytes, slot: int, chunk: int) -> bytes:
    """Stored key of a chunk, or of its marks."""
    return state_key(group, key, slot, chunk.to_bytes(4, "big"))


def packed(matched: np.ndarray) -> bytes:
    """Marks as they are stored."""
    return np.packbits(matched).tobytes()


class ChunkStore:
    """Reads the chunks that earlier epochs have left."""

    def __init__(self, base: LocalStateCopy | None) -> None:
        self._base = base

    def read(self, names: Sequence[bytes]) -> list[bytes]:
        """The values of cells that are known to be there."""
        values = self._base.multi_get(list(names)) if self._base is not None and names else [None] * len(names)
        if None in values:
            raise CorruptStateError(
                f"a join's state lacks {values.count(None)} of {len(values)} chunks that its keys name: "
                "a file of it is damaged"
            )
        return [value for value in values if value is not None]


class Spool(ChunkStore):
    """The chunks of one key that has so many new rows that they come in pieces: new ones wait on the local disk.

    Its file has no name, so it goes with the process.

    Args:
        base: state of earlier epochs.
        folder: where the file is.
        stored: the value of the key's head; None: it has none.
        key: the key, without rows.
    """

    def __init__(self, base: LocalStateCopy | None, folder: str, stored: bytes | None, key: Work) -> None:
        super().__init__(base)
        self._folder = folder
        self.key = key
        self._file: IO[bytes] | None = None
        #: Where new cells are in the file, and how long each is.
        self._places: dict[bytes, tuple[int, int]] = {}
        self._end = 0
        #: Marks that have changed or are new.
        self.marks: dict[bytes, bytes] = {}
        #: The key's head as earlier epochs have left it, and as it is now.
        self.stored = stored
        self.head = stored

    def put(self, name: bytes, value: bytes) -> None:
        """Add a chunk."""
        with writing(self._folder):
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  it outlives this call
            self._file.seek(self._end)
            self._file.write(value)
        self._places[name] = self._end, len(value)
        self._end += len(value)

    @property
    def names(self) -> list[bytes]:
        """The chunks that are new."""
        return list(self._places)

    def has(self, name: bytes) -> bool:
        """True for a chunk that is new."""
        return name in self._places

    def read(self, names: Sequence[bytes]) -> list[bytes]:
        """The values of cells that are known to be there."""
        here = {name: self._value(name) for name in names if name in self._places}
        here.update((name, self.marks[name]) for name in names if name in self.marks)
        elsewhere = [name for name in names if name not in here]
        here.update(zip(elsewhere, super().read(elsewhere), strict=True))
        return [here[name] for name in names]

    def _value(self, name: bytes) -> bytes:
        assert self._file is not None
        at, length = self._places[name]
        with writing(self._folder):
            self._file.seek(at)
            return self._file.read(length)

    def close(self) -> None:
        """Give the file up."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
