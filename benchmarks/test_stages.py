"""Small micro-batches through two stages, against stock: what an epoch costs that is two Spark jobs and an exchange."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
from dataset import Shape, dataset
from in_turn import OURS, STOCK, feed_both, told
from pyspark.sql import SparkSession
from workload import dedup_by_hour, processor_by_hour

_JOBS = {"dedup": dedup_by_hour, "processor": processor_by_hour}


@pytest.mark.parametrize("name", _JOBS)
def test_two_stages(benchmark: Any, spark: SparkSession, bench: Any, name: str) -> None:
    """Both queries hold the same large state and get the same small micro-batches in turn; half the keys are new."""
    sizes, job = bench.sizes, _JOBS[name]
    rows, keys = sizes.latency_batch_rows, sizes.latency_keys
    history = Shape(keys, keys, files=1, each_key_once=True)
    small = Shape(rows * sizes.latency_batches, 2 * keys, files=sizes.latency_batches, later_s=keys)
    title = f"Stream, {name} and then windows: micro-batches of {rows:,} rows on {keys:,} keys of state"
    begun = bench.begin(f"stages-latency-{name}", title, history=history.name, small=small.name)
    tiny = Shape(100, 100, files=1, each_key_once=True), Shape(20, 200, files=2, later_s=100)
    feed_both(spark, job, *map(dataset, tiny), bench, "append")
    seconds, notes = told(
        benchmark.pedantic(feed_both, args=(spark, job, dataset(history), dataset(small), bench, "append"), rounds=1)
    )
    findings = {f"latency-{name}-stock": median(seconds[OURS]) / median(seconds[STOCK])}
    bench.record(begun, rows=rows, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)
