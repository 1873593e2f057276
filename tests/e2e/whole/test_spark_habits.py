"""What Spark's own suites write, against stock Structured Streaming: faults that they have shown here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from two_ways import Batch, Frames, TwoWays

SIDES: list[Batch] = [
    {"left": [(1, 1.0, 2), (2, 2.0, 4)], "right": [(1, 3.5, 9), (3, 4.0, 1)]},
    {"left": [(8, 31.0, 16)], "right": [(8, 32.0, 24)]},
    {"left": [(10, 95.0, 20)], "right": [(11, 96.0, 33)]},
]


def windowed(frames: Frames, name: str) -> Any:
    rows = frames(name).withWatermark("ts", "10 seconds")
    return rows.select("key", F.window("ts", "10 seconds"), F.col("value").alias(f"{name}_value"))


def fields_of_sides(frames: Frames) -> Any:
    """A field of a column that both sides have is called by its frame: ``left["window.end"]``."""
    left, right = windowed(frames, "left"), windowed(frames, "right")
    joined = left.join(right, (left["key"] == right["key"]) & (left["window"] == right["window"]), "full_outer")
    return joined.select(
        left["key"],
        left["window.end"],
        right["window.end"].cast("long").alias("right_end"),
        F.coalesce(left["window.start"], right["window.start"]).alias("start"),
        "left_value",
        "right_value",
    )


@pytest.mark.slow
def test_a_field_of_a_side_of_a_join_is_called_by_its_frame(spark: SparkSession, tmp_path: Path) -> None:
    ways = TwoWays(spark, tmp_path, SIDES)
    expected = ways.stock_rows(fields_of_sides)
    found = ways.our_rows(fields_of_sides)
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert len(expected) == 4
    assert found[0].__fields__ == ["key", "end", "right_end", "start", "left_value", "right_value"]


def counts(frames: Frames) -> Any:
    return frames("rows").groupBy("key").agg(F.sum("value").alias("total"))


@pytest.mark.slow
def test_each_run_that_ends_by_itself_reads_what_has_come_since_the_one_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    """``availableNow`` with ``execution.runtime-mode=streaming``: no phase ``live`` reads what is new."""
    batches: list[Batch] = [{"rows": [(1, 1.0, 1)]}, {"rows": [(1, 2.0, 2), (2, 2.0, 4)]}, {"rows": [(1, 3.0, 8)]}]
    ways = TwoWays(spark, tmp_path, batches, restarts=[1, 2])
    expected = ways.stock_rows(counts, "update")
    found = ways.our_rows(counts, "update")
    assert [(row.key, row.total) for row in found if row.key == 1][-1] == (1, 11)
    assert sorted(found) == sorted(expected)


def union_with_a_join(frames: Frames) -> Any:
    """The rows of one side of the union have an event time, which is not among its columns."""
    sides = [frames(name).withWatermark("ts", "10 seconds").alias(name) for name in ("left", "right")]
    joined = sides[0].join(sides[1], F.expr("left.key = right.key AND left.ts <= right.ts"))
    return frames("more").select("key", "value").union(joined.select("left.key", "right.value"))


@pytest.mark.slow
def test_rows_without_an_event_time_are_united_with_those_of_a_join_that_has_hidden_its(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [{**batch, "more": [(number, None, number)]} for number, batch in enumerate(SIDES, 20)]
    ways = TwoWays(spark, tmp_path, batches)
    expected = ways.stock(union_with_a_join)
    assert ways.ours(union_with_a_join) == expected
    assert ways.ours(union_with_a_join, history=1) == expected
    assert len(expected) == 5
