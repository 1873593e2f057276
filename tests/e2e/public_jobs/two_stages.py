"""Jobs with several stages that have state, one after the other."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from .processors import Echo
from .shape import Frames, Shape, public_job

SHAPES: list[Shape] = []
_SUITES = "github.com/apache/spark: sql/core/src/test/scala/org/apache/spark/sql/streaming"
_MULTI = f"{_SUITES}/MultiStatefulOperatorsSuite.scala"
_DEDUPLICATION = f"{_SUITES}/StreamingDeduplicationSuite.scala"


def _timed(frames: Frames, delay: str) -> Any:
    timed = frames.stream("values").withColumn("eventTime", F.timestamp_seconds(F.col("value")))
    return timed.withWatermark("eventTime", delay)


@public_job(SHAPES, f"{_MULTI}: window agg -> window agg", "append", "memory", closes=True, needs=("stages", "tail"))
def windows_of_windows(frames: Frames) -> Any:
    """Memory stream; watermark 0 s; key window of 5 s, count; key window of 10 s over that window, count and sum; then
    select with casts."""
    counts = _timed(frames, "0 seconds").groupBy(F.window("eventTime", "5 seconds").alias("window"))
    outer = counts.agg(F.count("*").alias("count")).groupBy(F.window("window", "10 seconds"))
    sums = outer.agg(F.count("*").alias("count"), F.sum("count").alias("sum"))
    return sums.select(F.col("window").getField("start").cast("long"), "count", "sum")


@public_job(SHAPES, f"{_MULTI}: agg -> agg -> agg", "append", "memory", closes=True, needs=("stages", "tail"))
def three_levels(frames: Frames) -> Any:
    """Memory stream; windows of 5 s, of 10 s and of 20 s, each over window_time of the one before; count and sum; then
    select with casts."""
    counts = _timed(frames, "0 seconds").groupBy(F.window("eventTime", "5 seconds").alias("window"))
    inner = counts.agg(F.count("*").alias("count"))
    middle = inner.groupBy(F.window(F.window_time("window"), "10 seconds"))
    sums = middle.agg(F.count("*").alias("count"), F.sum("count").alias("sum"))
    outer = sums.groupBy(F.window(F.window_time("window"), "20 seconds"))
    return outer.agg(F.count("*").alias("count"), F.sum("sum").alias("sum")).select(
        F.col("window").getField("start").cast("long").alias("start"), "count", "sum"
    )


@public_job(
    SHAPES,
    f"{_MULTI}: stream deduplication -> aggregation",
    "append",
    "memory",
    closes=True,
    needs=("dedup", "stages", "tail"),
)
def unique_per_window(frames: Frames) -> Any:
    """Memory stream; watermark 10 s; dropDuplicates of value and event time; key window of 5 s, count and sum; then
    select with a cast."""
    unique = _timed(frames, "10 seconds").dropDuplicates(["value", "eventTime"])
    sums = unique.groupBy(F.window("eventTime", "5 seconds").alias("window")).agg(
        F.count("*").alias("count"), F.sum("value").alias("sum")
    )
    return sums.select(F.col("window").getField("start").cast("long"), "count")


@public_job(
    SHAPES,
    f"{_DEDUPLICATION}: deduplicate with aggregate - append mode",
    "append",
    "memory",
    closes=True,
    runs_as="unique_per_window",
    needs=("dedup", "stages", "tail"),
)
def unique_rows_per_window(frames: Frames) -> Any:
    """As before, with dropDuplicates() of all columns."""
    counts = _timed(frames, "10 seconds").dropDuplicates().groupBy(F.window("eventTime", "5 seconds").alias("window"))
    return counts.agg(F.count("*").alias("count")).select(F.col("window").getField("start").cast("long"), "count")


@public_job(
    SHAPES,
    f"{_MULTI}: aggregation -> stream deduplication",
    "append",
    "memory",
    closes=True,
    needs=("dedup", "stages", "tail"),
)
def unique_counts(frames: Frames) -> Any:
    """Memory stream; watermark 0 s; key window of 5 s, count; withColumn of the window's end; dropDuplicates of
    count and end, without event time; then select with a cast."""
    counts = _timed(frames, "0 seconds").groupBy(F.window("eventTime", "5 seconds").alias("window"))
    ended = counts.agg(F.count("*").alias("count")).withColumn("windowEnd", F.expr("window.end"))
    return ended.dropDuplicates(["count", "windowEnd"]).select(F.col("windowEnd").cast("long"), "count")


@public_job(SHAPES, f"{_DEDUPLICATION}: multiple deduplicates", "append", "memory", columns=("_1",), needs=("dedup",))
def unique_twice(frames: Frames) -> Any:
    """Memory stream; dropDuplicates() of all columns, then of one."""
    return frames.stream("pairs").dropDuplicates().dropDuplicates(["_1"])


@public_job(
    SHAPES,
    f"{_DEDUPLICATION}: deduplicate with aggregate - update mode",
    "update",
    "memory",
    needs=("dedup",),
)
def unique_sums(frames: Frames) -> Any:
    """Memory stream; select with aliases; dropDuplicates(); key one column; sum; no watermark anywhere."""
    named = frames.stream("pairs").select(F.col("_1").alias("str"), F.col("_2").alias("num"))
    return named.dropDuplicates().groupBy("str").agg(F.sum("num"))


@public_job(
    SHAPES,
    f"{_DEDUPLICATION}: deduplicate with aggregate - complete mode",
    "complete",
    "memory",
    runs_as="unique_events_per_user",
    needs=("dedup", "stages", "complete"),
)
def all_unique_sums(frames: Frames) -> Any:
    """The same in mode complete."""
    return unique_sums(frames)


@public_job(
    SHAPES,
    "github.com/databricks/Spark-The-Definitive-Guide: code/Streaming-Chapter_22",
    "complete",
    "memory",
    needs=("dedup", "stages", "complete"),
)
def unique_events_per_user(frames: Frames) -> Any:
    """JSON files; watermark 5 s; dropDuplicates of user and event time; key user; count."""
    activity = frames.stream("activity").selectExpr(
        "*", "cast(cast(Creation_Time as double)/1000000000 as timestamp) as event_time"
    )
    unique = activity.withWatermark("event_time", "5 seconds").dropDuplicates(["User", "event_time"])
    return unique.groupBy("User").count()


@public_job(
    SHAPES,
    f"{_DEDUPLICATION}: SPARK-29438",
    "append",
    "memory",
    needs=("dedup", "union with a stage's output"),
)
def values_and_unique_values(frames: Frames) -> Any:
    """Two memory streams, one with dropDuplicates, then their union: one branch has no state."""
    return frames.stream("values").select("value").union(frames.stream("values").dropDuplicates(["value"]))


@public_job(
    SHAPES,
    "github.com/apache/spark: python/pyspark/sql/tests/pandas/test_pandas_transform_with_state.py: chaining ops",
    "append",
    "foreachBatch",
    closes=True,
    oracle=lambda frames: (
        frames.stream("timed")
        .groupBy("id", "eventTime")
        .agg(F.lit(1))
        .groupBy(F.window("eventTime", "1 minute"))
        .agg(F.count("*").alias("count"))
        .select("window.start", "count")
    ),
    needs=("stages", "tail"),
)
def processor_then_windows(frames: Frames) -> Any:
    """Files; watermark 0 s; key id; a processor whose rows have an event time (eventTimeColumnName); key window of
    1 min over it; count; then select."""
    echoed = (
        frames.stream("timed")
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
    return counts.select("window.start", "count")
