"""What Spark tells of its jobs while they run."""

from __future__ import annotations

import time
from pathlib import Path

from mixedmode.runtime.catalyst.spark_cluster import JobTasks, JobWork, aside
from pyspark.sql import SparkSession


def test_tasks_of_jobs_with_a_tag_are_counted(spark: SparkSession) -> None:
    """Of those that start behind the question, all tasks and those that are done; of others, and of those that only
    prepare, none."""
    context = spark.sparkContext
    context.addJobTag("counted")
    try:
        context.parallelize(range(8), 2).count()
        tasks = JobTasks(spark, "counted")
        assert tasks() == JobWork()
        with aside(spark):
            context.parallelize(range(8), 4).count()
        context.parallelize(range(8), 3).count()
    finally:
        context.removeJobTag("counted")
    context.parallelize(range(8), 5).count()
    until = time.monotonic() + 60
    while tasks() != JobWork(3, 3) and time.monotonic() < until:  # Spark's status is behind its jobs
        time.sleep(0.05)
    assert tasks() == JobWork(3, 3)


def test_rows_read_and_shuffled_are_spark_s_own_counts(spark: SparkSession, tmp_path: Path) -> None:
    """From the metrics of its tasks: what a scan has read, and what was written for the next stage."""
    spark.range(0, 1000, 1, 2).write.parquet(str(tmp_path / "rows"))
    context = spark.sparkContext
    context.addJobTag("measured")
    try:
        tasks = JobTasks(spark, "measured")
        rows = spark.read.schema("id long").parquet(str(tmp_path / "rows")).where("id < 600")
        rows.repartition(2).foreachPartition(lambda _: None)
    finally:
        context.removeJobTag("measured")
    until = time.monotonic() + 60
    while tasks().rows_shuffled < 600 and time.monotonic() < until:
        time.sleep(0.05)
    assert (tasks().rows_read, tasks().rows_shuffled) == (1000, 600)
