"""Second list: aggregates of every shape, appended and updated"""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..job import Job, Read
from ..listed import listed
from ..making import epoch, fixed, iso, series, topic

JOBS: list[Job] = []
_RATE = "timestamp timestamp, value bigint"
RATE = series(_RATE, lambda n, s, random: {"timestamp": iso(s), "value": random.randint(0, 60)}, step=14)
_SYMBOLS = ("ITC", "TCS", "CIPLA", "WIPRO")
QUOTES = topic(
    lambda n, s, random: (
        f"{random.choice(_SYMBOLS)},EQ,1,1,1,{random.randint(90, 110)},1,1,"
        f"{random.randint(1, 70)},{random.randint(1, 9000)}"
    ),
    step=4,
)
RATINGS = topic(
    lambda n, s, random: f"{iso(s * 60)[:10]},{random.randint(1, 3)},{random.randint(1, 900)},{random.randint(1, 5)}",
    step=900,
)
MOVIES = fixed(
    "_c0 int, _c1 string, _c2 string", [{"_c0": n, "_c1": f"{1990 + n}", "_c2": f"Movie {n}"} for n in (1, 2, 3)]
)
INVOICES = series(
    "InvoiceNumber string, CreatedTime bigint, StoreID string, CustomerCardNo string, TotalAmount double,"
    " NumberOfItems bigint, DeliveryAddress struct<City string, PinCode string>,"
    " InvoiceLineItems array<struct<ItemCode string, ItemQty bigint>>",
    lambda n, s, random: {
        "InvoiceNumber": f"i{n}",
        "CreatedTime": epoch(s) * 1000,
        "StoreID": f"STR{n % 4}",
        "CustomerCardNo": f"c{random.randint(1, 6)}",
        "TotalAmount": random.randint(1, 80) * 50,
        "NumberOfItems": 1,
        "DeliveryAddress": {"City": "Pune", "PinCode": "411001"},
        "InvoiceLineItems": [{"ItemCode": "258", "ItemQty": 1}],
    },
)
PRICES = series(
    "Date timestamp, Open double, High double, Low double, Close double, `Adjusted Close` double, Volume double,"
    " Name string",
    lambda n, s, random: {
        "Date": iso(s * 1000)[:19],
        "Open": 1.5,
        "High": 1.5,
        "Low": 1.5,
        "Close": random.randint(20, 90),
        "Adjusted Close": 1.5,
        "Volume": 1000,
        "Name": random.choice(("AMZN", "GOOG", "TSLA")),
    },
    format="csv",
)


@listed(
    JOBS,
    inputs={
        "events": topic(lambda n, s, random: {"event_time": iso(s), "id": random.randint(1, 3)}, step=16, count=400)
    },
    mode="append",
    sink="console",
)
def session_window_with_long_delay(spark: SparkSession, read: Read) -> Any:
    sessions = (
        read("events")
        .selectExpr("CAST(value AS STRING)")
        .select(F.from_json(F.col("value"), "event_time timestamp, id int").alias("record"))
        .selectExpr("record.*")
        .withWatermark("event_time", "25 minutes")
        .groupBy(F.session_window(F.col("event_time"), "10 seconds").alias("session"), F.col("id"))
        .agg(F.count("*").alias("numEvents"))
        .selectExpr(
            "id",
            "CAST(session.start AS LONG)",
            "CAST(session.end AS LONG)",
            "CAST(session.end AS LONG) - CAST(session.start AS LONG) AS durationMs",
            "numEvents",
        )
    )
    return sessions.writeStream.format("console").option("truncate", False)


@listed(
    JOBS,
    inputs={"values": series("value int", lambda n, s, random: {"value": s}, step=3)},
    mode="append",
    sink="console",
)
def window_over_window_of_two_seconds(spark: SparkSession, read: Read) -> Any:
    counts = (
        read("values")
        .withColumn("event_time", F.col("value").cast("timestamp"))
        .withWatermark("event_time", "0 seconds")
        .groupBy(F.window(F.col("event_time"), "2 seconds").alias("first_window"))
        .count()
        .groupBy(F.window(F.col("first_window"), "5 seconds").alias("second_window"))
        .agg(F.count("*"), F.sum("count").alias("sum_of_counts"))
    )
    return counts.writeStream.format("console").option("truncate", False)


def _quotes(read: Read) -> Any:
    fields = F.split("text", ",")
    return (
        read("quotes")
        .select("key", "value", "timestamp")
        .select(F.col("value").cast("string").alias("text"), F.col("timestamp"))
        .select(
            fields.getItem(0),
            fields.getItem(5).cast("double"),
            fields.getItem(8).cast("bigint"),
            fields.getItem(9).cast("double"),
            F.col("timestamp"),
        )
        .toDF("symbol", "close", "qty", "value", "tstamp")
    )


def _six() -> list[Any]:
    return [
        F.avg("qty").alias("avgqty"),
        F.avg("value").alias("avgval"),
        F.sum("qty").alias("totqty"),
        F.sum("value").alias("sumval"),
        F.min("close").alias("mincls"),
        F.max("close").alias("maxcls"),
    ]


@listed(JOBS, inputs={"quotes": QUOTES}, mode="append", sink="parquet")
def stocks_sliding_to_parquet(spark: SparkSession, read: Read) -> Any:
    stocks = (
        _quotes(read)
        .withWatermark("tstamp", "30 seconds")
        .groupBy(F.col("symbol"), F.window(F.col("tstamp"), "10 seconds", "5 seconds"))
        .agg(*_six())
        .toDF("symbol", "wdw", "avgqty", "avgval", "totqty", "sumval", "mincls", "maxcls")
        .coalesce(1)
    )
    return stocks.writeStream.format("parquet")


@listed(JOBS, inputs={"quotes": QUOTES}, mode="update", sink="console", keys=("symbol",))
def stocks_of_five_symbols(spark: SparkSession, read: Read) -> Any:
    stocks = (
        _quotes(read)
        .withWatermark("tstamp", "30 seconds")
        .groupBy(F.col("symbol"))
        .agg(*_six())
        .toDF("symbol", "avgqty", "avgval", "totqty", "sumval", "mincls", "maxcls")
        .filter(
            "symbol = 'ITC' or symbol = 'TCS' or symbol = 'CIPLA' or symbol = 'AUROPHARMA' or symbol = 'BHARTIARTL'"
        )
        .coalesce(1)
    )
    written = stocks.writeStream.format("console").option("numRows", 1000).option("truncate", False)
    return written.outputMode("update").trigger(processingTime="10 seconds")


@listed(JOBS, inputs={"quotes": QUOTES}, mode="update", sink="kafka", keys=("key",))
def stocks_as_text_to_kafka(spark: SparkSession, read: Read) -> Any:
    stocks = _quotes(read).select("symbol", "close", "qty", "value").groupBy(F.col("symbol")).agg(*_six())
    comma = F.lit(",")
    texts = stocks.select(
        F.col("symbol").cast("string").alias("key"),
        F.concat(
            F.col("symbol"),
            comma,
            F.col("avgqty"),
            comma,
            F.col("avgval"),
            comma,
            F.col("totqty"),
            comma,
            F.col("sumval"),
            comma,
            F.col("mincls"),
            comma,
            F.col("maxcls"),
        ).alias("value"),
    )
    return texts.writeStream.format("kafka").outputMode("update").option("topic", "nsecmdaggr")


def _ratings(read: Read) -> Any:
    data = read("ratings").selectExpr("CAST(value AS STRING)").alias("value")
    fields = F.split(data["value"], ",")
    return (
        data.withColumn("timestamp", F.to_timestamp(fields[0], "yyyy-MM-dd"))
        .withColumn("movie_id", fields[1].cast("int"))
        .withColumn("user_id", fields[2].cast("string"))
        .withColumn("rating", fields[3].cast("int"))
        .drop("value")
    )


@listed(JOBS, inputs={"ratings": RATINGS}, tables={"movies": MOVIES}, mode="append", sink="kafka")
def anomalies_of_ratings(spark: SparkSession, read: Read) -> Any:
    movies = read.static("movies")
    anomalies = (
        _ratings(read)
        .withWatermark("timestamp", "1 days")
        .groupBy(F.window("timestamp", "7 days", "1 day"), "movie_id")
        .agg(F.count("*").alias("ratingCount"), F.mean("rating").alias("ratingMean"))
        .filter("ratingCount >= 3 AND ratingMean >= 3")
    )
    joined = anomalies.join(movies, anomalies.movie_id == movies["_c0"], "inner").select(
        F.col("window.end").alias("window_end"),
        F.col("window.start").alias("window_start"),
        "movie_id",
        F.col("_c2").alias("title"),
        F.col("_c1").alias("Year"),
        "ratingCount",
        "ratingMean",
    )
    comma = F.lit(",")
    texts = joined.select(
        F.concat(
            F.col("window_start"),
            comma,
            F.col("window_end"),
            comma,
            F.col("title"),
            comma,
            F.col("ratingCount"),
            comma,
            F.col("ratingMean"),
        ).alias("value")
    )
    return texts.writeStream.format("kafka").option("topic", "anomalies")


@listed(JOBS, inputs={"ratings": RATINGS}, tables={"movies": MOVIES}, mode="append", sink="foreachBatch")
def ratings_per_month(spark: SparkSession, read: Read) -> Any:
    movies = read.static("movies")
    months = (
        _ratings(read)
        .withWatermark("timestamp", "1 days")
        .groupBy(F.window("timestamp", "30 days"), "movie_id")
        .agg(
            F.count("*").alias("rating_count"),
            F.sum("rating").alias("rating_sum"),
            F.approx_count_distinct("rating").alias("unique_rating_count"),
        )
    )
    named = months.join(movies, months.movie_id == movies["_c0"], "inner").select(
        F.unix_timestamp(F.col("window.start")).alias("window_start"),
        "movie_id",
        F.col("_c2").alias("title"),
        "rating_count",
        "rating_sum",
        "unique_rating_count",
    )
    written = named.writeStream.outputMode("append").foreachBatch(lambda batch, batch_id: read.store.append(batch))
    return written.trigger(processingTime="20 seconds")


@listed(
    JOBS,
    inputs={
        "events": series(
            "time timestamp, value bigint, batch bigint",
            lambda n, s, random: {"time": iso(s), "value": random.randint(1, 99), "batch": n // 8},
            step=4,
        )
    },
    mode="append",
    sink="foreachBatch",
)
def batches_and_values_per_window(spark: SparkSession, read: Read) -> Any:
    windows = (
        read("events")
        .withWatermark("time", "10 seconds")
        .groupBy(F.window(F.col("time"), "5 seconds").alias("sliding_window"))
        .agg(F.collect_list("batch").alias("batches"), F.collect_list("value").alias("values"))
    )
    return windows.writeStream.outputMode("append").foreachBatch(lambda batch, batch_id: read.store.append(batch))


def _amounts(read: Read) -> Any:
    return (
        read("rate")
        .withColumn("user_id", (F.col("value") % 5).cast("string"))
        .withColumn("amount", F.col("value") * 10)
    )


@listed(JOBS, inputs={"rate": RATE}, mode="update", sink="console", keys=("window", "user_id"))
def amounts_collected_per_window(spark: SparkSession, read: Read) -> Any:
    windows = (
        _amounts(read)
        .groupBy(F.window("timestamp", "2 minutes"), "user_id")
        .agg(
            F.count("*").alias("window_events"),
            F.sum("amount").alias("window_amount"),
            F.collect_list("amount").alias("amounts_list"),
        )
    )
    written = windows.writeStream.outputMode("update").format("console").option("truncate", "false")
    return written.trigger(processingTime="8 seconds")


@listed(JOBS, inputs={"rate": RATE}, mode="update", sink="console", keys=("window", "user_id"))
def amounts_sliding_with_distinct(spark: SparkSession, read: Read) -> Any:
    windows = (
        _amounts(read)
        .groupBy(F.window("timestamp", "3 minutes", "1 minute"), "user_id")
        .agg(
            F.count("*").alias("sliding_count"),
            F.sum("amount").alias("sliding_total"),
            F.approx_count_distinct("amount").alias("unique_amounts"),
        )
    )
    return windows.writeStream.outputMode("update").format("console").trigger(processingTime="10 seconds")


@listed(JOBS, inputs={"rate": RATE}, mode="update", sink="console", keys=("session_id",))
def sessions_by_hour_of_text(spark: SparkSession, read: Read) -> Any:
    sessions = (
        _amounts(read)
        .withColumn("session_id", F.concat("user_id", F.lit("_"), F.date_format("timestamp", "yyyy-MM-dd-HH")))
        .groupBy("session_id")
        .agg(
            F.min("timestamp").alias("session_start"),
            F.max("timestamp").alias("session_end"),
            F.count("*").alias("session_events"),
            F.sum("amount").alias("session_amount"),
            F.collect_list("timestamp").alias("event_times"),
        )
    )
    return sessions.writeStream.outputMode("update").format("console").trigger(processingTime="10 seconds")


@listed(JOBS, inputs={"invoices": INVOICES}, mode="update", sink="foreachBatch", keys=("CustomerCardNo",))
def reward_points_merged(spark: SparkSession, read: Read) -> Any:
    rewards = (
        read("invoices")
        .groupBy("CustomerCardNo")
        .agg(F.sum("TotalAmount").alias("TotalAmount"), F.sum(F.expr("TotalAmount*0.02")).alias("TotalPoints"))
    )

    def upsert(batch: DataFrame, batch_id: int) -> None:
        batch.createOrReplaceTempView("customer_rewards_df_temp_view")
        rows = batch.sparkSession.sql("SELECT * FROM customer_rewards_df_temp_view")
        read.store.merge(rows, ["CustomerCardNo"])

    return rewards.writeStream.queryName("gold-update").outputMode("update").foreachBatch(upsert)


@listed(
    JOBS,
    inputs={
        "sales": series(
            "Date string, Article_ID string, Country_Code string, Sold_Units int",
            lambda n, s, random: {
                "Date": iso(s)[:10],
                "Article_ID": f"a{n}",
                "Country_Code": random.choice(("AT", "FI", "FR")),
                "Sold_Units": 1,
            },
            format="csv",
        )
    },
    mode="update",
    sink="foreachBatch",
    keys=("Country_Code",),
    holds=lambda spark, read: _by_number(spark, read.path("foreachBatch_dir")),
)
def countries_to_csv_per_batch(spark: SparkSession, read: Read) -> Any:
    sales = read("sales")
    counts = sales.groupBy(sales.Country_Code).count()
    folder = read.path("foreachBatch_dir")

    def process_batch(batch: DataFrame, epoch_id: int) -> None:
        batch.collect()
        batch.repartition(1).write.mode("errorifexists").csv(os.path.join(folder, str(epoch_id)))

    return counts.writeStream.foreachBatch(process_batch).outputMode("update")


def _by_number(spark: SparkSession, folder: str) -> Any:
    """What the folders of the batches hold, in the order of their numbers."""
    rows = spark.read.schema("Country_Code string, count bigint").csv(os.path.join(folder, "*"))
    number = F.element_at(F.split(F.input_file_name(), "/"), -2).cast("bigint")
    return rows.withColumn("number", number).orderBy("number").drop("number").coalesce(1)


@listed(JOBS, inputs={"prices": PRICES}, mode="update", sink="console", keys=("Name",))
def average_close_as_update(spark: SparkSession, read: Read) -> Any:
    closes = read("prices").groupBy("Name").agg({"Close": "avg"}).withColumnRenamed("avg(Close)", "Average Close")
    return closes.writeStream.outputMode("update").format("console").option("truncate", "false").option("numRows", 30)


@listed(
    JOBS,
    inputs={
        "lines": series(
            "value string",
            lambda n, s, random: {"value": " ".join(random.choices(("to", "be", "or", "not"), k=random.randint(1, 5)))},
            format="text",
        )
    },
    mode="update",
    sink="console",
    keys=("word",),
)
def words_of_text_files_as_update(spark: SparkSession, read: Read) -> Any:
    lines = read("lines")
    words = lines.select(F.explode(F.split(lines.value, " ")).alias("word"))
    return words.groupBy("word").count().writeStream.outputMode("update").format("console")
