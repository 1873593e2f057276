"""A deduplication over a backlog, from start to complete checkpoint, against plain batch and stock streaming."""

from __future__ import annotations

from typing import Any

from dataset import Shape, dataset
from pyspark.sql import SparkSession
from race import Race, ratio
from ways import BATCH, MIXED, MIXED_HANDOVER, PLAIN, STOCK_TEN, Ways
from workload import dedup

_WARM_UP = Shape(1_000, 100)
_WAYS = (PLAIN, MIXED, MIXED_HANDOVER, BATCH, STOCK_TEN)


def test_dedup(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """All ways in turn, round by round; stock only in the first ones."""
    sizes = bench.sizes
    shape = Shape(sizes.dedup_rows, sizes.dedup_keys)
    begun = bench.begin("backlog-dedup", f"Backlog, dedup: {shape}", shape=shape.name, rounds=sizes.rounds)
    every, warm_up = Ways(spark, dedup, dataset(shape)).all(), Ways(spark, dedup, dataset(_WARM_UP)).all()
    ways = {name: every[name] for name in _WAYS}
    for name in ways:
        with bench.scratch() as folder:
            warm_up[name](folder)
    rounds = {name: sizes.slow_rounds if name == STOCK_TEN else sizes.rounds for name in ways}
    seconds = Race(ways, rounds, bench.scratch).run(benchmark)
    bench.record(
        begun,
        rows=shape.rows,
        seconds=seconds,
        baselines=(PLAIN, STOCK_TEN),
        findings={"dedup-plain": ratio(seconds, MIXED, PLAIN), "dedup-stock": ratio(seconds, MIXED, STOCK_TEN)},
    )
