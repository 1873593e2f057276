"""Deduplications and joins over a backlog of rows nobody has seen before, against plain batch, warm and fresh.

``MIXEDMODE_BENCH_JOBS`` names some of the jobs (default: all), ``MIXEDMODE_BENCH_SEED`` the rows.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from fresh import CPU_S, FROM_READ_S, SECONDS
from keyed_rows import OURS, PLAIN, WAYS, row_jobs
from keyed_rows_process import arguments
from pyspark.sql import SparkSession
from race import Race, ratio
from test_restore import process

_SEED = int(os.environ.get("MIXEDMODE_BENCH_SEED") or time.time())
_JOBS = [name for name in (os.environ.get("MIXEDMODE_BENCH_JOBS") or "").split(",") if name]


@pytest.mark.parametrize("name", _JOBS or row_jobs(0, 0))
def test_keyed_rows(benchmark: Any, spark: SparkSession, bench: Any, tmp_path: Path, name: str) -> None:
    """All ways in turn, round by round: in one session, and each in a process of its own."""
    rows = bench.sizes.keyed_rows
    job, warm_up = row_jobs(rows, _SEED)[name], row_jobs(10_000, _SEED)[name]
    begun = bench.begin(f"rows-{name}", f"Backlog of rows, {name}: {rows:,} rows, seed {_SEED}", rows=rows)
    for side in (*job.sides, *warm_up.sides):
        side.files()  # before anything is measured
    for way in WAYS:
        with bench.scratch() as folder:
            warm_up.run(spark, way, folder)
    ways = {way: lambda folder, way=way: job.run(spark, way, folder) for way in WAYS}
    race = Race(ways, dict.fromkeys(ways, bench.sizes.rounds), bench.scratch)
    seconds = dict(race.run(benchmark))
    findings, cpu = {f"rows-{name}-warm": ratio(seconds, OURS, PLAIN)}, dict(race.cpu_s)
    notes = []
    fresh: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(bench.sizes.keyed_fresh_rounds):
        for way, each in fresh.items():
            each.append(process(arguments(name, way, rows, _SEED, tmp_path)))
    if all(fresh.values()):
        for way, each in fresh.items():
            seconds[f"{way}, fresh"] = [one[SECONDS] for one in each]
            cpu[f"{way}, fresh"] = [one[CPU_S] for one in each]
        findings[f"rows-{name}-fresh"] = ratio(seconds, f"{OURS}, fresh", f"{PLAIN}, fresh")
        by_cpu = ratio(cpu, f"{OURS}, fresh", f"{PLAIN}, fresh")
        from_read = ratio({way: [one[FROM_READ_S] for one in each] for way, each in fresh.items()}, OURS, PLAIN)
        notes.append(
            f"fresh ratio {findings[f'rows-{name}-fresh']:.2f}, from read() {from_read:.2f}, by CPU {by_cpu:.2f}"
        )
    baselines = (PLAIN,)
    bench.record(
        begun, rows=rows, seconds=seconds, cpu_s=cpu, baselines=baselines, findings=findings, notes=tuple(notes)
    )
    for side in {*job.sides, *warm_up.sides}:
        side.remove()
