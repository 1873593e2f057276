"""Run as a process of its own: scans files within a budget of memory, merges what it has left, and tells its peak.

    python scan_memory_process.py <folder> <rows> <bytes of memory>

The folder gets a small file, whose scan shows what a process takes in any case, and ten with so many rows together.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mixedmode.runtime.scan.parquet_scan import FilePart, ParquetScan, ScanColumn
from mixedmode.runtime.scan.partial_calls import PartialCall
from mixedmode.runtime.scan.partial_scans import PartialScan, ScanKey
from mixedmode.runtime.tasks.scan.partial_runs import Buckets, PartialRuns
from mixedmode.runtime.tasks.scan.partial_scan import PartialScanTask
from mixedmode.runtime.tasks.scan.worker_heap import keep_heap
from pyarrow import fs

_COLUMNS = (ScanColumn("k", "string", pa.string()), ScanColumn("v", "bigint", pa.int64()))
_CALLS = (PartialCall("n", "count_all", None, pa.int64()), PartialCall("s", "sum", "v", pa.int64()))
_SCHEMA = pa.schema([("__kg", pa.int32()), ("k", pa.string()), ("n", pa.int64()), ("s", pa.int64())])


def _file(path: Path, rows: int, seed: int) -> FilePart:
    chance = np.random.default_rng(seed)
    writer: pq.ParquetWriter | None = None
    for start in range(0, rows, 50_000):
        count = min(50_000, rows - start)
        keys = chance.integers(0, 2**63, count).astype("<i8").view("S8").tolist()
        texts = pa.array([key.ljust(18, b"-").hex() for key in keys])
        table = pa.table({"k": texts, "v": chance.integers(0, 1000, count)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return FilePart(str(path), 0, path.stat().st_size)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _scanned(parts: list[FilePart], folder: Path, memory_bytes: int) -> tuple[int, int]:
    """How many runs there are, and how many rows their merge gives."""
    folder.mkdir()
    local, buckets = fs.LocalFileSystem(), Buckets(2, 128)
    partials = PartialScan(ParquetScan(_COLUMNS), (ScanKey("k", "k"),), _CALLS)
    task = PartialScanTask(
        partials=partials,
        source=local,
        parts=(),
        target=local,
        folder=str(folder),
        name="r",
        schema=_SCHEMA,
        group_columns=("k",),
        buckets=buckets,
        without=(),
        memory_bytes=memory_bytes,
    )
    paths = task.scanned(parts, "a").runs
    runs = PartialRuns(local, paths, _SCHEMA, buckets, ("k",), _CALLS, memory_bytes, str(folder), None)
    return len(paths), sum(batch.num_rows for shard in (0, 1) for batch in runs.of_shard(shard))


def main() -> None:
    """Do what is asked."""
    folder, rows, memory_bytes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    small = _file(folder / "small.parquet", 60_000, 0)
    large = [_file(folder / f"{number}.parquet", rows // 10, number + 1) for number in range(10)]
    keep_heap()
    _scanned([small], folder / "small", memory_bytes)
    before = _peak_bytes()
    runs, found = _scanned(large, folder / "large", memory_bytes)
    print(json.dumps({"runs": runs, "rows": found, "more_bytes": _peak_bytes() - before}))


if __name__ == "__main__":
    main()
