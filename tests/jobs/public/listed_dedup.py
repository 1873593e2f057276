"""Second list: deduplication, alone and in front of a count"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ..job import Job, Read
from ..listed import listed
from ..making import again, epoch, iso, series, socket, spaced, topic
from ..parsing import from_kafka
from .listed_complete import LEGACY, VEHICLES, vehicles
from .listed_windows import CLICKS

JOBS: list[Job] = []
_CLICK = (
    "event_id string, user_id string, product_id string, product_name string, event_type string, timestamp timestamp"
)


@listed(
    JOBS,
    inputs={
        "events": series(
            "id int, eventTime timestamp",
            lambda n, s, random: {"id": n // 4 + random.randint(0, 2), "eventTime": iso(s)},
            step=6,
        )
    },
    mode="append",
    sink="console",
)
def duplicates_within_twenty_seconds(spark: SparkSession, read: Read) -> Any:
    distinct = read("events").withWatermark("eventTime", "20 seconds").dropDuplicatesWithinWatermark(["id"])
    return distinct.writeStream.format("console").option("truncate", False)


@listed(
    JOBS,
    inputs={
        "visits": again(
            topic(lambda n, s, random: {"event_id": f"e{n}", "event_time": iso(s), "page": f"p{n % 5}"}), every=3
        )
    },
    mode="append",
    sink="kafka",
)
def distinct_visits_as_text(spark: SparkSession, read: Read) -> Any:
    distinct = (
        read("visits")
        .selectExpr("CAST(value AS STRING)")
        .select(F.from_json("value", "event_id string, event_time timestamp").alias("value_struct"), "value")
        .select("value_struct.event_time", "value_struct.event_id", "value")
        .withWatermark("event_time", "10 minutes")
        .dropDuplicates(["event_id", "event_time"])
        .drop("event_time", "event_id")
    )
    return distinct.writeStream.format("kafka").option("topic", "deduped")


@listed(JOBS, inputs={"clicks": again(CLICKS, every=4)}, mode="append", sink="console")
def views_without_duplicates(spark: SparkSession, read: Read) -> Any:
    texts = read("clicks").selectExpr("CAST(value AS STRING) as json_value")
    clicks = texts.select(F.from_json(F.col("json_value"), _CLICK).alias("data")).select("data.*")
    views = clicks.filter(F.col("event_type") == "view").withWatermark("timestamp", "5 minutes")
    distinct = views.dropDuplicates(["event_id"])
    written = distinct.writeStream.outputMode("append").format("console").option("truncate", False)
    return written.trigger(processingTime="10 seconds")


@listed(
    JOBS,
    inputs={"lines": socket(lambda n, s, random: f"u{random.randint(1, 60)},{spaced(s)},w{n}", step=14)},
    mode="append",
    sink="console",
)
def first_line_of_each_user(spark: SparkSession, read: Read) -> Any:
    tokens = F.split("value", ",")
    words = read("lines").select(
        tokens.getItem(0).alias("uid"),
        tokens.getItem(1).cast("timestamp").alias("ts"),
        tokens.getItem(2).alias("word"),
    )
    first = words.withWatermark("ts", "2 minutes").dropDuplicates(["uid"])
    return first.writeStream.outputMode("append").format("console")


def _escaped(n: int, s: int, random: Any) -> dict[str, str]:
    event = {
        "user_id": None if n % 19 == 0 else f"u{n % 7}",
        "platform": random.choice(("ios", "android")),
        "event_id": f"e{n}",
        "event_date": epoch(s),
        "action": random.choice(("view", "click")),
        "uri": "https://databricks.com/x",
    }
    return {"key": "k", "value": json.dumps(json.dumps(event))}


@listed(
    JOBS,
    inputs={"events_raw": again(series("key string, value string", _escaped), every=5)},
    mode="append",
    sink="table",
)
def events_cleaned_and_distinct(spark: SparkSession, read: Read) -> Any:
    schema = "user_id string, platform string, event_id string, event_date bigint, action string, uri string"
    cleaned = F.regexp_replace(F.regexp_replace(F.col("value"), r'^"|"$', ""), r"\\", "")
    events = (
        read("events_raw")
        .withColumn("value", cleaned)
        .withColumn("json", F.from_json(F.col("value"), schema))
        .select("json.*")
        .where("event_id is not null and user_id is not null and event_date is not null")
        .withColumn("event_datetime", F.to_timestamp(F.from_unixtime(F.col("event_date"))))
    )
    distinct = events.withWatermark("event_datetime", "1 hours").dropDuplicates(["event_id"])
    return distinct.writeStream.trigger(processingTime="20 seconds")


@listed(
    JOBS,
    inputs={
        "clicks": series(
            "clickId int, timestamp timestamp",
            lambda n, s, random: {"clickId": random.randint(1, 9), "timestamp": iso(s)},
            step=3,
        )
    },
    mode="append",
    sink="console",
)
def clicks_within_ten_seconds(spark: SparkSession, read: Read) -> Any:
    clicks = read("clicks")
    distinct = clicks.withWatermark("timestamp", "10 seconds").dropDuplicatesWithinWatermark(["clickId"])
    return distinct.writeStream.format("console")


@listed(
    JOBS,
    inputs={
        "mobile": again(
            series(
                "id string, action string, ts timestamp",
                lambda n, s, random: {
                    "id": f"phone{random.randint(1, 4)}",
                    "action": random.choice(("open", "close")),
                    "ts": iso(s),
                },
            ),
            every=3,
        )
    },
    mode="update",
    sink="console",
    keys=("id",),
)
def distinct_actions_per_phone(spark: SparkSession, read: Read) -> Any:
    counts = read("mobile").withWatermark("ts", "10 minutes").dropDuplicates(["id", "ts"]).groupBy("id").count()
    return counts.writeStream.format("console").option("truncate", "false").outputMode("update")


@listed(JOBS, inputs={"vehicles": VEHICLES}, mode="update", sink="console", keys=("window", "routeId"), session=LEGACY)
def distinct_vehicles_per_route_window(spark: SparkSession, read: Read) -> Any:
    counts = (
        vehicles(read)
        .dropDuplicates(["vehicleId"])
        .withWatermark("eventTime", "1 minute")
        .groupBy(F.window("eventTime", "1 minute"), F.col("routeId"))
        .count()
    )
    return counts.writeStream.format("console").option("truncate", "false").outputMode("update")


def clicks_of(read: Read, name: str) -> Any:
    """The messages of clicks as columns."""
    return from_kafka(read(name).selectExpr("CAST(value AS STRING)"), _CLICK)
