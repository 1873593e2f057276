"""Jobs that drop duplicates, and nothing else that has state."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from .parsing import from_kafka
from .shape import Frames, Shape, public_job

SHAPES: list[Shape] = []
_SUITE = (
    "github.com/apache/spark: sql/core/src/test/scala/org/apache/spark/sql/streaming/StreamingDeduplicationSuite.scala"
)
_GUIDE = "spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html: streaming deduplication"
_DEDUP = {"needs": ("dedup",)}
_DEDUP_AND_TAIL = {"needs": ("dedup", "tail")}


@public_job(
    SHAPES, "github.com/Moncif-M/real-time-pipeline-for-rides: silver_layer.py", "append", "delta", **_DEDUP_AND_TAIL
)
def silver_rides(frames: Frames) -> Any:
    """Delta table; filter(frame['timestamp'].isNotNull()); no watermark; dropDuplicates of the ride's id; then
    withColumnRenamed."""
    rides = frames.stream("rides")
    unique = rides.filter(rides["timestamp"].isNotNull()).dropDuplicates(["ride_id"])
    return unique.withColumnRenamed("timestamp", "pickup_time")


@public_job(
    SHAPES,
    "github.com/bartosz25/data-engineering-design-patterns-book: chapter-03/02-duplicated-records/"
    "01-windowed-deduplicator-dropduplicates-spark-streaming/visits_deduplicator.py",
    "append",
    "foreachBatch",
    **_DEDUP_AND_TAIL,
)
def unique_visits(frames: Frames) -> Any:
    """Kafka JSON, the text is kept; watermark 10 min; dropDuplicates of visit and event time; then drop of both; the
    function overwrites a folder per batch."""
    texts = frames.stream("visits").select(F.col("value").cast("string"))
    visits = texts.select(F.from_json("value", "visit_id string, event_time timestamp").alias("v"), "value")
    late = visits.select("v.event_time", "v.visit_id", "value").withWatermark("event_time", "10 minutes")
    return late.dropDuplicates(["visit_id", "event_time"]).drop("event_time", "visit_id")


@public_job(
    SHAPES,
    "github.com/bartosz25/spark-playground: pyspark-deduplication/deduplicator_scoped.py",
    "update",
    "console",
    **_DEDUP,
)
def scoped_deduplicator(frames: Frames) -> Any:
    """Python data source; watermark 10 min; dropDuplicates of visit and event time; written in mode update."""
    visits = from_kafka(frames.stream("visits"), "visit_id int, event_time timestamp, page string")
    return visits.withWatermark("event_time", "10 minutes").dropDuplicates(["visit_id", "event_time"])


@public_job(SHAPES, _GUIDE, "append", "console", columns=("guid",), runs_as="unique_pairs", **_DEDUP)
def guids(frames: Frames) -> Any:
    """Events; no watermark; dropDuplicates('guid')."""
    return frames.stream("guids").dropDuplicates(["guid"])


@public_job(SHAPES, _GUIDE, "append", "console", runs_as="scoped_deduplicator", **_DEDUP)
def guids_with_event_time(frames: Frames) -> Any:
    """Events; watermark 10 s; dropDuplicates('guid', 'eventTime')."""
    return frames.stream("guids").withWatermark("eventTime", "10 seconds").dropDuplicates(["guid", "eventTime"])


@public_job(
    SHAPES,
    "docs.databricks.com/structured-streaming/watermarks.html: dropDuplicatesWithinWatermark",
    "append",
    "console",
    columns=("guid",),
    oracle=lambda frames: frames.stream("guids").dropDuplicates(["guid"]),
    **_DEDUP,
)
def guids_within_watermark(frames: Frames) -> Any:
    """Events; watermark 10 hours; dropDuplicatesWithinWatermark of the id."""
    return frames.stream("guids").withWatermark("eventTime", "10 hours").dropDuplicatesWithinWatermark(["guid"])


@public_job(SHAPES, f"{_SUITE}: with all columns, with file sink", "append", "parquet", **_DEDUP)
def unique_rows(frames: Frames) -> Any:
    """Memory stream; dropDuplicates() of all columns."""
    return frames.stream("pairs").dropDuplicates()


@public_job(SHAPES, f"{_SUITE}: with some columns", "append", "memory", columns=("_1",), **_DEDUP)
def unique_pairs(frames: Frames) -> Any:
    """Memory stream; dropDuplicates of one column of two."""
    return frames.stream("pairs").dropDuplicates(["_1"])


@public_job(SHAPES, f"{_SUITE}: with watermark", "append", "memory", runs_as="unique_visits", **_DEDUP_AND_TAIL)
def unique_values(frames: Frames) -> Any:
    """Memory stream; withColumn(timestamp_seconds); watermark 10 s; dropDuplicates() of all columns; then select of a
    cast."""
    timed = frames.stream("values").withColumn("eventTime", F.timestamp_seconds(F.col("value")))
    unique = timed.withWatermark("eventTime", "10 seconds").dropDuplicates()
    return unique.select(F.col("eventTime").cast("long"))
