"""The p50 of live micro-batches of 100 and of 1,000 rows, of every shape of job, against stock with the same log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import pytest
from dataset import Dataset, Shape, dataset
from in_turn import OURS, STOCK, feed_both
from micro_batches import parts, trigger_s
from pyspark.sql import SparkSession
from two_sides import feed_sides
from workload import aggregate, dedup, dedup_by_hour, within

#: Micro-batches that are not counted: code is compiled, and Python workers begin.
_WARM_UP = 10
#: Of the join: seconds over which the rows that wait are scattered.
_SPAN_S = 36_000
_KEYED = {"aggregate": (aggregate(), "update"), "dedup": (dedup, "append"), "stages": (dedup_by_hour, "append")}
#: By way the micro-batches of each file, or pair of files.
Found = dict[str, list[list[Any]]]


def _keyed(spark: SparkSession, shape: str, rows: int, bench: Any) -> Callable[[], Found]:
    """A keyed job; of a deduplication half the keys are new."""
    job, mode = _KEYED[shape]
    keys, batches = bench.sizes.small_latency_keys, _WARM_UP + bench.sizes.epoch_batches
    history = Shape(keys, keys, files=1, each_key_once=True)
    is_new = 0 if shape == "aggregate" else keys
    small = Shape(rows * batches, keys + is_new, files=batches, later_s=is_new)
    data = dataset(history), dataset(small)

    def run() -> Found:
        found = feed_both(spark, job, *data, bench, mode, same_log=True)
        return {way: [[batch] for batch in each] for way, each in found.items()}

    return run


def _join(spark: SparkSession, rows: int, bench: Any) -> Callable[[], Found]:
    """An inner join within a day; a micro-batch has its rows on both sides together."""
    waiting, batches = bench.sizes.small_latency_keys, 1 + _WARM_UP + bench.sizes.epoch_batches
    history = Shape(waiting, waiting, files=1, each_key_once=True, span_s=_SPAN_S)
    left = Shape(rows // 2 * batches, waiting, files=batches, later_s=_SPAN_S, span_s=batches * 60, seed=1)
    sides: tuple[Dataset, Dataset] = dataset(left), dataset(replace(left, seed=2))
    return partial(feed_sides, spark, within(24), dataset(history), *sides, bench, same_log=True)


@pytest.mark.parametrize("rows", [100, 1_000])
@pytest.mark.parametrize("shape", ["aggregate", "dedup", "join", "stages"])
def test_epoch(benchmark: Any, spark: SparkSession, bench: Any, shape: str, rows: int) -> None:
    """Both queries hold the same state and get the same micro-batches in turn; no file waits for another."""
    batches, keys = bench.sizes.epoch_batches, bench.sizes.small_latency_keys
    title = f"Live epoch, {shape}: {batches} micro-batches of {rows:,} rows on {keys:,} keys of state"
    begun = bench.begin(f"epoch-{shape}-{rows}", title, batches=batches, keys=keys)
    run = _join(spark, rows, bench) if shape == "join" else _keyed(spark, shape, rows, bench)
    found = {way: each[_WARM_UP:] for way, each in benchmark.pedantic(run, rounds=1).items()}
    seconds = {way: [sum(map(trigger_s, file)) for file in each] for way, each in found.items()}
    notes = tuple(f"{way}: {parts([batch for file in each for batch in file])}" for way, each in found.items())
    findings = {f"epoch-{shape}-{rows}": median(seconds[OURS]) / median(seconds[STOCK])}
    bench.record(begun, rows=rows, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)
