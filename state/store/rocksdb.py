"""The one place that knows how RocksDB is opened and what its errors mean.

rocksdict reports everything as plain ``Exception`` with RocksDB's status text, and a few of its calls do not do what
their names say; the rules that the rest of the room relies on are here:

- raw mode everywhere: bytes in, bytes out, bytewise order (files of the other mode do not ingest);
- never iterate with ``items()``: over a damaged block it ends early and silently; :func:`scan` asks for the status;
- never set a lower bound (it assigns the upper one) and never iterate a snapshot (it shows later writes);
- no write-ahead log: a local copy can always be rebuilt from the pool;
- open after fork, never before: a forked child shares no background threads and would hang or lose writes.
"""

from __future__ import annotations

import os
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    ReadOptions,
    SstFileWriter,
    WriteBatch,
    WriteOptions,
)

from ...errors import CheckpointError, CorruptStateError, MixedModeError
from .database import LocalDatabase, Position, StateBackend

_BLOCK_BYTES = 16 * 1024
_WRITE_BUFFER_BYTES = 64 * 1024 * 1024
_BLOOM_BITS_PER_KEY = 10
#: What RocksDB keeps in memory for a database alone.
_IN_MEMORY = ("rocksdb.cur-size-all-mem-tables", "rocksdb.estimate-table-readers-mem")


def table_options(cache: Cache | None = None) -> Options:
    """Options of tables, both of files we write and of a local copy."""
    table = BlockBasedOptions()
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, False)
    table.set_block_size(_BLOCK_BYTES)
    if cache is not None:
        table.set_block_cache(cache)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    return options


class RocksDB(LocalDatabase):
    """A RocksDB of raw bytes."""

    def __init__(self, path: str, cache: Cache | None = None) -> None:
        options = table_options(cache)
        options.create_if_missing(True)
        options.set_error_if_exists(True)
        options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
        options.set_max_background_jobs(2)
        options.set_keep_log_file_num(1)
        options.set_stats_dump_period_sec(0)
        # A fired timer leaves a tombstone at the front of the timer index; files full of them are compacted early.
        options.add_compact_on_deletion_collector_factory(10_000, 5_000, 0.5)
        self._path = path
        try:
            self.rdict = Rdict(path, options)
        except Exception as error:
            raise wrap(error, f"open the local copy at {path}") from error
        self.get = self.rdict.get  # called for each key: without a call in between

    def multi_get(self, keys: list[bytes]) -> list[bytes | None]:
        values: Any = self.rdict.get(keys)  # type: ignore[arg-type]
        return values

    def position(self) -> Position:
        return self.rdict.iter()

    def scan(self, lower: bytes, upper: bytes, check: bool = True) -> Iterator[tuple[bytes, bytes]]:
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(upper)
        cursor = self.rdict.iter(bounds)
        cursor.seek(lower)
        while cursor.valid():
            yield cursor.key(), cursor.value()
            cursor.next()
        if check:
            try:
                cursor.status()
            except Exception as error:
                raise wrap(error, "scan a local copy") from error

    def write(self, keys: Sequence[bytes], values: Sequence[bytes | None], *, deletes: bool) -> None:
        changes = WriteBatch(raw_mode=True)
        if deletes:
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    del changes[key]
                else:
                    changes[key] = value
        else:
            deque(map(changes.__setitem__, keys, values), maxlen=0)
        self.rdict.write(changes, _without_log())

    def ingest_tables(self, paths: list[str]) -> None:
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        self.rdict.ingest_external_file(paths, options)

    def ingest(self, entries: Iterator[tuple[bytes, bytes]]) -> None:
        first = next(entries, None)
        if first is None:
            return  # there are no tables without entries
        path = f"{self._path}-{uuid.uuid4().hex}.sst"
        writer = SstFileWriter(table_options())
        writer.open(path)
        for key, value in chain([first], entries):
            writer[key] = value
        writer.finish()
        self.ingest_tables([path])

    def delete_range(self, lower: bytes, upper: bytes) -> None:
        self.rdict.delete_range(lower, upper)

    def explained(self, error: Exception, doing: str) -> MixedModeError:
        return wrap(error, doing)

    def tables(self) -> list[dict[str, Any]]:
        """RocksDB does not tell what a table was ingested from, nor of one that compaction has taken."""
        found: list[dict[str, Any]] = self.rdict.live_files()
        return found

    @property
    def memory_bytes(self) -> int:
        return sum(self.rdict.property_int_value(name) or 0 for name in _IN_MEMORY)

    @property
    def is_lost(self) -> bool:
        """True if its files are gone: what is open may still be read, but nothing can be brought in."""
        return not os.path.isfile(f"{self._path}/CURRENT")

    def close(self) -> None:
        self.rdict.close()


class RocksDBBackend(StateBackend):
    """All RocksDBs of a process, with one cache of blocks."""

    def __init__(self, cache_bytes: int) -> None:
        self._blocks = Cache(cache_bytes)

    def open(self, path: str) -> RocksDB:
        return RocksDB(path, self._blocks)

    def resize(self, cache_bytes: int) -> None:
        self._blocks.set_capacity(cache_bytes)

    @property
    def cached_bytes(self) -> int:
        return self._blocks.get_usage()


def _without_log() -> WriteOptions:
    """Write options of every write to a local copy."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]
    return options


def wrap(error: Exception, doing: str) -> MixedModeError:
    """Our error for one of RocksDB's, told apart by the status text."""
    text = str(error)
    if text.startswith("Corruption"):
        return CorruptStateError(f"could not {doing}: {text}")
    return CheckpointError(f"could not {doing}: {text}")
