"""Writes RocksDB table files: the state files of sorted passes and of compacted bases."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from operator import setitem

import pyarrow as pa
from pyarrow import fs
from rocksdict import SstFileWriter

from ...errors import CheckpointError
from ..codec.byte_arrays import bytes_of
from .files import StateFile, out_of_order
from .pool import PoolWriter, file_sha256, writing
from .rocksdb import table_options

#: Entries, or size of one value, after which the size of the file being written is looked at.
_CHUNK_ENTRIES = 4096
_CHUNK_BYTES = 64 * 1024
#: Bytes of values that become Python's at a time.
_ARRAY_BYTES = 1 << 20


class SstWriter(PoolWriter):
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
        super().__init__(filesystem, pool, local_dir, name, epoch)
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

    def put_arrays(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """The same as Arrow has them; null is a tombstone."""
        entries = max(1, min(_CHUNK_ENTRIES, len(keys) * _ARRAY_BYTES // max(1, values.nbytes)))
        for start in range(0, len(keys), entries):
            self._put_chunk(bytes_of(keys.slice(start, entries)), bytes_of(values.slice(start, entries)))

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
            deque(map(setitem, repeat(writer), keys, values), maxlen=0)  # type: ignore[arg-type]
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
            raise out_of_order(key, self._last)
        self._path = self._pool.staging_path(self._file_name(), self._local_dir)
        writer = SstFileWriter(table_options())
        writer.open(self._path)
        self._writer, self._first, self._count, self._tombstones = writer, key, 0, 0
        return writer

    def _file_name(self) -> str:
        return f"{self._name}-{len(self._files)}.sst"

    def _refused(self, error: Exception, key: bytes) -> Exception:
        if "ascending order" in str(error):
            return out_of_order(key, self._last)
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

    def finish_soon(self) -> None:
        """Nothing is done yet: :meth:`finish` does all of it."""

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
