"""Results of queries: StreamingQuerySuite."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from ..case import RESTART, Read, case
from .aggregates import INT, UPDATE

QUERY = "StreamingQuerySuite"
PAIR = {"in": "_1 int, _2 int"}


@case(
    QUERY,
    "SPARK-22238: don't check for RDD partitions during streaming aggregation preparation",
    inputs=PAIR,
    steps=[{"in": [(1, 1), (2, 4)]}],
    mode="complete",
)
def sums_behind_a_static_join(read: Read) -> Any:
    from pyspark.sql import SparkSession

    static = SparkSession.active().createDataFrame([(1, "A"), (2, "b")], "num int, char string").where("char = 'A'")
    joined = read("in").toDF("num", "numSq").join(F.broadcast(static), "num")
    return joined.groupBy("char").agg(F.sum("numSq").alias("total"))


@case(
    QUERY,
    "input row calculation with same V2 source used twice in self-union",
    inputs=INT,
    named=False,
    steps=[{"in": [1]}],
)
def union_with_itself(read: Read) -> Any:
    rows = read("in")
    return rows.union(rows)


@case(
    QUERY,
    "input row calculation with same V2 source used twice in self-join",
    inputs=INT,
    steps=[{"in": [1, 2]}, {"in": [3, 2]}],
)
def join_with_itself(read: Read) -> Any:
    rows = read("in").select(F.col("value").alias("v"))
    return rows.join(rows, "v")


@case(
    QUERY,
    "input row calculation with trigger having data for only one of two V2 sources",
    inputs={"one": "value int", "two": "value int"},
    steps=[{"one": [1, 2, 3]}, {"two": [4, 5]}],
)
def union_of_two(read: Read) -> Any:
    return read("one").union(read("two"))


@case(
    QUERY,
    "input row calculation with mixed batch and streaming V2 sources",
    inputs=INT,
    steps=[{"in": [1, 2, 3]}, {"in": [4, 2]}],
)
def join_with_a_static_frame(read: Read) -> Any:
    from pyspark.sql import SparkSession

    static = SparkSession.active().createDataFrame([(n, str(n)) for n in range(1, 4)], "value int, anotherValue string")
    return read("in").join(static, "value")


@case(
    QUERY,
    "SPARK-49905 shuffle added by stateful operator should use the shuffle origin `REQUIRED_BY_STATEFUL_OPERATOR`",
    inputs=INT,
    steps=[{"in": [1, 2, 3, 1, 2, 3]}],
    **UPDATE,
)
def counts_of_one_micro_batch(read: Read) -> Any:
    return read("in").groupBy("value").count()


@case(
    QUERY,
    "SPARK-53942: changing the number of stateful shuffle partitions via config",
    inputs=INT,
    steps=[{"in": [1, 2, 3]}, RESTART, {"in": [4, 5, 1]}],
    **UPDATE,
)
def counts_over_a_restart(read: Read) -> Any:
    return read("in").groupBy("value").count()


@case(
    QUERY,
    "SPARK-32456: distinct in streaming query of complete mode",
    inputs=INT,
    steps=[{"in": [1, 2, 3, 3, 4]}],
    mode="complete",
)
def complete_distinct(read: Read) -> Any:
    read("in").createOrReplaceTempView("deduptest")
    return _sql("select distinct value from deduptest")


@case(
    QUERY,
    "SPARK-32456: distinct in streaming query of append mode without watermark",
    inputs=INT,
    steps=[{"in": [1]}],
    refused="not supported",
)
def appended_distinct(read: Read) -> Any:
    read("in").createOrReplaceTempView("deduptest")
    return _sql("select distinct value from deduptest")


@case(
    QUERY,
    "SPARK-32456: SQL union in streaming query of append mode without watermark",
    inputs={"one": "value int", "two": "value int"},
    steps=[{"one": [1], "two": [1]}],
    refused="not supported",
)
def appended_union_in_sql(read: Read) -> Any:
    read("one").createOrReplaceTempView("s1")
    read("two").createOrReplaceTempView("s2")
    return _sql("select s1.value from s1 union select s2.value from s2")


def _collated(read: Read) -> Any:
    return read("in").select(F.expr("cast(key AS STRING COLLATE UTF8_LCASE)").alias("key"), "value")


LETTERS = {
    "inputs": {"in": "key string, value int"},
    "steps": [{"in": [("aaa", 1), ("AAA", 2), ("bbb", 3), ("aa", 4)]}],
}


@case(QUERY, "Collation aware streaming", **LETTERS)
def filter_of_another_collation(read: Read) -> Any:
    return _collated(read).filter("key = 'aaa'").select(F.expr("cast(key AS STRING)").alias("key"), "value")


@case(
    QUERY,
    "SPARK-47776: streaming aggregation having binary inequality column in the grouping key must be disallowed",
    **LETTERS,
    mode="update",
    refused="BINARY_INEQUALITY",
)
def counts_by_another_collation(read: Read) -> Any:
    return _collated(read).groupBy("key").count()


@case(
    QUERY,
    "limit on empty batch should not cause state store error",
    inputs=INT,
    steps=[{}, {"in": [10]}, {"in": [10]}],
)
def first_row(read: Read) -> Any:
    return read("in").limit(1)


@case(
    QUERY,
    "SPARK-46062: streaming query reading from CTE, which refers to temp view from streaming source",
    inputs=INT,
    steps=[{"in": [1, 2, 3]}],
)
def common_table_expression(read: Read) -> Any:
    read("in").createOrReplaceTempView("tv")
    return _sql("WITH w as (SELECT * FROM tv) SELECT value from w")


def _sql(text: str) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.active().sql(text)
