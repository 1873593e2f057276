"""Frames that are known to have few rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.runtime.catalyst import small_inputs
from mixedmode.runtime.catalyst.small_inputs import is_small
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def files(spark: SparkSession, folder: Path, count: int, rows: int = 10) -> DataFrame:
    """Rows of so many files of random numbers."""
    folder.mkdir()
    for number in range(count):
        pq.write_table(pa.table({"id": range(number * rows, (number + 1) * rows)}), folder / f"{number}.parquet")
    return spark.read.parquet(str(folder))


def test_few_rows_of_few_files_are_small(spark: SparkSession, tmp_path: Path) -> None:
    """Also several of them together, and what is done to each row."""
    few = files(spark, tmp_path / "few", 2)
    made = spark.createDataFrame([(1,), (2,)], "id long").coalesce(1)
    assert is_small(few) and is_small(few.where("id > 3").selectExpr("id + 1 AS id"))
    assert is_small(few.union(few))
    assert not is_small(few.union(made.cache()))


def test_many_bytes_or_files_are_not(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is what Spark does not know the size of."""
    assert is_small(files(spark, tmp_path / "eight", 8))
    assert not is_small(files(spark, tmp_path / "nine", 9))
    few = files(spark, tmp_path / "few", 1)
    size = sum(path.stat().st_size for path in (tmp_path / "few").iterdir())
    for most, small in ((size, True), (size - 1, False)):
        monkeypatch.setattr(small_inputs, "_MOST_BYTES", most)
        assert is_small(few) is small
    assert not is_small(spark.range(3).toDF("id"))


def test_what_may_become_more_rows_is_not(spark: SparkSession, tmp_path: Path) -> None:
    """A join and a generator make any number of rows of few."""
    few = files(spark, tmp_path / "few", 1)
    assert not is_small(few.join(few.toDF("other"), F.expr("id < other")))
    assert not is_small(few.selectExpr("explode(sequence(0, id)) AS id"))
