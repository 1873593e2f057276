"""Aggregates: StreamingAggregationSuite."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from ..case import RESTART, Read, case

SUITE = "StreamingAggregationSuite"
INT = {"in": "value int"}
#: In Spark each of these is run with both formats of its state.
UPDATE = {"mode": "update", "keys": ("value",)}
COUNTS = [{"in": [3]}, {"in": [3, 2]}, RESTART, {"in": [3, 2, 1]}, {"in": [4, 4, 4, 4]}]


def counts(read: Read) -> Any:
    return read("in").groupBy("value").agg(F.count("*").alias("count"))


@case(SUITE, "simple count, update mode", inputs=INT, steps=COUNTS, **UPDATE, history=2)
def counts_as_updates(read: Read) -> Any:
    return counts(read)


@case(
    SUITE,
    "simple count, complete mode",
    inputs=INT,
    steps=[{"in": [3]}, {"in": [2]}, RESTART, {"in": [3, 2, 1]}, {"in": [4, 4, 4, 4]}],
    mode="complete",
)
def complete_counts(read: Read) -> Any:
    return counts(read)


@case(SUITE, "simple count, append mode", inputs=INT, steps=[{"in": [3]}], refused="not supported")
def appended_counts(read: Read) -> Any:
    return counts(read)


@case(
    SUITE,
    "count distinct",
    inputs={"in": "_1 int, _2 array<int>"},
    steps=[{"in": [(1, [1, 2])]}],
    mode="update",
    keys=("_1",),
)
def distinct_values(read: Read) -> Any:
    rows = read("in").select("*", F.explode("_2").alias("value"))
    return rows.groupBy("_1").agg(F.size(F.collect_set("value")).alias("distinct"))


@case(
    SUITE,
    "sort after aggregate in complete mode",
    inputs=INT,
    steps=[{"in": [3]}, {"in": [2, 3]}, RESTART, {"in": [3, 2, 1]}, {"in": [4, 4, 4, 4]}],
    mode="complete",
    ordered=True,
)
def complete_counts_in_order(read: Read) -> Any:
    return counts(read).toDF("value", "count").orderBy(F.col("count").desc())


def _windows(read: Read) -> Any:
    rows = read("in").withColumn("eventTime", F.timestamp_seconds("value")).withWatermark("eventTime", "10 seconds")
    counted = rows.groupBy(F.window("eventTime", "5 seconds").alias("window")).agg(F.count("*").alias("count"))
    return counted.select(F.col("window.start").cast("long").alias("start"), "count")


@case(
    SUITE,
    "state metrics - append mode",
    inputs=INT,
    steps=[{"in": [15]}, {"in": [10, 12, 14]}, {"in": [25]}],
    history=2,
)
def windows_of_few_rows(read: Read) -> Any:
    return _windows(read)


def _doubled(read: Read) -> Any:
    rows = read("in").select(F.explode(F.array("value", F.col("value") + 1)).alias("value"))
    return rows.groupBy("value").agg(F.count("*").alias("count"))


MEASURED = "state metrics - update/complete mode"


@case(SUITE, MEASURED, inputs=INT, steps=[{"in": [1]}, {"in": [2, 3]}], **UPDATE)
def doubled_counts_as_updates(read: Read) -> Any:
    return _doubled(read)


@case(SUITE, MEASURED, inputs=INT, steps=[{"in": [1]}, {"in": [2, 3]}], mode="complete")
def complete_doubled_counts(read: Read) -> Any:
    return _doubled(read)


@case(
    SUITE,
    "multiple keys",
    inputs=INT,
    steps=[{"in": [1, 2]}, {"in": [1, 2]}],
    mode="update",
    keys=("value", "next"),
)
def counts_by_two_keys(read: Read) -> Any:
    return read("in").groupBy("value", (F.col("value") + 1).alias("next")).agg(F.count("*").alias("count"))


@case(
    SUITE,
    "SPARK-29438: ensure UNION doesn't lead streaming aggregation to use shifted partition IDs",
    inputs={"one": "value int", "two": "value int"},
    steps=[{"one": [11, 12], "two": [21, 22]}, RESTART, {"one": [13, 14], "two": [22, 23]}],
    mode="update",
    keys=("value",),
)
def counts_in_a_union(read: Read) -> Any:
    plain = read("one").select("value", (F.col("value") + 1).cast("long").alias("count"))
    return plain.union(read("two").groupBy("value").agg(F.count("*").alias("count")))


@case(
    SUITE,
    "SPARK-19690: do not convert batch aggregation in streaming query to streaming",
    inputs=INT,
    steps=[{"in": [0, 1, 2, 3]}, {"in": [0, 1, 2, 3]}],
)
def join_with_a_static_aggregate(read: Read) -> Any:
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    static = spark.createDataFrame([(n,) for n in range(1, 6)], "number int")
    static = static.withColumn("parity", F.col("number") % 2).groupBy("parity").agg(F.count("*").alias("joinValue"))
    return read("in").join(static, F.col("value") == F.col("parity"))


@case(
    SUITE,
    "SPARK-21977: coalesce(1) with 0 partition RDD should be repartitioned to 1",
    inputs=INT,
    steps=[{"in": [1]}, {}, {"in": [2, 3]}, {}],
    mode="complete",
)
def complete_count_of_one_partition(read: Read) -> Any:
    return read("in").coalesce(1).groupBy().count()


@case(
    SUITE,
    "SPARK-21977: coalesce(1) with aggregation should still be repartitioned when it has non-empty grouping keys",
    inputs=INT,
    steps=[{"in": [1]}, RESTART, {"in": [2, 3, 4]}, {}],
    mode="complete",
)
def complete_counts_of_one_partition(read: Read) -> Any:
    return read("in").coalesce(1).groupBy((F.col("value") % 1).alias("key")).count()


@case(
    SUITE,
    "SPARK-22230: last should change with new batches",
    inputs=INT,
    steps=[{"in": [1, 2, 3]}, {"in": [4, 5, 6]}, {}, {"in": [0]}],
    mode="complete",
    history=2,
)
def complete_last(read: Read) -> Any:
    return read("in").agg(F.last("value").alias("last"))


@case(
    SUITE,
    "SPARK-23004: Ensure that TypedImperativeAggregate functions do not throw errors",
    inputs=INT,
    steps=[{"in": list(range(1, 129))}],
    mode="update",
    keys=("group",),
)
def lists_of_many_groups(read: Read) -> Any:
    return read("in").selectExpr("value as group", "value").groupBy("group").agg(F.collect_list("value").alias("all"))


PROGRESS = "SPARK-35896: metrics in StateOperatorProgress are output correctly"


@case(SUITE, PROGRESS, inputs=INT, steps=[{"in": [3, 2, 1, 3]}, {"in": [1, 4]}], **UPDATE)
def counts_that_are_measured(read: Read) -> Any:
    return counts(read)


@case(SUITE, PROGRESS, inputs=INT, steps=[{"in": [3, 2, 1, 3]}, {"in": [1, 4]}], mode="complete")
def complete_counts_that_are_measured(read: Read) -> Any:
    return counts(read)


@case(SUITE, PROGRESS, inputs=INT, steps=[{"in": [3, 2, 1, 9]}, {"in": [25]}])
def windows_with_measured_state(read: Read) -> Any:
    return _windows(read)
