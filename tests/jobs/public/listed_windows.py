"""Second list: windows that close, and windows as they change"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..job import Job, Output, Read
from ..listed import listed
from ..making import epoch, fixed, iso, series, socket, spaced, topic
from ..parsing import from_kafka

JOBS: list[Job] = []
_CLICK = (
    "event_id string, user_id string, product_id string, product_name string, product_price double,"
    " event_type string, timestamp timestamp"
)
_KINDS = ("view", "view", "add_to_cart", "purchase")
CLICKS = topic(
    lambda n, s, random: {
        "event_id": f"e{n}",
        "user_id": f"u{random.randint(1, 4)}",
        "product_id": f"p{random.randint(1, 5)}",
        "product_name": f"product {n % 5}",
        "product_price": random.randint(1, 90),
        "event_type": random.choice(_KINDS),
        "timestamp": iso(s),
    },
    step=97,
)
EVENTS = series(
    "eventId int, eventTime timestamp", lambda n, s, random: {"eventId": random.randint(1, 4), "eventTime": iso(s)}
)
VISITS = topic(
    lambda n, s, random: {"event_id": f"e{n}", "visit_id": n % 5, "event_time": iso(s), "page": f"page{n % 7}"}
)
SECONDS = topic(lambda n, s, random: {"event_id": f"e{n}", "event_time": iso(s)}, step=4)
STOCK_LINES = socket(
    lambda n, s, random: f"{epoch(s) * 1000},{random.choice(('aapl', 'goog'))},{random.randint(1, 500)}", step=4
)
OFFICE = topic(
    lambda n, s, random: {"user_id": n % 4, "event_type": random.choice(_KINDS), **_office_times(s)},
    step=40,
)
_OFFICE = "user_id int, event_type string, event_time string, processing_time string"
TWEETS = topic(
    lambda n, s, random: {
        "payload": {
            "Id": n,
            "CreatedAt": epoch(s) * 1000,
            "Text": "so many words "[: random.randint(1, 14)] if n % 11 else None,
            "Retweet": random.random() < 0.4,
            "RetweetCount": random.randint(60, 200),
            "Lang": random.choice(("en", "id")),
        }
    },
    step=20,
)
_TWEET = "payload struct<Id bigint, CreatedAt bigint, Text string, Retweet boolean, RetweetCount int, Lang string>"


def _office_times(second: int) -> dict[str, str]:
    day, clock = spaced(second).split(" ")
    year, month, date = day.split("-")
    return dict.fromkeys(("event_time", "processing_time"), f"{month}/{date}/{year}, {clock}")


@listed(JOBS, inputs={"events": EVENTS}, mode="update", sink="console", keys=("window",))
def window_updates_of_events(spark: SparkSession, read: Read) -> Any:
    events = read("events")
    counts = events.withWatermark("eventTime", "20 minutes").groupBy(F.window("eventTime", "10 minutes")).count()
    return counts.writeStream.outputMode("update").format("console").option("truncate", False)


@listed(
    JOBS,
    inputs={
        "changes": topic(
            lambda n, s, random: {
                "payload": {"op": random.choice("ccu"), "after": {"event_time": epoch(s) * 1_000_000}}
            },
            step=12,
        )
    },
    mode="update",
    sink="console",
    keys=("window",),
)
def debezium_inserts_per_window(spark: SparkSession, read: Read) -> Any:
    schema = "payload struct<op string, after struct<event_time bigint>>"
    inserts = (
        read("changes")
        .selectExpr("CAST(value AS STRING) AS jsonAsString")
        .select(F.from_json(F.col("jsonAsString"), schema).alias("visit"))
        .filter('visit.payload.op = "c"')
        .select("visit.payload.after.*")
        .selectExpr("CAST((event_time / 1000 / 1000) AS TIMESTAMP) AS event_time")
    )
    counter = inserts.withWatermark("event_time", "10 seconds").groupBy(F.window("event_time", "30 seconds")).count()
    return counter.writeStream.format("console").outputMode("update").option("truncate", "false")


@listed(JOBS, inputs={"visits": VISITS}, mode="update", sink="console", keys=("window",))
def visits_per_window_by_keyword_arguments(spark: SparkSession, read: Read) -> Any:
    schema = "event_id STRING, visit_id INT, event_time TIMESTAMP, page STRING"
    counts = (
        read("visits")
        .selectExpr("CAST(value AS STRING)")
        .select(F.from_json(F.col("value"), schema).alias("data"))
        .select("data.*")
        .withWatermark("event_time", "20 minutes")
        .groupBy(F.window(timeColumn="event_time", windowDuration="10 minutes"))
        .count()
    )
    return counts.writeStream.outputMode("update").option("truncate", False).format("console")


@listed(JOBS, inputs={"visits": SECONDS}, mode="append", sink="console", ignored=("current_time",))
def window_of_fifteen_seconds_with_clock(spark: SparkSession, read: Read) -> Any:
    counts = (
        read("visits")
        .selectExpr("CAST(value AS STRING)")
        .select(F.from_json("value", "event_id string, event_time timestamp").alias("value_struct"), "value")
        .select("value_struct.event_time", "value_struct.event_id", "value")
        .withWatermark("event_time", "10 seconds")
        .groupBy(F.window(F.col("event_time"), "15 seconds"))
        .count()
        .withColumn("current_time", F.current_timestamp())
    )
    return counts.writeStream.format("console").option("truncate", False)


@listed(
    JOBS,
    inputs={
        "lines": socket(lambda n, s, random: f"{epoch(s) * 1000},{random.choice(('red', 'green', 'blue'))}", step=1)
    },
    mode="append",
    sink="console",
)
def colours_in_two_second_windows(spark: SparkSession, read: Read) -> Any:
    tokens = F.split("value", ",")
    data = read("lines").select(
        F.timestamp_millis(tokens.getItem(0).cast("bigint")).alias("created"), tokens.getItem(1).alias("color")
    )
    counts = (
        data.withWatermark("created", "2 seconds")
        .groupBy(F.window(F.col("created"), "2 seconds"), F.col("color"))
        .count()
        .selectExpr("window.*", "color", "count")
    )
    return counts.writeStream.format("console").outputMode("append").trigger(processingTime="2 seconds")


@listed(JOBS, inputs={"clicks": CLICKS}, mode="append", sink="console")
def events_per_user_and_half_hour(spark: SparkSession, read: Read) -> Any:
    clicks = from_kafka(read("clicks"), _CLICK).withWatermark("timestamp", "30 minutes")
    purchase = F.col("event_type") == "purchase"
    sessions = (
        clicks.groupBy(F.col("user_id"), F.window(F.col("timestamp"), "30 minutes", "30 minutes"))
        .agg(
            F.count("*").alias("total_events"),
            F.count(F.when(F.col("event_type") == "view", 1)).alias("views"),
            F.count(F.when(F.col("event_type") == "add_to_cart", 1)).alias("cart_adds"),
            F.count(F.when(purchase, 1)).alias("purchases"),
            F.sum(F.when(purchase, F.col("product_price")).otherwise(0)).alias("revenue"),
            F.min("timestamp").alias("session_start"),
            F.max("timestamp").alias("session_end"),
        )
        .select(
            F.col("user_id"),
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            F.col("total_events"),
            F.col("views"),
            F.col("cart_adds"),
            F.col("purchases"),
            F.col("revenue"),
            F.col("session_start"),
            F.col("session_end"),
            ((F.col("session_end").cast("long") - F.col("session_start").cast("long")) / 60).alias("duration_minutes"),
            F.when(F.col("purchases") > 0, "CONVERTED").otherwise("BROWSING").alias("outcome"),
        )
    )
    return sessions.writeStream.outputMode("append").format("console").trigger(processingTime="15 seconds")


@listed(JOBS, inputs={"clicks": CLICKS}, mode="append", sink="foreachBatch")
def sales_per_hour_to_database(spark: SparkSession, read: Read) -> Any:
    purchases = from_kafka(read("clicks"), _CLICK).filter(F.col("event_type") == "purchase")
    sales = (
        purchases.withWatermark("timestamp", "10 minutes")
        .groupBy(F.window(F.col("timestamp"), "1 hour"))
        .agg(
            F.sum("product_price").alias("total_revenue"),
            F.count("*").alias("num_transactions"),
            F.avg("product_price").alias("avg_order_value"),
        )
        .select(
            F.col("window.start").alias("hour_start"),
            F.col("window.end").alias("hour_end"),
            F.col("total_revenue"),
            F.col("num_transactions"),
            F.col("avg_order_value"),
        )
    )

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch)
        if batch.count() > 0:
            batch.select("hour_start").collect()

    return sales.writeStream.foreachBatch(write).outputMode("append").trigger(processingTime="30 seconds")


@listed(
    JOBS,
    inputs={"lines": socket(lambda n, s, random: f"{spaced(s)}#{random.randint(1, 15)}")},
    mode="update",
    sink="console",
    keys=("window",),
)
def sum_of_lines_split_by_hash(spark: SparkSession, read: Read) -> Any:
    values = (
        read("lines")
        .select(F.split(F.col("value"), "#").alias("data"))
        .withColumn("event_timestamp", F.element_at(F.col("data"), 1).cast("timestamp"))
        .withColumn("val", F.element_at(F.col("data"), 2).cast("int"))
        .drop("data")
    )
    sums = (
        values.withWatermark("event_timestamp", "10 minutes")
        .groupBy(F.window(F.col("event_timestamp"), "5 minutes"))
        .agg(F.sum("val").alias("sum"))
    )
    return sums.writeStream.format("console").outputMode("update").option("truncate", False)


@listed(
    JOBS,
    inputs={
        "events": series(
            "timestamp timestamp, user_id string, user_city string, product_id string, product_cat string,"
            " seller_id string, action_type string, price double",
            lambda n, s, random: {
                "timestamp": iso(s),
                "user_id": f"u{n % 6}",
                "user_city": "Lyon",
                "product_id": f"p{n % 9}",
                "product_cat": "book",
                "seller_id": f"s{n % 3}",
                "action_type": random.choice(_KINDS),
                "price": random.randint(1, 50),
            },
            step=14,
        )
    },
    outputs=(
        Output(mode="update", sink="memory", keys=("window", "action_type")),
        Output(mode="append", sink="foreachBatch"),
    ),
)
def actions_sliding_beside_batches(spark: SparkSession, read: Read) -> Any:
    events = read("events")
    actions = (
        events.withWatermark("timestamp", "10 seconds")
        .groupBy(F.window(F.col("timestamp"), "1 minute", "30 seconds"), F.col("action_type"))
        .agg(F.count("*").alias("event_count"))
    )

    def measured(batch: DataFrame, batch_id: int) -> None:
        if batch.count() == 0:
            return
        read.store.append(batch)

    counted = actions.writeStream.outputMode("update").format("memory").queryName("action_counts")
    return [
        counted.trigger(processingTime="5 seconds"),
        events.writeStream.foreachBatch(measured).trigger(processingTime="5 seconds"),
    ]


@listed(
    JOBS,
    inputs={
        "logs": topic(
            lambda n, s, random: {
                "timestamp": epoch(s) + 0.5,
                "student_id": f"s{n % 5}",
                "student_name": "Ada",
                "course": random.choice(("OS", "DB")),
                "activity": random.choice(("coding", "testing")),
                "tool_used": "vim",
                "lines_of_code": random.randint(1, 60),
                "last_error": None,
                "cpu_usage_pct": random.randint(1, 99),
            },
            step=4,
        )
    },
    mode="update",
    sink="console",
    keys=("window", "course", "activity"),
)
def lines_of_code_per_course(spark: SparkSession, read: Read) -> Any:
    schema = (
        "timestamp double, student_id string, student_name string, course string, activity string, tool_used string,"
        " lines_of_code int, last_error string, cpu_usage_pct double"
    )
    logs = from_kafka(read("logs"), schema).withColumn("event_time", F.col("timestamp").cast("timestamp"))
    work = (
        logs.withWatermark("event_time", "1 minute")
        .groupBy(F.window(F.col("event_time"), "10 seconds"), F.col("course"), F.col("activity"))
        .agg(F.sum("lines_of_code").alias("total_loc"), F.avg("cpu_usage_pct").alias("avg_cpu"))
    )
    return work.writeStream.outputMode("update").format("console").trigger(processingTime="5 seconds")


@listed(
    JOBS,
    inputs={
        "facts": topic(
            lambda n, s, random: {
                "event_time": spaced(s),
                "data": " ".join(random.choices(("owl", "fox", "elk"), k=random.randint(1, 4))),
            }
        )
    },
    mode="update",
    sink="console",
    keys=("start_time", "word"),
)
def words_in_sliding_windows_as_update(spark: SparkSession, read: Read) -> Any:
    texts = read("facts").withColumn("value", F.expr("cast(value as string)"))
    parsed = texts.withColumn("values_json", F.from_json(F.col("value"), "event_time string, data string"))
    words = (
        parsed.select("values_json.event_time", "values_json.data")
        .withColumn("words", F.split("data", " "))
        .withColumn("word", F.explode("words"))
        .withColumn("event_time", F.col("event_time").cast("timestamp"))
    )
    counts = (
        words.withWatermark("event_time", "10 minutes")
        .groupBy(F.window("event_time", "10 minutes", "5 minutes"), "word")
        .agg(F.count(F.lit(1)).alias("cnt"))
        .selectExpr("window.start as start_time", "window.end as end_time", "word", "cnt")
    )
    return counts.writeStream.format("console").outputMode("update").trigger(processingTime="30 seconds")


@listed(JOBS, inputs={"lines": STOCK_LINES}, mode="append", sink="console")
def average_price_per_stock_window(spark: SparkSession, read: Read) -> Any:
    tokens = F.split("value", ",")
    stocks = read("lines").select(
        tokens.getItem(1).alias("id"),
        F.timestamp_millis(tokens.getItem(0).cast("bigint")).alias("timestamp"),
        tokens.getItem(2).cast("double").alias("price"),
    )
    average = (
        stocks.withWatermark("timestamp", "2 seconds")
        .groupBy(F.window(F.col("timestamp"), "10 seconds"), F.col("id"))
        .avg("price")
        .alias("Avg Price")
    )
    return average.writeStream.format("console").outputMode("append")


@listed(JOBS, inputs={"lines": STOCK_LINES}, mode="update", sink="console", keys=("window",))
def sum_with_half_second_delay(spark: SparkSession, read: Read) -> Any:
    tokens = F.split("value", ",")
    stocks = read("lines").select(
        F.timestamp_millis(tokens.getItem(0).cast("bigint")).alias("time"),
        tokens.getItem(1).alias("symbol"),
        tokens.getItem(2).cast("double").alias("value"),
    )
    sums = stocks.withWatermark("time", "500 milliseconds").groupBy(F.window(F.col("time"), "10 seconds")).sum("value")
    return sums.writeStream.format("console").outputMode("update")


@listed(
    JOBS,
    inputs={"lines": socket(lambda n, s, random: f"{spaced(s)},{random.choice('abcde')}", step=11)},
    mode="append",
    sink="console",
)
def views_and_visitors_by_sql(spark: SparkSession, read: Read) -> Any:
    tokens = F.split("value", ",")
    words = read("lines").select(
        F.trim(tokens.getItem(0)).cast("timestamp").alias("event_time"), F.trim(tokens.getItem(1)).alias("word")
    )
    words.withWatermark("event_time", "1 minutes").createOrReplaceTempView("words")
    counts = spark.sql(
        """
        select window(event_time, '1 minutes') as window, count(1) as pv, approx_count_distinct(word) as uv
        from words
        group by 1
        """
    )
    return counts.writeStream.outputMode("append").format("console").trigger(processingTime="1 seconds")


@listed(
    JOBS,
    inputs={
        "orders": topic(
            lambda n, s, random: {
                "id": f"o{n}",
                "money": random.randint(1, 900),
                "state": random.choice("01"),
                "bank_no": f"b{n % 3}",
                "agent_id": "a",
                "merchant_id": f"m{random.randint(1, 4)}",
                "group_id": "g",
                "term_type": random.choice(("pos", "web")),
                "trade_time": iso(s),
            },
            step=14,
        )
    },
    tables={
        "filter_merchant_ids": fixed(
            "org_type string, merchant_id string",
            [{"org_type": kind, "merchant_id": name} for kind, name in (("1", "m1"), ("1", "m3"), ("2", "m2"))],
        )
    },
    mode="append",
    sink="console",
)
def orders_of_chosen_merchants(spark: SparkSession, read: Read) -> Any:
    schema = (
        "id string, money bigint, state string, bank_no string, agent_id string, merchant_id string, group_id string,"
        " term_type string, trade_time timestamp"
    )
    orders = (
        read("orders")
        .select(F.from_json(F.col("value").cast("string"), schema).alias("parsed_value"))
        .select("parsed_value.*")
    )
    chosen = read.static("filter_merchant_ids").filter("org_type='1'").select("org_type", "merchant_id")
    kept = orders.join(chosen, chosen["merchant_id"] == orders["merchant_id"]).drop(chosen["merchant_id"])
    counts = (
        kept.withWatermark("trade_time", "30 seconds")
        .groupBy(
            F.window(F.col("trade_time"), "1 minutes"),
            F.col("merchant_id").alias("groupBy"),
            F.col("term_type"),
            F.col("state"),
        )
        .count()
        .withColumn("groupByType", F.lit("merchant_id"))
    )
    return counts.writeStream.outputMode("append").format("console")


def _office_events(read: Read) -> Any:
    pattern = "MM/dd/yyyy, HH:mm:ss"
    return (
        read("events")
        .withColumn("value", F.from_json(F.col("value").cast("STRING"), _OFFICE))
        .select(
            F.col("value.user_id").alias("user_id"),
            F.col("value.event_type").alias("event_type"),
            F.col("value.event_time").alias("event_time"),
            F.col("value.processing_time").alias("processing_time"),
        )
        .withColumn("event_time", F.to_timestamp(F.col("event_time"), pattern))
        .withColumn("processing_time", F.to_timestamp(F.col("processing_time"), pattern))
    )


@listed(JOBS, inputs={"events": OFFICE}, mode="update", sink="console", keys=("window", "event_type"))
def users_per_hour_and_event(spark: SparkSession, read: Read) -> Any:
    users = (
        _office_events(read)
        .groupBy(F.window(F.col("event_time"), "60 minute", "60 minute"), F.col("event_type"))
        .agg(F.count(F.col("user_id")).alias("NumberOfUsers"))
    )
    return users.writeStream.outputMode("update").format("console")


@listed(JOBS, inputs={"events": OFFICE}, mode="update", sink="console", keys=("window", "user_id"))
def events_per_user_and_minute(spark: SparkSession, read: Read) -> Any:
    late = _office_events(read).withWatermark("event_time", "10 seconds")
    counts = (
        late.groupBy(F.window(F.col("event_time"), "1 minute", "1 minute"), F.col("user_id"))
        .count()
        .alias("NumberOfEvents")
    )
    return counts.writeStream.outputMode("update").format("console")


@listed(
    JOBS,
    inputs={"tweets": topic(lambda n, s, random: {"creation_time": spaced(s), "tweet_text": "hello"}, step=20)},
    mode="update",
    sink="console",
    keys=("window",),
)
def tweets_sliding_by_a_minute(spark: SparkSession, read: Read) -> Any:
    tweets = from_kafka(read("tweets").selectExpr("CAST(value AS STRING)"), "creation_time string, tweet_text string")
    timed = tweets.withColumn("creation_time", F.to_timestamp("creation_time"))
    counts = (
        timed.withWatermark("creation_time", "1 minutes")
        .groupBy(F.window(F.col("creation_time"), "5 minutes", "1 minutes"))
        .count()
    )
    return counts.writeStream.queryName("tweets_per_window").format("console").outputMode("update")


def _statuses(read: Read) -> Any:
    words = F.udf(lambda text: None if text is None else len(text.split(" ")), "int")
    tweets = (
        read("tweets").selectExpr("CAST(value AS STRING)").select(F.from_json(F.col("value"), _TWEET).alias("tweet"))
    )
    return (
        tweets.selectExpr(
            "tweet.payload.Id",
            "tweet.payload.CreatedAt",
            "tweet.payload.Text",
            "tweet.payload.Retweet",
            "tweet.payload.RetweetCount",
            "tweet.payload.Lang",
        )
        .withColumn("tweetLength", words(F.col("Text")))
        .withColumn("time", F.to_timestamp(F.from_unixtime(F.col("CreatedAt") / 1000)))
        .where("tweet.payload.Text IS NOT NULL AND tweet.payload.CreatedAt IS NOT NULL")
    )


@listed(JOBS, inputs={"tweets": TWEETS}, mode="append", sink="csv")
def tweet_length_sliding_to_csv(spark: SparkSession, read: Read) -> Any:
    average = (
        _statuses(read)
        .where("RetweetCount>=100")
        .withWatermark("time", "5 minutes")
        .groupBy(F.window(F.col("time"), "5 minutes", "1 minutes"))
        .agg(F.expr("avg(tweetLength) AS averageWord"), F.expr("count(Id) AS countTweet"))
    )
    shown = average.select("window.start", "window.end", "averageWord", "countTweet")
    return shown.writeStream.outputMode("append").format("csv")


@listed(JOBS, inputs={"tweets": TWEETS}, mode="append", sink="csv")
def retweets_or_not_to_csv(spark: SparkSession, read: Read) -> Any:
    retweets = (
        _statuses(read)
        .withWatermark("time", "5 minutes")
        .groupBy(F.window(F.col("time"), "5 minutes", "1 minutes"), F.col("Retweet"))
        .count()
    )
    shown = retweets.selectExpr("window.start", "window.end", "Retweet", "count")
    return shown.writeStream.outputMode("append").format("csv")


@listed(
    JOBS,
    inputs={
        "names": series(
            "name string, timestamp timestamp",
            lambda n, s, random: {"name": random.choice(("neil", "ryan")), "timestamp": iso(s)},
            step=4,
        )
    },
    mode="append",
    sink="console",
)
def counts_per_ten_seconds(spark: SparkSession, read: Read) -> Any:
    names = read("names")
    counts = names.withWatermark("timestamp", "15 seconds").groupBy(F.window(F.col("timestamp"), "10 seconds")).count()
    return counts.writeStream.format("console").outputMode("append")
