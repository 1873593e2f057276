"""The driver reads the keys of the first rows of Parquet files by itself, and they are Spark's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mixedmode.runtime.scan import first_keys as module
from mixedmode.runtime.scan.first_keys import first_keys
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

ROWS = 3_000


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """One file, whose first rows are those with the least numbers."""
    folder = str(tmp_path_factory.mktemp("keys") / "files")
    rows = spark.range(0, ROWS, 1, 1).select(
        "id",
        F.concat(F.lit("ä"), F.pmod("id", F.lit(700))).alias("t"),
        F.timestamp_seconds(F.lit(1_711_800_000) + F.col("id") * 97).alias("ts"),
        F.when(F.col("id") % 7 > 0, F.col("id")).alias("v"),
    )
    rows.write.parquet(folder)
    return spark.read.parquet(folder)


KEYS: dict[str, Callable[[], list[Column]]] = {
    "numbers with nulls": lambda: [F.col("v")],
    "texts and computed numbers": lambda: [F.col("t"), F.col("v") * 2],
    "days": lambda: [F.to_date("ts")],
}


def named(columns: list[Column]) -> list[Column]:
    return [column.alias(f"__g{place}") for place, column in enumerate(columns)]


@pytest.mark.parametrize("name", KEYS)
def test_the_keys_are_those_that_spark_computes(files: DataFrame, name: str) -> None:
    """Row by row, nulls included, behind a filter as well; no Spark job runs for them."""
    keys = files.where("id % 3 = 0").select(*named(KEYS[name]()))
    before = jobs_so_far(files)
    found = first_keys(keys, ROWS).to_pylist()
    assert jobs_so_far(files) == before
    assert [tuple(row.values()) for row in found] == [tuple(row) for row in keys.collect()]


def test_windows_are_told_by_where_they_start(files: DataFrame) -> None:
    """Which is in µs."""
    window = F.window("ts", "1 hour")
    found = first_keys(files.select(window.alias("__g0")), ROWS)["__g0"].to_pylist()
    assert found == [row[0] for row in files.select(F.unix_micros(window.start)).collect()]


def test_no_more_is_read_than_is_enough(files: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows are, or, behind a filter that lets few through, those of so many rows."""
    monkeypatch.setattr(module, "_BATCH_ROWS", 100)
    assert first_keys(files.select(F.col("id").alias("__g0")), 250)["__g0"].to_pylist() == list(range(300))
    monkeypatch.setattr(module, "_MOST_ROWS", 1_000)
    few = files.where("id = 3 OR id = 2000").select(F.col("id").alias("__g0"))
    assert first_keys(few, 250)["__g0"].to_pylist() == [3]


def test_of_what_only_spark_reads_it_says_so(files: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    """Rows that are no files', a union, files that are gone, and files of which a filter lets no first rows through."""
    gone = tmp_path / "gone"
    files.write.parquet(str(gone))
    of_gone = spark.read.parquet(str(gone)).select(F.col("id").alias("__g0"))
    for file in gone.glob("*.parquet"):
        file.unlink()
    keys = files.select(F.col("id").alias("__g0"))
    for others in (spark.range(3).select(F.col("id").alias("__g0")), keys.union(keys), of_gone, keys.where("__g0 < 0")):
        with pytest.raises(NotTakenError):
            first_keys(others, 10)


def jobs_so_far(frame: DataFrame) -> Any:
    return frame.sparkSession.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
