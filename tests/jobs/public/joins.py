"""Jobs that join two streams."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ..inputs import inputs
from ..job import Job, Read, public_job

JOBS: list[Job] = []
_GUIDE = "spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html: stream-stream joins"
_MULTI = (
    "github.com/apache/spark: sql/core/src/test/scala/org/apache/spark/sql/streaming/MultiStatefulOperatorsSuite.scala"
)
_FORMAT = "yyyy-MM-dd HH:mm:ss"


def _impressions(read: Read) -> Any:
    schema = "ImpressionID string, CreatedTime string, Campaigner string"
    parsed = read("impressions").select(F.from_json(F.col("value").cast("string"), schema).alias("value"))
    chosen = parsed.selectExpr("value.ImpressionID", "value.CreatedTime", "value.Campaigner")
    return chosen.withColumn("ImpressionTime", F.to_timestamp(F.col("CreatedTime"), _FORMAT)).drop("CreatedTime")


def _clicks(read: Read) -> Any:
    schema = "ImpressionID string, CreatedTime string"
    parsed = read("ad clicks").select(F.from_json(F.col("value").cast("string"), schema).alias("value"))
    chosen = parsed.selectExpr("value.ImpressionID as ClickID", "value.CreatedTime")
    return chosen.withColumn("ClickTime", F.to_timestamp(F.col("CreatedTime"), _FORMAT)).drop("CreatedTime")


@public_job(
    JOBS,
    "github.com/NgQuangHuyit/Stream-processing-with-spark-structured-streaming: StreamJoinStreamDemo.py",
    inputs=inputs("impressions", "ad clicks"),
    mode="append",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def impressions_with_clicks(spark: SparkSession, read: Read) -> Any:
    """Two Kafka topics; no watermark; inner join on frame.column == other.column."""
    impressions, clicks = (_impressions(read), _clicks(read))
    return (
        impressions.join(clicks, impressions.ImpressionID == clicks.ClickID, "inner")
        .writeStream.outputMode("append")
        .format("console")
        .trigger(processingTime="1 minute")
    )


@public_job(
    JOBS,
    _GUIDE,
    inputs=inputs("impressions", "ad clicks"),
    mode="append",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def clicks_within_an_hour(spark: SparkSession, read: Read) -> Any:
    """Two streams with watermarks of 2 and 3 hours; inner join on an id and a range of time by expr."""
    impressions = _impressions(read).withWatermark("ImpressionTime", "2 hours")
    clicks = _clicks(read).withWatermark("ClickTime", "3 hours")
    within = "ClickTime >= ImpressionTime AND ClickTime <= ImpressionTime + interval 1 hour"
    return (
        impressions.join(clicks, F.expr(f"ClickID = ImpressionID AND {within}"))
        .writeStream.outputMode("append")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/LearningJournal/Spark-Streaming-In-Python: 14-StreamingOuterJoinDemo",
    inputs=inputs("impressions", "ad clicks"),
    mode="append",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def impressions_without_clicks(spark: SparkSession, read: Read) -> Any:
    """Two Kafka topics with watermarks of 30 min; left outer join on an id and a range of 15 min."""
    impressions = _impressions(read).withWatermark("ImpressionTime", "30 minute")
    clicks = _clicks(read).withWatermark("ClickTime", "30 minute")
    within = "ClickTime BETWEEN ImpressionTime AND ImpressionTime + interval 15 minute"
    return (
        impressions.join(clicks, F.expr(f"ImpressionID == ClickID AND {within}"), "leftOuter")
        .writeStream.outputMode("append")
        .format("console")
        .trigger(processingTime="1 minute")
    )


@public_job(
    JOBS,
    "github.com/udacity/nd029-c2-apache-spark-and-spark-streaming-starter: reservation-payment.solution.py",
    inputs=inputs("impressions"),
    mode="append",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def payments_of_reservations(spark: SparkSession, read: Read) -> Any:
    """One Kafka topic read once, split by two views; SQL for each side; inner join by expr, no watermark."""
    read("impressions").selectExpr("cast(value as string) value").createOrReplaceTempView("reservations")
    left = read.spark.sql("SELECT get_json_object(value, '$.ImpressionID') AS id FROM reservations")
    right = read.spark.sql("SELECT get_json_object(value, '$.ImpressionID') AS other FROM reservations")
    return left.join(right, F.expr("id = other")).writeStream.outputMode("append").format("console")


@public_job(
    JOBS,
    f"{_MULTI}: join -> window agg",
    inputs=inputs("values"),
    mode="append",
    sink="memory",
    replaced=("memory stream: files",),
)
def pairs_per_window(spark: SparkSession, read: Read) -> Any:
    """Two memory streams with watermarks of 0 s; inner join on their event times; key window of 5 s; count; then
    select with a cast."""
    sides = []
    for side in ("1", "2"):
        values = read("values").withColumnRenamed("value", f"value{side}")
        timed = values.withColumn(f"eventTime{side}", F.timestamp_seconds(F.col(f"value{side}")))
        sides.append(timed.withWatermark(f"eventTime{side}", "0 seconds"))
    joined = sides[0].join(sides[1], F.expr("eventTime1 = eventTime2"), "inner")
    counts = joined.groupBy(F.window("eventTime1", "5 seconds").alias("window")).agg(F.count("*").alias("count"))
    return (
        counts.select(F.col("window").getField("start").cast("long"), "count")
        .writeStream.outputMode("append")
        .format("memory")
    )


@public_job(
    JOBS,
    f"{_MULTI}: stream-stream time interval left outer join -> aggregation",
    inputs=inputs("timed"),
    mode="append",
    sink="memory",
    replaced=("memory stream: files",),
)
def outer_pairs_per_window(spark: SparkSession, read: Read) -> Any:
    """Two memory streams with watermarks of 2 and 4 min and aliases; left outer join on an id and a range; key
    window of 30 s over left.eventTime; count; then selectExpr."""
    left = read("timed").withWatermark("eventTime", "2 minutes").alias("left")
    right = read("timed").withWatermark("eventTime", "4 minutes").alias("right")
    near = "left.eventTime BETWEEN right.eventTime - INTERVAL 40 seconds AND right.eventTime + INTERVAL 30 seconds"
    joined = left.join(right, F.expr(f"left.id = right.id AND {near}"), "leftOuter")
    counts = joined.groupBy(F.window(F.col("left.eventTime"), "30 seconds")).agg(F.count("*").alias("cnt"))
    return (
        counts.selectExpr("window.start AS window_start", "window.end AS window_end", "cnt")
        .writeStream.outputMode("append")
        .format("memory")
    )
