"""A job over a backlog, from start to complete checkpoint, in every way there is."""

from __future__ import annotations

from typing import Any

import pytest
from dataset import Shape, dataset
from pyspark.sql import SparkSession
from race import Race, ratio
from ways import BATCH_FILES, MIXED, MIXED_HANDOVER, MIXED_SPARK, PLAIN, PLAIN_FILES, SLOW, STOCK_ONE, STOCK_TEN, Ways
from workload import aggregate, aggregate_numbers, life, processor, processor_in_pandas

WARM_UP = Shape(1_000, 100)


@pytest.mark.parametrize("name", ["aggregate", "processor", "life", "pandas"])
def test_backlog(benchmark: Any, spark: SparkSession, bench: Any, name: str) -> None:
    """All ways in turn, round by round; the slow ones only in the first rounds."""
    sizes = bench.sizes
    if name == "aggregate":
        job, shape = aggregate(), Shape(sizes.aggregate_rows, sizes.aggregate_keys)
    elif name == "processor":
        job, shape = processor, Shape(sizes.processor_rows, sizes.processor_keys)
    elif name == "life":
        job, shape = life, Shape(sizes.life_rows, sizes.life_keys)
    else:
        job, shape = processor_in_pandas, Shape(sizes.pandas_rows, sizes.pandas_keys)
    limit_s = sizes.life_stock_limit_s if name == "life" else None
    begun = bench.begin(f"backlog-{name}", f"Backlog, {name}: {shape}", shape=shape.name, rounds=sizes.rounds)
    ways = Ways(spark, job, dataset(shape), stock_limit_s=limit_s).all()
    if name != "aggregate":
        # Spark in batch keeps the state store for a processor, so there is no plain batch.
        del ways[PLAIN], ways[PLAIN_FILES], ways[BATCH_FILES]
    if name == "life":
        ways = {way: run for way, run in ways.items() if way in (MIXED, MIXED_HANDOVER, STOCK_TEN)}
    if name == "pandas":
        ways = {way: run for way, run in ways.items() if way in (MIXED, STOCK_TEN, STOCK_ONE)}
    warm_up = Ways(spark, job, dataset(WARM_UP)).all()
    for name_of_way in ways:
        with bench.scratch() as folder:
            warm_up[name_of_way](folder)
    rounds = {way: sizes.slow_rounds if way in SLOW else sizes.rounds for way in ways}
    race = Race(ways, rounds, bench.scratch)
    seconds = race.run(benchmark)
    findings = {f"{name}-stock": ratio(seconds, MIXED, STOCK_TEN)}
    notes: tuple[str, ...] = ()
    if name == "aggregate":
        findings["aggregate-plain"] = ratio(seconds, MIXED, PLAIN)
        findings["aggregate-handover"] = ratio(seconds, MIXED, MIXED_HANDOVER)
        notes = (f"to Parquet files: batch at {ratio(seconds, BATCH_FILES, PLAIN_FILES):.2f} x plain batch",)
    if limit_s is not None and max(seconds[STOCK_TEN]) >= limit_s:
        notes = (f"stock was stopped after {limit_s} s: it takes longer",)
    if name == "pandas":
        notes = (f"{ratio(seconds, MIXED, STOCK_ONE):.1f} x the speed of stock in one micro-batch",)
    bench.record(
        begun,
        rows=shape.rows,
        seconds=seconds,
        baselines=tuple(way for way in (PLAIN, PLAIN_FILES, STOCK_TEN, STOCK_ONE) if way in ways),
        findings=findings,
        notes=(*notes, race.cpu_note),
    )


def test_backlog_by_engine(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """The aggregate of numbers with each engine, and by plain Spark, in turn."""
    sizes = bench.sizes
    shape = Shape(sizes.aggregate_rows, sizes.aggregate_keys, "numbers")
    title = f"Backlog by engine, aggregate of numbers: {shape}"
    begun = bench.begin("backlog-engine", title, shape=shape.name, rounds=sizes.rounds)
    runs = [Ways(spark, aggregate_numbers, dataset(one)) for one in (shape, Shape(1_000, 100, "numbers"))]
    ways, warm_up = ({PLAIN: one.plain_batch, MIXED: one.mixed, MIXED_SPARK: one.mixed_spark} for one in runs)
    for run in warm_up.values():
        with bench.scratch() as folder:
            run(folder)
    race = Race(ways, dict.fromkeys(ways, sizes.rounds), bench.scratch)
    seconds = race.run(benchmark)
    bench.record(
        begun,
        rows=shape.rows,
        seconds=seconds,
        baselines=(PLAIN,),
        findings={"aggregate-arrow-plain": ratio(seconds, MIXED, PLAIN)},
        notes=(race.cpu_note,),
    )
