"""Jobs that compute, filter or look up something between their one aggregate and the sink."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ..inputs import TABLES, inputs
from ..job import Job, Read, public_job
from ..parsing import CLICK, INVOICE, from_kafka, taxis

JOBS: list[Job] = []
_TRADE = (
    "trade_id string, ticker string, price double, quantity int, side string, bid_price double, ask_price double,"
    " timestamp string"
)
_LEARNING_JOURNAL = "github.com/LearningJournal/Spark-Streaming-In-Python"


@public_job(
    JOBS,
    f"{_LEARNING_JOURNAL}: 07-KafkaAvroSourceDemo",
    inputs=inputs("invoices"),
    mode="update",
    sink="kafka",
    keys=("key",),
    replaced=("kafka: files", "kafka sink: collected"),
)
def rewards(spark: SparkSession, read: Read) -> Any:
    """Kafka (JSON here, Avro there); filter on a nested field; key is a nested field; two sums, one of an expr with a
    cast; then select of an expr as key and to_json(struct) as value."""
    parsed = read("invoices").select(F.from_json(F.col("value").cast("string"), INVOICE).alias("value"))
    sums = (
        parsed.filter("value.CustomerType == 'PRIME'")
        .groupBy("value.CustomerCardNo")
        .agg(
            F.sum("value.TotalValue").alias("TotalPurchase"),
            F.sum(F.expr("value.TotalValue * 0.2").cast("integer")).alias("AggregatedRewards"),
        )
    )
    message = F.to_json(F.struct("TotalPurchase", "AggregatedRewards")).alias("value")
    return (
        sums.select(F.expr("CustomerCardNo as key"), message)
        .writeStream.outputMode("update")
        .format("kafka")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("topic", "results")
    )


@public_job(
    JOBS,
    "github.com/ak811/spark-structured-streaming: task5.py",
    inputs=inputs("taxis"),
    mode="update",
    sink="console",
    keys=("window_start",),
    replaced=("socket: files", "console sink: collected"),
)
def predicted_fares(spark: SparkSession, read: Read) -> Any:
    """Socket JSON; watermark 1 min; key window of 5 min only; avg; then select, withColumn(hour), and two transformers
    of MLlib, which are given the frame."""
    from pyspark.ml.feature import Binarizer, VectorAssembler

    means = taxis(read).groupBy(F.window(F.col("event_time"), "5 minutes")).agg(F.avg("fare_amount").alias("fare"))
    features = means.select(F.col("window.start").alias("window_start"), F.col("fare")).withColumn(
        "hour_of_day", F.hour(F.col("window_start")).cast("double")
    )
    vectors = VectorAssembler(inputCols=["hour_of_day"], outputCol="features").transform(features)
    model = Binarizer(threshold=0.5, inputCol="hour_of_day", outputCol="prediction")
    return (
        model.transform(vectors)
        .select("window_start", F.col("fare").alias("actual"), "prediction")
        .writeStream.outputMode("update")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/OubeidAllahJemli/Advanced-Spark-Structured-Streaming: spark/streaming_app.py",
    inputs=inputs("devices"),
    mode="update",
    sink="console",
    keys=("window_start", "device_id"),
    replaced=("kafka: files", "console sink: collected"),
)
def device_temperatures(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; withColumn of a validity condition, filter by it; watermark 10 min; keys window of 5 min and device;
    avg and count; then select of window.start, window.end and the rest."""
    schema = "device_id string, event_time string, temperature double, country string"
    raw = read("devices").selectExpr("CAST(value AS STRING) AS raw_message")
    parsed = raw.withColumn("p", F.from_json(F.col("raw_message"), schema)).select(
        F.col("raw_message"),
        *[F.col(f"p.{name}").alias(name) for name in ("device_id", "event_time", "temperature", "country")],
    )
    good = (
        F.col("device_id").isNotNull()
        & (F.trim(F.col("device_id")) != "")
        & (F.col("temperature") != F.lit(-999.0))
        & ~F.col("country").rlike("[0-9@#]")
    )
    valid = parsed.withColumn("is_valid", good).filter(F.col("is_valid"))
    timed = valid.withColumn("event_timestamp", F.to_timestamp(F.col("event_time"), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"))
    late = timed.filter(F.col("event_timestamp").isNotNull()).withWatermark("event_timestamp", "10 minutes")
    means = late.groupBy(F.window("event_timestamp", "5 minutes"), "device_id").agg(
        F.avg("temperature").alias("avg_temperature"), F.count("*").alias("event_count")
    )
    return (
        means.select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            "device_id",
            "avg_temperature",
            "event_count",
        )
        .writeStream.outputMode("update")
        .format("console")
        .trigger(processingTime="15 seconds")
    )


@public_job(
    JOBS,
    "github.com/AkhileshTandur/Real-Time-Crypto-Market-Anomaly-Detection-Pipeline-using-Kafka-and-Spark-Structured-"
    "Streaming: streaming/spark_stream_kafka_crypto_clean_aggregate.py",
    inputs=inputs("crypto"),
    mode="append",
    sink="csv",
    replaced=("kafka: files",),
)
def crypto_signals(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; renames, casts, filter; watermark 2 min; keys window of 1 min and symbol; avg, min, max, sum, count;
    then withColumn with when/otherwise and concat_ws, and select."""
    parsed = from_kafka(read("crypto"), "s string, p string, q string, T bigint")
    trades = (
        parsed.withColumnRenamed("s", "symbol")
        .withColumn("price", F.col("p").cast("double"))
        .withColumn("quantity", F.col("q").cast("double"))
        .withColumn("trade_time", F.to_timestamp((F.col("T") / F.lit(1000)).cast("double")))
        .filter(F.col("symbol").isNotNull() & (F.col("price") > 0) & F.col("trade_time").isNotNull())
        .withColumn("trade_value", F.col("price") * F.col("quantity"))
    )
    aggregated = (
        trades.withWatermark("trade_time", "120 seconds")
        .groupBy(F.window("trade_time", "60 seconds"), F.col("symbol"))
        .agg(
            F.avg("price").alias("avg_price"),
            F.min("price").alias("min_price"),
            F.max("price").alias("max_price"),
            F.sum("trade_value").alias("notional_volume"),
            F.count("*").alias("trade_count"),
        )
    )
    spread = (F.col("max_price") - F.col("min_price")) / F.col("avg_price") * 100
    flagged = aggregated.withColumn("spread_pct", F.when(F.col("avg_price") > 0, spread).otherwise(F.lit(0.0)))
    flagged = flagged.withColumn(
        "reason",
        F.concat_ws(
            ",",
            F.when(F.col("spread_pct") >= F.lit(1.0), F.lit("price_spread")),
            F.when(F.col("trade_count") >= F.lit(2), F.lit("traffic_spike")),
        ),
    )
    return (
        flagged.select(
            F.col("window.start").alias("window_start"),
            "symbol",
            "avg_price",
            "notional_volume",
            "trade_count",
            "reason",
        )
        .writeStream.outputMode("append")
        .format("csv")
        .trigger(processingTime="5 seconds")
    )


@public_job(
    JOBS,
    "github.com/JanviChitroda24/kafka-spark-streaming-pipeline: src/stream_processor.py",
    inputs=inputs("trades"),
    mode="append",
    sink="delta",
    replaced=("kafka: files", "delta sink: collected"),
)
def vwap_per_minute(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; withColumns; watermark 10 s; keys window of 1 min under an alias and ticker; quotient of two sums,
    min, max, avg, sum, count; then withColumns, and drop of the window."""
    parsed = from_kafka(read("trades"), _TRADE).withColumn("event_time", F.to_timestamp(F.col("timestamp")))
    trades = parsed.withColumn("dollar_volume", F.col("price") * F.col("quantity")).withColumn(
        "buy_volume", (F.col("side") == "BUY").cast("integer") * F.col("quantity")
    )
    late = trades.withWatermark("event_time", "10 seconds")
    minutes = late.groupBy(F.window(F.col("event_time"), "1 minute").alias("window"), F.col("ticker")).agg(
        (F.sum("dollar_volume") / F.sum("quantity")).alias("vwap"),
        F.min("price").alias("low_price"),
        F.max("price").alias("high_price"),
        F.sum("quantity").alias("total_volume"),
        F.count("trade_id").alias("trade_count"),
        F.sum("buy_volume").alias("buy_volume"),
        F.avg("bid_price").alias("avg_bid"),
        F.avg("ask_price").alias("avg_ask"),
    )
    return (
        minutes.withColumn("sell_volume", F.col("total_volume") - F.col("buy_volume"))
        .withColumn("avg_spread", (F.col("avg_ask") - F.col("avg_bid")).cast("decimal(10, 4)"))
        .withColumn("window_start", F.col("window.start"))
        .withColumn("window_duration", F.lit("1 minute"))
        .drop("window")
        .writeStream.outputMode("append")
        .format("delta")
    )


@public_job(
    JOBS,
    "github.com/jsolis1199/flucturate: bin/aggregator.py",
    inputs=inputs("keyed trades"),
    mode="append",
    sink="kafka",
    replaced=("kafka: files", "kafka sink: collected"),
)
def vwap_as_messages(spark: SparkSession, read: Read) -> Any:
    """Kafka key and value as text; selectExpr with split and casts; watermark 1 min; keys window of 1 min and three
    columns; quotient of two sums over frame.column; then selectExpr with CONCAT of window.start and keys."""
    texts = read("keyed trades").selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    trades = texts.selectExpr(
        'CAST(SPLIT(key, ",")[0] AS TIMESTAMP) AS time',
        'SPLIT(key, ",")[1] AS base',
        'SPLIT(key, ",")[2] AS quote',
        'SPLIT(key, ",")[3] AS exchange',
        'CAST(SPLIT(value, ",")[0] AS DOUBLE) AS price',
        'CAST(SPLIT(value, ",")[1] AS DOUBLE) AS quantity',
    ).withWatermark("time", "1 minute")
    means = trades.groupBy(F.window("time", "1 minute"), "base", "quote", "exchange").agg(
        (F.sum(trades.price * trades.quantity) / F.sum(trades.quantity)).alias("value")
    )
    return (
        means.selectExpr('CONCAT(window.start, ",", base, ",", quote, ",", exchange) AS key', "CAST(value AS STRING)")
        .writeStream.outputMode("append")
        .format("kafka")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("topic", "results")
    )


@public_job(
    JOBS,
    "github.com/cejasmau/tp_bigdata: procesamiento_spark.py",
    inputs=inputs("prices"),
    mode="update",
    sink="console",
    keys=("simbolo",),
    replaced=("kafka: files", "console sink: collected"),
)
def mean_prices(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; a number cast to timestamp; watermark 1 min that nothing uses; key symbol; avg; then select with a
    cast to decimal."""
    parsed = from_kafka(read("prices"), "timestamp double, simbolo string, precio double")
    timed = parsed.withColumn("event_time", F.col("timestamp").cast("timestamp")).withWatermark(
        "event_time", "1 minute"
    )
    means = timed.groupBy("simbolo").agg(F.avg("precio").alias("precio_promedio"))
    return (
        means.select(F.col("simbolo"), F.col("precio_promedio").cast("decimal(10,2)"))
        .writeStream.outputMode("update")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/Vanelfokamcode/kafka-streaming-project: spark_sliding_windows.py",
    inputs=inputs("clicks"),
    mode="update",
    sink="console",
    keys=("user_id", "window"),
    replaced=("kafka: files", "console sink: collected"),
)
def fraud_check(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; filter; no watermark; keys user and sliding window of 10 min by 2 min; count and sum; then a
    filter on the count."""
    clicks = from_kafka(read("clicks"), CLICK)
    purchases = clicks.filter(F.col("event_type") == "purchase")
    sums = purchases.groupBy(F.col("user_id"), F.window(F.col("timestamp"), "10 minutes", "2 minutes")).agg(
        F.count("*").alias("purchase_count"), F.sum("product_price").alias("total_spent")
    )
    return (
        sums.filter(F.col("purchase_count") > 5)
        .writeStream.outputMode("update")
        .format("console")
        .trigger(processingTime="5 seconds")
    )


@public_job(
    JOBS,
    "github.com/medhakarangula/ProjectPro-Projects: Pyspark_Streaming/Code/spark_jobs/spark-streaming-demo-3.py",
    inputs=inputs("areas"),
    mode="append",
    sink="parquet",
    replaced=("CSV files: JSON files",),
)
def area_temperatures(spark: SparkSession, read: Read) -> Any:
    """CSV files; watermark 5 s on a computed column, which is a key itself beside device and a window of 5 s over
    another time column; avg of a decimal; then drop of the watermarked key."""
    areas = read("areas").withColumn(
        "timestamp_watermark", F.unix_timestamp(F.col("ts"), "dd/MM/yyyy hh:mm:ss aa").cast("timestamp")
    )
    late = areas.withWatermark("timestamp_watermark", "5 seconds")
    means = late.groupBy("device_id", F.window("ts", "5 seconds"), "timestamp_watermark")
    return (
        means.agg(F.avg(F.col("temperature")))
        .drop("timestamp_watermark")
        .writeStream.outputMode("append")
        .format("parquet")
    )


@public_job(
    JOBS,
    "github.com/rahul81/voting-system: sparkCode/streaming.py",
    inputs=inputs("votes"),
    tables={"candidates": TABLES["candidates"]},
    mode="update",
    sink="kafka",
    keys=("value.candidate_id",),
    replaced=("kafka: files", "kafka sink: collected"),
)
def votes_per_candidate(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; watermark 1 min that nothing uses; left join with a static table on frame.column == table.column;
    keys three columns of the table; count; then select of to_json(struct('*'))."""
    votes = from_kafka(
        read("votes"), "id string, voted_to string, gender string, vote_timestamp timestamp"
    ).withWatermark("vote_timestamp", "1 minute")
    candidates = read.static("candidates")
    joined = votes.join(candidates, votes.voted_to == candidates.candidate_id, how="left_outer")
    counts = joined.groupby("candidate_id", "candidate_name", "party").agg(F.count("*").alias("total_votes"))
    return (
        counts.select(F.to_json(F.struct("*")).alias("value"))
        .writeStream.outputMode("update")
        .format("kafka")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("topic", "results")
    )
