"""Settings of Spark's own streams that say when results come, against stock Structured Streaming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from session_options import session_options
from two_ways import Batch, Frames, TwoWays

BATCHES: list[Batch] = [{"rows": [(1, 0.0, 1), (1, 1800.0, 2)]}, {"rows": [(1, 4000.0, 4)]}]


def totals(frames: Frames) -> Any:
    windows = frames("rows").withWatermark("ts", "5 minutes").groupBy("key", F.window("ts", "10 minutes"))
    return windows.agg(F.sum("value").alias("total"))


def test_nothing_fires_without_rows_where_sparks_micro_batches_need_some(spark: SparkSession, tmp_path: Path) -> None:
    """``noDataMicroBatches.enabled=false``: what the last rows have made due waits for the next ones."""
    ways = TwoWays(spark, tmp_path, BATCHES)
    by_itself = ways.ours(totals)
    with session_options(spark, {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}):
        given, expected = ways.ours(totals), ways.stock(totals)
    assert given == expected
    assert len(by_itself) == len(expected) + 1 == 2
