"""Second list: mode complete"""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..job import Job, Read
from ..listed import listed
from ..making import epoch, fixed, iso, series, socket, spaced, topic
from ..parsing import from_kafka
from .listed_aggregates import INVOICES, PRICES

JOBS: list[Job] = []
_PURCHASE = "id string, time timestamp, item string, quantity int"
_ACTIVITY = (
    "Arrival_Time bigint, Creation_Time bigint, Device string, `Index` bigint, Model string, User string, gt string,"
    " x double, y double, z double"
)


def _activity(n: int, s: int, random: Any) -> dict[str, Any]:
    return {
        "Arrival_Time": epoch(s) * 1000,
        "Creation_Time": epoch(s) * 1_000_000_000,
        "Device": f"nexus4_{n % 2}",
        "Index": n,
        "Model": random.choice(("nexus4", "s3")),
        "User": random.choice("abc"),
        "gt": random.choice(("walk", "stand", "stairsup", None)),
        "x": random.randint(-9, 9),
        "y": random.randint(-9, 9),
        "z": random.randint(-9, 9),
    }


ACTIVITY = series(_ACTIVITY, _activity)
PAST = fixed(
    _ACTIVITY,
    [
        {
            "Arrival_Time": 1,
            "Creation_Time": 1,
            "Device": "nexus4_1",
            "Index": 1,
            "Model": model,
            "User": "a",
            "gt": gt,
            "x": x,
            "y": 1,
            "z": 2,
        }
        for gt in ("walk", "stand")
        for model in ("nexus4", "s3")
        for x in (1, 4)
    ],
)
SALES = series(
    "event_time timestamp, customer_id bigint, product_id bigint, quantity int",
    lambda n, s, random: {
        "event_time": iso(s),
        "customer_id": random.randint(1, 6),
        "product_id": random.randint(1, 5),
        "quantity": random.randint(1, 5),
    },
    step=12,
)
CUSTOMERS = fixed(
    "customer_id bigint, region string", [{"customer_id": n, "region": ("North", "South")[n % 2]} for n in range(1, 6)]
)
PRODUCTS = fixed(
    "product_id bigint, category string, product_name string, base_price double",
    [
        {"product_id": n, "category": ("Toys", "Home")[n % 2], "product_name": f"Product-{n}", "base_price": 10 * n}
        for n in range(1, 5)
    ],
)
VEHICLES = socket(lambda n, s, random: _vehicle(n, s, random), step=12)
KAFKA_VEHICLES = topic(lambda n, s, random: _vehicle(n, s, random))
VEHICLE = (
    "vehicleId string, vehicleType string, routeId string, latitude string, longitude string, time string,"
    " speed string, fuelLevel string"
)
#: As the authors' Spark 2 parses the texts of these times.
LEGACY = {"spark.sql.legacy.timeParserPolicy": "LEGACY"}
TIME_TEXT = "EEE MMM dd HH:mm:ss zzz yyyy"


def time_text(second: int) -> str:
    """A time by the pattern TIME_TEXT; START is a Monday, and no input is longer than a month."""
    day, clock = spaced(second).split(" ")
    number = int(day[8:])
    name = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[(number - 1) % 7]
    return f"{name} Jan {number:02} {clock} UTC 2024"


def _vehicle(n: int, s: int, random: Any) -> dict[str, str]:
    kind = random.choice(("Bus", "Taxi", "Truck"))
    return {
        "vehicleId": f"v{random.randint(1, 90)}",
        "vehicleType": kind,
        "routeId": f"Route-{random.randint(1, 3)}",
        "latitude": "33.5",
        "longitude": "-96.2",
        "time": time_text(s),
        "speed": f"{random.randint(20, 99)}.0",
        "fuelLevel": "30",
    }


def vehicles(read: Read, *more: str) -> Any:
    """The messages of vehicles with their event time."""
    return (
        read("vehicles")
        .withColumn("traffic", F.from_json(F.col("value").cast("string"), VEHICLE))
        .selectExpr("traffic.*", *more)
        .withColumn("eventTime", F.unix_timestamp("time", TIME_TEXT).cast("timestamp"))
    )


@listed(
    JOBS,
    inputs={
        "purchases": socket(
            lambda n, s, random: {"id": f"b{n}", "time": iso(s), "item": "Watch", "quantity": random.randint(1, 9)},
            step=900,
        )
    },
    mode="complete",
    sink="console",
)
def quantity_per_day_sliding_by_hour(spark: SparkSession, read: Read) -> Any:
    purchases = (
        read("purchases").select(F.from_json(F.col("value"), _PURCHASE).alias("purchase")).selectExpr("purchase.*")
    )
    days = (
        purchases.groupBy(F.window(F.col("time"), "1 day", "1 hour").alias("time"))
        .agg(F.sum("quantity").alias("totalQuantity"))
        .select(
            F.col("time").getField("start").alias("start"),
            F.col("time").getField("end").alias("end"),
            F.col("totalQuantity"),
        )
    )
    return days.writeStream.format("console").outputMode("complete")


@listed(
    JOBS,
    inputs={
        "iot": series(
            "rack string, temperature double, ts timestamp",
            lambda n, s, random: {"rack": f"rack{n % 3}", "temperature": random.randint(90, 110), "ts": iso(s)},
        )
    },
    mode="complete",
    sink="memory",
)
def average_temperature_sliding(spark: SparkSession, read: Read) -> Any:
    average = (
        read("iot")
        .groupBy(F.window(F.col("ts"), "10 minutes", "5 minutes"))
        .agg(F.avg("temperature").alias("avg_temp"))
    )
    return average.writeStream.format("memory").queryName("iot").outputMode("complete")


_REQUESTS = (
    "GET /index.html HTTP/1.0",
    "GET /news.htm HTTP/1.1",
    "GET /logo.gif HTTP/1.0",
    "GET /about HTTP/1.0",
    "POST /form.html HTTP/1.0",
)


@listed(
    JOBS,
    inputs={
        "logs": socket(
            lambda n, s, random: {
                "host": f"h{n % 9}",
                "timestamp": iso(s),
                "request": random.choice(_REQUESTS),
                "http_reply": 200,
                "bytes": random.randint(1, 9000),
            },
            step=20,
        )
    },
    mode="complete",
    sink="memory",
)
def ranking_of_requests(spark: SparkSession, read: Read) -> Any:
    schema = "host string, timestamp timestamp, request string, http_reply int, bytes bigint"
    logs = read("logs").select(F.from_json("value", schema).alias("record")).select("record.*")
    found = F.udf(_url, "string")
    pages = logs.withColumn("request", found(F.col("request"))).where(F.col("request").isNotNull())
    ranking = pages.groupBy(F.col("request"), F.window(F.col("timestamp"), "5 minutes", "1 minute")).count()
    return ranking.writeStream.queryName("urlranks").outputMode("complete").format("memory")


def _url(request: str) -> str | None:
    import re

    found = re.fullmatch(r"GET (.+) HTTP/\d.\d", request)
    if found is None:
        return None
    tail = found[1][-5:]
    extension = tail[tail.index(".") :] if "." in tail else ""
    return found[1] if extension in (".html", ".htm", "") else None


@listed(JOBS, inputs={"activity": ACTIVITY}, mode="complete", sink="memory")
def cube_of_activity_and_model(spark: SparkSession, read: Read) -> Any:
    stats = (
        read("activity")
        .cube("gt", "model")
        .avg()
        .drop("avg(Arrival_time)")
        .drop("avg(Creation_Time)")
        .drop("avg(Index)")
    )
    return stats.writeStream.queryName("device_counts").format("memory").outputMode("complete")


@listed(JOBS, inputs={"activity": ACTIVITY}, tables={"past": PAST}, mode="complete", sink="memory")
def cube_beside_historical_averages(spark: SparkSession, read: Read) -> Any:
    historical = read.static("past").groupBy("gt", "model").avg()
    stats = (
        read("activity")
        .drop("Arrival_Time", "Creation_Time", "Index")
        .cube("gt", "model")
        .avg()
        .join(historical, ["gt", "model"])
    )
    return stats.writeStream.queryName("device_counts").format("memory").outputMode("complete")


@listed(
    JOBS,
    inputs={
        "retail": series(
            "InvoiceNo string, StockCode string, Description string, Quantity int, InvoiceDate timestamp,"
            " UnitPrice double, CustomerId double, Country string",
            lambda n, s, random: {
                "InvoiceNo": f"{n}",
                "StockCode": "85123A",
                "Description": "HOLDER",
                "Quantity": random.randint(1, 12),
                "InvoiceDate": spaced(s),
                "UnitPrice": random.randint(1, 9),
                "CustomerId": float(random.randint(1, 4)),
                "Country": "France",
            },
            step=1500,
            format="csv",
        )
    },
    mode="complete",
    sink="memory",
)
def cost_per_customer_and_day(spark: SparkSession, read: Read) -> Any:
    costs = (
        read("retail")
        .selectExpr("CustomerId", "(UnitPrice * Quantity) as total_cost", "InvoiceDate")
        .groupBy(F.col("CustomerId"), F.window(F.col("InvoiceDate"), "1 day"))
        .sum("total_cost")
    )
    return costs.writeStream.format("memory").queryName("customer_purchases").outputMode("complete")


@listed(JOBS, inputs={"invoices": INVOICES}, mode="complete", sink="delta")
def reward_points_complete(spark: SparkSession, read: Read) -> Any:
    rewards = (
        read("invoices")
        .groupBy("CustomerCardNo")
        .agg(F.sum("TotalAmount").alias("TotalAmount"), F.sum(F.expr("TotalAmount*0.02")).alias("TotalPoints"))
    )
    return rewards.writeStream.queryName("gold-update").outputMode("complete").format("delta")


@listed(
    JOBS,
    inputs={
        "readings": topic(
            lambda n, s, random: {"CreatedTime": spaced(s), "Reading": random.randint(20, 60)},
            key=lambda n, s, random: f"SET{n % 3}",
            step=97,
        )
    },
    mode="complete",
    sink="delta",
)
def greatest_reading_per_sensor(spark: SparkSession, read: Read) -> Any:
    messages = read("readings")
    sensors = (
        messages.select(
            messages.key.cast("string").alias("SensorID"),
            F.from_json(messages.value.cast("string"), "CreatedTime string, Reading double").alias("value"),
        )
        .select("SensorID", "value.*")
        .withColumn("CreatedTime", F.expr("to_timestamp(CreatedTime,'yyyy-MM-dd HH:mm:ss')"))
    )
    greatest = (
        sensors.withWatermark("CreatedTime", "30  minutes")
        .groupBy(sensors.SensorID, F.window(sensors.CreatedTime, "15 minutes"))
        .agg(F.max("Reading").alias("MaxReading"))
        .select("SensorID", "window.start", "window.end", "MaxReading")
    )
    return greatest.writeStream.queryName("sensor-query").outputMode("complete").format("delta")


@listed(
    JOBS,
    inputs={
        "trades": topic(
            lambda n, s, random: {
                "CreatedTime": spaced(s),
                "Type": random.choice(("BUY", "SELL")),
                "Amount": random.randint(1, 900),
                "BrokerCode": "ABX",
            },
            step=97,
        )
    },
    mode="complete",
    sink="delta",
)
def bought_and_sold_per_window(spark: SparkSession, read: Read) -> Any:
    messages = read("trades")
    schema = "CreatedTime string, Type string, Amount double, BrokerCode string"
    trades = (
        messages.select(F.from_json(messages.value.cast("string"), schema).alias("value"))
        .select("value.*")
        .withColumn("CreatedTime", F.expr("to_timestamp(CreatedTime,'yyyy-MM-dd HH:mm:ss')"))
        .withColumn("Buy", F.expr("case when Type == 'BUY' then Amount else 0 end"))
        .withColumn("Sell", F.expr("case when Type == 'SELL' then Amount else 0 end"))
    )
    summary = (
        trades.withWatermark("CreatedTime", "30 minutes")
        .groupBy(F.window(trades.CreatedTime, "15 minutes"))
        .agg(F.sum("Buy").alias("TotalBuy"), F.sum("Sell").alias("TotalSell"))
        .select("window.start", "window.end", "TotalBuy", "TotalSell")
    )
    return summary.writeStream.queryName("trade-summary").outputMode("complete").format("delta")


@listed(
    JOBS,
    inputs={
        "clicks": topic(
            lambda n, s, random: {
                "event_id": f"e{n}",
                "user_id": None if n % 17 == 0 else "u",
                "product_id": "p",
                "product_price": random.choice((None, -3, 20, 60, 20000)),
                "event_type": random.choice(("view", "purchase", None)),
                "timestamp": iso(s),
            }
        )
    },
    mode="complete",
    sink="console",
)
def quality_of_events(spark: SparkSession, read: Read) -> Any:
    schema = (
        "event_id string, user_id string, product_id string, product_price double, event_type string,"
        " timestamp timestamp"
    )
    clicks = from_kafka(read("clicks").selectExpr("CAST(value AS STRING)"), schema)
    price = F.col("product_price")
    checks = (
        clicks.groupBy()
        .agg(
            F.count("*").alias("total_events"),
            F.count(F.when(F.col("user_id").isNull(), 1)).alias("null_user_ids"),
            F.count(F.when(price.isNull(), 1)).alias("null_prices"),
            F.count(F.when(price < 0, 1)).alias("negative_prices"),
            F.count(F.when(price > 10000, 1)).alias("suspicious_prices"),
            F.count(F.when(F.col("event_type").isNull(), 1)).alias("null_event_types"),
            F.sum(F.when(F.col("event_type") == "purchase", price).otherwise(0)).alias("total_revenue"),
        )
        .withColumn("null_percentage", (F.col("null_user_ids") + F.col("null_prices")) / F.col("total_events") * 100)
        .withColumn("quality_score", 100 - F.col("null_percentage"))
        .withColumn(
            "status",
            F.when(F.col("quality_score") >= 95, "HEALTHY")
            .when(F.col("quality_score") >= 85, "WARNING")
            .otherwise("CRITICAL"),
        )
    )
    return checks.writeStream.outputMode("complete").format("console").trigger(processingTime="30 seconds")


def _enriched(read: Read, *product: str) -> Any:
    customers = F.broadcast(read.static("customers").select("customer_id", "region"))
    products = F.broadcast(read.static("products").select("product_id", *product, "base_price"))
    return (
        read("sales")
        .join(customers, on="customer_id", how="left")
        .join(products, on="product_id", how="left")
        .withColumn("unit_price", F.coalesce(F.col("base_price"), F.lit(0.0)))
        .withColumn("total_amount", F.col("unit_price") * F.col("quantity"))
    )


@listed(
    JOBS,
    inputs={"sales": SALES},
    tables={"customers": CUSTOMERS, "products": PRODUCTS},
    mode="complete",
    sink="foreachBatch",
)
def top_sessions_per_region(spark: SparkSession, read: Read) -> Any:
    sessions = (
        _enriched(read, "product_name")
        .select(
            "event_time",
            "customer_id",
            "region",
            "product_id",
            "product_name",
            "quantity",
            "unit_price",
            "total_amount",
        )
        .withWatermark("event_time", "1 minute")
        .groupBy(F.session_window("event_time", "30 seconds").alias("session"), F.col("customer_id"), F.col("region"))
        .agg(
            F.count("*").alias("events_count"),
            F.sum("quantity").alias("units"),
            F.sum("total_amount").alias("session_revenue"),
        )
        .select(
            F.col("session.start").alias("session_start"),
            F.col("session.end").alias("session_end"),
            "customer_id",
            "region",
            "events_count",
            "units",
            F.round(F.col("session_revenue"), 2).alias("session_revenue"),
        )
    )

    def ranked(batch: DataFrame, epoch_id: int) -> None:
        batch.persist()
        if batch.count() > 0:
            order = Window.partitionBy("session_start", "session_end", "region").orderBy(
                F.desc("session_revenue"), F.desc("units")
            )
            top = (
                batch.withColumn("rank", F.dense_rank().over(order))
                .filter(F.col("rank") <= 5)
                .orderBy("session_start", "region", "rank")
            )
            read.store.overwrite(top)
        batch.unpersist()

    return sessions.writeStream.outputMode("complete").foreachBatch(ranked).trigger(processingTime="15 seconds")


@listed(
    JOBS,
    inputs={"sales": SALES},
    tables={"customers": CUSTOMERS, "products": PRODUCTS},
    mode="complete",
    sink="foreachBatch",
)
def top_products_sliding(spark: SparkSession, read: Read) -> Any:
    totals = (
        _enriched(read, "category", "product_name")
        .select(
            "event_time",
            "region",
            "category",
            "product_id",
            "product_name",
            "quantity",
            "unit_price",
            "total_amount",
        )
        .withWatermark("event_time", "30 seconds")
        .groupBy(
            F.window("event_time", "1 minute", "10 seconds"),
            F.col("region"),
            F.col("product_id"),
            F.col("product_name"),
            F.col("category"),
        )
        .agg(F.sum("total_amount").alias("revenue"), F.sum("quantity").alias("units"))
    )

    def ranked(batch: DataFrame, epoch_id: int) -> None:
        batch.persist()
        order = Window.partitionBy("window", "region").orderBy(F.desc("revenue"), F.desc("units"))
        top = (
            batch.withColumn("rank", F.dense_rank().over(order))
            .filter(F.col("rank") <= 5)
            .orderBy(F.col("window").start.desc(), "region", "rank")
        )
        read.store.overwrite(top)
        batch.unpersist()

    return totals.writeStream.outputMode("complete").foreachBatch(ranked).trigger(processingTime="5 seconds")


@listed(
    JOBS,
    inputs={
        "changes": topic(
            lambda n, s, random: {
                "id": n,
                "type": "edit",
                "comment": "",
                "user": "u",
                "title": "Q1",
                "meta": {"dt": iso(s)},
                "server_name": "www.wikidata.org",
            },
            step=12,
        )
    },
    mode="complete",
    sink="console",
)
def wiki_changes_sliding(spark: SparkSession, read: Read) -> Any:
    schema = (
        "id int, type string, comment string, user string, title string, meta struct<dt: string>, server_name string"
    )
    changes = from_kafka(read("changes").selectExpr("CAST(value AS STRING)"), schema)
    timed = changes.withColumn("event_time", F.col("meta.dt").cast("timestamp"))
    counts = timed.groupBy(F.window(F.col("event_time"), "30 seconds", "10 seconds")).count()
    return counts.writeStream.outputMode("complete").format("console")


@listed(
    JOBS,
    inputs={
        "sales": series(
            "transactionId string, customerId string, itemId string, amountPaid double",
            lambda n, s, random: {
                "transactionId": f"t{n}",
                "customerId": f"{random.randint(1, 6)}",
                "itemId": "1",
                "amountPaid": random.randint(1, 500),
            },
            format="csv",
        )
    },
    tables={
        "customers": fixed(
            "customerId string, customerName string", [{"customerId": f"{n}", "customerName": "x"} for n in range(1, 5)]
        )
    },
    mode="complete",
    sink="console",
)
def paid_per_known_customer(spark: SparkSession, read: Read) -> Any:
    paid = read.static("customers").join(read("sales"), "customerId").groupBy("customerId").sum("amountPaid")
    return paid.writeStream.format("console").outputMode("complete").queryName("CheckpointQuery")


@listed(
    JOBS,
    inputs={"lines": socket(lambda n, s, random: f"{epoch(s) * 1000},aapl,{random.randint(1, 500)}", step=4)},
    mode="complete",
    sink="console",
    ordered=True,
)
def sum_per_window_in_order(spark: SparkSession, read: Read) -> Any:
    tokens = F.split("value", ",")
    stocks = read("lines").select(
        F.timestamp_millis(tokens.getItem(0).cast("bigint")).alias("time"),
        tokens.getItem(1).alias("symbol"),
        tokens.getItem(2).cast("double").alias("value"),
    )
    sums = stocks.groupBy(F.window(F.col("time"), "10 seconds")).sum("value").orderBy("window")
    return sums.writeStream.format("console").outputMode("complete")


@listed(
    JOBS,
    inputs={"lines": socket(lambda n, s, random: " ".join(random.choices(("ab", "cd,", "ef"), k=3)))},
    mode="complete",
    sink="foreachBatch",
)
def words_to_json_and_database(spark: SparkSession, read: Read) -> Any:
    words = read("lines").select(F.explode(F.split("value", r"\W+")).alias("value"))
    counts = words.groupBy("value").count()
    folder = read.path("batches")

    def write(batch: DataFrame, batch_id: int) -> None:
        if batch.count() != 0:
            batch.cache()
            batch.write.json(os.path.join(folder, str(batch_id)))
            read.store.overwrite(batch)

    return counts.writeStream.outputMode("complete").foreachBatch(write)


@listed(
    JOBS,
    inputs={
        "words": series(
            "timestamp timestamp, word string",
            lambda n, s, random: {"timestamp": iso(s), "word": random.choice(("red", "blue"))},
        )
    },
    mode="complete",
    sink="console",
)
def words_per_ten_minutes_complete(spark: SparkSession, read: Read) -> Any:
    counts = read("words").groupBy(F.window(F.col("timestamp"), "10 minutes"), F.col("word")).count()
    return counts.writeStream.outputMode("complete").format("console").trigger(processingTime="5 seconds")


@listed(
    JOBS,
    inputs={
        "users": topic(
            lambda n, s, random: {
                "id": n,
                "name": "x",
                "age": random.randint(12, 70),
                "gender": random.choice(("F", "M")),
                "country": random.choice(("USA", "India")),
            }
        )
    },
    mode="complete",
    sink="console",
)
def average_age_of_adults(spark: SparkSession, read: Read) -> Any:
    schema = "id int, name string, age int, gender string, country string"
    users = read("users").withColumn("value", F.from_json(F.col("value").cast("STRING"), schema))
    named = users.select(*[F.col(f"value.{name}").alias(name) for name in ("id", "name", "age", "gender", "country")])
    ages = (
        named.select("age", "country", "gender")
        .filter("age >= 21")
        .groupBy("country", "gender")
        .agg(F.avg("age").alias("avg_age"))
    )
    return ages.writeStream.outputMode("complete").format("console")


@listed(JOBS, inputs={"prices": PRICES}, mode="complete", sink="console", ordered=True)
def closing_prices_per_week_in_order(spark: SparkSession, read: Read) -> Any:
    prices = read("prices")
    weeks = (
        prices.groupBy(F.window(prices.Date, "7 days"), prices.Name)
        .agg({"Close": "avg"})
        .withColumnRenamed("avg(Close)", "Average Close")
    )
    in_order = weeks.orderBy(weeks.window.start, weeks.Name)
    return in_order.writeStream.outputMode("complete").format("console")


@listed(JOBS, inputs={"prices": PRICES}, mode="complete", sink="console")
def least_and_greatest_close_by_sql(spark: SparkSession, read: Read) -> Any:
    read("prices").createOrReplaceTempView("stock_prices")
    closes = spark.sql("SELECT Name, min(Close), max(Close) FROM stock_prices GROUP BY Name")
    return closes.writeStream.outputMode("complete").format("console").option("numRows", 30)


@listed(
    JOBS,
    inputs={
        "rides": topic(
            lambda n, s, random: f"{random.randint(1, 6)}, {random.randint(1, 9)}", key=lambda n, s, random: f"{n}"
        )
    },
    mode="complete",
    sink="console",
)
def popular_pickups(spark: SparkSession, read: Read) -> Any:
    rides = read("rides").selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    fields = F.split(rides["value"], ", ")
    names = ("PUlocationID", "DOlocationID")
    for place, name in enumerate(names):
        rides = rides.withColumn(name, fields.getItem(place).cast("string"))
    rides = rides.na.drop().select(list(names))
    counts = rides.groupBy(["PULocationID"]).count().sort(F.col("count").desc())
    return counts.writeStream.outputMode("complete").trigger(processingTime="5 seconds").format("console")


@listed(JOBS, inputs={"vehicles": KAFKA_VEHICLES}, mode="complete", sink="console", session=LEGACY)
def speed_of_distinct_vehicles(spark: SparkSession, read: Read) -> Any:
    speeds = (
        vehicles(read, "partition", "offset")
        .dropDuplicates(["vehicleId"])
        .groupBy(F.col("routeId"), F.col("vehicleType"))
        .agg(F.avg("speed").alias("speed"))
    )
    return speeds.writeStream.format("console").option("truncate", "false").outputMode("complete")


@listed(
    JOBS,
    inputs={
        "letters": series("nr bigint, letter string", lambda n, s, random: {"nr": n % 7, "letter": "abcdefg"[n % 7]})
    },
    mode="complete",
    sink="console",
)
def limit_in_front_of_count(spark: SparkSession, read: Read) -> Any:
    counts = read("letters").limit(2).groupBy("nr").count()
    return counts.writeStream.outputMode("complete").option("truncate", False).format("console")
