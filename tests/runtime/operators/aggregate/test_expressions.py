"""Expressions over aggregates, through whole jobs: what comes out is what stock Spark computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mixedmode
import pytest
from mixedmode.errors import QueryError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from session_options import session_options


@pytest.fixture
def kathmandu(spark: SparkSession) -> Iterator[SparkSession]:
    with session_options(spark, {"spark.sql.session.timeZone": "Asia/Kathmandu"}):
        yield spark


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Integers, doubles, decimals, times and strings, with nulls among them."""
    return spark.range(count).select(
        F.concat(F.lit("k"), F.col("id") % 7).alias("k"),
        F.when(F.col("id") % 5 > 0, F.col("id") % 13).cast("int").alias("v"),
        (F.col("id") / 3).alias("d"),
        F.when(F.col("id") % 11 > 0, F.col("id")).cast("decimal(10,2)").alias("m"),
        F.timestamp_seconds(F.col("id") * 1000).alias("ts"),
    )


def expressions() -> list[Column]:
    """Arithmetic, rounding, casts, conditions, structs, lists with functions of their own, times, and keys."""
    return [
        (F.sum("v") / F.count("*")).alias("ratio"),
        F.round(F.avg("m"), 2).alias("rounded"),
        (F.sum("m") / F.count("m") * F.lit("1.5").cast("decimal(3,1)")).alias("decimals"),
        F.concat("k", F.lit("-"), F.max("v").cast("string")).alias("text"),
        F.coalesce(F.max(F.when(F.col("v") > 100, F.col("v"))), F.lit(0)).alias("fallback"),
        F.struct(F.min("v").alias("low"), F.max("ts").alias("latest")).alias("both"),
        F.sum("v").alias("plain"),
        F.date_format(F.max("ts"), "yyyy-MM-dd HH:mm").alias("in_zone"),
        F.transform(F.array_sort(F.collect_set("v")), lambda item: item + 1).alias("list"),
        F.expr("try_divide(sum(v), 0)").alias("nothing"),
        F.map_from_arrays(F.array(F.lit("n")), F.array(F.count("*"))).alias("map"),
        F.upper("k").alias("key"),
        F.lit(1).alias("one"),
        (F.max("ts") - F.min("ts")).alias("span"),
        (F.approx_count_distinct("d") > 3).alias("many"),
        (F.col("plain") + F.col("one")).alias("by_alias"),
    ]


@pytest.mark.slow
def test_expressions_equal_stock_spark_in_batch(kathmandu: SparkSession, tmp_path: Path) -> None:
    """Types and values, in a session time zone other than the process's, as parquet files."""
    history = rows(kathmandu, 300)
    query = (
        mixedmode.read(history=history)
        .groupBy("k", (F.col("v") % 2).alias("odd"))
        .agg(*expressions(), (F.col("odd") + F.sum("v")).alias("with_key"))
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("execution.runtime-mode", "batch")
        .start()
    )
    query.awaitTermination()
    actual = kathmandu.read.parquet(str(tmp_path / "out"))
    grouped = history.groupBy("k", (F.col("v") % 2).alias("odd"))
    expected = grouped.agg(*expressions(), (F.col("odd") + F.sum("v")).alias("with_key"))
    assert [field.dataType.simpleString() for field in actual.schema] == [
        field.dataType.simpleString() for field in expected.schema
    ]
    assert sorted(map(str, actual.collect())) == sorted(map(str, expected.collect()))


@pytest.mark.slow
def test_expressions_follow_the_state_from_history_into_live(spark: SparkSession, tmp_path: Path) -> None:
    """The last update of each key, and of all rows without keys, is over history and live together."""
    everything = rows(spark, 120).select("k", "v", "m")
    history, late = everything.where("m IS NULL OR m < 70"), everything.where("m >= 70")
    late.write.parquet(str(tmp_path / "in"))
    for keys in (["k"], []):
        seen: list[Any] = []
        exprs = [(F.sum("v") / F.count("*")).alias("ratio"), F.round(F.avg("m"), 1).alias("mean"), F.count("*")]
        live = spark.readStream.schema(everything.schema).parquet(str(tmp_path / "in"))
        query = (
            mixedmode.read(history=history, live=live)
            .groupBy(*keys)
            .agg(*exprs)
            .writeStream.outputMode("update")
            .foreachBatch(lambda frame, _, seen=seen: seen.extend(frame.collect()))
            .option("checkpointLocation", str(tmp_path / f"checkpoints-{len(keys)}"))
            .option("execution.runtime-mode", "streaming")
            .option("execution.history.rows-per-epoch", "60")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        latest = {tuple(row[key] for key in keys): row for row in seen}
        assert len(seen) >= len(latest)  # a delivery has one row per key, the last
        assert sorted(map(str, latest.values())) == sorted(map(str, everything.groupBy(*keys).agg(*exprs).collect()))


@pytest.mark.slow
def test_windows_and_sessions_may_be_part_of_an_expression(spark: SparkSession, tmp_path: Path) -> None:
    """As keys of the rows that Spark computes over."""
    history = rows(spark, 100)
    for number, window in enumerate((F.window("ts", "1 hour"), F.session_window("ts", "3 hours"))):
        name = ("window", "session_window")[number]
        exprs = [(F.sum("v") * 2).alias("twice"), F.date_format(F.col(f"{name}.end"), "HH:mm").alias("until")]
        query = (
            mixedmode.read(history=history)
            .withWatermark("ts", "0 seconds")
            .groupBy("k", window)
            .agg(*exprs)
            .writeStream.queryName(f"expressions_{name}")
            .format("memory")
            .start()
        )
        query.awaitTermination()
        expected = history.groupBy("k", window).agg(*exprs)
        assert sorted(map(str, spark.table(f"expressions_{name}").collect())) == sorted(map(str, expected.collect()))


def test_an_error_in_an_expression_is_the_queries(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own, and only for rows that there are: nothing is computed for the report's."""
    history = rows(spark, 20)

    def started(divisor: Column) -> Any:
        return (
            mixedmode.read(history=history)
            .groupBy("k")
            .agg((F.lit(1) / divisor).alias("x"))
            .writeStream.format("noop")
            .start()
        )

    started(F.coalesce(F.max("d"), F.lit(0)) + 1).awaitTermination()
    with pytest.raises(QueryError, match="DIVIDE_BY_ZERO"):
        started(F.count(F.when(F.col("d") < 0, 1))).awaitTermination()
