"""What the tests of statements share: views of frames of a job, and a table."""

from __future__ import annotations

import pytest
from mixedmode.planner.frames.frame import MixedFrame
from pyspark.sql import SparkSession


@pytest.fixture
def view(both: MixedFrame) -> SparkSession:
    """The session with the views ``v`` and ``w`` of two frames of a job, and a table ``dim``."""
    spark = both.sparkSession
    both.withWatermark("ts", "1 hour").createOrReplaceTempView("v")
    both.withWatermark("ts", "2 hours").createOrReplaceTempView("w")
    spark.createDataFrame([("a", "first")], "k string, name string").createOrReplaceTempView("dim")
    return spark
