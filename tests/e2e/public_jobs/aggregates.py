"""Jobs that write what comes out of their one aggregate, as it is."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from .parsing import CLICK, from_kafka
from .shape import Frames, Shape, public_job

SHAPES: list[Shape] = []


@public_job(SHAPES, "github.com/sachinpatilb/dais_dr: 3a-Silver-to-Gold.py", "update", "foreachBatch")
def transactions_per_hour(frames: Frames) -> Any:
    """Table; withColumn(date_format); keys customer and formatted hour; agg of an expr with its alias in the text;
    the function merges into a table."""
    hours = frames.stream("transactions").withColumn("event_hour", F.date_format("event_time", "yyyy-MM-dd-HH"))
    return hours.groupBy("customer_id", "event_hour").agg(F.expr("count(customer_id) as no_of_txn"))


@public_job(
    SHAPES,
    "docs.databricks.com/structured-streaming/foreach.html: notebook that merges streaming aggregates in update mode",
    "update",
    "foreachBatch",
    runs_as="transactions_per_hour",
)
def counts_to_merge(frames: Frames) -> Any:
    """Rate source; select of value modulo a number as key; count; the function merges into a table."""
    return frames.stream("rate").select((F.col("value") % 10).alias("key")).groupBy("key").count()


@public_job(SHAPES, "github.com/yesunch/BigData: start_consumer.py", "append", "console", closes=True)
def bid_prices(frames: Frames) -> Any:
    """Kafka; from_json(...).getItem per column; watermark 10 s; keys symbol and window of 10 s; GroupedData.avg."""
    schema = "order_quantity bigint, symbol string, timestamp timestamp, bid_price float"
    texts = frames.stream("market").selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    names = ("order_quantity", "symbol", "timestamp", "bid_price")
    market = texts.select(*[F.from_json("value", schema).getItem(name).alias(name) for name in names])
    late = market.withWatermark("timestamp", "10 seconds")
    return late.groupBy("symbol", F.window("timestamp", "10 seconds")).avg("bid_price")


@public_job(
    SHAPES,
    "spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html: handling late data and watermarking",
    "update",
    "console",
)
def words_per_sliding_window(frames: Frames) -> Any:
    """Socket; explode(split); watermark 10 min; keys sliding window of 10 min by 5 min and word; count."""
    lines = frames.stream("lines")
    words = lines.select(F.explode(F.split(lines.value, " ")).alias("word"), "timestamp")
    late = words.withWatermark("timestamp", "10 minutes")
    return late.groupBy(F.window(words.timestamp, "10 minutes", "5 minutes"), words.word).count()


@public_job(
    SHAPES,
    "spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html: types of time windows",
    "append",
    "console",
    closes=True,
)
def events_per_session(frames: Frames) -> Any:
    """Events; watermark 10 min; keys session window with a gap by expression (5 s, 20 s or 5 min by user) and user;
    count."""
    events = from_kafka(frames.stream("clicks"), CLICK)
    late = events.withWatermark("timestamp", "10 minutes")
    gap = (
        F.when(F.col("user_id") == "u0", "5 seconds").when(F.col("user_id") == "u1", "2 minutes").otherwise("5 minutes")
    )
    return late.groupBy(F.session_window(F.col("timestamp"), gap), F.col("user_id")).count()
