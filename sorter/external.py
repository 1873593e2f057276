"""ExternalSorter: any number of rows in, sorted rows out, within a memory budget.

Rows are collected until the budget is used up, sorted, and written to a spill file (a *run*); at the end the runs are
merged.  What fits into memory is never written.

How the budget is shared.  While rows come in, each batch is counted twice (itself, and its part of the joined copy
that is sorted) plus 16 bytes a row for sort indices; an eighth is left for the block on its way to disk.  In a merge,
the blocks in memory may take a sixth; the rows of a round, at most as many, exist three times more (joined, sorted,
and collected for the next output batch).  The rest is what Arrow's allocator holds without need.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..errors import SorterError
from ..state.codec.gather import gathered_rows
from .batches import join, regroup, split
from .limiter import ByteLimiter
from .merge import merge
from .order import Ordering
from .runs import Run, write_run
from .spill import SpillFolder

#: More memory than this is not used: joined string columns have 32-bit offsets.
MAX_MEMORY_BYTES = 4 * 1024**3 - 1
#: Below, blocks get so small that a merge is all overhead.
MIN_MEMORY_BYTES = 256 * 1024
#: A block is large enough to read and sort at speed, and small enough that a merge holds many of them.
MIN_BLOCK_BYTES, MAX_BLOCK_BYTES = 8 * 1024, 1024 * 1024
#: Sort indices (8 bytes a row) and the sort's own scratch space.
INDEX_BYTES_PER_ROW = 16


@dataclass(frozen=True)
class SortStats:
    """What a sorter has done so far."""

    rows: int = 0
    bytes_in: int = 0
    #: Bytes written to disk, by merges too.
    spilled_bytes: int = 0
    #: Sorted runs written because the memory budget was used up.
    spilled_runs: int = 0
    #: Merges of runs on disk, the last one (which writes nothing) included.
    merge_passes: int = 0


class ExternalSorter:
    """Sorts rows by ``key``, then ``then``, nulls first, then in order of arrival.

    ``key`` columns compare as :class:`~mixedmode.state.keys.keys.KeyCodec` encodes them, which is the order of RocksDB.
    Use as a context manager: leaving it, or closing the iterator, removes everything spilled.

    >>> schema = pa.schema([("user", pa.string()), ("n", pa.int64())])
    >>> with ExternalSorter(schema, ["user"], memory_bytes=1 << 20) as sorter:
    ...     sorter.add(pa.record_batch([["b", "a", None], [1, 2, 3]], schema=schema))
    ...     [batch.to_pydict() for batch in sorter.sorted_batches()]
    [{'user': [None, 'a', 'b'], 'n': [3, 2, 1]}]
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: Sequence[str],
        *,
        then: Sequence[str] = (),
        memory_bytes: int,
        spill_dir: str | None = None,
        max_open_files: int = 128,
        codec: str | None = "lz4",
    ) -> None:
        if memory_bytes < MIN_MEMORY_BYTES:
            raise SorterError(
                f"sorter.memory is {memory_bytes} bytes; the smallest that works is {MIN_MEMORY_BYTES}",
                code="MIXEDMODE_SORTER_MEMORY",
            )
        if max_open_files < 2:
            raise SorterError(f"max_open_files is {max_open_files}; a merge needs at least 2")
        self.schema = schema
        self.memory_bytes = min(memory_bytes, MAX_MEMORY_BYTES)
        self.limiter = ByteLimiter(self.memory_bytes - self.memory_bytes // 8)
        self._ordering = Ordering(schema, key, then)
        self._codec = codec
        self._max_open_files = max_open_files
        self._block_bytes = min(max(self.memory_bytes // 384, MIN_BLOCK_BYTES), MAX_BLOCK_BYTES)
        self._folder = SpillFolder(spill_dir)
        self._batches: list[pa.RecordBatch] = []
        self._runs: list[Run] = []
        #: What was done so far.
        self.stats = SortStats()
        self._open = True

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows, in parts if they are more than the budget can hold; may write runs to disk."""
        if not self._open:
            raise SorterError("rows cannot be added once the sorter has been read or closed; use a new sorter")
        if not batch.schema.equals(self.schema):
            raise SorterError(
                f"batch does not fit: its schema is [{_brief(batch.schema)}], not [{_brief(self.schema)}]"
            )
        if batch.num_rows == 0:
            return
        size_bytes = batch.nbytes
        if batch.get_total_buffer_size() > 2 * size_bytes + MIN_BLOCK_BYTES:
            # A slice of something larger: a copy lets go of the rest, which the limiter does not know.
            batch = batch.take(pa.array(np.arange(batch.num_rows, dtype=np.int32)))
        inner = self._ordering.extend(batch)
        needed_bytes = 2 * inner.nbytes + INDEX_BYTES_PER_ROW * inner.num_rows
        if needed_bytes > self.limiter.limit_bytes:
            if batch.num_rows > 1:
                half = batch.num_rows // 2
                self.add(batch.slice(0, half))
                self.add(batch.slice(half))
                return
            smallest = -(-needed_bytes * 8 // 7)
            raise SorterError(
                f"sorter.memory is {self.memory_bytes} bytes, but one row needs {smallest}; "
                f"set sorter.memory to at least {smallest} bytes",
                code="MIXEDMODE_SORTER_MEMORY",
            )
        if not self.limiter.fits(needed_bytes):
            self._spill()
        self.limiter.acquire(needed_bytes)
        self._batches.append(inner)
        self._count(rows=batch.num_rows, bytes_in=size_bytes)

    def sorted_batches(self, batch_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
        """All rows in order, once, in batches of ``batch_rows`` rows, or fewer where those would not fit the budget."""
        if batch_rows < 1:
            raise SorterError(f"batch_rows is {batch_rows}; it must be at least 1")
        if not self._open:
            raise SorterError("sorted rows can be read once, and not after close(); use a new sorter")
        self._open = False
        return self._read(batch_rows)

    def _read(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        try:
            if self._runs and self._batches:
                self._spill()
            if self._runs:
                self._merge_down()
                self._count(merge_passes=1)
                with self._folder.guard():
                    rows = map(self._ordering.strip, self._merge(self._runs))
                    yield from regroup(rows, batch_rows, self.memory_bytes // 8)
            elif self._batches:
                yield from map(self._ordering.strip, self._sort_memory(batch_rows, self.memory_bytes // 8))
        finally:
            self.close()

    def close(self) -> None:
        """Let go of all rows and remove everything spilled; may be called again."""
        self._open = False
        self._batches.clear()
        self._runs.clear()
        self.limiter.release_all()
        self._folder.remove()

    def _sort_memory(self, max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """The rows held in memory, sorted.  They are let go of when the iterator ends."""
        joined = join(self._batches)
        self._batches.clear()
        indices = self._ordering.sort_indices(joined)
        step = max(1, min(max_rows, joined.num_rows * max_bytes // joined.nbytes))
        for start in range(0, joined.num_rows, step):
            yield from split(gathered_rows(joined, indices.slice(start, step)), max_rows, max_bytes)

    def _spill(self) -> None:
        """Write the rows held in memory as a run."""
        run = self._write(self._sort_memory(MAX_MEMORY_BYTES, self._block_bytes))
        self._runs.append(run)
        self._count(spilled_runs=1)
        self.limiter.release_all()
        smallest = 8 * run.max_block_bytes
        if smallest > self.memory_bytes:
            raise SorterError(
                f"sorter.memory is {self.memory_bytes} bytes, but the largest row has {run.max_block_bytes}; "
                f"set sorter.memory to at least {smallest} bytes",
                code="MIXEDMODE_SORTER_MEMORY",
            )

    def _write(self, batches: Iterator[pa.RecordBatch]) -> Run:
        path = self._folder.new_file()
        with self._folder.guard():
            run = write_run(path, self._ordering.inner_schema, batches, self._codec)
        self._count(spilled_bytes=run.size_bytes)
        _release_unused()
        return run

    def _merge(self, runs: list[Run]) -> Iterator[pa.RecordBatch]:
        """Merge runs, and give memory back all the way."""
        unreleased_bytes = 0
        for batch in merge(runs, self._ordering):
            unreleased_bytes += batch.nbytes
            yield batch
            if unreleased_bytes > self.memory_bytes // 16:
                unreleased_bytes = 0
                _release_unused()

    def _merge_down(self) -> None:
        """Merge neighbours (arrival order!) until one merge can take all runs; small ones first, to rewrite little."""
        while len(self._runs) > (fan_in := self._fan_in()):
            width = min(fan_in, len(self._runs) - fan_in + 1)
            starts = range(len(self._runs) - width + 1)
            first = min(starts, key=lambda start: sum(run.size_bytes for run in self._runs[start : start + width]))
            window = self._runs[first : first + width]
            merged = self._write(regroup(self._merge(window), MAX_MEMORY_BYTES, self._block_bytes))
            self._runs[first : first + width] = [merged]
            self._count(merge_passes=1)
            for run in window:
                os.unlink(run.path)

    def _fan_in(self) -> int:
        """How many runs one merge may read: their blocks take at most a sixth of the budget."""
        largest = max(run.max_block_bytes for run in self._runs)
        return max(2, min(self._max_open_files, self.memory_bytes // 6 // largest))

    def _count(self, **more: int) -> None:
        self.stats = replace(self.stats, **{name: getattr(self.stats, name) + more[name] for name in more})

    def __enter__(self) -> ExternalSorter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _release_unused() -> None:
    """Give freed memory back: Arrow's allocator would keep it, and the budget is about what the process holds."""
    pa.default_memory_pool().release_unused()


def _brief(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
