"""The backlogs of aggregate jobs: ours with the engine that it chooses, ours with Spark's engine, and plain Spark.

``MIXEDMODE_BENCH_JOBS`` names some of the jobs, with semicolons between them (default: all, in fresh processes some).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import JOBS, files
from engine_process import AUTO, PLAIN, SPARK, arguments, engine, prepared
from fresh import CPU_S, FROM_READ_S, SECONDS
from pyspark.sql import SparkSession
from race import Race, ratio
from test_restore import process

WAYS = (PLAIN, AUTO, SPARK)
_JOBS = [name for name in (os.environ.get("MIXEDMODE_BENCH_JOBS") or "").split(";") if name]
#: One of each kind.
_FRESH = ("integers", "doubles", "uuid keys", "window and key, a row a group", "sliding windows", "JSON text")


@pytest.mark.parametrize("job", _JOBS or JOBS)
def test_engines(benchmark: Any, spark: SparkSession, bench: Any, job: str) -> None:
    """In turn, in a warm JVM; state and checkpoint are included, of plain batch there is none."""
    rows = bench.sizes.engine_rows
    begun = bench.begin(f"engines-{job}", f"Backlog by engine, {job}: {rows:,} rows", rows=rows)
    files(rows, JOBS[job])
    ways = {name: lambda folder, name=name: prepared(spark, name, job, rows, folder)() for name in WAYS}
    for run in ways.values():
        with bench.scratch() as folder:
            run(folder)
    with bench.scratch() as folder:
        taken = engine(spark, job, rows, folder)
    rounds = dict.fromkeys(WAYS, bench.sizes.engine_rounds)
    race = Race(ways, rounds, bench.scratch)
    seconds = race.run(benchmark)
    bench.record(
        begun,
        rows=rows,
        seconds=seconds,
        cpu_s=race.cpu_s,
        baselines=(PLAIN, SPARK),
        findings={
            f"engines-{job}": ratio(seconds, AUTO, PLAIN),
            f"engines-spark-{job}": ratio(seconds, SPARK, PLAIN),
        },
        notes=(f"auto takes {taken}",),
    )


@pytest.mark.parametrize("job", _JOBS or _FRESH)
def test_engines_in_fresh_processes(benchmark: Any, bench: Any, tmp_path: Path, job: str) -> None:
    """In turn, each in a session that has done nothing yet."""
    rows = bench.sizes.engine_rows
    begun = bench.begin(f"engines-fresh-{job}", f"Backlog by engine, fresh process, {job}: {rows:,} rows", rows=rows)
    files(rows, JOBS[job])
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in WAYS}

    def all_ways() -> None:
        for name, each in found.items():
            each.append(process(arguments(name, job, rows, tmp_path)))

    benchmark.pedantic(all_ways, rounds=bench.sizes.engine_rounds)
    seconds, from_read, cpu = (
        {name: [one[measure] for one in each] for name, each in found.items()}
        for measure in (SECONDS, FROM_READ_S, CPU_S)
    )
    findings = {
        f"engines-fresh-{job}": ratio(seconds, AUTO, PLAIN),
        f"engines-fresh-spark-{job}": ratio(seconds, SPARK, PLAIN),
    }
    notes = (f"from read(): auto {ratio(from_read, AUTO, PLAIN):.2f}, spark {ratio(from_read, SPARK, PLAIN):.2f}",)
    bench.record(begun, rows=rows, seconds=seconds, cpu_s=cpu, baselines=(PLAIN, SPARK), findings=findings, notes=notes)
