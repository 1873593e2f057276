"""How the time of a backlog grows with rows, keys, width and skew; ``publish.py growth`` makes table and picture."""

from __future__ import annotations

from typing import Any

import growth
import pytest
from dataset import Shape, dataset
from pyspark.sql import SparkSession
from race import Race
from sizes import chosen_sizes
from ways import MIXED, PLAIN, Ways
from workload import aggregate, processor

_SIZES = chosen_sizes()
_BASES = {"aggregate": _SIZES.growth_aggregate_rows, "processor": _SIZES.growth_processor_rows}
_SHAPES = [
    pytest.param(job, shape, id=f"{job}-{shape.name}")
    for job in growth.JOBS
    for shape in dict.fromkeys(point.shape for point in growth.points(_BASES[job]))
]
_warm: set[tuple[str, str]] = set()


@pytest.mark.parametrize(("job", "shape"), _SHAPES)
def test_growth(benchmark: Any, spark: SparkSession, bench: Any, job: str, shape: Shape) -> None:
    """One point; the aggregate beside the plain batch."""
    keyed = aggregate(shape.width) if job == "aggregate" else processor
    names = (MIXED, PLAIN) if job == "aggregate" else (MIXED,)
    rounds = dict.fromkeys(names, bench.sizes.growth_rounds)
    title = f"Growth, {job}: {shape}, {shape.width}, {shape.skew}"
    begun = bench.begin(growth.name(job, shape), title, shape=shape.name, base=_BASES[job], **rounds)
    if (job, shape.width) not in _warm:
        _warm.add((job, shape.width))
        small = Ways(spark, keyed, dataset(Shape(1_000, 100, width=shape.width))).all()
        for name in names:
            with bench.scratch() as folder:
                small[name](folder)
    every = Ways(spark, keyed, dataset(shape)).all()
    seconds = Race({name: every[name] for name in names}, rounds, bench.scratch).run(benchmark)
    bench.record(begun, rows=shape.rows, seconds=seconds, baselines=(PLAIN,))
