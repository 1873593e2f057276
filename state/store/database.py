"""The contract of a state backend: the database behind the local copy of a shard, and how a process opens one.

What a checkpoint holds is the same for every backend: tables, which are files of RocksDB's, and logs of the pool.  A
backend is how a task reads them and puts new ones on top; one that is not RocksDB has to read its tables all the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ...errors import MixedModeError


class Position(Protocol):
    """A place between the entries of a database, which are in the order of their keys."""

    def seek(self, key: bytes) -> None:
        """Go to the first entry whose key is not less."""

    def next(self) -> None:
        """Go to the next entry."""

    def valid(self) -> bool:
        """Whether there is an entry here."""

    def key(self) -> Any:
        """Its key, as bytes."""

    def value(self) -> Any:
        """Its value, as bytes."""

    def status(self) -> None:
        """Raise what reading has failed with; without it a damaged database ends early."""


class LocalDatabase(ABC):
    """Entries of bytes in the order of their keys, in one folder of a local disk.

    What fails raises whatever the library raises; :meth:`explained` makes our error of it.
    """

    #: The value of a key; None: there is none.
    get: Callable[[bytes], bytes | None]

    @abstractmethod
    def multi_get(self, keys: list[bytes]) -> list[bytes | None]:
        """The values of many keys; fastest when they are sorted and close together."""

    @abstractmethod
    def position(self) -> Position:
        """A position that :meth:`Position.seek` has to place."""

    @abstractmethod
    def scan(self, lower: bytes, upper: bytes, check: bool = True) -> Iterator[tuple[bytes, bytes]]:
        """Entries with ``lower <= key < upper`` as of now; never silently short unless ``check`` is off."""

    @abstractmethod
    def write(self, keys: Sequence[bytes], values: Sequence[bytes | None], *, deletes: bool) -> None:
        """Set and delete keys, all or none.

        Args:
            keys: what is changed; the last change of a key counts.
            values: the new ones; None: the key is deleted.
            deletes: whether there may be such.
        """

    @abstractmethod
    def ingest_tables(self, paths: list[str]) -> None:
        """Put tables on top, which follow each other without overlap; their files may be taken over, never written.

        They come as files, since RocksDB links those of the pool and reads nothing: a restore takes no time for what
        nobody asks for.
        """

    @abstractmethod
    def ingest(self, entries: Iterator[tuple[bytes, bytes]]) -> None:
        """Put entries on top that come in the order of their keys."""

    @abstractmethod
    def delete_range(self, lower: bytes, upper: bytes) -> None:
        """Delete all keys from ``lower`` on, before ``upper``."""

    @abstractmethod
    def explained(self, error: Exception, doing: str) -> MixedModeError:
        """Our error for one that was raised; CorruptStateError if it tells of damage."""

    def tables(self) -> list[dict[str, Any]]:
        """The tables that are still as they were ingested: ``size``, ``start_key``, ``end_key``, ``num_entries``,
        ``num_deletions`` of each."""
        return []

    @property
    @abstractmethod
    def memory_bytes(self) -> int:
        """What it keeps in memory for itself."""

    @property
    @abstractmethod
    def is_lost(self) -> bool:
        """True if its files are gone."""

    @abstractmethod
    def close(self) -> None:
        """Give it back; its folder is removed by whoever has made it."""


class StateBackend(ABC):
    """The databases of one process, and the memory that they share."""

    @abstractmethod
    def open(self, path: str) -> LocalDatabase:
        """A fresh database in a folder that is not there yet."""

    @abstractmethod
    def resize(self, cache_bytes: int) -> None:
        """Say how much memory the blocks of all databases may take."""

    @property
    @abstractmethod
    def cached_bytes(self) -> int:
        """How much they take."""
