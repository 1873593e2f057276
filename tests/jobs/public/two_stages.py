"""Jobs with several stages that have state, one after the other."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..inputs import inputs
from ..job import ROCKS, Job, Read, public_job
from .processors import Echo

JOBS: list[Job] = []
_SUITES = "github.com/apache/spark: sql/core/src/test/scala/org/apache/spark/sql/streaming"
_MULTI = f"{_SUITES}/MultiStatefulOperatorsSuite.scala"
_DEDUPLICATION = f"{_SUITES}/StreamingDeduplicationSuite.scala"


def _timed(read: Read, delay: str) -> Any:
    timed = read("values").withColumn("eventTime", F.timestamp_seconds(F.col("value")))
    return timed.withWatermark("eventTime", delay)


@public_job(
    JOBS,
    f"{_MULTI}: window agg -> window agg",
    inputs=inputs("values"),
    mode="append",
    sink="memory",
    replaced=("memory stream: files",),
)
def windows_of_windows(spark: SparkSession, read: Read) -> Any:
    """Memory stream; watermark 0 s; key window of 5 s, count; key window of 10 s over that window, count and sum; then
    select with casts."""
    counts = _timed(read, "0 seconds").groupBy(F.window("eventTime", "5 seconds").alias("window"))
    outer = counts.agg(F.count("*").alias("count")).groupBy(F.window("window", "10 seconds"))
    sums = outer.agg(F.count("*").alias("count"), F.sum("count").alias("sum"))
    return (
        sums.select(F.col("window").getField("start").cast("long"), "count", "sum")
        .writeStream.outputMode("append")
        .format("memory")
    )


@public_job(
    JOBS,
    f"{_MULTI}: agg -> agg -> agg",
    inputs=inputs("values"),
    mode="append",
    sink="memory",
    replaced=("memory stream: files",),
)
def three_levels(spark: SparkSession, read: Read) -> Any:
    """Memory stream; windows of 5 s, of 10 s and of 20 s, each over window_time of the one before; count and sum; then
    select with casts."""
    counts = _timed(read, "0 seconds").groupBy(F.window("eventTime", "5 seconds").alias("window"))
    inner = counts.agg(F.count("*").alias("count"))
    middle = inner.groupBy(F.window(F.window_time("window"), "10 seconds"))
    sums = middle.agg(F.count("*").alias("count"), F.sum("count").alias("sum"))
    outer = sums.groupBy(F.window(F.window_time("window"), "20 seconds"))
    return (
        outer.agg(F.count("*").alias("count"), F.sum("sum").alias("sum"))
        .select(F.col("window").getField("start").cast("long").alias("start"), "count", "sum")
        .writeStream.outputMode("append")
        .format("memory")
    )


@public_job(
    JOBS,
    f"{_MULTI}: stream deduplication -> aggregation",
    inputs=inputs("values"),
    mode="append",
    sink="memory",
    replaced=("memory stream: files",),
)
def unique_per_window(spark: SparkSession, read: Read) -> Any:
    """Memory stream; watermark 10 s; dropDuplicates of value and event time; key window of 5 s, count and sum; then
    select with a cast."""
    unique = _timed(read, "10 seconds").dropDuplicates(["value", "eventTime"])
    sums = unique.groupBy(F.window("eventTime", "5 seconds").alias("window")).agg(
        F.count("*").alias("count"), F.sum("value").alias("sum")
    )
    return (
        sums.select(F.col("window").getField("start").cast("long"), "count")
        .writeStream.outputMode("append")
        .format("memory")
    )


@public_job(
    JOBS,
    f"{_DEDUPLICATION}: deduplicate with aggregate - append mode",
    inputs=inputs("values"),
    mode="append",
    sink="memory",
)
def unique_rows_per_window(spark: SparkSession, read: Read) -> Any:
    """As before, with dropDuplicates() of all columns."""
    counts = _timed(read, "10 seconds").dropDuplicates().groupBy(F.window("eventTime", "5 seconds").alias("window"))
    return (
        counts.agg(F.count("*").alias("count"))
        .select(F.col("window").getField("start").cast("long"), "count")
        .writeStream.outputMode("append")
        .format("memory")
    )


@public_job(
    JOBS,
    f"{_MULTI}: aggregation -> stream deduplication",
    inputs=inputs("values"),
    mode="append",
    sink="memory",
    replaced=("memory stream: files",),
)
def unique_counts(spark: SparkSession, read: Read) -> Any:
    """Memory stream; watermark 0 s; key window of 5 s, count; withColumn of the window's end; dropDuplicates of
    count and end, without event time; then select with a cast."""
    counts = _timed(read, "0 seconds").groupBy(F.window("eventTime", "5 seconds").alias("window"))
    ended = counts.agg(F.count("*").alias("count")).withColumn("windowEnd", F.expr("window.end"))
    return (
        ended.dropDuplicates(["count", "windowEnd"])
        .select(F.col("windowEnd").cast("long"), "count")
        .writeStream.outputMode("append")
        .format("memory")
    )


@public_job(
    JOBS,
    f"{_DEDUPLICATION}: multiple deduplicates",
    inputs=inputs("pairs"),
    mode="append",
    sink="memory",
    replaced=("memory stream: files",),
)
def unique_twice(spark: SparkSession, read: Read) -> Any:
    """Memory stream; dropDuplicates() of all columns, then of one."""
    return read("pairs").dropDuplicates().dropDuplicates(["_1"]).writeStream.outputMode("append").format("memory")


@public_job(
    JOBS,
    f"{_DEDUPLICATION}: deduplicate with aggregate - update mode",
    inputs=inputs("pairs"),
    mode="update",
    sink="memory",
    keys=("str",),
    replaced=("memory stream: files",),
)
def unique_sums(spark: SparkSession, read: Read) -> Any:
    """Memory stream; select with aliases; dropDuplicates(); key one column; sum; no watermark anywhere."""
    named = read("pairs").select(F.col("_1").alias("str"), F.col("_2").alias("num"))
    return named.dropDuplicates().groupBy("str").agg(F.sum("num")).writeStream.outputMode("update").format("memory")


@public_job(
    JOBS,
    f"{_DEDUPLICATION}: deduplicate with aggregate - complete mode",
    inputs=inputs("pairs"),
    mode="complete",
    sink="memory",
)
def all_unique_sums(spark: SparkSession, read: Read) -> Any:
    """The same in mode complete."""
    named = read("pairs").select(F.col("_1").alias("str"), F.col("_2").alias("num"))
    sums = named.dropDuplicates().groupBy("str").agg(F.sum("num"))
    return sums.writeStream.outputMode("complete").format("memory")


@public_job(
    JOBS,
    "github.com/databricks/Spark-The-Definitive-Guide: code/Streaming-Chapter_22",
    inputs=inputs("activity"),
    mode="complete",
    sink="memory",
)
def unique_events_per_user(spark: SparkSession, read: Read) -> Any:
    """JSON files; watermark 5 s; dropDuplicates of user and event time; key user; count."""
    activity = read("activity").selectExpr(
        "*", "cast(cast(Creation_Time as double)/1000000000 as timestamp) as event_time"
    )
    unique = activity.withWatermark("event_time", "5 seconds").dropDuplicates(["User", "event_time"])
    return unique.groupBy("User").count().writeStream.outputMode("complete").format("memory")


@public_job(
    JOBS,
    f"{_DEDUPLICATION}: SPARK-29438",
    inputs=inputs("values"),
    mode="append",
    sink="memory",
    replaced=("memory stream: files",),
)
def values_and_unique_values(spark: SparkSession, read: Read) -> Any:
    """Two memory streams, one with dropDuplicates, then their union: one branch has no state."""
    return (
        read("values")
        .select("value")
        .union(read("values").dropDuplicates(["value"]))
        .writeStream.outputMode("append")
        .format("memory")
    )


@public_job(
    JOBS,
    "github.com/apache/spark: python/pyspark/sql/tests/pandas/test_pandas_transform_with_state.py: chaining ops",
    inputs=inputs("timed"),
    session=ROCKS,
    mode="append",
    sink="foreachBatch",
    replaced=("checks of a test: a table in memory",),
)
def processor_then_windows(spark: SparkSession, read: Read) -> Any:
    """Files; watermark 0 s; key id; a processor whose rows have an event time (eventTimeColumnName); key window of
    1 min over it; count; then select."""
    echoed = (
        read("timed")
        .withWatermark("eventTime", "0 seconds")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=Echo(),
            outputStructType="id string, outputTimestamp timestamp",
            outputMode="append",
            timeMode="eventTime",
            eventTimeColumnName="outputTimestamp",
        )
    )
    counts = echoed.groupBy(F.window("outputTimestamp", "1 minute")).agg(F.count("*").alias("count"))

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch)

    return counts.select("window.start", "count").writeStream.foreachBatch(write).outputMode("append")
