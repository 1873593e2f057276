"""What follows a keyed stage without state gives what Spark gives over the stage's whole result, and runs once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import mixedmode
import pytest
import support
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType
from support import World

EVENTS = support.stream_of(160, seed=11, keys=6, step_s=90)
OBSERVED = {"execution.backlog.final-watermark": "observed", "execution.checkpointing.interval": "1 hour"}


def names(spark: SparkSession) -> DataFrame:
    """A static table without one of the keys."""
    return spark.createDataFrame([(f"k{n}", f"name {n}") for n in range(5)], "key string, name string")


def behind_windows(rows: Any, static: DataFrame) -> Any:
    """Fields of the window by star, all columns as JSON, of which the hidden event time is none, a filter, an
    expression, a Python function, joins that keep and that filter."""
    tagged = F.udf(lambda key, total: f"{key}/{total}", StringType())
    mean = (F.col("total") / F.col("n")).alias("mean")
    rows = rows.select("window.*", "*").drop("window").withColumn("row", F.to_json(F.struct("*"))).alias("r")
    rows = rows.select("r.*").select("key", "start", "total", mean, "row")
    rows = rows.where("total % 3 != 0").withColumn("tag", tagged("key", "total"))
    rows = rows.join(F.broadcast(static), "key", "left")
    return rows.join(F.broadcast(static.where("name <> 'name 1'").select("key")), "key", "left_anti").drop("name")


def behind_sessions(rows: Any, static: DataFrame) -> Any:
    """Rows multiplied, rows that go through pandas, and a static frame on the left of a join."""

    def doubled(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            frame["total"] = frame["total"] * 2
            yield frame

    rows = (
        F.broadcast(static)
        .join(rows, "key", "right")
        .mapInPandas(doubled, "key string, start timestamp, count long, total long, name string")
    )
    return rows.select("key", "start", "total", F.explode(F.array("name", F.upper("name"))).alias("name"))


def frame_of(spark: SparkSession, events: list[support.Event]) -> DataFrame:
    return spark.createDataFrame(
        [(key, support.at(seconds), value) for key, seconds, value in events], support.ROW_SCHEMA
    )


def windows(frame: Any) -> Any:
    grouped = frame.withWatermark("ts", "0 seconds").groupBy("key", F.window("ts", "10 minutes"))
    return grouped.agg(F.sum("value").alias("total"), F.count("*").alias("n"))


def run_over_the_switch(world: World, job: Any) -> mixedmode.MixedQuery:
    """History, then epochs with rows and by timers alone, cut anywhere."""
    query = support.live(world.start(job, OBSERVED))
    world.feed(query, EVENTS[90:95], EVENTS[95:], support.flush_after(EVENTS))
    support.stop(query)
    return query


@pytest.mark.slow
def test_behind_an_aggregate(world: World) -> None:
    """Select, stars, filter, a UDF and static joins, over backlog and stream, of rows that come through views; the sink
    has the columns behind them (C13)."""
    static = names(world.spark)
    live = world.live().withWatermark("ts", "1 hour").where("value >= 0")  # of Spark's watermark nothing is left
    world.history(EVENTS[:90]).createOrReplaceTempView("arrived")
    live.createOrReplaceTempView("landed")
    history = world.spark.sql("SELECT current_date() AS dt, * FROM arrived")
    job = behind_windows(windows(mixedmode.read(history=history, live=world.spark.table("landed"))), static)

    plan = job.writeStream.format("noop").plan()
    assert plan.output_columns == "key string, start timestamp, total bigint, mean double, row string, tag string"
    assert "select, where, withColumn, join, join, drop: inside the keyed stage's Spark job" in " ".join(
        str(plan).split()
    )
    run_over_the_switch(world, job)

    expected = behind_windows(windows(frame_of(world.spark, EVENTS)), static)
    assert world.output() == support.rows_of(expected)


@pytest.mark.slow
def test_behind_a_processor(world: World) -> None:
    """Rows that timers yield go the same way: multiplied by explode, changed in pandas, joined."""
    static = names(world.spark)
    job = behind_sessions(support.sessions(world.history(EVENTS[:90]), world.live()), static)
    run_over_the_switch(world, job)

    sessions = world.spark.createDataFrame(
        world.expected(EVENTS), "key string, start timestamp, count long, total long"
    )
    assert world.output() == support.rows_of(behind_sessions(sessions, static))


@pytest.mark.slow
def test_behind_a_stage_with_a_join_that_moves_rows(world: World) -> None:
    """Joins with static sides that Spark does not broadcast are a Spark job of their own in each epoch: sort-merge,
    anti, every row with every row, a union; rows counted as for other jobs, and nothing left between the two jobs."""
    static = names(world.spark)
    numbers = world.spark.range(3).selectExpr("id AS n3")

    def behind(rows: Any, hint: bool) -> Any:
        big = static.hint("merge") if hint else static
        rows = rows.select("key", F.col("window.start").alias("start"), "total").join(big, "key", "left")
        rows = rows.join(big.where("name <> 'name 1'").select("key"), "key", "left_anti")
        rows = rows.crossJoin(numbers.hint("shuffle_replicate_nl") if hint else numbers).where("total % 3 != n3")
        return rows.transform(lambda frame: frame.union(frame))

    job = behind(windows(world.read(EVENTS[:90])), hint=True)
    text = " ".join(str(job.writeStream.format("noop").plan()).split())
    assert "select, join, join, crossJoin, where, transform: in a Spark job of its own in each epoch" in text
    query = run_over_the_switch(world, job)
    assert world.output() == support.rows_of(behind(windows(frame_of(world.spark, EVENTS)), hint=False))
    assert sum(progress["sink"]["numOutputRows"] for progress in query.recentProgress) == len(world.output())
    assert list((world.checkpoints / "mixedmode" / "exchange").rglob("*.parquet")) == []


@pytest.mark.slow
def test_a_join_that_moves_rows_is_not_done_again_at_delivery(world: World) -> None:
    """What it made, random values too, comes again as it was when a function has failed, under the same id."""
    static = names(world.spark).hint("merge")
    frame = windows(world.read(EVENTS, live=False)).join(static, "key").withColumn("u", F.expr("uuid()"))
    came: list[tuple[int, list[tuple[Any, ...]]]] = []

    def take(rows: DataFrame, number: int) -> None:
        came.append((number, support.rows_of(rows)))
        if len(came) == 1:
            raise ConnectionError("the answer was lost")

    for failure in ("the answer was lost", None):
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(world.checkpoints))
        query = writer.start()
        if failure is None:
            assert query.awaitTermination(300), query.status
        else:
            with pytest.raises(mixedmode.QueryError, match=failure):
                query.awaitTermination(300)
    first, again = came
    assert first == again
    assert len({row[-1] for row in first[1]}) == len(first[1]) > 50


@pytest.mark.slow
def test_a_whole_result_is_joined_in_a_job_of_its_own(world: World) -> None:
    """outputMode complete: the join with a static side that Spark does not broadcast is done to each whole result, with
    the static rows of then (C13)."""
    file = world.folder / "names.csv"
    file.write_text("".join(f"k{n},a\n" for n in range(5)))
    static = world.spark.read.schema("key string, name string").csv(str(file))
    frame = world.read(EVENTS[:90])
    totals = frame.groupBy("key").agg(F.sum("value").alias("total"))
    writer = totals.join(static.hint("merge"), "key").orderBy("key").writeStream.format("memory").queryName("wholes")
    query = writer.outputMode("complete").option("checkpointLocation", str(world.checkpoints)).start()
    world.queries.append(query)
    for upto in (90, len(EVENTS)):
        world.feed(query, EVENTS[90:upto])
        batch = frame_of(world.spark, EVENTS[:upto]).groupBy("key").agg(F.sum("value").alias("total"))
        assert world.spark.table("wholes").collect() == batch.join(static, "key").orderBy("key").collect()
        file.write_text("".join(f"k{n},z\n" for n in range(5)))  # nothing runs now
    assert {row.name for row in world.spark.table("wholes").collect()} == {"z"}


@pytest.mark.parametrize("emptied", ["filter", pytest.param("join", marks=pytest.mark.slow)])
def test_rows_count_though_nothing_gets_through(world: World, emptied: str) -> None:
    """Spark does not ask the stage for rows that nobody gets, known from the plan or from an empty table; they are
    input all the same: without the filter the next run goes on with them."""
    history, empty = world.history(EVENTS[:90]), names(world.spark).where("name = 'nobody'")
    empty.write.parquet(str(world.folder / "empty"))
    empty = world.spark.read.parquet(str(world.folder / "empty"))

    def job(through: bool) -> Any:
        rows = windows(mixedmode.read(history=history, live=world.live())).select("key", "window.start", "total")
        if through:
            return rows
        return rows.where(F.lit(False)) if emptied == "filter" else rows.join(F.broadcast(empty), "key").drop("name")

    query = support.live(world.start(job(False), OBSERVED))
    world.land(EVENTS[90:120])
    support.finish(query)
    assert world.output() == []

    query = world.start(job(True), OBSERVED)
    world.land(EVENTS[120:], support.flush_after(EVENTS))
    support.finish(query)
    whole = support.rows_of(windows(frame_of(world.spark, EVENTS)).select("key", "window.start", "total"))
    stopped = support.at(EVENTS[119][1])
    still_open = {row for row in whole if row[1] + timedelta(minutes=10) > stopped}
    assert any(row[1] <= stopped for row in still_open), "no window holds rows of both runs"
    assert still_open <= set(world.output()) <= set(whole)
