"""Habits of writing a stream that have nothing to do with state, against stock Structured Streaming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from two_ways import Batch, Frames, TwoWays

BATCHES: list[Batch] = [
    {"rows": [(1, 1.0, 1), (2, 2.0, 2), (1, 1.0, 3)]},
    {"rows": [(2, 12.0, 4), (1, 1.0, 5), (3, 13.0, 6)]},
    {"rows": [(4, 95.0, 7)]},
]


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


def rows_by_file(frames: Frames) -> Any:
    """What nobody has selected before: the hidden column of files."""
    rows = frames("rows").withWatermark("ts", "10 seconds")
    largest = F.max(F.col("_metadata.file_size")).alias("bytes")
    return rows.groupBy(F.window("ts", "10 seconds"), "_metadata.file_name").agg(F.count("*").alias("n"), largest)


@pytest.mark.slow
def test_rows_are_grouped_by_their_files(spark: SparkSession, tmp_path: Path) -> None:
    """``groupBy`` and ``agg`` see ``_metadata`` of history and live files, as stock's do."""
    ways = TwoWays(spark, tmp_path, BATCHES)
    expected = ways.stock(rows_by_file)
    assert ways.ours(rows_by_file) == expected
    assert ways.ours(rows_by_file, history=1) == expected
    assert len(expected) == 3
