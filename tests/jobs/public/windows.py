"""Jobs with a window among the keys, and a select or a rename before the sink."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..inputs import inputs
from ..job import Job, Read, public_job
from ..parsing import CLICK, INVOICE, from_kafka, taxis

JOBS: list[Job] = []
_LEARNING_JOURNAL = "github.com/LearningJournal/Spark-Streaming-In-Python"


def _invoices(read: Read) -> Any:
    parsed = read("invoices").select(F.from_json(F.col("value").cast("string"), INVOICE).alias("value"))
    return parsed.select("value.*").withColumn("CreatedTime", F.to_timestamp("CreatedTime", "yyyy-MM-dd HH:mm:ss"))


@public_job(
    JOBS,
    f"{_LEARNING_JOURNAL}: 08-TumblingWindowDemo",
    inputs=inputs("invoices"),
    mode="update",
    sink="console",
    keys=("StoreID", "start", "end"),
    replaced=("kafka: files", "console sink: collected"),
)
def tumbling_window(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; withColumn(to_timestamp); no watermark; keys store and window of 5 min; count; then select of
    window.start, window.end and the rest."""
    counts = _invoices(read).groupBy("StoreID", F.window("CreatedTime", "5 minute")).count()
    return (
        counts.select("StoreID", "window.start", "window.end", "count")
        .writeStream.outputMode("update")
        .format("console")
        .trigger(processingTime="1 minute")
    )


@public_job(
    JOBS,
    f"{_LEARNING_JOURNAL}: 09-SlidingWindowDemo",
    inputs=inputs("sensors"),
    mode="update",
    sink="console",
    keys=("SensorID", "start", "end"),
    replaced=("kafka: files", "console sink: collected"),
)
def sliding_window(spark: SparkSession, read: Read) -> Any:
    """Kafka key and JSON; watermark 30 min; keys sensor and sliding window of 15 min by 5 min; max; then select of
    window.start, window.end and the rest."""
    parsed = read("sensors").select(
        F.col("key").cast("string").alias("SensorID"),
        F.from_json(F.col("value").cast("string"), "CreatedTime string, Reading double").alias("value"),
    )
    readings = parsed.select("SensorID", "value.*").withColumn("CreatedTime", F.to_timestamp(F.col("CreatedTime")))
    late = readings.withWatermark("CreatedTime", "30 minute")
    greatest = late.groupBy(F.col("SensorID"), F.window(F.col("CreatedTime"), "15 minute", "5 minute")).agg(
        F.max("Reading").alias("MaxReading")
    )
    return (
        greatest.select("SensorID", "window.start", "window.end", "MaxReading")
        .writeStream.outputMode("update")
        .format("console")
        .trigger(processingTime="1 minute")
    )


@public_job(
    JOBS,
    f"{_LEARNING_JOURNAL}: 10-WatermarkDemo",
    inputs=inputs("invoices"),
    mode="update",
    sink="console",
    keys=("StoreID", "start", "end"),
    replaced=("kafka: files", "console sink: collected"),
)
def watermark_demo(spark: SparkSession, read: Read) -> Any:
    """As the tumbling window, with a watermark of 5 min."""
    late = _invoices(read).withWatermark("CreatedTime", "5 minute")
    counts = late.groupBy("StoreID", F.window("CreatedTime", "5 minute", "5 minute")).count()
    return (
        counts.select("StoreID", "window.start", "window.end", "count")
        .writeStream.outputMode("update")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/beobest2/spark_study1: 7_spark_kafka_water_mark.py",
    inputs=inputs("amounts"),
    mode="append",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def total_amounts(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; watermark 10 min; key window of 5 min only; GroupedData.sum; then withColumnRenamed of
    sum(amount)."""
    parsed = read("amounts").select(
        F.col("key"), F.from_json(F.col("value").cast("string"), "create_date string, amount int").alias("value")
    )
    amounts = parsed.select("value.*").withColumn("create_date", F.to_timestamp("create_date", "yyyy-MM-dd HH:mm:ss"))
    late = amounts.withWatermark("create_date", "10 minutes")
    sums = late.groupBy(F.window(F.col("create_date"), "5 minutes")).sum("amount")
    return sums.withColumnRenamed("sum(amount)", "total_amount").writeStream.outputMode("append").format("console")


@public_job(
    JOBS,
    "github.com/Cyberaktiv21/dbt_vj_15: spark_stream_processor.py",
    inputs=inputs("coins"),
    mode="update",
    sink="foreachBatch",
    keys=("window", "symbol"),
    replaced=("kafka: files", "JDBC table: a table in memory"),
)
def coin_updates(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; no watermark; keys window of 5 min and symbol; count; then withColumnRenamed of count."""
    coins = from_kafka(read("coins"), "ts timestamp, symbol string, price double")
    counts = coins.groupBy(F.window(F.col("ts"), "5 minutes"), F.col("symbol")).count()

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch)

    return counts.withColumnRenamed("count", "updates").writeStream.foreachBatch(write).outputMode("update")


@public_job(
    JOBS,
    "github.com/ak811/spark-structured-streaming: task3.py",
    inputs=inputs("taxis"),
    mode="append",
    sink="foreachBatch",
    holds=lambda spark, read: spark.read.csv(read.path("fares")),
    replaced=("socket: files",),
)
def fares_per_window(spark: SparkSession, read: Read) -> Any:
    """Socket JSON; watermark 1 min; key sliding window of 5 min by 1 min only; sum; then select of window.start and
    window.end under other names; the function sorts and writes CSV."""
    sums = taxis(read).groupBy(F.window(F.col("event_time"), "5 minutes", "1 minute"))

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.orderBy("window_start").write.mode("append").csv(read.path("fares"))

    return (
        sums.agg(F.sum("fare_amount").alias("sum_fare_amount"))
        .select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            F.col("sum_fare_amount"),
        )
        .writeStream.foreachBatch(write)
        .outputMode("append")
    )


@public_job(
    JOBS,
    "github.com/bartosz25/data-engineering-design-patterns-book: chapter-03/late-data/late-data-detector/"
    "spark-stateful-window/visits_per_10_minutes.py",
    inputs=inputs("visits"),
    mode="append",
    sink="console",
    ignored=("current_time",),
    replaced=("kafka: files", "console sink: collected"),
)
def visits_per_window(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; watermark 1 h; key window of 10 min only; count; then withColumn(current_timestamp)."""
    visits = from_kafka(read("visits"), "visit_id int, event_time timestamp, page string")
    counts = visits.withWatermark("event_time", "1 hour").groupBy(F.window(F.col("event_time"), "10 minutes")).count()
    return counts.withColumn("current_time", F.current_timestamp()).writeStream.outputMode("append").format("console")


@public_job(
    JOBS,
    "github.com/phamthiminhtu/learn-flink-and-spark-streaming: spark/src/jobs/sliding_window_exercise.py",
    inputs=inputs("clicks"),
    mode="append",
    sink="delta",
    replaced=("kafka: files", "delta sink: collected"),
)
def click_rates(spark: SparkSession, read: Read) -> Any:
    """Kafka; watermark 10 min; filter; key sliding window of 5 min by 1 min only; count; then select with round."""
    clicks = from_kafka(read("clicks"), CLICK)
    late = clicks.withWatermark("timestamp", "10 minutes").filter(F.col("event_type") == "purchase")
    counts = late.groupBy(F.window(F.col("timestamp"), "5 minutes", "1 minute")).agg(F.count("*").alias("click_count"))
    return (
        counts.select(
            F.col("window.start").alias("window_start"),
            F.col("click_count"),
            F.round(F.col("click_count") / 5.0, 2).alias("clicks_per_minute"),
        )
        .writeStream.outputMode("append")
        .format("delta")
        .trigger(processingTime="30 seconds")
    )
