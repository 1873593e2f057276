"""Footers say what Spark finds by a look at all rows, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.runtime.connectors.sources.live_inputs import INPUT_COLUMN, LiveInput, look_at, look_at_footers
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ONE = [LiveInput("one", (0,))]


def write(path: Path, seconds: list[int | None], zone: str | None = "UTC", **options: Any) -> str:
    start = datetime(2024, 1, 1)
    times = [None if one is None else start + timedelta(seconds=one, microseconds=999) for one in seconds]
    table = pa.table({"ts": pa.array(times, pa.timestamp("us", zone)), "v": list(range(len(seconds)))})
    pq.write_table(table, path, row_group_size=2, **options)
    return str(path)


def test_several_files_and_inputs(spark: SparkSession, tmp_path: Path) -> None:
    """The greatest time of each input that has rows, also before 1970, and None where all are null."""
    contents = {0: [[3, 1, None], [2]], 1: [[None, None, None]], 2: [[-3_000_000_000]], 3: [[]]}
    frames = []
    for number, files in contents.items():
        paths = [write(tmp_path / f"{number}-{place}.parquet", one) for place, one in enumerate(files)]
        rows = spark.read.schema("ts timestamp, v long").parquet(*paths)
        frames.append(rows.select(F.col("ts").alias("t"), F.lit(number).alias(INPUT_COLUMN)))
    inputs = [LiveInput(f"input {number}", (number,)) for number in contents]
    frame = reduce(DataFrame.unionByName, frames)
    assert look_at_footers(frame, "t", inputs) == look_at(frame, "t", inputs)
    assert look_at(frame, "t", inputs).seen == {
        "input 0": 1_704_067_203_000,
        "input 1": None,
        "input 2": 1_704_067_200_000 - 3_000_000_000_000,
    }
    alone = frames[0].drop(INPUT_COLUMN)
    assert look_at_footers(alone, "t", ONE) == look_at(alone, "t", ONE)


def test_times_without_a_zone(spark: SparkSession, tmp_path: Path) -> None:
    """They count as those of UTC."""
    frame = spark.read.parquet(write(tmp_path / "a.parquet", [5, 7, 6], zone=None))
    assert dict(frame.dtypes)["ts"] == "timestamp_ntz"
    assert look_at_footers(frame, "ts", ONE) == look_at(frame, "ts", ONE)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"write_statistics": False}, lambda rows: rows),
        ({"use_deprecated_int96_timestamps": True}, lambda rows: rows),
        ({}, lambda rows: rows.where("v < 1")),
        ({}, lambda rows: rows.withColumn("ts", F.expr("ts + INTERVAL 1 HOUR"))),
        ({}, lambda rows: rows.limit(1)),
    ],
    ids=["no statistics", "INT96", "some rows", "computed", "another node"],
)
def test_where_footers_do_not_say_enough(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], shape: Callable[[DataFrame], DataFrame]
) -> None:
    """Spark has to look at the rows."""
    frame = shape(spark.read.parquet(write(tmp_path / "a.parquet", [1, 2, 3], **options)))
    assert look_at_footers(frame, "ts", ONE) is None
