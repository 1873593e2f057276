"""A deduplication over a backlog, alone and before windows, from start to complete checkpoint, in several ways."""

from __future__ import annotations

from typing import Any

import pytest
from dataset import Shape, dataset
from pyspark.sql import SparkSession
from race import Race, ratio
from ways import BATCH, MIXED, MIXED_HANDOVER, PLAIN, STOCK_TEN, Ways
from workload import dedup, dedup_by_hour

_WARM_UP = Shape(1_000, 100)
_WAYS = (PLAIN, MIXED, MIXED_HANDOVER, BATCH, STOCK_TEN)


@pytest.mark.parametrize("name", ["dedup", "stages"])
def test_dedup(benchmark: Any, spark: SparkSession, bench: Any, name: str) -> None:
    """All ways in turn, round by round; stock only in the first ones."""
    sizes = bench.sizes
    shape = Shape(sizes.dedup_rows, sizes.dedup_keys)
    job, output_mode = (dedup, "update") if name == "dedup" else (dedup_by_hour, "append")
    what = "dedup" if name == "dedup" else "dedup, then windows of an hour"
    begun = bench.begin(f"backlog-{name}", f"Backlog, {what}: {shape}", shape=shape.name, rounds=sizes.rounds)
    every, warm_up = (Ways(spark, job, dataset(one), output_mode).all() for one in (shape, _WARM_UP))
    ways = {way: every[way] for way in _WAYS}
    for way in ways:
        with bench.scratch() as folder:
            warm_up[way](folder)
    rounds = {way: sizes.slow_rounds if way == STOCK_TEN else sizes.rounds for way in ways}
    seconds = Race(ways, rounds, bench.scratch).run(benchmark)
    bench.record(
        begun,
        rows=shape.rows,
        seconds=seconds,
        baselines=(PLAIN, STOCK_TEN),
        findings={f"{name}-plain": ratio(seconds, MIXED, PLAIN), f"{name}-stock": ratio(seconds, MIXED, STOCK_TEN)},
    )
