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

from collections.abc import Iterator

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteOptions,
)

from ...errors import CheckpointError, CorruptStateError, MixedModeError

_BLOCK_BYTES = 16 * 1024
_WRITE_BUFFER_BYTES = 64 * 1024 * 1024
_BLOOM_BITS_PER_KEY = 10


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


def open_database(path: str, cache: Cache | None) -> Rdict:
    """Create a fresh database."""
    options = table_options(cache)
    options.create_if_missing(True)
    options.set_error_if_exists(True)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(1)
    options.set_stats_dump_period_sec(0)
    # A fired timer leaves a tombstone at the front of the timer index; files full of them are compacted early.
    options.add_compact_on_deletion_collector_factory(10_000, 5_000, 0.5)
    try:
        return Rdict(path, options)
    except Exception as error:
        raise wrap(error, f"open a replica at {path}") from error


def without_log() -> WriteOptions:
    """Write options of every write to a local copy."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]
    return options


def scan(database: Rdict, lower: bytes, upper: bytes, check: bool = True) -> Iterator[tuple[bytes, bytes]]:
    """Entries with ``lower <= key < upper`` as of now; never silently short unless ``check`` is off."""
    bounds = ReadOptions()
    bounds.set_iterate_upper_bound(upper)
    cursor = database.iter(bounds)
    cursor.seek(lower)
    while cursor.valid():
        yield cursor.key(), cursor.value()
        cursor.next()
    if check:
        try:
            cursor.status()
        except Exception as error:
            raise wrap(error, "scan a replica") from error


def wrap(error: Exception, doing: str) -> MixedModeError:
    """Our error for one of RocksDB's, told apart by the status text."""
    text = str(error)
    if text.startswith("Corruption"):
        return CorruptStateError(f"could not {doing}: {text}")
    return CheckpointError(f"could not {doing}: {text}")
