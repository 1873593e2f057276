"""Who sorts a sorted pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mixedmode
import pytest
from mixedmode.planner.plans.sort_engine import SPARK_FROM, choose_sorter
from mixedmode.runtime.catalyst.spark_plans import size_bytes
from mixedmode.runtime.spec import Settings
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

SETTINGS = Settings(sorter_memory_bytes=1 << 20)


@pytest.mark.parametrize(
    ("size", "engine"), [(None, "arrow"), (1, "arrow"), ((SPARK_FROM << 20) - 1, "arrow"), (SPARK_FROM << 20, "spark")]
)
def test_auto_goes_by_the_size_of_a_shard(size: int | None, engine: str) -> None:
    """Spark sorts what is many times sorter.memory; the reason names the sizes."""
    choice = choose_sorter(SETTINGS, size)
    assert choice.engine == engine
    assert "auto" in choice.reason
    assert size is None or "to sort" in choice.reason


@pytest.mark.parametrize("engine", ["spark", "arrow"])
def test_a_named_engine_is_taken_whatever_the_size(engine: Any) -> None:
    """sorter.engine decides if it is not auto."""
    for size in (None, 1, 1 << 40):
        assert choose_sorter(SETTINGS.model_copy(update={"sorter_engine": engine}), size).engine == engine


def test_the_size_is_sparks_estimate(spark: SparkSession, tmp_path: Path) -> None:
    """Files count with their bytes, a join with those of its inputs; rows of an RDD have no estimate."""
    spark.range(10_000).select("id", F.rand(1).alias("x")).coalesce(1).write.parquet(str(tmp_path / "rows"))
    rows = spark.read.parquet(str(tmp_path / "rows"))
    size = sum(path.stat().st_size for path in (tmp_path / "rows").glob("*.parquet"))
    assert size_bytes(rows) == size
    joined = size_bytes(rows.join(rows.withColumnRenamed("x", "y"), "id"))
    assert joined is not None and joined <= 2 * size
    assert size_bytes(spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "id long")) is None


class _Nothing(StatefulProcessor):
    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        return iter(())


def test_a_plan_shows_who_sorts_and_why(spark: SparkSession, tmp_path: Path) -> None:
    """A processor's large history goes to Spark's sort; an aggregate's does not, as Spark aggregates it first."""
    spark.range(400_000).select("id", F.rand(1).alias("x")).write.parquet(str(tmp_path / "rows"))
    grouped = mixedmode.read(history=spark.read.parquet(str(tmp_path / "rows"))).groupBy("id")
    processed = grouped.transformWithState(_Nothing(), outputStructType="id long", outputMode="append", timeMode="none")
    for frame, engine in ((processed, "spark"), (grouped.agg(F.max("x")), "arrow")):
        writer = frame.writeStream.format("noop").option("sorter.memory", "256 KiB").option("pipeline.parallelism", 1)
        writer = writer.outputMode("append" if frame is processed else "update")
        assert f"engine {engine}" in writer.plan().explain(extended=True)
