"""How the time of a backlog grows with rows, keys, rows a key, kind of key, width and skew; beside plain and stock.

``publish.py growth`` makes table and picture.  A run that was broken off is resumed with ``MIXEDMODE_BENCH_RESUME=1``.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import growth
import pytest
from dataset import Shape, dataset
from pyspark.sql import SparkSession
from race import Race
from sizes import chosen_sizes
from ways import DUCKDB, PLAIN, STOCK_ONE, Way, Ways
from workload import Job, aggregate, processor_by

_SIZES = chosen_sizes()
_BASES = {"aggregate": _SIZES.growth_aggregate_rows, "processor": _SIZES.growth_processor_rows}
_SHAPES = [
    pytest.param(job, shape, id=f"{job}-{shape.name}")
    for job in growth.JOBS
    for shape in dict.fromkeys(point.shape for point in growth.points(_BASES[job]))
]
_warm: set[tuple[str, str, str]] = set()


@pytest.mark.parametrize(("job", "shape"), _SHAPES)
def test_growth(benchmark: Any, spark: SparkSession, bench: Any, job: str, shape: Shape) -> None:
    """One point, all ways in turn; stock once, in one micro-batch, which is what it does best."""
    limit_s, names = bench.sizes.growth_stock_limit_s, growth.WAYS[job]
    rounds = {name: 1 if name == STOCK_ONE else bench.sizes.growth_rounds for name in names}
    title = f"Growth, {job}: {shape}, {shape.width}, {shape.skew}, {shape.key} keys"
    parameters = {"shape": shape.name, "base": _BASES[job], "limit": limit_s, **rounds}
    begun = bench.begin(growth.name(job, shape), title, **parameters)
    if (job, shape.width, shape.key) not in _warm:
        _warm.add((job, shape.width, shape.key))
        small = _ways(spark, job, Shape(1_000, 100, width=shape.width, key=shape.key), limit_s)
        for name in names:
            with bench.scratch() as folder:
                small[name](folder)
    every = _ways(spark, job, shape, limit_s)
    race = Race({name: every[name] for name in names}, rounds, bench.scratch)
    seconds = race.run(benchmark)
    if median(seconds[STOCK_ONE]) >= limit_s:
        begun.parameters["cut"] = [STOCK_ONE]
    bench.record(begun, rows=shape.rows, seconds=seconds, baselines=(PLAIN, STOCK_ONE), notes=(race.cpu_note,))


def _ways(spark: SparkSession, job: str, shape: Shape, limit_s: float) -> dict[str, Way]:
    keyed: Job = aggregate(shape.width, shape.key_columns) if job == "aggregate" else processor_by(shape.key_types)
    ways = Ways(spark, keyed, dataset(shape), stock_limit_s=limit_s)
    return {**ways.all(), DUCKDB: ways.duckdb}
