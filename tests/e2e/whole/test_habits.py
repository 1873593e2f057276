"""Habits of writing a stream that have nothing to do with state, against stock Structured Streaming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import support
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from two_ways import STREAM, Batch, Frames, TwoWays

support.by_value(__name__)
pytestmark = pytest.mark.spark

BATCHES: list[Batch] = [
    {"rows": [(1, 1.0, 1), (2, 2.0, 2), (1, 1.0, 3)]},
    {"rows": [(2, 12.0, 4), (1, 1.0, 5), (3, 13.0, 6)]},
    {"rows": [(4, 95.0, 7)]},
]


class ToFiles:
    """Writes each row into a file of its partition and epoch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self._rows: list[str] = []
        self._path = self._folder / f"{epoch_id}-{partition_id}"
        return True

    def process(self, row: Any) -> None:
        self._rows.append(f"{row.key} {row.total}")

    def close(self, error: Exception | None) -> None:
        if error is None and self._rows:
            self._path.write_text("\n".join(self._rows))


def once_each(rows: Any) -> Any:
    """What programs keep in a function of their own: a frame in, a frame out."""
    return rows.dropDuplicates(["key", "ts"])


def totals(frames: Frames) -> Any:
    """The time is called by its frame's name, and a deduplication comes in by a function."""
    rows = frames("rows").alias("a").withWatermark("a.ts", "10 seconds").transform(once_each)
    return rows.groupBy(F.window("ts", "10 seconds"), "key").agg(F.sum("value").alias("total"))


@pytest.mark.slow
def test_a_frame_is_called_by_its_alias_and_deduplicated_in_a_function(spark: SparkSession, tmp_path: Path) -> None:
    """``withWatermark("a.ts")`` behind ``alias("a")``, and ``transform`` with a function that keeps state."""
    ways = TwoWays(spark, tmp_path, BATCHES)
    expected = ways.stock(totals)
    assert ways.ours(totals) == expected
    assert ways.ours(totals, history=1) == expected
    assert len(expected) == 4


@pytest.mark.slow
def test_foreach_writes_what_stock_writes(spark: SparkSession, tmp_path: Path) -> None:
    ways, found = TwoWays(spark, tmp_path, BATCHES), []
    for name, writer in (("stock", totals(ways.live).writeStream), ("ours", totals(ways.read).writeStream)):
        (tmp_path / name).mkdir()
        writer = writer if name == "stock" else writer.options(**STREAM)
        query = writer.foreach(ToFiles(tmp_path / name)).option("checkpointLocation", str(tmp_path / f"{name}-log"))
        with support.one_partition(spark):
            query.trigger(availableNow=True).start().awaitTermination(300)
        found.append(sorted(line for path in (tmp_path / name).iterdir() for line in path.read_text().split("\n")))
    assert found[0] == found[1]
    assert len(found[0]) == 4
