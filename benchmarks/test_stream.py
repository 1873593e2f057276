"""A processor and an aggregate as streams, against stock: throughput of large micro-batches, latency of small ones."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

import mixedmode
import pytest
from dataset import Dataset, Shape, dataset
from in_turn import OURS, STOCK, feed_both, start, stream, told
from micro_batches import watched
from pyspark.sql import SparkSession
from race import ratio
from workload import Job, aggregate, processor

_JOBS = [("processor", processor), ("aggregate", aggregate())]
_NAMES = [name for name, _ in _JOBS]

# --- throughput -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "job"), _JOBS, ids=_NAMES)
def test_throughput(benchmark: Any, spark: SparkSession, bench: Any, name: str, job: Job) -> None:
    """Some large micro-batches; what counts is the median micro-batch."""
    sizes = bench.sizes
    rows = sizes.stream_batch_rows
    count = sizes.stream_batches if name == "processor" else sizes.stream_aggregate_batches
    shape = Shape(rows * count, sizes.stream_keys, files=count)
    title = f"Stream, {name}: {count} micro-batches of {rows:,} rows, {shape.keys:,} keys"
    begun = bench.begin(f"stream-throughput-{name}", title, shape=shape.name)
    drain_both(spark, job, dataset(Shape(400, 50, files=2)), bench)
    seconds, notes = told(benchmark.pedantic(drain_both, args=(spark, job, dataset(shape), bench), rounds=1))
    findings = {f"stream-{name}-stock": ratio(seconds, OURS, STOCK)}
    bench.record(begun, rows=rows, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)


def drain_both(spark: SparkSession, job: Job, data: Dataset, bench: Any) -> dict[str, list[Any]]:
    """Every micro-batch that has rows, of us and of stock."""
    found = {}
    for way in (OURS, STOCK):
        with bench.scratch() as folder, watched(spark) as batches:
            live = stream(spark, data.shape, data.folder)
            options = {"execution.runtime-mode": "streaming"} if way == OURS else {}
            keyed = job(mixedmode.read(live=live) if way == OURS else live)
            start(keyed, folder / "checkpoints", True, **options).awaitTermination()
            found[way] = batches.wait_for_one(len(data.files))
    return found


# --- latency ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys_of", ["latency_keys", "small_latency_keys"], ids=["large", "small"])
@pytest.mark.parametrize(("name", "job"), _JOBS, ids=_NAMES)
def test_latency(benchmark: Any, spark: SparkSession, bench: Any, name: str, job: Job, keys_of: str) -> None:
    """Both queries hold the same state and get the same small micro-batches in turn; stock's log is written as ours."""
    sizes = bench.sizes
    rows, keys = sizes.latency_batch_rows, getattr(sizes, keys_of)
    history = Shape(keys, keys, files=1, each_key_once=True)
    small = Shape(rows * sizes.latency_batches, keys, files=sizes.latency_batches)
    title = f"Stream, {name}: micro-batches of {rows:,} rows on {keys:,} keys of state"
    what = f"{name}-{'large' if keys_of == 'latency_keys' else 'small'}"
    begun = bench.begin(f"stream-latency-{what}", title, history=history.name, small=small.name)
    tiny = dataset(Shape(100, 100, files=1, each_key_once=True)), dataset(Shape(20, 100, files=2))
    feed_both(spark, job, *tiny, bench, same_log=True)
    data = dataset(history), dataset(small)
    run = partial(feed_both, spark, job, *data, bench, same_log=True)
    seconds, notes = told(benchmark.pedantic(run, rounds=1))
    findings = {f"latency-{what}": median(seconds[OURS]) / median(seconds[STOCK])}
    bench.record(begun, rows=rows, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)
