"""What Spark tells of its jobs while they run."""

from __future__ import annotations

import time

import pytest
from mixedmode.runtime.platform.spark_cluster import JobTasks
from pyspark.sql import SparkSession


@pytest.mark.spark
def test_tasks_of_jobs_with_a_tag_are_counted(spark: SparkSession) -> None:
    """Of those that start behind the question, all tasks and those that are done; of others none."""
    context = spark.sparkContext
    context.addJobTag("counted")
    try:
        context.parallelize(range(8), 2).count()
        tasks = JobTasks(spark, "counted")
        assert tasks() == (0, 0)
        context.parallelize(range(8), 3).count()
    finally:
        context.removeJobTag("counted")
    context.parallelize(range(8), 5).count()
    until = time.monotonic() + 60
    while tasks() != (3, 3) and time.monotonic() < until:  # Spark's status is behind its jobs
        time.sleep(0.05)
    assert tasks() == (3, 3)
