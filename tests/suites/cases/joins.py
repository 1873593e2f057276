"""Inner joins, StreamingInnerJoinSuite, and what the other joins have of them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from ..case import AT_THE_WATERMARK, RESTART, Read, case

INNER = "StreamingInnerJoinSuite"
BOTH = ("append", "update")
INTS = {"left": "value int", "right": "value int"}
PAIRS = {"left": "_1 int, _2 int", "right": "_1 int, _2 int"}


def keyed(rows: Any, side: str, factor: int) -> Any:
    return rows.select(F.col("value").alias("key"), (F.col("value") * factor).alias(f"{side}Value"))


def timed(rows: Any, side: str, factor: int, delay: str | None = "10 seconds") -> Any:
    frame = rows.select(
        F.col("value").alias("key"),
        F.timestamp_seconds("value").alias(f"{side}Time"),
        (F.col("value") * factor).alias(f"{side}Value"),
    )
    return frame if delay is None else frame.withWatermark(f"{side}Time", delay)


def windowed(rows: Any, side: str, factor: int, delay: str | None = "10 seconds") -> Any:
    return timed(rows, side, factor, delay).select("key", F.window(f"{side}Time", "10 seconds"), f"{side}Value")


def end(frame: Any = None) -> Any:
    return (F.col("window.end") if frame is None else frame["window.end"]).cast("long").alias("end")


def ranged(read: Read, how: str, delay: str = "10 seconds", bound: str = "interval 5 seconds") -> Any:
    left = read("left").toDF("leftKey", "time")
    left = left.select("leftKey", F.timestamp_seconds("time").alias("leftTime")).withWatermark("leftTime", delay)
    right = read("right").toDF("rightKey", "time")
    right = right.select("rightKey", F.timestamp_seconds("time").alias("rightTime")).withWatermark("rightTime", delay)
    within = f"leftKey = rightKey AND leftTime BETWEEN rightTime - {bound} AND rightTime + {bound}"
    joined = left.join(right, F.expr(within), how)
    left_columns = ["leftKey", F.col("leftTime").cast("int").alias("leftTime")]
    if how == "left_semi":
        return joined.select(*left_columns)
    return joined.select(*left_columns, "rightKey", F.col("rightTime").cast("int").alias("rightTime"))


def self_joined(read: Read, how: str) -> Any:
    rows = read("in").select(F.col("_1").alias("value"), F.timestamp_seconds("_2").alias("timestamp"))
    left = rows.select(F.col("value").alias("leftId"), F.col("timestamp").alias("leftTime"))
    right = rows.where(F.col("value") % 2 == 0)
    right = right.select(F.col("value").alias("rightId"), F.col("timestamp").alias("rightTime"))
    joined = left.withWatermark("leftTime", "5 seconds").join(
        right.withWatermark("rightTime", "5 seconds"),
        F.expr("leftId = rightId AND rightTime >= leftTime AND rightTime <= leftTime + interval 5 seconds"),
        how,
    )
    left_columns = ["leftId", F.col("leftTime").cast("int").alias("leftTime")]
    if how == "left_semi":
        return joined.select(*left_columns)
    return joined.select(*left_columns, "rightId", F.col("rightTime").cast("int").alias("rightTime"))


def on_windows(read: Read, how: str) -> Any:
    joined = windowed(read("left"), "left", 2).join(windowed(read("right"), "right", 3), ["key", "window"], how)
    return joined.select("key", end(), "leftValue", *([] if how == "left_semi" else ["rightValue"]))


def on_windows_if(read: Read, how: str, left_limit: int | None, right_limit: int | None) -> Any:
    """A join on windows with a condition on one side's value."""
    left = windowed(read("left"), "left", 2)
    right = windowed(read("right"), "right", 3).select("key", "window", F.col("rightValue").cast("string"))
    condition = (left["key"] == right["key"]) & (left["window"] == right["window"])
    if left_limit is not None:
        condition = condition & (F.col("leftValue") > left_limit)
    if right_limit is not None:
        condition = condition & (F.col("rightValue").cast("int") > right_limit)
    joined = left.join(right, condition, how)
    of_left = [left["key"], end(left), F.col("leftValue")]
    of_right = [right["key"].alias("key2"), end(right).alias("end2"), F.col("rightValue")]
    if how == "left_semi":
        return joined.select(*of_left)
    if how == "left_outer":
        return joined.select(*of_left, F.col("rightValue"))
    if how == "right_outer":
        return joined.select(right["key"], end(right), F.col("leftValue"), F.col("rightValue"))
    return joined.select(*of_left, *of_right)


SELF_STEPS = [{"in": [(n, n) for n in range(first, first + 5)]} for first in (1, 6, 11)]
SELF = {"inputs": {"in": "_1 int, _2 long"}, "steps": SELF_STEPS}
ON_LEFT = [{"left": [1, 2, 3], "right": [3, 4, 5]}, {"left": [20], "right": [21]}, {"right": [20]}]
ON_RIGHT = [{"left": [3, 4, 5], "right": [1, 2, 3]}, {"left": [20], "right": [21]}, {"right": [20]}]
WINDOWS = [{"left": [1, 2, 3, 4, 5], "right": [3, 4, 5, 6, 7]}, {"left": [21], "right": [22]}, {"left": [22]}]
WINDOWS_RESTARTED = [
    WINDOWS[0],
    RESTART,
    WINDOWS[1],
    RESTART,
    WINDOWS[2],
    RESTART,
    {"left": [1]},
    {"right": [5]},
]
RANGE = [
    {"left": [(1, 5), (3, 5)]},
    {"right": [(1, 10), (2, 5)]},
    {"right": [(1, 9)]},
    {"left": [(1, 7), (1, 30)]},
    {"right": [(0, 30)]},
]


@case(
    INNER,
    "stream stream inner join on non-time column",
    modes=BOTH,
    inputs=INTS,
    history=2,
    steps=[
        {"left": [1]},
        {"right": [1, 10]},
        {"left": [10]},
        {"right": [1]},
        RESTART,
        {"left": [1]},
        RESTART,
        {"left": [100], "right": [100]},
    ],
)
def inner_on_a_number(read: Read) -> Any:
    return keyed(read("left"), "left", 2).join(keyed(read("right"), "right", 3), "key")


@case(
    INNER,
    "stream stream inner join on windows - without watermark",
    modes=BOTH,
    inputs=INTS,
    steps=[
        {"left": [1]},
        {"right": [1]},
        RESTART,
        {"left": [25]},
        RESTART,
        {"right": [25]},
        {"left": [1]},
        RESTART,
        {"left": [5]},
        {"right": [5]},
    ],
)
def inner_on_windows_without_watermark(read: Read) -> Any:
    left, right = windowed(read("left"), "left", 2, None), windowed(read("right"), "right", 3, None)
    return left.join(right, ["key", "window"]).select("key", end(), "leftValue", "rightValue")


@case(
    INNER,
    "stream stream inner join on windows - with watermark",
    modes=BOTH,
    inputs=INTS,
    steps=[
        {"left": [1]},
        {"right": [1]},
        RESTART,
        {"left": [25]},
        {"right": [25]},
        RESTART,
        {"right": [1]},
        {"left": [5]},
    ],
)
def inner_on_windows_with_watermark(read: Read) -> Any:
    left, right = windowed(read("left"), "left", 2), windowed(read("right"), "right", 3, None)
    return left.join(right, ["key", "window"]).select("key", end(), "leftValue", "rightValue")


@case(
    INNER,
    "stream stream inner join with time range - with watermark - one side condition",
    why=AT_THE_WATERMARK,
    modes=BOTH,
    inputs=PAIRS,
    history=2,
    steps=[
        {"left": [(1, 5)]},
        {"right": [(1, 11)]},
        {"right": [(1, 10)]},
        {"left": [(1, 3), (1, 30)]},
        {"right": [(0, 30)]},
        {"right": [(1, 20), (1, 21), (1, 28)]},
        {"left": [(1, 20), (1, 21)]},
    ],
)
def inner_with_a_time_bound_of_one_side(read: Read) -> Any:
    return _between(read, "leftTime < rightTime - interval 5 seconds", "10 seconds", "10 seconds")


@case(
    INNER,
    "stream stream inner join with time range - with watermark - two side conditions",
    why=AT_THE_WATERMARK,
    modes=BOTH,
    inputs=PAIRS,
    history=2,
    steps=[
        {"left": [(1, 20)]},
        {"right": [(1, 14), (1, 15), (1, 25), (1, 26), (1, 30), (1, 31)]},
        {"right": [(1, 60)]},
        {"left": [(1, 49), (1, 50), (1, 65), (1, 66)]},
        {"left": [(1, 30), (1, 31)]},
        {"right": [(1, 80)]},
        {"right": [(1, 46), (1, 50)]},
    ],
)
def inner_with_time_bounds_of_both_sides(read: Read) -> Any:
    within = "leftTime BETWEEN rightTime - interval 10 seconds AND rightTime + interval 5 seconds"
    return _between(read, within, "20 seconds", "30 seconds")


def _between(read: Read, condition: str, left_delay: str, right_delay: str) -> Any:
    left = read("left").toDF("leftKey", "time")
    left = left.select("leftKey", F.timestamp_seconds("time").alias("leftTime")).withWatermark("leftTime", left_delay)
    right = read("right").toDF("rightKey", "time")
    right = right.select("rightKey", F.timestamp_seconds("time").alias("rightTime"))
    right = right.withWatermark("rightTime", right_delay)
    return left.join(right, F.expr(f"leftKey = rightKey AND {condition}")).select(
        "leftKey", F.col("leftTime").cast("int").alias("leftTime"), F.col("rightTime").cast("int").alias("rightTime")
    )


@case(
    INNER,
    "stream stream inner join without equality predicate",
    inputs=INTS,
    steps=[{"left": [1]}],
    refused="without equality predicate is not supported",
)
def inner_without_an_equal_column(read: Read) -> Any:
    left = read("left").select(F.col("value").alias("leftKey"))
    return left.join(read("right").select(F.col("value").alias("rightKey")), F.expr("leftKey < rightKey"))


@case(
    INNER,
    "stream stream self join",
    modes=BOTH,
    inputs={"in": "value int"},
    steps=[{"in": [1, 2]}, RESTART, {"in": [3, 6]}],
)
def inner_with_itself(read: Read) -> Any:
    rows = read("in")
    left = rows.select((F.col("value") % 5).alias("key"), "value")
    return left.join(rows.select((F.col("value") % 5).alias("key"), F.col("value").alias("value2")), "key")


@case(
    INNER,
    "join between three streams",
    inputs={**INTS, "middle": "value int"},
    steps=[{"left": [1, 5], "middle": [1, 5, 10], "right": [5, 10]}],
)
def inner_of_three_streams(read: Read) -> Any:
    left = read("left").select(F.col("value").alias("leftKey"), (F.col("value") * 2).alias("leftValue"))
    middle = read("middle").select(F.col("value").alias("middleKey"), (F.col("value") * 3).alias("middleValue"))
    right = read("right").select(F.col("value").alias("rightKey"), (F.col("value") * 5).alias("rightValue"))
    return left.join(middle, F.expr("leftKey = middleKey")).join(right, F.expr("rightKey = middleKey"))


@case(
    INNER,
    "streaming join should require StatefulOpClusteredDistribution from children",
    inputs=INTS,
    steps=[{"left": list(range(1, 1001)), "right": list(range(1, 1001))}],
)
def inner_of_a_repartitioned_side(read: Read) -> Any:
    columns = [F.col("value").alias("a"), (F.col("value") * 2).alias("b")]
    right = read("right").select(*columns).repartition("b")
    return read("left").select(*columns).join(right, ["a", "b"]).select("a")


def _null_safe(read: Read) -> Any:
    left = read("left").selectExpr("value as leftKey", "value * 2 as leftValue")
    right = read("right").selectExpr("value as rightKey", "value * 3 as rightValue")
    return left.join(right, F.expr("leftKey <=> rightKey")).select("leftKey", "rightKey", "leftValue", "rightValue")


@case(
    INNER,
    "joining non-nullable left join key with nullable right join key",
    modes=BOTH,
    inputs=INTS,
    steps=[{"left": [1, 5], "right": [1, 5, 10, None]}],
)
def inner_with_null_keys_on_the_right(read: Read) -> Any:
    return _null_safe(read)


@case(
    INNER,
    "joining nullable left join key with non-nullable right join key",
    modes=BOTH,
    inputs=INTS,
    steps=[{"left": [1, 5, 10, None], "right": [1, 5]}],
)
def inner_with_null_keys_on_the_left(read: Read) -> Any:
    return _null_safe(read)


@case(
    INNER,
    "joining nullable left join key with nullable right join key",
    modes=BOTH,
    inputs=INTS,
    steps=[{"left": [1, 5, 10, None], "right": [1, 5, None]}],
)
def inner_with_null_keys_on_both_sides(read: Read) -> Any:
    return _null_safe(read)


@case(
    INNER,
    "SPARK-51779 Restart streaming join query with virtual column families",
    inputs=INTS,
    steps=[{"left": [1, 2]}, {"right": [1, 10]}, RESTART, {"left": [2, 10]}, {"right": [2]}],
)
def inner_restarted(read: Read) -> Any:
    return inner_on_a_number(read)


@case(
    INNER,
    "SPARK-51779 Restart the join query and changing state format versions should reuse the version from offset log",
    inputs=INTS,
    steps=[{"left": [1, 2]}, {"right": [1, 10]}, RESTART, {"left": [2, 10]}],
)
def inner_restarted_with_another_state_format(read: Read) -> Any:
    return inner_on_a_number(read)


@case(
    INNER,
    "SPARK-35896: metrics in StateOperatorProgress are output correctly",
    inputs=INTS,
    steps=[{"left": [1]}, {"right": [1]}, {"left": [25]}, {"right": [25]}],
)
def inner_on_windows_that_is_measured(read: Read) -> Any:
    return inner_on_windows_with_watermark(read)
