"""A stage stays in the shards of the one before it if its key contains that one's: seen by what columns are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mixedmode import read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.runtime.spec import StageSpec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

MINUTE, HOUR = "1 minute", "1 hour"


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> MixedFrame:
    events = spark.range(4).select(
        F.col("id").cast("string").alias("user"),
        F.col("id").alias("item"),
        F.col("id").cast("double").alias("price"),
        F.timestamp_seconds("id").alias("ts"),
    )
    return read(history=events).withWatermark("ts", "0 seconds")


@pytest.fixture(scope="module")
def names(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("1", "one")], "user string, name string")


def stages(frame: Any, **options: Any) -> tuple[StageSpec, ...]:
    writer = frame.writeStream.format("noop").option("checkpointLocation", "unused")
    for name, value in options.items():
        writer = writer.option(f"pipeline.{name.replace('_', '-')}", value)
    return tuple(writer.described().stages)


def deciding(frame: Any, **options: Any) -> tuple[str, ...] | None:
    """The key columns of the last stage that decide its key groups, as the earlier stage calls them; None: all do, as
    rows are moved to them."""
    *_, earlier, last = stages(frame, **options)
    if not last.keeps_key_groups_of(earlier.operator):
        assert last.operator.key_group_places is None
        return None
    places = last.edges[0].key_groups_of(earlier.operator)
    assert places is not None
    assert last.operator.key_group_columns == tuple(last.operator.key_columns[place] for place in places)
    return earlier.operator.key_group_outputs


def per_minute(rows: Any) -> Any:
    return rows.groupBy("user", F.window("ts", MINUTE)).agg(F.sum("item").alias("sum"), F.max("price").alias("most"))


def sessions(rows: Any) -> Any:
    return rows.groupBy("user", F.session_window("ts", MINUTE)).agg(F.sum("item").alias("sum"))


def unique(rows: Any) -> Any:
    return rows.dropDuplicates(["user", "item"])


def same(batches: Any) -> Any:
    yield from batches


CONTAINED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], tuple[str, ...]]] = {
    "the key and more": (per_minute, lambda f: f.groupBy("user", "window", "sum"), ("user", "window")),
    "in another order": (per_minute, lambda f: f.groupBy("sum", "window", "user"), ("user", "window")),
    "the key itself": (per_minute, lambda f: f.groupBy("user", "window"), ("user", "window")),
    "renamed": (per_minute, lambda f: f.withColumnRenamed("user", "who").groupBy("who", "window"), ("user", "window")),
    "an alias of an alias": (
        per_minute,
        lambda f: f.select(F.col("user").alias("a"), "window").toDF("b", "window").groupBy("window", "b"),
        ("user", "window"),
    ),
    "names exchanged": (
        lambda r: r.groupBy("user", F.col("user").alias("twin"), F.window("ts", MINUTE)).count(),
        lambda f: f.select(F.col("twin").alias("user"), F.col("user").alias("twin"), "window").groupBy(
            "twin", "user", "window"
        ),
        ("user", "twin", "window"),
    ),
    "filtered and exploded": (
        per_minute,
        lambda f: (
            f.where("sum > 1").withColumn("x", F.explode(F.array("sum", F.lit(2)))).groupBy("x", "window", "user")
        ),
        ("user", "window"),
    ),
    "behind sessions, which are no part of the groups": (sessions, lambda f: f.groupBy("user", "sum"), ("user",)),
    "behind a deduplication": (
        unique,
        lambda f: f.groupBy("item", F.window("ts", HOUR), "user"),
        ("user", "item"),
    ),
}


@pytest.mark.parametrize(("earlier", "later", "columns"), CONTAINED.values(), ids=CONTAINED)
def test_a_key_that_contains_the_earlier_one_keeps_its_key_groups(
    rows: MixedFrame, earlier: Any, later: Any, columns: tuple[str, ...]
) -> None:
    """Renames, filters and generated rows leave a key column what it was; the order of the columns is of no matter."""
    assert deciding(later(earlier(rows)).agg(F.count("*"))) == columns


MOVED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a part of the key": (per_minute, lambda f: f.groupBy("user")),
    "another window": (per_minute, lambda f: f.groupBy("user", F.window(F.window_time("window"), HOUR))),
    "overwritten": (per_minute, lambda f: f.withColumn("user", F.upper("user")).groupBy("user", "window")),
    "cast": (unique, lambda f: f.withColumn("item", F.col("item").cast("int")).groupBy("user", "item")),
    "another column under its name": (
        per_minute,
        lambda f: f.drop("user").withColumn("user", F.col("sum").cast("string")).groupBy("user", "window"),
    ),
    "a generated one under its name": (
        per_minute,
        lambda f: f.withColumn("user", F.explode(F.array("user", F.lit("x")))).groupBy("user", "window"),
    ),
    "filled": (per_minute, lambda f: f.fillna("nobody").groupBy("user", "window")),
    "through Python": (per_minute, lambda f: f.mapInArrow(same, f.schema).groupBy("user", "window")),
    "beside Python": (
        per_minute,
        lambda f: f.withColumn("x", F.udf(lambda sum: sum, "long")("sum")).groupBy("user", "window", "x"),
    ),
    "floats": (lambda r: r.groupBy("price", F.window("ts", MINUTE)).count(), lambda f: f.groupBy("price", "window")),
    "grouping sets": (per_minute, lambda f: f.rollup("user", "window")),
    "behind grouping sets": (
        lambda r: r.cube("user", F.window("ts", MINUTE)).count(),
        lambda f: f.groupBy("user", "window"),
    ),
    "no key at all": (lambda r: r.groupBy(F.window("ts", MINUTE)).count(), lambda f: f.groupBy()),
    "overlapping windows of a part": (
        sessions,
        lambda f: f.groupBy("user", F.window(F.window_time("session_window"), HOUR, MINUTE)),
    ),
}


@pytest.mark.parametrize(("earlier", "later"), MOVED.values(), ids=MOVED)
def test_any_other_key_is_moved_to_key_groups_of_its_own(rows: MixedFrame, earlier: Any, later: Any) -> None:
    """A column that has been computed anew is another one, whatever it is called; what Spark would move anyway, too."""
    assert deciding(later(earlier(rows)).agg(F.count("*"))) is None


def test_the_rest_of_the_job_decides_too(rows: MixedFrame, names: DataFrame) -> None:
    """A static side that is broadcast moves nothing, one that is merged does.  Rows that come together from two stages
    are moved; so are all where no number of shards makes them partitions of Spark's."""
    totals = per_minute(rows)
    joined = totals.join(F.broadcast(names), "user").groupBy("user", "window", "name").count()
    assert deciding(joined) == ("user", "window")
    assert deciding(totals.join(names.hint("merge"), "user").groupBy("user", "window", "name").count()) is None
    others = rows.where("item > 1").groupBy("user", F.window("ts", MINUTE)).agg(F.sum("item").alias("sum"))
    both = totals.select("user", "window", "sum").union(others)
    united = stages(both.groupBy("user", "window").agg(F.count("*")))
    assert [one.operator.key_group_places for one in united] == [None, None, None]
    again = totals.groupBy("user", "window", "sum").count()
    assert deciding(again, max_parallelism=100) is None
    assert deciding(again, parallelism=3) == ("user", "window")


def test_key_groups_go_on_from_stage_to_stage(rows: MixedFrame) -> None:
    """A third stage needs the columns that decide the second one's key groups, not its whole key; explain() says for
    each where its rows are, and nothing of stages whose rows are moved."""
    hourly = (
        sessions(rows).groupBy("user", F.window(F.window_time("session_window"), HOUR)).agg(F.max("sum").alias("m"))
    )
    third = hourly.groupBy("m", F.col("user").alias("who")).count().select("who", "count")
    writer = third.writeStream.outputMode("update").format("noop").option("checkpointLocation", "unused")
    writer.option("pipeline.parallelism", 4)
    plan, job = writer.plan(), writer.described()
    assert [one.operator.key_group_columns for one in job.stages] == [("user",), ("user",), ("who",)]
    assert [one.in_shards_of for one in plan.stages] == [None, "keyed-0", "keyed-1"]
    said = plan.explain()
    assert said.count("in whose shards its rows stay") == 2
    assert "none: its key contains that of [keyed-0]" in said
    uneven = writer.option("pipeline.parallelism", 3).plan()
    assert [one.in_shards_of for one in uneven.stages] == [None, None, None]


def test_a_processors_rows_are_of_no_key(rows: MixedFrame) -> None:
    """What a function yields need not be of the key that it was called with; its own rows may stay where they are."""

    def kept(key: Any, frames: Any, state: Any) -> Any:
        yield from frames

    def of(frame: Any, *keys: str) -> Any:
        schema = "user string, sum long"
        return frame.groupBy(*keys).applyInPandasWithState(kept, schema, "n long", "append", "NoTimeout")

    assert deciding(of(of(rows.withColumn("sum", F.col("item")).drop("price"), "user"), "user", "sum")) is None
    assert deciding(of(sessions(rows), "sum", "user")) == ("user",)
