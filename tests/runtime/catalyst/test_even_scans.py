"""How files are dealt to the tasks of a sorted pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixedmode.runtime.catalyst import even_scans
from mixedmode.runtime.catalyst.even_scans import evenly_scanned
from mixedmode.runtime.catalyst.spark_session import PrivateSession
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

FILES = 6


@pytest.mark.parametrize("union", [False, True])
def test_cores_get_as_many_tasks_each(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, union: bool
) -> None:
    """More than Spark would give a task is split into a multiple of the cores; rows and the user's frame stay."""
    for number in range(FILES):
        spark.range(10 * number, 10 * number + 10, 1, 1).write.parquet(str(tmp_path / str(number)))
    frame = spark.read.parquet(*[str(tmp_path / str(number)) for number in range(FILES)]).where("id % 7 > 0")
    frame = frame.union(spark.range(3).select(F.col("id"))) if union else frame
    cores, before = spark.sparkContext.defaultParallelism, frame.rdd.getNumPartitions()
    monkeypatch.setattr(even_scans, "_SPARKS_BYTES", 1)
    # Each file counts for 4 MiB, so one goes to each task.
    monkeypatch.setattr(even_scans, "_MOST_BYTES", 4 * 2**20 * FILES // (2 * cores))
    set_before = spark.conf.get("spark.sql.files.maxPartitionBytes", None)
    session = PrivateSession(spark, {}).session
    moved = evenly_scanned(frame, session)
    tasks = moved.rdd.getNumPartitions() - (cores if union else 0)
    assert tasks > before - (cores if union else 0), "it is dealt as before"
    assert sorted(moved.collect()) == sorted(frame.collect())
    assert frame.rdd.getNumPartitions() == before
    assert spark.conf.get("spark.sql.files.maxPartitionBytes", None) == set_before
