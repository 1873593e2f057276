"""A job over a backlog, from start to complete checkpoint, in every way there is."""

from __future__ import annotations

from typing import Any

import pytest
from dataset import Shape, dataset
from pyspark.sql import SparkSession
from race import Race, ratio
from ways import BATCH_FILES, MIXED, PLAIN, PLAIN_FILES, SLOW, STOCK_ONE, STOCK_TEN, Ways
from workload import aggregate, processor, processor_in_pandas

WARM_UP = Shape(1_000, 100)


@pytest.mark.parametrize("name", ["aggregate", "processor", "pandas"])
def test_backlog(benchmark: Any, spark: SparkSession, bench: Any, name: str) -> None:
    """All ways in turn, round by round; the slow ones only in the first rounds."""
    sizes = bench.sizes
    if name == "aggregate":
        job, shape = aggregate(), Shape(sizes.aggregate_rows, sizes.aggregate_keys)
    elif name == "processor":
        job, shape = processor, Shape(sizes.processor_rows, sizes.processor_keys)
    else:
        job, shape = processor_in_pandas, Shape(sizes.pandas_rows, sizes.pandas_keys)
    begun = bench.begin(f"backlog-{name}", f"Backlog, {name}: {shape}", shape=shape.name, rounds=sizes.rounds)
    ways = Ways(spark, job, dataset(shape)).all()
    if name != "aggregate":
        # Spark in batch keeps the state store for a processor, so there is no plain batch.
        del ways[PLAIN], ways[PLAIN_FILES], ways[BATCH_FILES]
    if name == "pandas":
        ways = {way: run for way, run in ways.items() if way in (MIXED, STOCK_TEN, STOCK_ONE)}
    warm_up = Ways(spark, job, dataset(WARM_UP)).all()
    for name_of_way in ways:
        with bench.scratch() as folder:
            warm_up[name_of_way](folder)
    rounds = {way: sizes.slow_rounds if way in SLOW else sizes.rounds for way in ways}
    seconds = Race(ways, rounds, bench.scratch).run(benchmark)
    findings = {f"{name}-stock": ratio(seconds, MIXED, STOCK_TEN)}
    notes: tuple[str, ...] = ()
    if name == "aggregate":
        findings["aggregate-plain"] = ratio(seconds, MIXED, PLAIN)
        notes = (f"to Parquet files: batch at {ratio(seconds, BATCH_FILES, PLAIN_FILES):.2f} x plain batch",)
    if name == "pandas":
        notes = (f"{ratio(seconds, MIXED, STOCK_ONE):.1f} x the speed of stock in one micro-batch",)
    bench.record(
        begun,
        rows=shape.rows,
        seconds=seconds,
        baselines=tuple(way for way in (PLAIN, PLAIN_FILES, STOCK_TEN, STOCK_ONE) if way in ways),
        findings=findings,
        notes=notes,
    )
