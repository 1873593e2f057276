"""Joins on windows of event time, written in the ways of Spark's suites, against stock Structured Streaming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from two_ways import Batch, Frames, TwoWays

#: Partners of one window in one micro-batch and in two, and rows without; nothing is late, and the last row closes all.
IN_TIME: list[Batch] = [
    {"left": [(1, 1.0, 2), (2, 2.0, 4), (3, 3.0, 6), (4, 4.5, 8)], "right": [(3, 3.5, 9), (4, 4.5, 1), (6, 6.5, 18)]},
    {
        "left": [(8, 11.0, 16), (1, 12.0, 3), (2, 21.0, 7), (9, 29.0, 18)],
        "right": [(8, 12.0, 24), (1, 8.5, 1), (9, 28.5, 27), (9, 21.5, 5)],
    },
    {"left": [(10, 95.0, 20)], "right": [(11, 96.0, 33)]},
    {"left": [(10, 995.0, 20)], "right": [(11, 996.0, 33)]},
]
#: The watermark is 21 s when the third comes: of its rows some are of windows that are over, some of one that is open
#: although their own times are behind the watermark.
LATE: list[Batch] = [
    {"left": [(1, 1.0, 2), (2, 2.0, 4)], "right": [(1, 3.5, 9)]},
    {"left": [(8, 31.0, 16)], "right": [(8, 32.0, 24)]},
    {"left": [(1, 5.0, 3), (2, 15.0, 4), (8, 20.5, 5)], "right": [(1, 6.0, 1), (2, 16.0, 7), (8, 20.2, 8)]},
    {"left": [(10, 95.0, 20)], "right": [(11, 96.0, 33)]},
]


def side(frames: Frames, name: str, window: Column | None = None, *, has_watermark: bool = True) -> Any:
    rows = frames(name).withWatermark("ts", "10 seconds") if has_watermark else frames(name)
    window = F.window("ts", "10 seconds") if window is None else window
    return rows.select("key", window.alias("window"), F.col("value").alias(name))


def by_aliases_over_sliding_windows(frames: Frames) -> Any:
    """Unmatched rows of both sides, of which a condition on values makes more."""
    sliding = F.window("ts", "10 seconds", "5 seconds")
    left, right = side(frames, "left", sliding).alias("a"), side(frames, "right", sliding).alias("b")
    pairs = left.join(right, F.expr("a.key = b.key AND a.window = b.window AND left < right"), "full")
    return pairs.selectExpr("a.key", "b.key AS other", "a.window.end", "b.window.end AS ended", "left", "right")


def counted_behind_the_join(frames: Frames) -> Any:
    """The window of both is the event time of what comes out, so a second stage can count by it."""
    pairs = side(frames, "left").join(side(frames, "right"), ["key", "window"], "left")
    return pairs.groupBy("window").agg(F.count("*").alias("rows"), F.sum("right").alias("right"))


def by_the_last_instants_of_windows(frames: Frames) -> Any:
    """A range of what ``window_time`` gives, which is event time, too."""
    left, right = (
        side(frames, name).select(F.col("key").alias(f"{name}_key"), F.window_time("window").alias(f"{name}_at"), name)
        for name in ("left", "right")
    )
    within = "left_key = right_key AND right_at BETWEEN left_at AND left_at + INTERVAL 10 SECONDS"
    return left.join(right, F.expr(within), "left")


def with_the_time_beside_its_window(frames: Frames) -> Any:
    """The window is a column more, and what follows the join reads nothing else of event time."""
    left, right = (
        frames(name)
        .withWatermark("ts", "10 seconds")
        .withColumn("window", F.window("ts", "10 seconds"))
        .withColumnRenamed("value", name)
        for name in ("left", "right")
    )
    return left.join(right, ["key", "window"], "right").select("key", "window", "left", "right")


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    [
        by_aliases_over_sliding_windows,
        counted_behind_the_join,
        by_the_last_instants_of_windows,
        with_the_time_beside_its_window,
    ],
)
def test_joins_on_windows_give_what_stock_gives(spark: SparkSession, tmp_path: Path, job: Any) -> None:
    """Pairs, and rows without a partner when it is over: live, and in one way with the first micro-batch as history."""
    ways = TwoWays(spark, tmp_path, IN_TIME)
    expected = ways.stock(job)
    assert ways.ours(job) == expected
    if job is by_aliases_over_sliding_windows:  # how the condition is written is planned once for both
        assert ways.ours(job, history=1) == expected
    assert any("None" in row for row in expected)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "timed"), [("inner", ["left"]), ("full", ["left", "right"])])
def test_a_row_is_late_by_its_window(spark: SparkSession, tmp_path: Path, how: str, timed: list[str]) -> None:
    """As in stock a row whose window is over is dropped, one of an open window is not, however old it is itself; a side
    without a watermark finds no partner that is over, and its rows wait no longer than the other one's."""
    ways = TwoWays(spark, tmp_path, LATE)

    def job(frames: Frames) -> Any:
        left, right = (side(frames, name, has_watermark=name in timed) for name in ("left", "right"))
        return left.join(right, ["key", "window"], how)

    expected = ways.stock(job)
    assert ways.ours(job) == expected
    left_over = ways.progress[-1]["stateOperators"][0]["numRowsTotal"]
    assert left_over <= 4 < max(p["stateOperators"][0]["numRowsTotal"] for p in ways.progress), (
        "what is over is not kept"
    )


@pytest.mark.slow
def test_a_side_without_event_time_is_never_late(spark: SparkSession, tmp_path: Path) -> None:
    """As in stock: of rows that have left their event time behind nothing says when they are over."""

    def job(frames: Frames) -> Any:
        return side(frames, "left").drop("window").join(side(frames, "right").drop("window"), "key")

    ways = TwoWays(spark, tmp_path, LATE)
    assert ways.ours(job) == ways.stock(job)
