"""Writes and reads change logs: the state files of random-access epochs."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from operator import ge

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from ...errors import CorruptStateError
from .files import StateFile, out_of_order
from .pool import PoolWriter, StatePool, begin_new_file_sync, writing

#: Entries and about the bytes of values per record batch of a log (an Arrow array ends at 2 GiB).
_LOG_BATCH_ENTRIES = 16_384
_LOG_BATCH_BYTES = 16 * 1024 * 1024
#: Smaller ones are not compressed: that would take longer than to write them.
_COMPRESSED_BYTES = 64 * 1024
#: Larger ones are written beside what else their task does.
_SMALL_BYTES = 256 * 1024
_LOG_SCHEMA = pa.schema([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())])


class LogWriter(PoolWriter):
    """Writes the change log of one epoch: one file, built in memory."""

    def __init__(self, filesystem: fs.FileSystem, pool: str, local_dir: str, name: str, epoch: int) -> None:
        super().__init__(filesystem, pool, local_dir, f"{name}-0.log", epoch)
        self._first: bytes | None = None
        self._last: bytes | None = None
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._bytes = 0
        self._entries = 0
        self._tombstones = 0
        self._sink = pa.BufferOutputStream()
        self._stream: pa.ipc.RecordBatchStreamWriter | None = None
        #: What was written; None: nothing yet, or there was no entry.
        self.file: StateFile | None = None

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
        size_bytes = sum(map(len, filter(None, values)))
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
            raise out_of_order(keys[0], self._last)
        if any(map(ge, keys, islice(keys, 1, None))):
            raise next(out_of_order(other, one) for one, other in pairwise(keys) if one >= other)
        self._last = keys[-1]
        self._keys += keys
        self._values += values
        self._bytes += size_bytes
        if len(self._keys) >= _LOG_BATCH_ENTRIES or self._bytes >= _LOG_BATCH_BYTES:
            self._write_batch()

    def put_arrays(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """The same as Arrow has them; null is a tombstone."""
        if not len(keys):
            return
        if self._keys:
            self._write_batch()
        first = keys[0].as_py()
        if self._last is None:
            self._first = first
        elif first <= self._last:
            raise out_of_order(first, self._last)
        ascends = pc.less(keys[:-1], keys[1:])
        if ascends.false_count:
            raise out_of_order(keys[ascends.index(False).as_py() + 1].as_py(), self._last)
        self._last = keys[-1].as_py()
        for start in range(0, len(keys), _LOG_BATCH_ENTRIES):
            part = [array.slice(start, _LOG_BATCH_ENTRIES) for array in (keys, values)]
            self._write(pa.record_batch(part, schema=_LOG_SCHEMA))

    def _add(self, key: bytes, value: bytes | None) -> None:
        last = self._last
        if last is None:
            self._first = key
        elif key <= last:
            raise out_of_order(key, last)
        self._last = key
        self._keys.append(key)
        self._values.append(value)
        self._bytes += len(value or b"")
        if len(self._keys) >= _LOG_BATCH_ENTRIES or self._bytes >= _LOG_BATCH_BYTES:
            self._write_batch()

    def _write_batch(self) -> None:
        self._write(
            pa.record_batch(
                [pa.array(self._keys, pa.binary()), pa.array(self._values, pa.binary())], schema=_LOG_SCHEMA
            )
        )
        self._keys, self._values, self._bytes = [], [], 0

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._stream is None:
            compression = "zstd" if batch.nbytes >= _COMPRESSED_BYTES else None
            options = pa.ipc.IpcWriteOptions(compression=compression)
            self._stream = pa.ipc.new_stream(self._sink, _LOG_SCHEMA, options=options)
        self._tombstones += batch.column(1).null_count
        self._entries += batch.num_rows - batch.column(1).null_count
        self._stream.write_batch(batch)

    def finish(self) -> list[StateFile]:
        """Publish the file; empty if there was no entry."""
        data = self._closed()
        if data is None or self.file is None:
            return []
        staged = self._pool.staging_path(self._name, self._local_dir)
        with writing(staged):
            try:
                with open(staged, "wb") as file:
                    file.write(data)
                self._pool.publish(self._name, staged, with_name=True)
            except OSError:
                # In a pool elsewhere the file is not the pool's yet, so abort() would not find it.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(staged)
                raise
        self._pool.keep(self._name, data)
        return [self.file]

    def finish_soon(self) -> Callable[[], list[StateFile]] | None:
        """Write a small file at once.

        Returns:
            Waits until it is durable, as :meth:`finish`; None: nothing was done, :meth:`finish` does all of it.
        """
        if not self._pool.is_local or self._sink.tell() + self._bytes > _SMALL_BYTES:
            return None
        data = self._closed()
        if data is None or self.file is None:
            return list
        staged, written = self._pool.staging_path(self._name, self._local_dir), [self.file]
        with writing(staged):
            with open(staged, "wb") as file:
                file.write(data)
            durable = begin_new_file_sync(staged)

        def ended() -> list[StateFile]:
            with writing(staged):
                durable()
            self._pool.keep(self._name, data)
            return written

        return ended

    def _closed(self) -> pa.Buffer | None:
        """What the file has; None: there was no entry."""
        if self._keys:
            self._write_batch()
        if self._stream is None:
            return None
        self._stream.close()
        self._stream = None
        data = self._sink.getvalue()
        assert self._first is not None and self._last is not None
        self.file = StateFile(
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
        return data

    def abort(self) -> None:
        """Remove what was written."""
        if self.file is not None:
            self._pool.delete_quietly(self._name)
            self.file = None


def read_log(pool: StatePool, file: StateFile, *, at_hand: bool = False) -> Iterator[pa.RecordBatch]:
    """The checked content of a log, in order; ``at_hand``: see :meth:`StatePool.read`."""
    data = pool.read(file, at_hand=at_hand)
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
