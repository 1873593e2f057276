"""Jobs that drop duplicates, and nothing else that has state."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..inputs import inputs
from ..job import Job, Read, public_job
from ..parsing import from_kafka

JOBS: list[Job] = []
_SUITE = (
    "github.com/apache/spark: sql/core/src/test/scala/org/apache/spark/sql/streaming/StreamingDeduplicationSuite.scala"
)
_GUIDE = "spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html: streaming deduplication"


@public_job(
    JOBS,
    "github.com/Moncif-M/real-time-pipeline-for-rides: silver_layer.py",
    inputs=inputs("rides"),
    mode="append",
    sink="delta",
    replaced=("table: files", "delta sink: collected"),
)
def silver_rides(spark: SparkSession, read: Read) -> Any:
    """Delta table; filter(frame['timestamp'].isNotNull()); no watermark; dropDuplicates of the ride's id; then
    withColumnRenamed."""
    rides = read("rides")
    unique = rides.filter(rides["timestamp"].isNotNull()).dropDuplicates(["ride_id"])
    return unique.withColumnRenamed("timestamp", "pickup_time").writeStream.outputMode("append").format("delta")


@public_job(
    JOBS,
    "github.com/bartosz25/data-engineering-design-patterns-book: chapter-03/02-duplicated-records/"
    "01-windowed-deduplicator-dropduplicates-spark-streaming/visits_deduplicator.py",
    inputs=inputs("visits"),
    mode="append",
    sink="foreachBatch",
    holds=lambda spark, read: spark.read.parquet(read.path("visits") + "/*"),
    replaced=("kafka: files",),
)
def unique_visits(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON, the text is kept; watermark 10 min; dropDuplicates of visit and event time; then drop of both; the
    function overwrites a folder per batch."""
    texts = read("visits").select(F.col("value").cast("string"))
    visits = texts.select(F.from_json("value", "visit_id string, event_time timestamp").alias("v"), "value")
    late = visits.select("v.event_time", "v.visit_id", "value").withWatermark("event_time", "10 minutes")

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{read.path('visits')}/{batch_id}")

    return (
        late.dropDuplicates(["visit_id", "event_time"])
        .drop("event_time", "visit_id")
        .writeStream.foreachBatch(write)
        .outputMode("append")
    )


@public_job(
    JOBS,
    "github.com/bartosz25/spark-playground: pyspark-deduplication/deduplicator_scoped.py",
    inputs=inputs("visits"),
    mode="update",
    sink="console",
    keys=("visit_id", "event_time"),
    replaced=("kafka: files", "console sink: collected"),
)
def scoped_deduplicator(spark: SparkSession, read: Read) -> Any:
    """Python data source; watermark 10 min; dropDuplicates of visit and event time; written in mode update."""
    visits = from_kafka(read("visits"), "visit_id int, event_time timestamp, page string")
    return (
        visits.withWatermark("event_time", "10 minutes")
        .dropDuplicates(["visit_id", "event_time"])
        .writeStream.outputMode("update")
        .format("console")
    )


@public_job(JOBS, _GUIDE, inputs=inputs("guids"), mode="append", sink="console", replaced=("console sink: collected",))
def guids(spark: SparkSession, read: Read) -> Any:
    """Events; no watermark; dropDuplicates('guid')."""
    return read("guids").dropDuplicates(["guid"]).writeStream.outputMode("append").format("console")


@public_job(JOBS, _GUIDE, inputs=inputs("guids"), mode="append", sink="console", replaced=("console sink: collected",))
def guids_with_event_time(spark: SparkSession, read: Read) -> Any:
    """Events; watermark 10 s; dropDuplicates('guid', 'eventTime')."""
    return (
        read("guids")
        .withWatermark("eventTime", "10 seconds")
        .dropDuplicates(["guid", "eventTime"])
        .writeStream.outputMode("append")
        .format("console")
    )


@public_job(
    JOBS,
    "docs.databricks.com/structured-streaming/watermarks.html: dropDuplicatesWithinWatermark",
    inputs=inputs("guids"),
    mode="append",
    sink="console",
    replaced=("console sink: collected",),
)
def guids_within_watermark(spark: SparkSession, read: Read) -> Any:
    """Events; watermark 10 hours; dropDuplicatesWithinWatermark of the id."""
    return (
        read("guids")
        .withWatermark("eventTime", "10 hours")
        .dropDuplicatesWithinWatermark(["guid"])
        .writeStream.outputMode("append")
        .format("console")
    )


@public_job(
    JOBS,
    f"{_SUITE}: with all columns, with file sink",
    inputs=inputs("pairs"),
    mode="append",
    sink="parquet",
    replaced=("memory stream: files",),
)
def unique_rows(spark: SparkSession, read: Read) -> Any:
    """Memory stream; dropDuplicates() of all columns."""
    return read("pairs").dropDuplicates().writeStream.outputMode("append").format("parquet")


@public_job(
    JOBS,
    f"{_SUITE}: with some columns",
    inputs=inputs("pairs"),
    mode="append",
    sink="memory",
    replaced=("memory stream: files",),
)
def unique_pairs(spark: SparkSession, read: Read) -> Any:
    """Memory stream; dropDuplicates of one column of two."""
    return read("pairs").dropDuplicates(["_1"]).writeStream.outputMode("append").format("memory")


@public_job(
    JOBS,
    f"{_SUITE}: with watermark",
    inputs=inputs("values"),
    mode="append",
    sink="memory",
    replaced=("memory stream: files",),
)
def unique_values(spark: SparkSession, read: Read) -> Any:
    """Memory stream; withColumn(timestamp_seconds); watermark 10 s; dropDuplicates() of all columns; then select of a
    cast."""
    timed = read("values").withColumn("eventTime", F.timestamp_seconds(F.col("value")))
    unique = timed.withWatermark("eventTime", "10 seconds").dropDuplicates()
    return unique.select(F.col("eventTime").cast("long")).writeStream.outputMode("append").format("memory")
