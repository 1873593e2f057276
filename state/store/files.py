"""State files: the description of one, and what a writer of them takes.

Two formats, both sorted by stored key, both immutable:

``sst``  RocksDB table files for large sorted passes (:mod:`.sst`).  A local copy ingests them: no write path, no
         compaction debt.
``log``  the change log of one random-access epoch (:mod:`.log`): a compressed Arrow IPC stream of (key, value or null
         for a tombstone).  A local copy applies it as write batches: for a few thousand changes far cheaper than a
         table.

A writer belongs to one task attempt, and so does its ``name``: an attempt that loses leaves files that nothing names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import pyarrow as pa

from ..keys.keygroups import KeyGroupRange

FileFormat = Literal["sst", "log"]


@dataclass(frozen=True)
class StateFile:
    """Description of one immutable file in the pool."""

    #: Name below the pool folder.
    name: str
    format: FileFormat
    size_bytes: int
    sha256: str
    #: Puts in the file; tombstones come on top.
    entries: int
    tombstones: int
    first_key: bytes
    last_key: bytes
    first_epoch: int
    last_epoch: int
    #: Only these key groups of the file count (it comes from a shard with another range); None: all of it.
    clip: KeyGroupRange | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON-able form; keys in hex."""
        return {
            "name": self.name,
            "format": self.format,
            "size_bytes": self.size_bytes,
            "sha256": self.sha256,
            "entries": self.entries,
            "tombstones": self.tombstones,
            "first_key": self.first_key.hex(),
            "last_key": self.last_key.hex(),
            "first_epoch": self.first_epoch,
            "last_epoch": self.last_epoch,
            "clip": None if self.clip is None else [self.clip.first, self.clip.last],
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> StateFile:
        """Inverse of :meth:`to_json`."""
        clip = body.get("clip")
        return cls(
            **{
                **body,
                "first_key": bytes.fromhex(body["first_key"]),
                "last_key": bytes.fromhex(body["last_key"]),
                "clip": None if clip is None else KeyGroupRange(*clip),
            }
        )

    @property
    def key_groups(self) -> KeyGroupRange:
        """The range of key groups in which the file has keys, regardless of its clip."""
        return KeyGroupRange(int.from_bytes(self.first_key[:2], "big"), int.from_bytes(self.last_key[:2], "big"))


class SortedStateWriter(Protocol):
    """Takes stored keys in strictly ascending order; anything else is a ValueError."""

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Several entries at once; None is a tombstone."""
        ...

    def put_arrays(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """The same as Arrow has them; null is a tombstone."""
        ...


def with_epochs(files: Sequence[StateFile], first_epoch: int, last_epoch: int) -> list[StateFile]:
    """Descriptions of compacted files: they stand for all epochs that went into them."""
    return [replace(file, first_epoch=first_epoch, last_epoch=last_epoch) for file in files]


def out_of_order(key: bytes, last: bytes | None) -> ValueError:
    previous = "" if last is None else f" (written so far: up to {last.hex()})"
    return ValueError(f"state keys must be strictly ascending: key {key.hex()} or one after it is not{previous}")
