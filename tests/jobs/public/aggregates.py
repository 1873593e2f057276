"""Jobs that write what comes out of their one aggregate, as it is."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..inputs import inputs
from ..job import Job, Read, public_job
from ..parsing import CLICK, from_kafka

JOBS: list[Job] = []


@public_job(
    JOBS,
    "github.com/sachinpatilb/dais_dr: 3a-Silver-to-Gold.py",
    inputs=inputs("transactions"),
    mode="update",
    sink="foreachBatch",
    keys=("customer_id", "event_hour"),
    replaced=("table: files", "MERGE into a table: the same on a table in memory"),
)
def transactions_per_hour(spark: SparkSession, read: Read) -> Any:
    """Table; withColumn(date_format); keys customer and formatted hour; agg of an expr with its alias in the text;
    the function merges into a table."""
    hours = read("transactions").withColumn("event_hour", F.date_format("event_time", "yyyy-MM-dd-HH"))

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.merge(batch, ["customer_id", "event_hour"])

    return (
        hours.groupBy("customer_id", "event_hour")
        .agg(F.expr("count(customer_id) as no_of_txn"))
        .writeStream.foreachBatch(write)
        .outputMode("update")
    )


@public_job(
    JOBS,
    "docs.databricks.com/structured-streaming/foreach.html: notebook that merges streaming aggregates in update mode",
    inputs=inputs("rate"),
    mode="update",
    sink="foreachBatch",
    keys=("key",),
    replaced=("rate: files", "MERGE into a table: the same on a table in memory"),
)
def counts_to_merge(spark: SparkSession, read: Read) -> Any:
    """Rate source; select of value modulo a number as key; count; the function merges into a table."""

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.merge(batch, ["key"])

    return (
        read("rate")
        .select((F.col("value") % 10).alias("key"))
        .groupBy("key")
        .count()
        .writeStream.foreachBatch(write)
        .outputMode("update")
    )


@public_job(
    JOBS,
    "github.com/yesunch/BigData: start_consumer.py",
    inputs=inputs("market"),
    mode="append",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def bid_prices(spark: SparkSession, read: Read) -> Any:
    """Kafka; from_json(...).getItem per column; watermark 10 s; keys symbol and window of 10 s; GroupedData.avg."""
    schema = "order_quantity bigint, symbol string, timestamp timestamp, bid_price float"
    texts = read("market").selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    names = ("order_quantity", "symbol", "timestamp", "bid_price")
    market = texts.select(*[F.from_json("value", schema).getItem(name).alias(name) for name in names])
    late = market.withWatermark("timestamp", "10 seconds")
    return (
        late.groupBy("symbol", F.window("timestamp", "10 seconds"))
        .avg("bid_price")
        .writeStream.outputMode("append")
        .format("console")
    )


@public_job(
    JOBS,
    "spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html: handling late data and watermarking",
    inputs=inputs("lines"),
    mode="update",
    sink="console",
    keys=("window", "word"),
    replaced=("socket: files", "console sink: collected"),
)
def words_per_sliding_window(spark: SparkSession, read: Read) -> Any:
    """Socket; explode(split); watermark 10 min; keys sliding window of 10 min by 5 min and word; count."""
    lines = read("lines")
    words = lines.select(F.explode(F.split(lines.value, " ")).alias("word"), "timestamp")
    late = words.withWatermark("timestamp", "10 minutes")
    return (
        late.groupBy(F.window(words.timestamp, "10 minutes", "5 minutes"), words.word)
        .count()
        .writeStream.outputMode("update")
        .format("console")
    )


@public_job(
    JOBS,
    "spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html: types of time windows",
    inputs=inputs("clicks"),
    mode="append",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def events_per_session(spark: SparkSession, read: Read) -> Any:
    """Events; watermark 10 min; keys session window with a gap by expression (5 s, 20 s or 5 min by user) and user;
    count."""
    events = from_kafka(read("clicks"), CLICK)
    late = events.withWatermark("timestamp", "10 minutes")
    gap = (
        F.when(F.col("user_id") == "u0", "5 seconds").when(F.col("user_id") == "u1", "2 minutes").otherwise("5 minutes")
    )
    return (
        late.groupBy(F.session_window(F.col("timestamp"), gap), F.col("user_id"))
        .count()
        .writeStream.outputMode("append")
        .format("console")
    )
