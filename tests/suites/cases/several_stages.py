"""Several stateful operators: MultiStatefulOperatorsSuite."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from ..case import Read, case
from .outer_joins import at

SUITE = "MultiStatefulOperatorsSuite"
INT, TWO = {"in": "value int"}, {"one": "value int", "two": "value int"}


def timed(read: Read, delay: str) -> Any:
    return read("in").withColumn("eventTime", F.timestamp_seconds("value")).withWatermark("eventTime", delay)


def start() -> Any:
    return F.col("window.start").cast("long").alias("start")


@case(
    SUITE,
    "window agg -> window agg, append mode",
    inputs=INT,
    steps=[{"in": list(range(10, 22))}, {"in": list(range(10, 30))}, {"in": [30, 31]}],
)
def windows_of_windows(read: Read) -> Any:
    first = timed(read, "0 seconds").groupBy(F.window("eventTime", "5 seconds").alias("window"))
    second = first.agg(F.count("*").alias("count")).groupBy(F.window("window", "10 seconds"))
    counted = second.agg(F.count("*").alias("count"), F.sum("count").alias("sum"))
    return counted.select(F.col("window").getField("start").cast("long").alias("start"), "count", "sum")


@case(
    SUITE,
    "agg -> agg -> agg, append mode",
    inputs=INT,
    steps=[{"in": list(range(38))}, {"in": list(range(30, 61))}],
)
def windows_three_times(read: Read) -> Any:
    first = timed(read, "0 seconds").groupBy(F.window("eventTime", "5 seconds").alias("window"))
    second = first.agg(F.count("*").alias("count")).groupBy(F.window(F.window_time("window"), "10 seconds"))
    third = second.agg(F.count("*").alias("count"), F.sum("count").alias("sum"))
    third = third.groupBy(F.window(F.window_time("window"), "20 seconds"))
    counted = third.agg(F.count("*").alias("count"), F.sum("sum").alias("sum"))
    return counted.select(start(), F.col("window.end").cast("long").alias("end"), "count", "sum")


@case(SUITE, "stream deduplication -> aggregation, append mode", inputs=INT, steps=[{"in": list(range(1, 16))}])
def dedup_before_windows(read: Read) -> Any:
    windows = (
        timed(read, "10 seconds").dropDuplicates(["value", "eventTime"]).groupBy(F.window("eventTime", "5 seconds"))
    )
    return windows.agg(F.count("*").alias("count"), F.sum("value").alias("sum")).select(start(), "count")


def _renamed(read: Read, name: str, number: int, delay: str) -> Any:
    rows = read(name).withColumnRenamed("value", f"value{number}")
    rows = rows.withColumn(f"eventTime{number}", F.timestamp_seconds(f"value{number}"))
    return rows.withWatermark(f"eventTime{number}", delay)


def _windows_of_joined(read: Read) -> Any:
    left, right = _renamed(read, "one", 1, "0 seconds"), _renamed(read, "two", 2, "0 seconds")
    windows = left.join(right, F.expr("eventTime1 = eventTime2"), "inner").groupBy(F.window("eventTime1", "5 seconds"))
    return windows.agg(F.count("*").alias("count")).select(start(), "count")


@case(
    SUITE,
    "join -> window agg, append mode",
    inputs=TWO,
    steps=[{"one": [1, 2, 3, 4], "two": [1, 2, 3, 4]}, {"one": [5], "two": [5]}],
)
def join_before_windows(read: Read) -> Any:
    return _windows_of_joined(read)


@case(
    SUITE,
    "stream-stream inner join -> window agg, update mode",
    inputs=TWO,
    steps=[
        {"one": [1, 2], "two": [1, 2]},
        {"one": [3, 4], "two": [3, 4]},
        {"one": [5, 6, 7, 8], "two": [5, 6, 7, 8]},
    ],
    mode="update",
    keys=("start",),
)
def join_before_windows_as_updates(read: Read) -> Any:
    return _windows_of_joined(read)


DEDUPED = "aggregation -> stream deduplication, append mode"


def _counted(read: Read) -> Any:
    windows = timed(read, "0 seconds").groupBy(F.window("eventTime", "5 seconds").alias("window"))
    return windows.agg(F.count("*").alias("count")).withColumn("windowEnd", F.expr("window.end"))


@case(SUITE, DEDUPED, inputs=INT, steps=[{"in": [1, 5, 10, 15]}])
def windows_before_dedup(read: Read) -> Any:
    rows = _counted(read).dropDuplicates(["count", "windowEnd"])
    return rows.select(F.col("windowEnd").cast("long").alias("end"), "count")


@case(SUITE, DEDUPED, inputs=INT, steps=[{"in": [1, 5, 10, 15]}])
def windows_before_dedup_by_time(read: Read) -> Any:
    rows = _counted(read).withColumn("windowTime", F.expr("window_time(window)"))
    rows = rows.withColumn("windowTimeMicros", F.expr("unix_micros(windowTime)"))
    rows = rows.dropDuplicates(["count", "windowEnd", "windowTime"])
    return rows.select(F.col("windowEnd").cast("long").alias("end"), "windowTimeMicros", "count")


@case(
    SUITE,
    "join with range join on non-time intervals -> window agg, append mode, shouldn't fail",
    inputs={"one": "value int", "two": "start int, end int"},
    steps=[{"one": [1, 2, 3, 4], "two": [(1, 2), (2, 3), (3, 4), (4, 5)]}, {"one": [9], "two": [(9, 10)]}],
)
def join_on_another_time_before_windows(read: Read) -> Any:
    left = read("one").withColumnRenamed("value", "value1").withColumn("eventTime1", F.timestamp_seconds("value1"))
    left = left.withColumn("v1", F.timestamp_seconds("value1")).withWatermark("eventTime1", "0 seconds")
    right = read("two").withColumn("eventTime2Start", F.timestamp_seconds("start"))
    right = right.withColumn("start2", F.timestamp_seconds("start")).withColumn("end2", F.timestamp_seconds("end"))
    right = right.withWatermark("eventTime2Start", "0 seconds")
    joined = left.join(right, F.expr("v1 >= start2 AND v1 < end2 AND eventTime1 = start2"), "inner")
    counted = joined.groupBy(F.window("eventTime1", "5 seconds").alias("window")).agg(F.count("*").alias("count"))
    return counted.select(start(), "count")


def _hours(read: Read, how: str, time: str) -> Any:
    left = read("one").toDF("id1", "timestamp1").withWatermark("timestamp1", "0 seconds").alias("s1")
    right = read("two").toDF("id2", "timestamp2").withWatermark("timestamp2", "0 seconds").alias("s2")
    within = "s2.timestamp2 - INTERVAL 1 hour AND s2.timestamp2 + INTERVAL 1 hour"
    joined = left.join(right, F.expr(f"s1.id1 = s2.id2 AND (s1.timestamp1 BETWEEN {within})"), how)
    counted = joined.groupBy(F.window(time, "10 minutes")).agg(F.count("*").alias("cnt"))
    return counted.selectExpr(
        "CAST(window.start AS STRING) AS window_start", "CAST(window.end AS STRING) AS window_end", "cnt"
    )


def _hour_steps(many: str, few: str) -> list[dict[str, Any]]:
    def moment(clock: str) -> Any:
        return at(f"2023-01-01 {clock}")

    return [
        {many: [("1", moment("01:00:10")), ("2", moment("01:00:30"))], few: [("1", moment("01:00:20"))]},
        {many: [("5", moment("01:15:00"))], few: [("6", moment("01:15:00"))]},
        {many: [("5", moment("02:16:00"))], few: [("6", moment("02:16:00"))]},
    ]


TIMES = {"one": "id string, at timestamp", "two": "id string, at timestamp"}


@case(
    SUITE,
    "stream-stream time interval left outer join -> aggregation, append mode",
    inputs=TIMES,
    steps=_hour_steps("one", "two"),
)
def left_outer_join_before_windows(read: Read) -> Any:
    return _hours(read, "leftOuter", "timestamp1")


@case(
    SUITE,
    "stream-stream time interval right outer join -> aggregation, append mode",
    inputs=TIMES,
    steps=_hour_steps("two", "one"),
)
def right_outer_join_before_windows(read: Read) -> Any:
    return _hours(read, "rightOuter", "timestamp2")


LONGS = {"one": "value long", "two": "value long"}


@case(
    SUITE,
    "SPARK-49829 time window agg per each source followed by stream-stream join",
    inputs=LONGS,
    steps=[
        {"one": [1, 2, 3, 4, 5], "two": [5, 6, 7, 8, 9]},
        {"one": [11, 12, 13, 14, 15], "two": [15, 16, 17, 18, 19]},
        {"one": [100], "two": [101]},
    ],
)
def windows_before_join(read: Read) -> Any:
    sides = []
    for number, name in enumerate(("one", "two"), 1):
        rows = read(name).selectExpr("value", "timestamp_seconds(value) AS ts").withWatermark("ts", "5 seconds")
        sides.append(rows.groupBy(F.window("ts", "10 seconds")).agg(F.sum("value").alias(f"sum_df{number}")))
    joined = sides[0].join(sides[1], "window", "inner")
    return joined.selectExpr("CAST(window.end AS long) AS window_end", "sum_df1", "sum_df2")


@case(
    SUITE,
    "dedup on both sides -> stream-stream inner join",
    modes=("append", "update"),
    inputs=TWO,
    steps=[{"one": [1, 2, 3, 1], "two": [1, 2, 3, 2]}, {"one": [1, 2, 4], "two": [2, 3, 4]}],
    history=2,
)
def dedup_before_join(read: Read) -> Any:
    sides = []
    for number, name in enumerate(("one", "two"), 1):
        rows = read(name).select(
            F.col("value").alias(f"value{number}"), F.timestamp_seconds("value").alias(f"eventTime{number}")
        )
        rows = rows.withWatermark(f"eventTime{number}", "10 seconds")
        sides.append(rows.dropDuplicates([f"value{number}", f"eventTime{number}"]))
    return sides[0].join(sides[1], F.expr("eventTime1 = eventTime2"), "inner").select("value1", "value2")
