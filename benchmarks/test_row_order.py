"""What the order of a key's rows costs a backlog of files: the same job with it, and as if nobody knew it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from dataset import Shape, dataset
from mixedmode.runtime.driver.epochs import source_rows
from pyspark.sql import SparkSession
from race import Race, ratio
from ways import Way, Ways
from workload import dedup, processor

_WARM_UP = Shape(1_000, 100)
ORDERED, UNORDERED = "in the order of files", "in any order"


def in_any_order(way: Way) -> Way:
    """The same for histories of which nobody knows the order."""

    def run(folder: Path) -> None:
        with patch.object(source_rows, "with_file_rows", lambda frames: None):
            way(folder)

    return run


@pytest.mark.parametrize("name", ["dedup", "processor"])
def test_row_order(benchmark: Any, spark: SparkSession, bench: Any, name: str) -> None:
    """Both ways in turn, round by round."""
    sizes = bench.sizes
    jobs: dict[str, tuple[Callable[[Any], Any], int, int]] = {
        "dedup": (dedup, sizes.dedup_rows, sizes.dedup_keys),
        "processor": (processor, sizes.processor_rows, sizes.processor_keys),
    }
    job, rows, keys = jobs[name]
    shape = Shape(rows, keys)
    begun = bench.begin(
        f"row-order-{name}", f"Backlog, {name} in the order of rows: {shape}", shape=shape.name, rounds=sizes.rounds
    )
    every, warm_up = (Ways(spark, job, dataset(one), "update") for one in (shape, _WARM_UP))
    ways = {ORDERED: every.mixed, UNORDERED: in_any_order(every.mixed)}
    for way in (warm_up.mixed, in_any_order(warm_up.mixed)):
        with bench.scratch() as folder:
            way(folder)
    seconds = Race(ways, dict.fromkeys(ways, sizes.rounds), bench.scratch).run(benchmark)
    bench.record(
        begun,
        rows=shape.rows,
        seconds=seconds,
        baselines=(UNORDERED,),
        findings={f"row-order-{name}": 1 / ratio(seconds, ORDERED, UNORDERED)},
    )
