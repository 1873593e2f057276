"""What Spark's optimizer must not change: StreamingQueryOptimizationCorrectnessSuite; unions of a stream with itself:
StreamingSelfUnionSuite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as F

from ..case import CASES, RESTART, Case, Read, Restart, case

SUITE, SELF_UNION = "StreamingQueryOptimizationCorrectnessSuite", "StreamingSelfUnionSuite"
INT, TWO = {"in": "value int"}, {"one": "value int", "two": "value int"}
EACH = [{"one": [1]}, {"two": [1]}]


def _named(read: Read, source: str, name: Any) -> Any:
    """The rows of a source with a name of their own."""
    return read(source).withColumn("name", F.lit(name)).withColumn("count", F.col("value")).select("name", "count")


def _both(read: Read, one: Any = "ds1", other: Any = "ds2") -> Any:
    return _named(read, "one", one).union(_named(read, "two", other))


@case(SUITE, "streaming Union with literal produces correct results", inputs=TWO, steps=EACH, mode="complete")
def counts_by_a_literal(read: Read) -> Any:
    return _both(read).groupBy("name").count()


TIMES = {"in": "value long"}
DAY = 86_400


def _by_literal(name: str, *, watermark: str) -> Callable[[Read], Any]:
    """Counts by a literal; the watermark is declared before or after it, or not at all."""

    def query(read: Read) -> Any:
        rows = read("in").withColumn("ts", F.timestamp_seconds("value"))
        if watermark == "before":
            rows = rows.withWatermark("ts", "1 minutes")
        rows = rows.withColumn("name", F.lit(name))
        if watermark == "after":
            rows = rows.withWatermark("ts", "1 minutes")
        return rows.select("name", "ts").groupBy("name").count()

    return query


for _watermark, _test in (
    ("after", " and watermark after literal column"),
    ("before", " and watermark before literal column"),
    ("none", ""),
):
    CASES.append(
        Case(
            f"another_literal_with_watermark_{_watermark}",
            ((SUITE, f"streaming aggregate with literal{_test} produces correct results on query change"),),
            _by_literal("ds1", watermark=_watermark),
            TIMES,
            [
                {"in": [DAY]},
                Restart(_by_literal("ds2", watermark=_watermark)),
                {"in": [2 * DAY]},
                {"in": [3 * DAY]},
            ],
            "complete",
        )
    )


def _timed_join(days: tuple[int, int], counts: tuple[int, int]) -> Callable[[Read], Any]:
    """A full outer join by a literal event time, a day apart."""

    def query(read: Read) -> Any:
        one, two = (
            read(source)
            .withColumn("name", F.lit(day * DAY).cast("timestamp"))
            .withWatermark("name", "1 minutes")
            .withColumn(f"count{place}", F.lit(count))
            for place, (source, day, count) in enumerate(zip(("one", "two"), days, counts, strict=True), start=1)
        )
        return one.join(two, "name", "full").select("name", "count1", "count2")

    return query


FOUR = [{"one": [1]}, {"two": [1]}, {"one": [2]}, {"two": [2]}]
CASES.append(
    Case(
        "join_by_a_literal_time",
        ((SUITE, "stream stream join with literal produces correct results"),),
        _timed_join((1, 2), (1, 2)),
        TWO,
        [*FOUR, Restart(_timed_join((32, 33), (3, 4))), *FOUR],
        history=2,
    )
)


@case(
    SUITE,
    "streaming SQL distinct usage with literal grouping key produces correct results",
    inputs=TWO,
    steps=EACH,
    mode="complete",
)
def distinct_literals(read: Read) -> Any:
    from pyspark.sql import SparkSession

    _both(read).createOrReplaceTempView("literals")
    return SparkSession.active().sql("SELECT DISTINCT name FROM literals")


@case(
    SUITE,
    "streaming window aggregation with literal time column key produces correct results",
    inputs=TWO,
    steps=EACH,
    mode="complete",
)
def windows_of_a_literal_time(read: Read) -> Any:
    rows = _both(read, DAY, 2 * DAY).withColumn("name", F.timestamp_seconds("name"))
    counts = rows.groupBy(F.window("name", "1 second", "1 second").alias("window")).count()
    return counts.select(F.col("window.start").cast("long").alias("start"), "count")


def _join(keys: tuple[Any, Any], values: tuple[int, int]) -> Callable[[Read], Any]:
    def query(read: Read) -> Any:
        one = read("one").withColumn("key", keys[0]).withColumn("leftValue", F.lit(values[0]))
        two = read("two").withColumn("key", keys[1]).withColumn("rightValue", F.lit(values[1]))
        one, two = one.select("key", "leftValue"), two.select("key", "rightValue")
        return one.join(two, "key").select("key", "leftValue", "rightValue")

    return query


def _of_literals(one: str, other: str, *values: int) -> Callable[[Read], Any]:
    def query(read: Read) -> Any:
        return _join((F.lit(one), F.lit(other)), (values[0], values[1]))(read)

    return query


@case(SUITE, "stream stream join with literals produces correct value", inputs=TWO, steps=EACH)
def join_with_literal_values(read: Read) -> Any:
    return _join((F.col("value"), F.col("value")), (1, 2))(read)


@case(
    SUITE,
    "stream stream join with literals produces correct value on query change",
    inputs=TWO,
    # One source at a time, which is a run of its own here; of empty files Spark's optimizer sees that nothing joins.
    steps=[EACH[0], RESTART, EACH[1], Restart(_of_literals("key2", "key1", 3, 4)), EACH[0], RESTART, EACH[1]],
    empty_files=False,
)
def join_by_other_literals(read: Read) -> Any:
    return _of_literals("key1", "key2", 1, 2)(read)


@case(
    SUITE,
    "SPARK-48267: regression test, stream-stream union followed by stream-batch join",
    inputs=TWO,
    steps=[{"one": [1, 2, 3]}, {"two": [1, 2, 3]}],
)
def static_join_behind_a_union_with_nulls(read: Read) -> Any:
    from pyspark.sql import SparkSession

    static = SparkSession.active().range(1, 5).select(F.col("id").alias("ref_code"))
    rows = read("one").withColumn("code", F.lit(1)).union(read("two").withColumn("code", F.lit(None).cast("int")))
    return rows.join(static, F.expr("code = ref_code")).select("value")


@case(
    SUITE,
    "SPARK-48481: DISTINCT with empty stream source should retain AGGREGATE",
    inputs=TWO,
    steps=[{"one": [1, 1, 2], "two": [1, 1, 2]}, {"two": [2, 2, 3]}, {"one": [4, 4, 5]}],
    mode="update",
    session={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
)
def union_of_distinct_rows(read: Read) -> Any:
    from pyspark.sql import SparkSession

    read("one").createOrReplaceTempView("tv1")
    read("two").createOrReplaceTempView("tv2")
    return SparkSession.active().sql(
        "WITH u AS (SELECT DISTINCT value AS value FROM tv1), v AS (SELECT DISTINCT value AS value FROM tv2)"
        " SELECT value FROM u UNION ALL SELECT value FROM v"
    )


PRUNED = "SPARK-49699: {} node is not pruned out from PruneFilters"
ONE_TWO_THREE = {"inputs": INT, "steps": [{"in": [1, 2, 3]}], "may_be_empty": True}


@case(SUITE, PRUNED.format("observe"), **ONE_TWO_THREE)
def nothing_behind_what_is_observed(read: Read) -> Any:
    rows = read("in").withColumn("eventTime", F.timestamp_seconds("value"))
    return rows.observe("observation", F.count(F.lit(1)).alias("rows")).filter("false")


@case(SUITE, PRUNED.format("watermark"), **ONE_TWO_THREE)
def nothing_behind_a_watermark(read: Read) -> Any:
    rows = read("in").withColumn("eventTime", F.timestamp_seconds("value"))
    return rows.withWatermark("eventTime", "0 second").filter("false")


@case(SUITE, PRUNED.format("stateful operator"), **ONE_TWO_THREE, mode="complete")
def nothing_behind_counts(read: Read) -> Any:
    return read("in").groupBy("value").count().filter("false")


@case(
    SELF_UNION,
    "self-union, DSv1, read via DataStreamReader API",
    "self-union, DSv1, read via table API",
    "self-union, DSv2, read via DataStreamReader API",
    inputs=INT,
    named=False,
    steps=[{"in": [1, 2, 3]}],
)
def union_of_files_with_themselves(read: Read) -> Any:
    rows = read("in")
    return rows.union(rows)
