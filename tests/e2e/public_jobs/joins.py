"""Jobs that join two streams."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from .shape import Frames, Shape, public_job

SHAPES: list[Shape] = []
_GUIDE = "spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html: stream-stream joins"
_MULTI = (
    "github.com/apache/spark: sql/core/src/test/scala/org/apache/spark/sql/streaming/MultiStatefulOperatorsSuite.scala"
)
_JOIN = {"needs": ("joins of streams",)}
_FORMAT = "yyyy-MM-dd HH:mm:ss"


def _impressions(frames: Frames) -> Any:
    schema = "ImpressionID string, CreatedTime string, Campaigner string"
    parsed = frames.stream("impressions").select(F.from_json(F.col("value").cast("string"), schema).alias("value"))
    chosen = parsed.selectExpr("value.ImpressionID", "value.CreatedTime", "value.Campaigner")
    return chosen.withColumn("ImpressionTime", F.to_timestamp(F.col("CreatedTime"), _FORMAT)).drop("CreatedTime")


def _clicks(frames: Frames) -> Any:
    schema = "ImpressionID string, CreatedTime string"
    parsed = frames.stream("ad clicks").select(F.from_json(F.col("value").cast("string"), schema).alias("value"))
    chosen = parsed.selectExpr("value.ImpressionID as ClickID", "value.CreatedTime")
    return chosen.withColumn("ClickTime", F.to_timestamp(F.col("CreatedTime"), _FORMAT)).drop("CreatedTime")


@public_job(
    SHAPES,
    "github.com/NgQuangHuyit/Stream-processing-with-spark-structured-streaming: StreamJoinStreamDemo.py",
    "append",
    "console",
    trigger={"processingTime": "1 minute"},
    **_JOIN,
)
def impressions_with_clicks(frames: Frames) -> Any:
    """Two Kafka topics; no watermark; inner join on frame.column == other.column."""
    impressions, clicks = _impressions(frames), _clicks(frames)
    return impressions.join(clicks, impressions.ImpressionID == clicks.ClickID, "inner")


@public_job(SHAPES, _GUIDE, "append", "console", **_JOIN)
def clicks_within_an_hour(frames: Frames) -> Any:
    """Two streams with watermarks of 2 and 3 hours; inner join on an id and a range of time by expr."""
    impressions = _impressions(frames).withWatermark("ImpressionTime", "2 hours")
    clicks = _clicks(frames).withWatermark("ClickTime", "3 hours")
    within = "ClickTime >= ImpressionTime AND ClickTime <= ImpressionTime + interval 1 hour"
    return impressions.join(clicks, F.expr(f"ClickID = ImpressionID AND {within}"))


@public_job(
    SHAPES,
    "github.com/LearningJournal/Spark-Streaming-In-Python: 14-StreamingOuterJoinDemo",
    "append",
    "console",
    trigger={"processingTime": "1 minute"},
    closes=True,
    **_JOIN,
)
def impressions_without_clicks(frames: Frames) -> Any:
    """Two Kafka topics with watermarks of 30 min; left outer join on an id and a range of 15 min."""
    impressions = _impressions(frames).withWatermark("ImpressionTime", "30 minute")
    clicks = _clicks(frames).withWatermark("ClickTime", "30 minute")
    within = "ClickTime BETWEEN ImpressionTime AND ImpressionTime + interval 15 minute"
    return impressions.join(clicks, F.expr(f"ImpressionID == ClickID AND {within}"), "leftOuter")


@public_job(
    SHAPES,
    "github.com/udacity/nd029-c2-apache-spark-and-spark-streaming-starter: reservation-payment.solution.py",
    "append",
    "console",
    needs=("joins of streams", "views"),
)
def payments_of_reservations(frames: Frames) -> Any:
    """One Kafka topic read once, split by two views; SQL for each side; inner join by expr, no watermark."""
    frames.stream("impressions").selectExpr("cast(value as string) value").createOrReplaceTempView("reservations")
    left = frames.spark.sql("SELECT get_json_object(value, '$.ImpressionID') AS id FROM reservations")
    right = frames.spark.sql("SELECT get_json_object(value, '$.ImpressionID') AS other FROM reservations")
    return left.join(right, F.expr("id = other"))


@public_job(
    SHAPES,
    f"{_MULTI}: join -> window agg",
    "append",
    "memory",
    needs=("joins of streams", "stages", "tail"),
    closes=True,
)
def pairs_per_window(frames: Frames) -> Any:
    """Two memory streams with watermarks of 0 s; inner join on their event times; key window of 5 s; count; then
    select with a cast."""
    sides = []
    for side in ("1", "2"):
        values = frames.stream("values").withColumnRenamed("value", f"value{side}")
        timed = values.withColumn(f"eventTime{side}", F.timestamp_seconds(F.col(f"value{side}")))
        sides.append(timed.withWatermark(f"eventTime{side}", "0 seconds"))
    joined = sides[0].join(sides[1], F.expr("eventTime1 = eventTime2"), "inner")
    counts = joined.groupBy(F.window("eventTime1", "5 seconds").alias("window")).agg(F.count("*").alias("count"))
    return counts.select(F.col("window").getField("start").cast("long"), "count")


@public_job(
    SHAPES,
    f"{_MULTI}: stream-stream time interval left outer join -> aggregation",
    "append",
    "memory",
    needs=("joins of streams", "stages", "tail", "frame methods", "alias behind a join"),
    closes=True,
)
def outer_pairs_per_window(frames: Frames) -> Any:
    """Two memory streams with watermarks of 2 and 4 min and aliases; left outer join on an id and a range; key
    window of 30 s over left.eventTime; count; then selectExpr."""
    left = frames.stream("timed").withWatermark("eventTime", "2 minutes").alias("left")
    right = frames.stream("timed").withWatermark("eventTime", "4 minutes").alias("right")
    near = "left.eventTime BETWEEN right.eventTime - INTERVAL 40 seconds AND right.eventTime + INTERVAL 30 seconds"
    joined = left.join(right, F.expr(f"left.id = right.id AND {near}"), "leftOuter")
    counts = joined.groupBy(F.window(F.col("left.eventTime"), "30 seconds")).agg(F.count("*").alias("cnt"))
    return counts.selectExpr("window.start AS window_start", "window.end AS window_end", "cnt")
