"""Third list: aggregates, windows and joins"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ..job import Job, Output, Read
from ..listed import listed
from ..making import again, epoch, fixed, iso, rate, series, socket, spaced, topic
from ..parsing import from_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS: list[Job] = []


@listed(
    JOBS,
    inputs={
        "trades": series(
            "symbol string, price double, volume bigint, ts timestamp",
            lambda n, s, random: {
                "symbol": random.choice(("AAPL", "MSFT", "IBM")),
                "price": random.randint(100, 900) / 4,
                "volume": random.randint(1, 50),
                "ts": spaced(s),
            },
            step=10,
            format="csv",
        )
    },
    mode="append",
    sink="parquet",
)
def ohlc_per_symbol_and_minute(spark: SparkSession, read: Read) -> Any:
    candles = (
        read("trades")
        .withWatermark("ts", "2 minutes")
        .groupBy(F.window("ts", "1 minute"), "symbol")
        .agg(
            F.first("price").alias("open"),
            F.max("price").alias("high"),
            F.min("price").alias("low"),
            F.last("price").alias("close"),
            F.sum("volume").alias("volume"),
            F.sum(F.col("price") * F.col("volume")).alias("turnover"),
        )
        .withColumn("vwap", F.col("turnover") / F.col("volume"))
        .select(F.col("window.start").alias("minute"), "symbol", "open", "high", "low", "close", "volume", "vwap")
    )
    return candles.writeStream.outputMode("append").format("parquet")


@listed(
    JOBS,
    inputs={
        "readings": series(
            "device string, temperature double, ts timestamp",
            lambda n, s, random: {"device": f"d{random.randint(1, 9)}", "temperature": n / 4, "ts": iso(s)},
        )
    },
    mode="update",
    sink="console",
    keys=("device",),
)
def latest_reading_by_struct(spark: SparkSession, read: Read) -> Any:
    latest = (
        read("readings")
        .groupBy("device")
        .agg(F.max(F.struct("ts", "temperature")).alias("latest"), F.count("*").alias("readings"))
        .select("device", F.col("latest.ts").alias("seen"), "latest.temperature", "readings")
    )
    return latest.writeStream.outputMode("update").format("console")


_PAYMENTS = topic(
    lambda n, s, random: {"user": f"u{random.randint(1, 6)}", "amount": random.randint(1, 99), "ts": iso(s)}
)


@listed(JOBS, inputs={"payments": _PAYMENTS}, mode="update", sink="console", keys=("span", "user"))
def windows_in_sql_with_having(spark: SparkSession, read: Read) -> Any:
    payments = from_kafka(read("payments"), "user string, amount bigint, ts timestamp")
    payments.withWatermark("ts", "10 minutes").createOrReplaceTempView("payments_of_users")
    sums = spark.sql(
        "SELECT window(ts, '5 minutes') AS span, user, sum(amount) AS total, count(*) AS n FROM payments_of_users"
        " WHERE amount > 5 GROUP BY window(ts, '5 minutes'), user HAVING count(*) > 2"
    )
    return sums.writeStream.outputMode("update").format("console").option("truncate", False)


_STORES = fixed("store_id int, region string", [{"store_id": n, "region": f"r{n % 3}"} for n in range(8)])


@listed(
    JOBS,
    inputs={
        "sales": series(
            "store_id int, amount double, ts timestamp",
            lambda n, s, random: {"store_id": random.randint(0, 9), "amount": random.randint(1, 99) / 2, "ts": iso(s)},
        )
    },
    tables={"stores": _STORES},
    mode="complete",
    sink="memory",
)
def sql_with_cte_and_static_table(spark: SparkSession, read: Read) -> Any:
    read("sales").createOrReplaceTempView("sales_of_stores")
    read.static("stores").createOrReplaceTempView("stores_of_regions")
    totals = spark.sql(
        "WITH large AS (SELECT store_id, amount FROM sales_of_stores WHERE amount >= 10)"
        " SELECT r.region, sum(l.amount) AS total, count(1) AS n FROM large l"
        " JOIN stores_of_regions r ON l.store_id = r.store_id GROUP BY r.region"
    )
    return totals.writeStream.outputMode("complete").format("memory")


@listed(
    JOBS,
    inputs={
        "orders": series(
            "customer_id int, amount bigint, ts timestamp",
            lambda n, s, random: {"customer_id": random.randint(1, 9), "amount": n, "ts": iso(s)},
        )
    },
    tables={
        "customers": fixed("customer_id int, country string", [{"customer_id": n, "country": "DE"} for n in range(6)])
    },
    mode="append",
    sink="delta",
)
def spend_by_country_static_on_the_left(spark: SparkSession, read: Read) -> Any:
    orders = read("orders").withWatermark("ts", "5 minutes")
    spend = (
        read.static("customers")
        .join(orders, "customer_id", "right")
        .groupBy(F.window("ts", "10 minutes"), F.coalesce("country", F.lit("unknown")).alias("country"))
        .agg(F.sum("amount").alias("spend"))
    )
    return spend.writeStream.outputMode("append").format("delta")


@listed(
    JOBS,
    inputs={
        "readings": series(
            "device string, value int",
            lambda n, s, random: {"device": f"d{random.randint(1, 4)}", "value": random.randint(0, 100)},
        )
    },
    tables={
        "thresholds": fixed("level string, least int", [{"level": "warm", "least": 60}, {"level": "hot", "least": 85}])
    },
    mode="complete",
    sink="console",
)
def thresholds_crossed_with_readings(spark: SparkSession, read: Read) -> Any:
    crossed = read("readings").crossJoin(read.static("thresholds")).where("value >= least")
    return crossed.groupBy("level", "device").count().writeStream.outputMode("complete").format("console")


@listed(
    JOBS,
    inputs={
        "lines": series(
            "value string",
            lambda n, s, random: {
                "value": " ".join(random.choices(("The", "quick", "fox", "dog", "the", "a", "b"), k=6))
            },
            format="text",
        )
    },
    mode="complete",
    sink="memory",
    ordered=True,
)
def top_words_of_text_files(spark: SparkSession, read: Read) -> Any:
    words = read("lines").select(F.explode(F.split(F.lower("value"), " ")).alias("word")).where("length(word) > 0")
    top = words.groupBy("word").count().orderBy(F.desc("count"), "word").limit(5)
    return top.writeStream.outputMode("complete").format("memory")


_LOG = r'^(\S+) - - \[(.+?)\] "(\S+) (\S+)" (\d{3})'


@listed(
    JOBS,
    inputs={
        "lines": socket(
            lambda n, s, random: (
                f"10.0.0.{random.randint(1, 9)} - - [{spaced(s)}] "
                f'"GET /p{random.randint(1, 3)}" {random.choice((200, 200, 404))}'
            )
        )
    },
    mode="append",
    sink="console",
)
def web_log_status_per_window(spark: SparkSession, read: Read) -> Any:
    logs = read("lines").select(
        F.regexp_extract("value", _LOG, 1).alias("host"),
        F.to_timestamp(F.regexp_extract("value", _LOG, 2), "yyyy-MM-dd HH:mm:ss").alias("time"),
        F.regexp_extract("value", _LOG, 5).cast("int").alias("status"),
    )
    counts = (
        logs.withWatermark("time", "5 minutes")
        .groupBy(F.window("time", "10 minutes", "5 minutes"), "status")
        .agg(F.count("*").alias("hits"), F.approx_count_distinct("host").alias("hosts"))
    )
    return counts.writeStream.outputMode("append").format("console")


@listed(
    JOBS,
    inputs={
        "rows": series(
            "id int, x double, ts timestamp",
            lambda n, s, random: {"id": random.randint(1, 5), "x": random.randint(0, 99) / 4, "ts": iso(s)},
        )
    },
    mode="update",
    sink="console",
    keys=("id",),
)
def scores_of_a_pandas_udf(spark: SparkSession, read: Read) -> Any:
    @F.pandas_udf("double")  # type: ignore[call-overload, untyped-decorator]
    def score(x: pd.Series) -> pd.Series:
        return x * 2 + 1

    scored = read("rows").withColumn("score", score("x"))
    means = scored.groupBy("id").agg(F.avg("score").alias("mean"), F.max("score").alias("best"))
    return means.writeStream.outputMode("update").format("console")


@listed(
    JOBS,
    inputs={
        "views": series(
            "user string, page string, ts timestamp",
            lambda n, s, random: {
                "user": random.choice(("u1", "u2", "u3", "")),
                "page": f"p{random.randint(1, 4)}",
                "ts": iso(s + 900 * (n // 20)),
            },
            step=20,
        )
    },
    mode="append",
    sink="parquet",
)
def cleaned_in_pandas_then_sessions(spark: SparkSession, read: Read) -> Any:
    def cleaned(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            kept = frame[frame["user"].str.len() > 0]
            yield kept.assign(section=kept["page"].str.upper())

    views = read("views").mapInPandas(cleaned, "user string, page string, ts timestamp, section string")
    sessions = (
        views.withWatermark("ts", "1 minute")
        .groupBy(F.session_window("ts", "5 minutes"), "user")
        .agg(F.count("*").alias("views"), F.size(F.collect_set("section")).alias("sections"))
        .select("session_window.start", "session_window.end", "user", "views", "sections")
    )
    return sessions.writeStream.outputMode("append").format("parquet")


@listed(
    JOBS,
    inputs={
        "readings": series(
            "city string, value bigint, ts timestamp",
            lambda n, s, random: {"city": random.choice("ab"), "value": random.randint(1, 50), "ts": iso(s)},
        )
    },
    mode="append",
    sink="memory",
)
def minutes_then_quarters(spark: SparkSession, read: Read) -> Any:
    minutes = (
        read("readings")
        .withWatermark("ts", "1 minute")
        .groupBy(F.window("ts", "1 minute"), "city")
        .agg(F.sum("value").alias("total"))
    )
    quarters = minutes.groupBy(F.window(F.window_time("window"), "15 minutes"), "city").agg(
        F.max("total").alias("most"), F.count("*").alias("minutes")
    )
    return quarters.writeStream.outputMode("append").format("memory")


@listed(
    JOBS,
    inputs={
        "events": again(
            topic(
                lambda n, s, random: {
                    "event_id": f"e{n}",
                    "user_id": random.randint(1, 8),
                    "amount": random.randint(1, 99),
                    "ts": iso(s),
                }
            ),
            every=4,
        )
    },
    tables={
        "users": fixed("user_id int, plan string", [{"user_id": n, "plan": ["free", "pro"][n % 2]} for n in range(7)])
    },
    mode="append",
    sink="kafka",
)
def distinct_then_window_then_static(spark: SparkSession, read: Read) -> Any:
    events = from_kafka(read("events"), "event_id string, user_id int, amount bigint, ts timestamp")
    distinct = events.withWatermark("ts", "10 minutes").dropDuplicates(["event_id", "ts"])
    sums = (
        distinct.join(read.static("users"), "user_id", "left")
        .groupBy(F.window("ts", "10 minutes"), "plan")
        .agg(F.sum("amount").alias("total"), F.count("*").alias("n"))
    )
    texts = sums.select(F.col("plan").alias("key"), F.to_json(F.struct("*")).alias("value"))
    return texts.writeStream.outputMode("append").format("kafka").option("topic", "sums")


@listed(
    JOBS,
    inputs={
        "orders": series("order_id int, ts timestamp", lambda n, s, random: {"order_id": n, "ts": iso(s)}),
        "payments": series(
            "order_id int, paid bigint, ts timestamp",
            lambda n, s, random: {"order_id": max(0, n - random.randint(1, 120)), "paid": n, "ts": iso(s)},
        ),
    },
    mode="append",
    sink="foreachBatch",
)
def payments_of_orders_within_an_hour(spark: SparkSession, read: Read) -> Any:
    orders = read("orders").withWatermark("ts", "10 minutes").alias("o")
    payments = read("payments").withWatermark("ts", "20 minutes").alias("p")
    joined = orders.join(
        payments, F.expr("o.order_id = p.order_id AND p.ts >= o.ts AND p.ts <= o.ts + interval 1 hour")
    ).select("o.order_id", F.col("o.ts").alias("ordered"), F.col("p.ts").alias("paid_at"), "p.paid")

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch)

    return joined.writeStream.foreachBatch(write)


@listed(
    JOBS,
    inputs={
        "requests": series("id int, asked timestamp", lambda n, s, random: {"id": n, "asked": iso(s)}),
        "responses": series(
            "request_id int, answered timestamp",
            lambda n, s, random: {"request_id": max(0, n - random.randint(0, 9)), "answered": iso(s)},
        ),
    },
    mode="append",
    sink="console",
)
def unanswered_requests_per_window(spark: SparkSession, read: Read) -> Any:
    requests = read("requests").withWatermark("asked", "2 minutes")
    responses = read("responses").withWatermark("answered", "2 minutes")
    joined = requests.join(
        responses,
        F.expr("id = request_id AND answered >= asked AND answered <= asked + interval 5 minutes"),
        "leftOuter",
    )
    counts = joined.groupBy(F.window("asked", "10 minutes")).agg(
        F.count("*").alias("rows"), F.count("request_id").alias("answered")
    )
    return counts.writeStream.outputMode("append").format("console")


@listed(
    JOBS,
    inputs={
        "clicks": topic(lambda n, s, random: {"id": n, "page": f"p{n % 3}", "ts": iso(s)}),
        "buys": topic(lambda n, s, random: {"id": n, "sku": f"s{n % 2}", "price": n, "ts": iso(s)}, count=120, step=80),
    },
    mode="append",
    sink="console",
)
def counts_of_two_united_topics(spark: SparkSession, read: Read) -> Any:
    clicks = from_kafka(read("clicks"), "id int, page string, ts timestamp")
    buys = from_kafka(read("buys"), "id int, sku string, price int, ts timestamp")
    both = clicks.unionByName(buys, allowMissingColumns=True).withColumn("kind", F.coalesce("page", "sku"))
    counts = both.withWatermark("ts", "5 minutes").groupBy(F.window("ts", "10 minutes"), "kind").count()
    return counts.writeStream.outputMode("append").format("console")


@listed(JOBS, inputs={"rate": rate()}, mode="update", sink="console", keys=("k",))
def statistics_of_rate_modulo(spark: SparkSession, read: Read) -> Any:
    statistics = (
        read("rate")
        .withColumn("k", F.col("value") % 7)
        .groupBy("k")
        .agg(
            F.stddev("value").alias("sd"),
            F.var_pop("value").alias("var"),
            F.percentile_approx("value", 0.5).alias("median"),
            F.skewness("value").alias("skew"),
            F.size(F.collect_set(F.col("value") % 3)).alias("thirds"),
            F.bool_or(F.col("value") > 200).alias("late"),
        )
    )
    return statistics.writeStream.outputMode("update").format("console")


@listed(
    JOBS,
    inputs={
        "orders": series(
            "order_id int, ts timestamp, items array<struct<sku: string, quantity: int, price: double>>",
            lambda n, s, random: {
                "order_id": n,
                "ts": iso(s),
                "items": [
                    {
                        "sku": f"s{random.randint(1, 4)}",
                        "quantity": random.randint(1, 3),
                        "price": random.randint(1, 40) / 4,
                    }
                    for _ in range(random.randint(0, 3))
                ],
            },
        )
    },
    mode="append",
    sink="json",
)
def order_lines_exploded(spark: SparkSession, read: Read) -> Any:
    lines = (
        read("orders")
        .select("order_id", "ts", F.explode("items").alias("item"))
        .select("order_id", "ts", "item.*")
        .withWatermark("ts", "5 minutes")
    )
    sums = (
        lines.groupBy(F.window("ts", "20 minutes", "10 minutes"), "sku")
        .agg(F.sum(F.col("quantity") * F.col("price")).alias("total"))
        .filter(F.col("total") > 5)
        .withColumn("total", F.round("total", 1))
    )
    return sums.writeStream.outputMode("append").format("json")


@listed(
    JOBS,
    inputs={
        "payments": series(
            "card string, amount double, ts timestamp",
            lambda n, s, random: {"card": f"c{random.randint(1, 5)}", "amount": n / 2, "ts": iso(s)},
        )
    },
    tables={"known": fixed("card string", [{"card": "c1"}, {"card": "c9"}])},
    mode="update",
    sink="foreachBatch",
    keys=("window", "card"),
)
def fast_cards_not_on_the_list(spark: SparkSession, read: Read) -> Any:
    fast = (
        read("payments")
        .withWatermark("ts", "5 minutes")
        .groupBy(F.window("ts", "10 minutes", "1 minute"), "card")
        .agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
        .where("n >= 3")
        .join(read.static("known"), "card", "left_anti")
    )
    return fast.writeStream.outputMode("update").foreachBatch(lambda batch, batch_id: read.store.append(batch))


@listed(
    JOBS,
    inputs={
        "readings": series(
            "sensor string, value bigint, ts timestamp",
            lambda n, s, random: {"sensor": random.choice(("a", "b", "c")), "value": n, "ts": iso(s)},
        )
    },
    mode="complete",
    sink="memory",
    session={"spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "false"},
)
def sensors_as_columns(spark: SparkSession, read: Read) -> Any:
    wide = (
        read("readings")
        .groupBy(F.window("ts", "10 minutes"))
        .pivot("sensor", ["a", "b", "c"])
        .agg(F.avg("value").alias("mean"), F.max("value").alias("most"))
    )
    return wide.writeStream.outputMode("complete").format("memory")


@listed(
    JOBS,
    inputs={
        "sales": series(
            "shop string, product string, amount bigint, ts timestamp",
            lambda n, s, random: {
                "shop": random.choice("xyz"),
                "product": random.choice("pq"),
                "amount": n,
                "ts": iso(s * 20),
            },
        )
    },
    mode="complete",
    sink="console",
)
def sales_rolled_up(spark: SparkSession, read: Read) -> Any:
    sums = (
        read("sales")
        .withColumn("day", F.to_date("ts"))
        .rollup("day", "shop")
        .agg(F.sum("amount").alias("total"), F.count("*").alias("n"), F.grouping_id().alias("level"))
    )
    return sums.writeStream.outputMode("complete").format("console")


@listed(
    JOBS,
    inputs={"points": series("a double, b double", lambda n, s, random: {"a": random.randint(0, 99) / 4, "b": n / 2})},
    mode="complete",
    sink="memory",
)
def predictions_counted(spark: SparkSession, read: Read) -> Any:
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import Bucketizer, StandardScaler, VectorAssembler

    stages = [
        VectorAssembler(inputCols=["a", "b"], outputCol="raw"),
        StandardScaler(inputCol="raw", outputCol="features"),
        Bucketizer(splits=[-1.0, 5.0, 15.0, 100.0], inputCol="a", outputCol="bucket"),
    ]
    training = spark.createDataFrame([(1.0, 2.0), (3.0, 5.0)], "a double, b double")
    predicted = Pipeline(stages=stages).fit(training).transform(read("points"))
    counts = predicted.groupBy("bucket").agg(F.count("*").alias("n"), F.avg("b").alias("mean"))
    return counts.writeStream.outputMode("complete").format("memory")


_MESSAGES = topic(lambda n, s, random: f"value {n}", key=lambda n, s, random: f"k{random.randint(1, 6)}")


@listed(JOBS, inputs={"messages": _MESSAGES}, mode="update", sink="kafka", keys=("key",))
def last_value_by_offset(spark: SparkSession, read: Read) -> Any:
    latest = (
        read("messages")
        .groupBy(F.col("key").cast("string").alias("key"))
        .agg(
            F.max_by(F.col("value").cast("string"), "offset").alias("value"),
            F.max("offset").alias("offset"),
            F.count("*").alias("n"),
        )
    )
    return latest.writeStream.outputMode("update").format("kafka").option("topic", "latest")


@listed(
    JOBS,
    inputs={
        "rows": series(
            "id int, value string, ts timestamp",
            lambda n, s, random: {"id": random.randint(1, 20), "value": f"v{n}", "ts": iso(s)},
        )
    },
    mode="append",
    sink="foreachBatch",
)
def latest_rows_merged_by_row_number(spark: SparkSession, read: Read) -> Any:
    newest = Window.partitionBy("id").orderBy(F.desc("ts"))

    def upsert(batch: DataFrame, batch_id: int) -> None:
        latest = batch.withColumn("rank", F.row_number().over(newest)).where("rank = 1").drop("rank")
        read.store.merge(latest, ["id"])

    return read("rows").writeStream.foreachBatch(upsert).outputMode("append")


_EVENTS = topic(
    lambda n, s, random: {"id": n // 2, "kind": random.choice(("a", "b")), "amount": n, "ts": iso(s - s % 600)}
)


@listed(
    JOBS,
    inputs={"events": _EVENTS},
    outputs=[Output(sink="parquet"), Output(mode="complete", sink="memory"), Output(sink="console")],
)
def three_queries_of_one_source(spark: SparkSession, read: Read) -> Any:
    events = from_kafka(read("events"), "id int, kind string, amount bigint, ts timestamp")
    counts = events.groupBy("kind").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
    distinct = events.withWatermark("ts", "10 minutes").dropDuplicates(["id", "ts"]).select("id", "ts")
    return [
        events.writeStream.format("parquet"),
        counts.writeStream.outputMode("complete").format("memory"),
        distinct.writeStream.format("console"),
    ]


def _change(n: int, s: int, random: Any) -> dict[str, Any]:
    op = random.choice("ccuud")
    row = {"id": random.randint(1, 12), "name": f"n{n}"}
    payload = {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row}
    return {"payload": {**payload, "ts_ms": epoch(s) * 1000 + n}}


@listed(
    JOBS,
    inputs={"changes": topic(_change)},
    mode="update",
    sink="foreachBatch",
    keys=("id",),
)
def debezium_rows_with_deletes(spark: SparkSession, read: Read) -> Any:
    row = "struct<id: int, name: string>"
    payload = F.from_json(
        F.get_json_object(F.col("value").cast("string"), "$.payload"),
        f"op string, before {row}, after {row}, ts_ms bigint",
    )
    changes = read("changes").select(payload.alias("p")).select("p.*")
    latest = (
        changes.withColumn("id", F.coalesce("after.id", "before.id"))
        .groupBy("id")
        .agg(F.max_by(F.struct("op", "after.name"), "ts_ms").alias("last"))
        .select("id", "last.*")
    )

    def apply(batch: DataFrame, batch_id: int) -> None:
        gone = {r.id for r in batch.where("op = 'd'").select("id").collect()}
        read.store.merge(batch.where("op <> 'd'"), ["id"])
        read.store.rows = [r for r in read.store.rows if r.id not in gone]

    return latest.writeStream.outputMode("update").foreachBatch(apply)
