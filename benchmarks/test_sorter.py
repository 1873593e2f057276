"""Sorting many times more than the memory budget: speed, and memory, alone and in the Python workers of a backlog."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mixedmode
import pyarrow as pa
from dataset import Shape, batches, dataset
from processes import memory_bytes, python_workers, reset_peak
from pyspark.sql import SparkSession
from race import Race
from sorter_process import WARM_UP_BATCHES, WARM_UP_BUDGET_BYTES
from workload import processor

EXTERNAL = "ExternalSorter"
IN_MEMORY = "Arrow, all in memory"
SPARK = "Spark, sortWithinPartitions"
#: Bytes of a row of ``text`` width in Arrow: three numbers, the text and its offset.
ROW_BYTES = 3 * 8 + 100 + 4
BATCH_ROWS = 10_000
_MIB = 1 << 20


def shape_of(rows: int, files: int) -> Shape:
    """Rows with a text of 100 bytes; ten for each key."""
    return Shape(rows, max(rows // 10, 1), width="text", files=files)


def test_sorter(benchmark: Any, spark: SparkSession, bench: Any, tmp_path: Path) -> None:
    """One task's sort, each way in a process of its own (Spark: one partition)."""
    budget_bytes, times = bench.sizes.sorter_budget_bytes, bench.sizes.sorter_times
    shape = shape_of(budget_bytes * times // ROW_BYTES, 1)
    title = f"Sorter: {shape.rows:,} rows, {times} times its budget of {budget_bytes // _MIB} MiB, one task"
    begun = bench.begin("sorter", title, shape=shape.name, budget=budget_bytes)
    path = tmp_path / "rows.arrow"
    with pa.OSFile(str(path), "wb") as file:
        stream = None
        for batch in batches(shape, 0, BATCH_ROWS):
            stream = stream or pa.ipc.new_stream(file, batch.schema)
            stream.write_batch(batch)
        assert stream is not None
        stream.close()
    rows = spark.read.schema(shape.ddl).parquet(*dataset(shape).files).coalesce(1)
    found: dict[str, list[dict[str, Any]]] = {"external": [], "memory": []}

    def sort_in_process(how: str, folder: Path) -> None:
        command = [sys.executable, str(Path(__file__).with_name("sorter_process.py"))]
        command += [how, str(path), str(budget_bytes), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[how].append(json.loads(done.stdout))
        assert found[how][-1]["rows"] == shape.rows

    def sort_by_spark(folder: Path) -> None:
        rows.sortWithinPartitions("key", "ts").write.format("noop").mode("overwrite").save()

    ways = {
        EXTERNAL: lambda folder: sort_in_process("external", folder),
        IN_MEMORY: lambda folder: sort_in_process("memory", folder),
        SPARK: sort_by_spark,
    }
    seconds = Race(ways, dict.fromkeys(ways, bench.sizes.slow_rounds), bench.scratch).run(benchmark)
    # Without the time that the processes take to start.
    seconds[EXTERNAL] = [run["wall_s"] for run in found["external"]]
    seconds[IN_MEMORY] = [run["wall_s"] for run in found["memory"]]
    used_bytes = max(run["peak_bytes"] - run["base_bytes"] for run in found["external"])
    used_by_arrow = max(run["peak_bytes"] - run["base_bytes"] for run in found["memory"])
    notes = (
        f"memory over the process's base: {used_bytes / _MIB:.0f} MiB, all in memory {used_by_arrow / _MIB:.0f} MiB",
        f"{found['external'][-1]['runs']} runs spilled",
    )
    findings = {"sorter-memory": used_bytes / budget_bytes}
    bench.record(begun, rows=shape.rows, seconds=seconds, baselines=(SPARK, IN_MEMORY), findings=findings, notes=notes)


def test_backlog_memory(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """A processor's backlog in which every task sorts many times its budget, seen from the Python workers."""
    budget_bytes, times = bench.sizes.sorter_budget_bytes, bench.sizes.sorter_times
    tasks = spark.sparkContext.defaultParallelism
    shape = shape_of(tasks * budget_bytes * times // ROW_BYTES, 10)
    title = f"Backlog of the processor, {times} times the budget of {budget_bytes // _MIB} MiB in each of {tasks} tasks"
    begun = bench.begin("backlog-memory", title, shape=shape.name, budget=budget_bytes)
    with bench.scratch() as folder:
        small = shape_of(tasks * WARM_UP_BATCHES * BATCH_ROWS, tasks)
        spilled, _ = run_backlog(spark, small, WARM_UP_BUDGET_BYTES, folder)
        assert spilled > 0
    base = {pid: memory_bytes(pid) for pid in python_workers()}
    for pid in base:
        reset_peak(pid)
    # A worker that comes later is as large as the smallest that is there.
    smallest = min(base.values())
    with bench.scratch() as folder:
        spilled, seconds = benchmark.pedantic(run_backlog, args=(spark, shape, budget_bytes, folder), rounds=1)
    used = {pid: memory_bytes(pid, peak=True) - base.get(pid, smallest) for pid in python_workers()}
    highest = max(used, key=lambda pid: used[pid])
    peak, base_mib = used[highest] / _MIB, base.get(highest, smallest) / _MIB
    notes = (
        f"peak of a worker: {peak:.0f} MiB over its base of {base_mib:.0f} MiB",
        f"spilled by all: {spilled / _MIB:,.0f} MiB",
    )
    findings = {"backlog-memory": used[highest] / budget_bytes}
    bench.record(begun, rows=shape.rows, seconds={"mixed": [seconds]}, findings=findings, notes=notes)


def run_backlog(spark: SparkSession, shape: Shape, budget_bytes: int, folder: Path) -> tuple[int, float]:
    """Bytes spilled and seconds of a mixed run in which the tasks sort."""
    data = dataset(shape)
    started = time.perf_counter()
    query = (
        processor(mixedmode.read(history=spark.read.schema(shape.ddl).parquet(*data.files)))
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("sorter.engine", "arrow")
        .option("sorter.memory", str(budget_bytes))
        .start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - started
    metrics = query.recentProgress[0].stateOperators[0]["customMetrics"]
    return metrics["spilledBytes"], seconds
