"""A job over a backlog, from start to complete checkpoint, in every way there is."""

from __future__ import annotations

from typing import Any

import pytest
from dataset import Shape, dataset
from pyspark.sql import SparkSession
from race import Race, ratio
from ways import MIXED, PLAIN, SLOW, STOCK_ONE, STOCK_TEN, Ways
from workload import aggregate, processor

WARM_UP = Shape(1_000, 100)


@pytest.mark.parametrize("name", ["aggregate", "processor"])
def test_backlog(benchmark: Any, spark: SparkSession, bench: Any, name: str) -> None:
    """All ways in turn, round by round; the slow ones only in the first rounds."""
    sizes = bench.sizes
    if name == "aggregate":
        job, shape = aggregate(), Shape(sizes.aggregate_rows, sizes.aggregate_keys)
    else:
        job, shape = processor, Shape(sizes.processor_rows, sizes.processor_keys)
    begun = bench.begin(f"backlog-{name}", f"Backlog, {name}: {shape}", shape=shape.name, rounds=sizes.rounds)
    ways = Ways(spark, job, dataset(shape)).all()
    if name == "processor":
        del ways[PLAIN]  # Spark in batch keeps the state store for a processor: that is no plain batch
    for way in Ways(spark, job, dataset(WARM_UP)).all().values():
        with bench.scratch() as folder:
            way(folder)
    rounds = {way: sizes.slow_rounds if way in SLOW else sizes.rounds for way in ways}
    seconds = Race(ways, rounds, bench.scratch).run(benchmark)
    findings = {f"{name}-stock": ratio(seconds, MIXED, STOCK_TEN)}
    if name == "aggregate":
        findings["aggregate-plain"] = ratio(seconds, MIXED, PLAIN)
    bench.record(
        begun,
        rows=shape.rows,
        seconds=seconds,
        baselines=tuple(way for way in (PLAIN, STOCK_TEN, STOCK_ONE) if way in ways),
        findings=findings,
    )
