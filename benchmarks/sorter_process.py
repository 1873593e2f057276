"""Run as a process of its own: sorts the rows of an Arrow stream, and prints how long it took and how much memory.

    python sorter_process.py (external|memory) <file> <budget in bytes> <spill folder>

Memory is the peak of the process over its base: what it held just before, once it had imported everything, and had
spilled and merged a little with a small budget, so that code and buffers which do not grow with the work are there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
from mixedmode.sorter import ExternalSorter
from processes import memory_bytes, reset_peak

#: The warm-up's budget and batches: a few runs.
WARM_UP_BUDGET_BYTES = 4 << 20
WARM_UP_BATCHES = 15


def read(path: str) -> Iterator[pa.RecordBatch]:
    """The rows, a batch at a time; nothing of the file stays in memory."""
    with pa.OSFile(path) as file, pa.ipc.open_stream(file) as stream:
        yield from stream


def external(batches: Iterator[pa.RecordBatch], budget_bytes: int, folder: str) -> tuple[int, int]:
    """Rows sorted by :class:`ExternalSorter`, and the runs that it spilled."""
    first = next(batches)
    with ExternalSorter(first.schema, ["key"], then=["ts"], memory_bytes=budget_bytes, spill_dir=folder) as sorter:
        sorter.add(first)
        del first
        for batch in batches:
            sorter.add(batch)
        del batch
        rows = sum(batch.num_rows for batch in sorter.sorted_batches())
        return rows, sorter.stats.spilled_runs


def in_memory(batches: Iterator[pa.RecordBatch], budget_bytes: int, folder: str) -> tuple[int, int]:
    """Rows sorted by Arrow, all at once; they are taken batch by batch as well."""
    table = pa.Table.from_batches(batches).sort_by([("key", "ascending"), ("ts", "ascending")])
    return sum(batch.num_rows for batch in table.to_batches(max_chunksize=10_000)), 0


def main() -> None:
    """Warm up with a little, then measure."""
    how, path, budget_bytes, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    work = {"external": external, "memory": in_memory}[how]
    work(islice(read(path), WARM_UP_BATCHES), WARM_UP_BUDGET_BYTES, folder)
    pa.default_memory_pool().release_unused()
    pid = os.getpid()
    base_bytes = memory_bytes(pid)
    reset_peak(pid)
    wall, cpu = time.perf_counter(), time.process_time()
    rows, runs = work(read(path), budget_bytes, folder)
    found = {
        "rows": rows,
        "runs": runs,
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "base_bytes": base_bytes,
        "peak_bytes": memory_bytes(pid, peak=True),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
