"""State files and their writers.

Two formats, both sorted by stored key, both immutable:

``sst``  RocksDB table files for large sorted passes.  A replica ingests them: no write path, no compaction debt.
``log``  the change log of one random-access epoch: a compressed Arrow IPC stream of (key, value or null for a
         tombstone).  A replica applies it as write batches: for a few thousand changes far cheaper than a table.

A writer belongs to one task attempt, and so does its ``name``: an attempt that loses leaves files that nothing names.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, Protocol

import pyarrow as pa
from pyarrow import fs
from rocksdict import SstFileWriter

from ..errors import CheckpointError, CorruptStateError
from .keygroups import KeyGroupRange
from .pool import StatePool, file_sha256, writing
from .rocksdb import table_options

FileFormat = Literal["sst", "log"]

#: Entries, or size of one value, after which the size of the file being written is looked at.
_CHUNK_ENTRIES = 4096
_CHUNK_BYTES = 64 * 1024
#: Entries and about the bytes of values per record batch of a log (an Arrow array ends at 2 GiB).
_LOG_BATCH_ENTRIES = 16_384
_LOG_BATCH_BYTES = 16 * 1024 * 1024
_LOG_SCHEMA = pa.schema([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())])


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


class StateWriter(Protocol):
    """Takes stored keys in strictly ascending order; anything else is a ValueError."""

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Several entries at once; None is a tombstone."""
        ...


class SstWriter:
    """Writes table files of at most about ``max_file_bytes`` each."""

    def __init__(
        self,
        filesystem: fs.FileSystem,
        pool: str,
        local_dir: str,
        name: str,
        epoch: int,
        max_file_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._pool = StatePool(filesystem, pool)
        self._local_dir = local_dir
        self._name = name
        self._epoch = epoch
        self._max_file_bytes = max_file_bytes
        self._files: list[StateFile] = []
        self._writer: SstFileWriter | None = None
        self._path = ""
        self._first: bytes = b""
        self._last: bytes | None = None
        self._count = 0
        self._tombstones = 0
        self._unchecked = 0

    def put(self, key: bytes, value: bytes) -> None:
        """Add an entry."""
        writer = self._writer or self._open(key)
        try:
            writer[key] = value
        except Exception as error:
            raise self._refused(error, key) from error
        self._added(key, 1, len(value))

    def delete(self, key: bytes) -> None:
        """Add a tombstone."""
        writer = self._writer or self._open(key)
        try:
            del writer[key]
        except Exception as error:
            raise self._refused(error, key) from error
        self._tombstones += 1
        self._added(key, 1)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Add many entries; a value of None is a tombstone."""
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys but {len(values)} values")
        for start in range(0, len(keys), _CHUNK_ENTRIES):
            self._put_chunk(keys[start : start + _CHUNK_ENTRIES], values[start : start + _CHUNK_ENTRIES])

    def _put_chunk(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        if not all(values) and None in values:
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    self.delete(key)
                else:
                    self.put(key, value)
            return
        writer = self._writer or self._open(keys[0])
        try:
            deque(map(writer.__setitem__, keys, values), maxlen=0)
        except Exception as error:
            raise self._refused(error, keys[0]) from error
        self._added(keys[-1], len(keys), _CHUNK_BYTES)

    def _added(self, key: bytes, count: int, size_bytes: int = 0) -> None:
        self._last = key
        self._count += count
        self._unchecked += count
        if self._unchecked >= _CHUNK_ENTRIES or size_bytes >= _CHUNK_BYTES:
            self._unchecked = 0
            assert self._writer is not None
            if self._writer.file_size() >= self._max_file_bytes:
                self._close_file()

    def _open(self, key: bytes) -> SstFileWriter:
        if self._last is not None and key <= self._last:
            raise _out_of_order(key, self._last)
        self._path = self._pool.staging_path(self._file_name(), self._local_dir)
        writer = SstFileWriter(table_options())
        writer.open(self._path)
        self._writer, self._first, self._count, self._tombstones = writer, key, 0, 0
        return writer

    def _file_name(self) -> str:
        return f"{self._name}-{len(self._files)}.sst"

    def _refused(self, error: Exception, key: bytes) -> Exception:
        if "ascending order" in str(error):
            return _out_of_order(key, self._last)
        return CheckpointError(f"could not write state file {self._path}: {error}")

    def _close_file(self) -> None:
        writer, self._writer = self._writer, None
        assert writer is not None and self._last is not None
        try:
            writer.finish()
        except Exception as error:
            raise CheckpointError(f"could not write state file {self._path}: {error}") from error
        name = self._file_name()
        described = StateFile(
            name,
            "sst",
            os.path.getsize(self._path),
            file_sha256(self._path),
            self._count - self._tombstones,
            self._tombstones,
            self._first,
            self._last,
            self._epoch,
            self._epoch,
        )
        with writing(self._path):
            self._pool.publish(name, self._path)
        self._files.append(described)

    def finish(self) -> list[StateFile]:
        """Close and publish; empty if there was no entry."""
        if self._writer is not None:
            self._close_file()
        if self._files:
            self._pool.sync_folder()
        return list(self._files)

    def abort(self) -> None:
        """Remove everything that was written."""
        self._writer = None
        if os.path.exists(self._path):
            os.unlink(self._path)
        for file in self._files:
            self._pool.delete_quietly(file.name)
        self._files = []


class LogWriter:
    """Writes the change log of one epoch: one file, built in memory."""

    def __init__(
        self,
        filesystem: fs.FileSystem,
        pool: str,
        local_dir: str,
        name: str,
        epoch: int,
        max_file_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._pool = StatePool(filesystem, pool)
        self._local_dir = local_dir
        self._name = f"{name}-0.log"
        self._epoch = epoch
        self._first: bytes | None = None
        self._last: bytes | None = None
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._bytes = 0
        self._entries = 0
        self._tombstones = 0
        self._sink = pa.BufferOutputStream()
        self._stream: pa.ipc.RecordBatchStreamWriter | None = None
        self._file: StateFile | None = None

    def put(self, key: bytes, value: bytes) -> None:
        """Add an entry."""
        self._add(key, value)

    def delete(self, key: bytes) -> None:
        """Add a tombstone."""
        self._add(key, None)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Add many entries; a value of None is a tombstone."""
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys but {len(values)} values")
        size_bytes = sum([len(value) for value in values if value is not None])
        if size_bytes > _LOG_BATCH_BYTES and len(keys) > 1:
            half = len(keys) // 2
            self.put_many(keys[:half], values[:half])
            self.put_many(keys[half:], values[half:])
            return
        if not keys:
            return
        if self._last is None:
            self._first = keys[0]
        elif keys[0] <= self._last:
            raise _out_of_order(keys[0], self._last)
        for one, other in pairwise(keys):
            if one >= other:
                raise _out_of_order(other, one)
        self._last = keys[-1]
        self._keys += keys
        self._values += values
        self._bytes += size_bytes
        if len(self._keys) >= _LOG_BATCH_ENTRIES or self._bytes >= _LOG_BATCH_BYTES:
            self._write_batch()

    def _add(self, key: bytes, value: bytes | None) -> None:
        last = self._last
        if last is None:
            self._first = key
        elif key <= last:
            raise _out_of_order(key, last)
        self._last = key
        self._keys.append(key)
        self._values.append(value)
        self._bytes += len(value or b"")
        if len(self._keys) >= _LOG_BATCH_ENTRIES or self._bytes >= _LOG_BATCH_BYTES:
            self._write_batch()

    def _write_batch(self) -> None:
        if self._stream is None:
            self._stream = pa.ipc.new_stream(
                self._sink, _LOG_SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")
            )
        batch = pa.record_batch(
            [pa.array(self._keys, pa.binary()), pa.array(self._values, pa.binary())], schema=_LOG_SCHEMA
        )
        self._tombstones += batch.column(1).null_count
        self._entries += batch.num_rows - batch.column(1).null_count
        self._stream.write_batch(batch)
        self._keys, self._values, self._bytes = [], [], 0

    def finish(self) -> list[StateFile]:
        """Publish the file; empty if there was no entry."""
        if self._keys:
            self._write_batch()
        if self._stream is None:
            return []
        self._stream.close()
        self._stream = None
        data = self._sink.getvalue()
        assert self._first is not None and self._last is not None
        self._file = StateFile(
            self._name,
            "log",
            data.size,
            hashlib.sha256(data).hexdigest(),
            self._entries,
            self._tombstones,
            self._first,
            self._last,
            self._epoch,
            self._epoch,
        )
        staged = self._pool.staging_path(self._name, self._local_dir)
        with writing(staged):
            try:
                with open(staged, "wb") as file:
                    file.write(data)
                self._pool.publish(self._name, staged)
            except OSError:
                # In a pool elsewhere the file is not the pool's yet, so abort() would not find it.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(staged)
                raise
        self._pool.sync_folder()
        return [self._file]

    def abort(self) -> None:
        """Remove what was written."""
        if self._file is not None:
            self._pool.delete_quietly(self._name)
            self._file = None


def read_log(pool: StatePool, file: StateFile) -> Iterator[pa.RecordBatch]:
    """The checked content of a log, in order."""
    data = pool.read(file)
    entries = tombstones = 0
    try:
        with pa.ipc.open_stream(data) as reader:
            for batch in reader:
                tombstones += batch.column(1).null_count
                entries += batch.num_rows - batch.column(1).null_count
                yield batch
    except pa.ArrowInvalid as error:
        raise CorruptStateError(f"state file {pool.path(file.name)} cannot be read: {error}") from error
    if (entries, tombstones) != (file.entries, file.tombstones):
        raise CorruptStateError(
            f"state file {pool.path(file.name)} holds {entries} entries and {tombstones} tombstones, "
            f"its checkpoint recorded {file.entries} and {file.tombstones}"
        )


def with_epochs(files: Sequence[StateFile], first_epoch: int, last_epoch: int) -> list[StateFile]:
    """Descriptions of compacted files: they stand for all epochs that went into them."""
    return [replace(file, first_epoch=first_epoch, last_epoch=last_epoch) for file in files]


def _out_of_order(key: bytes, last: bytes | None) -> ValueError:
    previous = "" if last is None else f" (written so far: up to {last.hex()})"
    return ValueError(f"state keys must be strictly ascending: key {key.hex()} or one after it is not{previous}")
