"""Outer joins: StreamingOuterJoinSuite, StreamingFullOuterJoinSuite."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from pyspark.sql import functions as F

from ..case import RESTART, Read, case
from .joins import (
    INTS,
    ON_LEFT,
    ON_RIGHT,
    PAIRS,
    RANGE,
    SELF,
    WINDOWS,
    WINDOWS_RESTARTED,
    end,
    keyed,
    on_windows,
    on_windows_if,
    ranged,
    self_joined,
    timed,
    windowed,
)

OUTER, FULL = "StreamingOuterJoinSuite", "StreamingFullOuterJoinSuite"
TEXTS = "_1 timestamp, _2 string, _3 string"
NO_UPDATE = {"inputs": INTS, "steps": [{"left": [1]}], "mode": "update", "refused": "is not supported in update"}
WAITING = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def _unlimited(read: Read, how: str) -> Any:
    return keyed(read("left"), "left", 2).join(keyed(read("right"), "right", 3), ["key"], how)


@case(OUTER, "stream-stream left_outer join does not support Update mode", **NO_UPDATE)
def left_outer_as_updates(read: Read) -> Any:
    return _unlimited(read, "left_outer")


@case(OUTER, "stream-stream right_outer join does not support Update mode", **NO_UPDATE)
def right_outer_as_updates(read: Read) -> Any:
    return _unlimited(read, "right_outer")


@case(FULL, "stream-stream full outer join does not support Update mode", **NO_UPDATE)
def full_outer_as_updates(read: Read) -> Any:
    return _unlimited(read, "full_outer")


@case(OUTER, "left outer early state exclusion on left", inputs=INTS, steps=[*ON_LEFT[:2], RESTART, ON_LEFT[2]])
def left_outer_with_a_condition_on_the_left(read: Read) -> Any:
    return on_windows_if(read, "left_outer", 4, None)


@case(OUTER, "left outer early state exclusion on right", inputs=INTS, steps=ON_RIGHT)
def left_outer_with_a_condition_on_the_right(read: Read) -> Any:
    return on_windows_if(read, "left_outer", None, 7)


@case(OUTER, "right outer early state exclusion on left", inputs=INTS, steps=ON_LEFT)
def right_outer_with_a_condition_on_the_left(read: Read) -> Any:
    return on_windows_if(read, "right_outer", 4, None)


@case(OUTER, "right outer early state exclusion on right", inputs=INTS, steps=ON_RIGHT)
def right_outer_with_a_condition_on_the_right(read: Read) -> Any:
    return on_windows_if(read, "right_outer", None, 7)


@case(FULL, "full outer early state exclusion on left", inputs=INTS, steps=ON_LEFT)
def full_outer_with_a_condition_on_the_left(read: Read) -> Any:
    return on_windows_if(read, "full_outer", 4, None)


@case(FULL, "full outer early state exclusion on right", inputs=INTS, steps=ON_RIGHT)
def full_outer_with_a_condition_on_the_right(read: Read) -> Any:
    return on_windows_if(read, "full_outer", None, 7)


@case(OUTER, "windowed left outer join", inputs=INTS, steps=WINDOWS)
def left_outer_on_windows(read: Read) -> Any:
    return on_windows(read, "left_outer")


@case(OUTER, "windowed right outer join", inputs=INTS, steps=WINDOWS)
def right_outer_on_windows(read: Read) -> Any:
    return on_windows(read, "right_outer")


@case(FULL, "windowed full outer join", inputs=INTS, steps=WINDOWS_RESTARTED)
def full_outer_on_windows(read: Read) -> Any:
    return on_windows(read, "full_outer")


NEAR = [
    {"left": [(1, 5), (3, 5)]},
    {"right": [(1, 10), (2, 5)]},
    {"right": [(1, 11)]},
    {"left": [(1, 7), (1, 30)]},
    {"right": [(0, 30)]},
]
FAR = [
    {"left": [(1, 210), (3, 5)]},
    {"right": [(1, 300), (2, 5)]},
    {"right": [(1, 450)]},
    {"left": [(1, 260), (1, 1800)]},
    {"right": [(0, 1800)]},
]
OF_LEFT, OF_RIGHT = (f"{side} outer with watermark range condition" for side in ("left", "right"))


@case(OUTER, OF_LEFT, inputs=PAIRS, steps=NEAR, history=2)
def left_outer_with_time_bounds(read: Read) -> Any:
    return ranged(read, "left_outer")


@case(OUTER, OF_LEFT, inputs=PAIRS, steps=FAR, history=2)
def left_outer_with_bounds_of_minutes(read: Read) -> Any:
    return ranged(read, "left_outer", "10 minutes", "interval 3 minutes 30 seconds")


@case(OUTER, OF_LEFT, inputs=PAIRS, steps=FAR, history=2)
def left_outer_with_bounds_as_ansi_intervals(read: Read) -> Any:
    return ranged(read, "left_outer", "10 minutes", "interval '3:30' minute to second")


@case(OUTER, OF_RIGHT, inputs=PAIRS, steps=NEAR, history=2)
def right_outer_with_time_bounds(read: Read) -> Any:
    return ranged(read, "right_outer")


@case(OUTER, OF_RIGHT, inputs=PAIRS, steps=FAR, history=2)
def right_outer_with_bounds_of_minutes(read: Read) -> Any:
    return ranged(read, "right_outer", "10 minutes", "interval 3 minutes 30 seconds")


@case(OUTER, OF_RIGHT, inputs=PAIRS, steps=FAR, history=2)
def right_outer_with_bounds_as_ansi_intervals(read: Read) -> Any:
    return ranged(read, "right_outer", "10 minutes", "interval '3:30' minute to second")


@case(FULL, "full outer join with watermark range condition", inputs=PAIRS, steps=RANGE, history=2)
def full_outer_with_time_bounds(read: Read) -> Any:
    return ranged(read, "full_outer")


@case(
    OUTER,
    "left outer join with non-key condition violated",
    inputs=INTS,
    steps=[
        {"left": [1, 2, 3], "right": [1, 2, 3]},
        {"left": [20], "right": [21]},
        {"right": [20]},
        {"left": [40, 41], "right": [40, 41]},
        {"left": [70], "right": [71]},
        {"right": [70]},
        {"left": [101, 102, 103], "right": [101, 102, 103]},
        {"left": [1000], "right": [1001]},
    ],
)
def left_outer_with_a_condition_that_fails(read: Read) -> Any:
    left, right = windowed(read("left"), "left", 2), windowed(read("right"), "right", 3)
    condition = (left["key"] == right["key"]) & (left["window"] == right["window"]) & (F.col("leftValue") > 10)
    condition = condition & ((F.col("rightValue") < 300) | (F.col("rightValue") > 1000))
    return left.join(right, condition, "left_outer").select(left["key"], end(left), "leftValue", "rightValue")


@case(
    OUTER,
    "SPARK-26187 self left outer join should not return outer nulls for already matched rows",
    **SELF,
    history=2,
)
def left_outer_with_itself(read: Read) -> Any:
    return self_joined(read, "left_outer")


@case(
    OUTER,
    "SPARK-26187 self right outer join should not return outer nulls for already matched rows",
    **SELF,
    history=2,
)
def right_outer_with_itself(read: Read) -> Any:
    rows = read("in").select(F.col("_1").alias("value"), F.timestamp_seconds("_2").alias("timestamp"))
    left = rows.where(F.col("value") % 2 == 0)
    left = left.select(F.col("value").alias("leftId"), F.col("timestamp").alias("leftTime"))
    right = rows.select(F.col("value").alias("rightId"), F.col("timestamp").alias("rightTime"))
    return (
        left.withWatermark("leftTime", "5 seconds")
        .join(
            right.withWatermark("rightTime", "5 seconds"),
            F.expr("leftId = rightId AND leftTime >= rightTime AND leftTime <= rightTime + interval 5 seconds"),
            "rightOuter",
        )
        .select(
            "leftId",
            F.col("leftTime").cast("int").alias("leftTime"),
            "rightId",
            F.col("rightTime").cast("int").alias("rightTime"),
        )
    )


@case(FULL, "self full outer join", **SELF, history=2)
def full_outer_with_itself(read: Read) -> Any:
    return self_joined(read, "full_outer")


@case(
    OUTER,
    "SPARK-29438: ensure UNION doesn't lead stream-stream join to use shifted partition IDs",
    inputs={**INTS, "more": "value int"},
    steps=[
        {"more": [11, 12, 13], "left": [11, 12, 13, 14, 15], "right": [13, 14, 15, 16, 17]},
        RESTART,
        {"more": [21, 22, 23], "left": [21, 22, 23, 24, 25], "right": [23, 24, 25, 26, 27]},
    ],
)
def union_with_a_join(read: Read) -> Any:
    more = read("more").select(
        F.col("value").alias("key"), F.col("value").alias("leftValue"), F.col("value").alias("rightValue")
    )
    left, right = timed(read("left"), "left", 2), timed(read("right"), "right", 3)
    joined = left.join(right, (left["key"] == right["key"]) & (left["leftTime"] == right["rightTime"]), "inner")
    return more.union(joined.select(left["key"], "leftValue", "rightValue"))


def _half_a_minute(read: Read, left_delay: str, right_delay: str) -> Any:
    left = read("left").selectExpr("_1 as eventTime", "_2 as id", "_3 as comment")
    right = read("right").selectExpr("_1 as eventTime", "_2 as id", "_3 as name")
    joined = (
        left.withWatermark("eventTime", left_delay)
        .alias("left")
        .join(
            right.withWatermark("eventTime", right_delay).alias("right"),
            F.expr(
                "left.id = right.id AND left.eventTime BETWEEN"
                " right.eventTime - INTERVAL 30 seconds AND right.eventTime + INTERVAL 30 seconds"
            ),
            "leftOuter",
        )
    )
    return joined.selectExpr(
        "left.eventTime AS t1", "left.id AS id1", "comment", "right.eventTime AS t2", "right.id AS id2", "name"
    )


@case(
    OUTER,
    "SPARK-32148 stream-stream join regression on Spark 3.0.0",
    inputs={"left": TEXTS, "right": TEXTS},
    steps=[
        {
            "left": [
                (at("2020-01-01 00:00:00"), "abc", "has no join partner"),
                (at("2020-01-02 00:00:00"), "abc", "joined with A"),
                (at("2020-01-02 01:00:00"), "abc", "joined with B"),
            ],
            "right": [
                (at("2020-01-02 00:00:10"), "abc", "A"),
                (at("2020-01-02 00:59:59"), "abc", "B"),
                (at("2020-01-02 02:00:00"), "abc", "C"),
            ],
        }
    ],
)
def left_outer_of_named_sides(read: Read) -> Any:
    return _half_a_minute(read, "2 minutes", "4 minutes")


@case(
    OUTER,
    "SPARK-38684: outer join works correctly even if processing input rows and evicting state rows for same grouping"
    " key happens in the same micro-batch",
    inputs={"left": TEXTS, "right": TEXTS},
    session=WAITING,
    steps=[
        {
            "left": [(at("2020-01-02 00:00:00"), "abc", "left in batch 1")],
            "right": [(at("2020-01-02 00:01:00"), "abc", "right in batch 1")],
        },
        {
            "left": [(at("2020-01-02 01:00:00"), "abc", "left in batch 2")],
            "right": [(at("2020-01-02 01:01:00"), "abc", "right in batch 2")],
        },
        {"left": [(at("2020-01-02 01:30:00"), "abc", "left in batch 3")]},
        {"right": [(at("2020-01-02 01:30:10"), "abc", "match with left in batch 3")]},
    ],
)
def left_outer_that_evicts_beside_rows(read: Read) -> Any:
    return _half_a_minute(read, "0 seconds", "0 seconds")


def _null_safe(read: Read) -> Any:
    left = read("left").selectExpr(
        "_1 as leftKey1", "_2 as leftKey2", "timestamp_seconds(_2) as leftTime", "_2 * 2 as leftValue"
    )
    right = read("right").selectExpr(
        "_1 as rightKey1", "_2 as rightKey2", "timestamp_seconds(_2) as rightTime", "_2 * 3 as rightValue"
    )
    left = left.withWatermark("leftTime", "10 seconds").select(
        "leftKey1", "leftKey2", F.window("leftTime", "10 seconds").alias("leftWindow"), "leftValue"
    )
    right = right.withWatermark("rightTime", "10 seconds").select(
        "rightKey1", "rightKey2", F.window("rightTime", "10 seconds").alias("rightWindow"), "rightValue"
    )
    condition = "leftKey1 <=> rightKey1 AND leftKey2 = rightKey2 AND leftWindow = rightWindow"
    return left.join(right, F.expr(condition), "left_outer").select(
        "leftKey1",
        "rightKey1",
        "leftKey2",
        "rightKey2",
        F.col("leftWindow.end").cast("long").alias("end"),
        "leftValue",
        "rightValue",
    )


@case(
    OUTER,
    "left-outer: joining non-nullable left join key with nullable right join key",
    inputs=PAIRS,
    steps=[
        {"left": [(1, n) for n in range(1, 6)], "right": [(1, n) for n in range(3, 7)]},
        {"left": [(1, 21)], "right": [(1, 22)]},
    ],
)
def left_outer_with_null_keys_on_the_right(read: Read) -> Any:
    return _null_safe(read)


@case(
    OUTER,
    "left-outer: joining nullable left join key with non-nullable right join key",
    inputs=PAIRS,
    steps=[
        {"left": [(1, 1), (None, 2), (1, 3), (1, 4), (1, 5)], "right": [(1, n) for n in range(3, 7)]},
        {"left": [(1, 21)], "right": [(1, 22)]},
    ],
)
def left_outer_with_null_keys_on_the_left(read: Read) -> Any:
    return _null_safe(read)


@case(
    OUTER,
    "left-outer: joining nullable left join key with nullable right join key",
    inputs=PAIRS,
    steps=[
        {"left": [(1, 1), (None, 2), (1, 3), (None, 4), (1, 5)], "right": [(1, 3), (None, 4), (1, 5), (1, 6)]},
        {"left": [(1, 21)], "right": [(1, 22)]},
    ],
)
def left_outer_with_null_keys_on_both_sides(read: Read) -> Any:
    return _null_safe(read)


@case(
    OUTER,
    "SPARK-49829 left-outer join, input being unmatched is between WM for late event and WM for eviction",
    inputs={"left": "_1 string, _2 int", "right": "_1 string, _2 int"},
    session=WAITING,
    steps=[{"left": [("a", 1), ("b", 2)], "right": [("b", 2), ("c", 1)]}, {"left": [("d", 1)]}],
)
def left_outer_of_a_row_between_the_bounds(read: Read) -> Any:
    left, right = (
        read(name).selectExpr("_1 AS key", "timestamp_seconds(_2) AS eventTime").withWatermark("eventTime", "0 seconds")
        for name in ("left", "right")
    )
    joined = left.join(right, ["key", "eventTime"], "leftOuter")
    return joined.selectExpr("key", "CAST(eventTime AS long) AS eventTime")
