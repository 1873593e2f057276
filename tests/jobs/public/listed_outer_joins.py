"""Second list: outer joins, and joins with windows in front or behind"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ..job import Job, Read
from ..listed import listed
from ..making import iso, rate, series, socket, spaced, topic
from .listed_complete import ACTIVITY
from .listed_joins import TRADED, companies, traded

JOBS: list[Job] = []
_EVENT = "id int, eventTime timestamp"


@listed(JOBS, inputs={"rate": rate()}, mode="append", sink="console")
def outer_join_of_rate_with_itself(spark: SparkSession, read: Read) -> Any:
    ticks = read("rate")
    left = ticks.select(F.col("value").alias("leftId"), F.col("timestamp").alias("leftTime"))
    right = ticks.select(F.col("value").alias("rightId"), F.col("timestamp").alias("rightTime"))
    joined = left.withWatermark("leftTime", "5 seconds").join(
        right.withWatermark("rightTime", "10 seconds"),
        F.expr("rightId = leftId AND rightTime >= leftTime AND rightTime <= leftTime + interval 5 seconds"),
        "leftOuter",
    )
    return joined.writeStream.format("console").option("truncate", False)


def _events(late: int) -> dict[str, Any]:
    return {
        "left_side": topic(lambda n, s, random: {"id": n, "eventTime": iso(s)}),
        "right_side": topic(
            lambda n, s, random: {"id": n + random.randint(0, 3), "eventTime": iso(s + random.randint(0, late))}
        ),
    }


def _side(read: Read, name: str, number: str, time: str) -> Any:
    return (
        read(f"{name}_side")
        .select(F.from_json(F.col("value").cast("string"), _EVENT).alias("value"))
        .select(F.col("value.id").alias(number), F.col("value.eventTime").alias(time))
    )


@listed(JOBS, inputs=_events(200), mode="append", sink="console")
def full_outer_join_of_events(spark: SparkSession, read: Read) -> Any:
    left = _side(read, "left", "leftId", "leftTime")
    right = _side(read, "right", "rightId", "rightTime")
    joined = left.withWatermark("leftTime", "5 minutes").join(
        right.withWatermark("rightTime", "10 minutes"),
        F.expr("rightId = leftId AND rightTime <= leftTime + interval 2 minutes AND rightTime >= leftTime"),
        "full_outer",
    )
    return joined.writeStream.format("console").option("truncate", False)


@listed(JOBS, inputs=_events(200), mode="append", sink="console")
def left_semi_join_of_events(spark: SparkSession, read: Read) -> Any:
    left = _side(read, "left", "leftId", "leftTime")
    right = _side(read, "right", "rightId", "rightTime")
    joined = left.withWatermark("leftTime", "5 minutes").join(
        right.withWatermark("rightTime", "10 minutes"),
        F.expr("rightId = leftId AND rightTime >= leftTime AND rightTime <= leftTime + interval 20 minutes"),
        "leftsemi",
    )
    return joined.writeStream.trigger(processingTime="2 seconds").format("console").option("truncate", False)


def _numbers(*names: str) -> dict[str, Any]:
    return {name: series("value int", lambda n, s, random: {"value": s // 4 * 4}, step=3) for name in names}


def _timed(read: Read, name: str) -> Any:
    return (
        read(name).withColumn("event_time", F.col("value").cast("timestamp")).withWatermark("event_time", "0 seconds")
    )


@listed(
    JOBS,
    inputs=_numbers("one", "two", "three"),
    mode="append",
    sink="console",
    session={"spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "false"},
)
def two_left_outer_joins_in_a_row(spark: SparkSession, read: Read) -> Any:
    first = _timed(read, "one").join(_timed(read, "two"), ["value", "event_time"], "leftOuter")
    second = first.join(_timed(read, "three"), ["value", "event_time"], "leftOuter")
    return second.writeStream.format("console")


@listed(
    JOBS,
    inputs=_numbers("one", "two"),
    mode="append",
    sink="console",
    session={"spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "true"},
)
def outer_join_then_count_by_event_time(spark: SparkSession, read: Read) -> Any:
    joined = _timed(read, "one").join(_timed(read, "two"), ["value", "event_time"], "leftOuter")
    return joined.groupBy(F.col("event_time")).count().writeStream.format("console")


def _clicked(step: int, late: int) -> dict[str, Any]:
    return {
        "impressions": series(
            "impressionAdId int, impressionTime timestamp",
            lambda n, s, random: {"impressionAdId": n, "impressionTime": iso(s)},
            step=step,
        ),
        "clicks": series(
            "clickAdId int, clickTime timestamp",
            lambda n, s, random: {"clickAdId": n, "clickTime": iso(s + random.randint(0, late))},
            step=step,
        ),
    }


@listed(
    JOBS,
    inputs={
        "impressions": series(
            "impressionAdId int, impressionTime timestamp",
            lambda n, s, random: {"impressionAdId": random.randint(1, 3), "impressionTime": iso(s)},
            step=97,
        ),
        "clicks": series(
            "clickAdId int, clickTime timestamp",
            lambda n, s, random: {"clickAdId": random.randint(1, 3), "clickTime": iso(s + 10)},
            step=97,
        ),
    },
    mode="append",
    sink="console",
    session={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
)
def outer_join_then_hourly_window(spark: SparkSession, read: Read) -> Any:
    clicks = read("clicks").withWatermark("clickTime", "10 minutes")
    impressions = read("impressions").withWatermark("impressionTime", "20 minutes")
    joined = impressions.join(
        clicks,
        F.expr(
            """clickAdId = impressionAdId AND
               clickTime >= impressionTime AND
               clickTime <= impressionTime + interval 2 minutes"""
        ),
        "leftOuter",
    )
    counts = joined.groupBy(F.window(F.col("clickTime"), "1 hour")).count()
    return counts.writeStream.format("console").option("truncate", False)


@listed(
    JOBS,
    inputs={
        "visits": topic(
            lambda n, s, random: {"visit_id": f"v{n}", "event_time": iso(s), "page": f"page{random.randint(1, 6)}"}
        ),
        "ads": topic(
            lambda n, s, random: {
                "page": f"page{random.randint(1, 6)}",
                "display_time": iso(s + 10),
                "campaign_name": f"campaign{n % 4}",
            }
        ),
    },
    mode="append",
    sink="kafka",
)
def visits_with_ads_outer(spark: SparkSession, read: Read) -> Any:
    visits = (
        read("visits")
        .select(
            F.from_json(F.col("value").cast("string"), "visit_id STRING, event_time TIMESTAMP, page STRING").alias(
                "visit"
            )
        )
        .selectExpr("visit.*")
        .withColumnRenamed("page", "visit_page")
        .withWatermark("event_time", "10 minutes")
    )
    ads = (
        read("ads")
        .select(
            F.from_json(
                F.col("value").cast("string"), "page STRING, display_time TIMESTAMP, campaign_name STRING"
            ).alias("ad")
        )
        .selectExpr("ad.*")
        .withWatermark("display_time", "10 minutes")
    )
    joined = visits.join(
        ads,
        F.expr("page = visit_page AND display_time BETWEEN event_time AND event_time + INTERVAL 2 minutes"),
        "left_outer",
    ).selectExpr("TO_JSON(STRUCT(*)) AS value")
    return joined.writeStream.outputMode("append").format("kafka").option("topic", "visits-enriched")


@listed(JOBS, inputs={"activity": ACTIVITY}, mode="append", sink="console")
def activity_joined_with_itself(spark: SparkSession, read: Read) -> Any:
    activity = read("activity")

    def named(name: str) -> Any:
        timed = activity.selectExpr("*", "cast(cast(Creation_Time as double)/1000000000 as timestamp) as event_time")
        return timed.withWatermark("event_time", "10 minutes").alias(name)

    joined = (
        named("a")
        .join(
            named("b"),
            F.expr(
                """a.index = b.index
                   and a.event_time >= b.event_time
                   and a.event_time <= b.event_time + interval 5 minutes"""
            ),
            "left",
        )
        .select("a.index", "a.event_time", "a.user", "b.index", "b.event_time", "b.user")
    )
    return joined.writeStream.format("console").outputMode("append").option("truncate", False)


@listed(
    JOBS,
    inputs={
        name: series(
            "event_time string, bridge_id int, sensor_type string, value double, ingest_time string,"
            " event_time_ts timestamp, ingest_time_ts timestamp, name string, location string,"
            " installation_date string",
            lambda n, s, random: {
                "event_time": iso(s),
                "bridge_id": random.randint(1, 3),
                "sensor_type": "x",
                "value": random.randint(1, 90),
                "ingest_time": iso(s),
                "event_time_ts": iso(s),
                "ingest_time_ts": iso(s),
                "name": "b",
                "location": "l",
                "installation_date": "2000-01-01",
            },
            step=12,
        )
        for name in ("temperature", "vibration", "tilt")
    },
    mode="append",
    sink="parquet",
)
def three_window_aggregates_joined(spark: SparkSession, read: Read) -> Any:
    def aggregated(name: str, column: str, aggregate: Any) -> Any:
        values = read(name).withWatermark("event_time_ts", "2 minutes")
        return (
            values.groupBy(F.window(F.col("event_time_ts"), "1 minute"), F.col("bridge_id"))
            .agg(aggregate.alias(column))
            .select(
                F.col("bridge_id"),
                F.col("window.start").alias("window_start"),
                F.col("window.end").alias("window_end"),
                F.col(column),
            )
        )

    on = ["bridge_id", "window_start", "window_end"]
    temperature = aggregated("temperature", "avg_temperature", F.avg("value"))
    vibration = aggregated("vibration", "max_vibration", F.max("value"))
    tilt = aggregated("tilt", "max_tilt", F.max("value"))
    joined = temperature.join(vibration, on=on, how="inner").join(tilt, on=on, how="inner")
    return joined.writeStream.format("parquet").outputMode("append")


@listed(
    JOBS,
    inputs={
        "sexes": socket(lambda n, s, random: f"name{n},{'fm'[n % 2]},{spaced(s)}"),
        "ages": socket(lambda n, s, random: f"name{n + random.randint(0, 2)},{random.randint(9, 70)},{spaced(s + 30)}"),
    },
    mode="append",
    sink="console",
)
def names_joined_within_a_minute(spark: SparkSession, read: Read) -> Any:
    tokens = F.split("value", ",")
    sexes = read("sexes").select(
        tokens[0].alias("name1"), tokens[1].alias("sex"), tokens[2].cast("timestamp").alias("ts1")
    )
    ages = read("ages").select(
        tokens[0].alias("name2"), tokens[1].cast("int").alias("age"), tokens[2].cast("timestamp").alias("ts2")
    )
    joined = sexes.withWatermark("ts1", "2 minutes").join(
        ages.withWatermark("ts2", "1 minutes"),
        F.expr("name1=name2 and ts2 >= ts1 and ts2 <= ts1 + interval 1 minutes"),
        "left_outer",
    )
    return joined.writeStream.outputMode("append").format("console").trigger(processingTime="0 seconds")


@listed(JOBS, inputs={"one": rate(), "two": rate()}, mode="append", sink="console")
def rate_joined_with_shifted_rate(spark: SparkSession, read: Read) -> Any:
    one = read("one").withColumnRenamed("timestamp", "timestamp1").withColumnRenamed("value", "id1")
    two = (
        read("two")
        .withColumnRenamed("timestamp", "timestamp2")
        .withColumnRenamed("value", "id2")
        .select((F.col("timestamp2") + F.expr("interval 20 seconds")).alias("timestamp2"), F.col("id2"))
    )
    joined = one.withWatermark("timestamp1", "5 seconds").join(
        two.withWatermark("timestamp2", "10 seconds"),
        F.expr("id1 = id2 AND timestamp2 >= timestamp1 AND timestamp2 <= timestamp1 + interval 30 seconds"),
        "leftOuter",
    )
    written = joined.writeStream.format("console").option("truncate", "false").option("numRows", 100)
    return written.outputMode("append").trigger(processingTime="30 seconds")


@listed(JOBS, inputs=TRADED, mode="append", sink="console")
def stocks_with_or_without_company(spark: SparkSession, read: Read) -> Any:
    joined = (
        traded(read)
        .withWatermark("stockInputTime", "10 seconds")
        .join(
            companies(read).withWatermark("companyTradingTime", "10 seconds"),
            F.expr(
                "companyName = stockName AND stockInputTime >= companyTradingTime"
                " AND stockInputTime <= companyTradingTime + interval 20 seconds"
            ),
            "leftOuter",
        )
    )
    return joined.writeStream.format("console").option("truncate", False)


@listed(JOBS, inputs=_clicked(97, 0), mode="append", sink="console")
def clicks_and_impressions_per_hour(spark: SparkSession, read: Read) -> Any:
    clicks = read("clicks").withWatermark("clickTime", "20 minutes")
    impressions = read("impressions").withWatermark("impressionTime", "10 minutes")
    clicked = clicks.groupBy(clicks.clickAdId, F.window(clicks.clickTime, "1 hour")).count()
    shown = impressions.groupBy(impressions.impressionAdId, F.window(impressions.impressionTime, "1 hour")).count()
    return clicked.join(shown, "window", "inner").writeStream.format("console")


@listed(
    JOBS,
    inputs={
        "orders": series(
            "order_id string, user_id string, amount double, order_time timestamp",
            lambda n, s, random: {
                "order_id": f"order_{n}",
                "user_id": f"user_{random.randint(1, 4)}",
                "amount": random.randint(1, 90),
                "order_time": iso(s),
            },
        ),
        "users": series(
            "user_id string, user_name string, registration_time timestamp",
            lambda n, s, random: {
                "user_id": f"user_{random.randint(1, 4)}",
                "user_name": "x",
                "registration_time": iso(s),
            },
        ),
    },
    mode="append",
    sink="console",
)
def orders_and_users_per_window(spark: SparkSession, read: Read) -> Any:
    orders = (
        read("orders")
        .withWatermark("order_time", "10 minutes")
        .groupBy(F.window("order_time", "5 minutes"), "user_id")
        .agg(F.count("*").alias("order_count"), F.sum("amount").alias("total_amount"))
    )
    users = (
        read("users")
        .withWatermark("registration_time", "10 minutes")
        .groupBy(F.window("registration_time", "5 minutes"), "user_id")
        .agg(F.count("*").alias("user_events"))
    )
    return orders.join(users, ["window", "user_id"], "inner").writeStream.format("console")
