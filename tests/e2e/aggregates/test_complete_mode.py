"""outputMode complete: the whole result each time, put in order where it is shown."""

from __future__ import annotations

from typing import Any

import mixedmode
import pytest
import support
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import Event, World

PARTS = [support.stream_of(120, seed=seed, keys=30) for seed in (1, 2, 3)]


def totals(rows: Any, by: str = "groupBy") -> Any:
    """Running totals of each key and hour, and an expression over them."""
    grouped = getattr(rows, by)("key", F.window("ts", "1 hour"))
    return grouped.agg(F.sum("value").alias("total"), (F.sum("value") / F.count("*")).alias("mean"))


def top(frame: Any) -> Any:
    return frame.orderBy(F.desc("total"), "key", "window").limit(7)


def as_batch(world: World, events: list[Event]) -> DataFrame:
    rows = [(key, support.at(seconds), value) for key, seconds, value in events]
    return totals(world.spark.createDataFrame(rows, support.ROW_SCHEMA))


@pytest.mark.slow
def test_the_memory_table_is_stocks_after_each_batch(world: World) -> None:
    """C14: after each micro-batch equal to stock's table; nothing is late, and no group is let go, however far the
    watermark is.  With the totals of keys, and of all rows, among them.  (A batch over all rows so far:
    ``test_foreach_batch_gets_the_whole_result_of_each_checkpoint``.)"""
    world.land(PARTS[0])
    stock = totals(world.live().withWatermark("ts", "0 seconds"), "rollup").writeStream.format("memory")
    with support.one_partition(world.spark):
        stock_query = stock.queryName("stock_totals").outputMode("complete").start()
    ours = totals(world.read().withWatermark("ts", "0 seconds"), "rollup")
    writer = top(ours).writeStream.format("memory").queryName("our_totals").outputMode("complete")
    query = writer.option("checkpointLocation", str(world.checkpoints)).start()
    world.queries.append(query)
    try:
        for place, part in enumerate(PARTS):
            if place:
                world.land(part)
            stock_query.processAllAvailable()
            query.processAllAvailable()
            whole = [tuple(row) for row in world.spark.table("our_totals").collect()]
            assert whole == [tuple(row) for row in top(world.spark.table("stock_totals")).collect()]
            assert len(whole) == 7
    finally:
        stock_query.stop()


@pytest.mark.slow
def test_foreach_batch_gets_the_whole_result_of_each_checkpoint(world: World) -> None:
    """From the backlog's checkpoint on, in the order that was asked for; also after a restart with other shards."""
    got: dict[int, list[tuple[Any, ...]]] = {}

    def take(rows: DataFrame, number: int) -> None:
        got[number] = [tuple(row) for row in rows.collect()]

    def start(shards: int) -> mixedmode.MixedQuery:
        frame = world.read(PARTS[0]).withWatermark("ts", "0 seconds")
        job = top(totals(frame))
        writer = job.writeStream.outputMode("complete").foreachBatch(take)
        query = (
            writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", shards).start()
        )
        world.queries.append(query)
        return query

    world.land(PARTS[1])
    query = start(2)
    query.processAllAvailable()
    assert got[max(got)] == [tuple(row) for row in top(as_batch(world, PARTS[0] + PARTS[1])).collect()]
    query.stop()
    world.land(PARTS[2])
    query = start(4)
    support.finish(query)
    so_far = PARTS[0] + PARTS[1] + PARTS[2]
    assert got[max(got)] == [tuple(row) for row in top(as_batch(world, so_far)).collect()]


@pytest.mark.slow
def test_a_result_without_rows_takes_the_place_of_the_one_before(world: World) -> None:
    """Keys that were seen once, and then twice: their table is empty at last, in memory and by foreachBatch."""
    got: dict[int, list[str]] = {}

    def take(rows: DataFrame, number: int) -> None:
        got[number] = sorted(row["key"] for row in rows.collect())

    def once() -> Any:
        counts = world.read().groupBy("key").agg(F.count("*").alias("n"))
        return counts.where("n = 1").writeStream.outputMode("complete")

    events: list[Event] = [("a", 1, 1), ("b", 2, 1)]
    world.land(events)
    by_call = once().foreachBatch(take).option("checkpointLocation", str(world.checkpoints))
    in_memory = once().format("memory").queryName("seen_once")
    queries = [by_call.start(), in_memory.start()]
    world.queries += queries
    for rest in ([], events):
        if rest:
            world.land(rest)
        for query in queries:
            query.processAllAvailable()
        expected = [] if rest else ["a", "b"]
        assert sorted(row["key"] for row in world.spark.table("seen_once").collect()) == expected
        assert got[max(got)] == expected


@pytest.mark.parametrize(
    "mode", [pytest.param("batch", marks=pytest.mark.slow), "mixed", pytest.param("streaming", marks=pytest.mark.slow)]
)
def test_a_bounded_job_gives_its_result_once(world: World, mode: str) -> None:
    """Sessions, and one group of all rows, in every mode."""
    for name, grouping in (("sessions", ["key", F.session_window("ts", "5 minutes")]), ("all", [])):
        for rows, table in ((world.read(PARTS[0], live=False), f"bounded_{name}"),):
            job = rows.withWatermark("ts", "0 seconds").groupBy(*grouping).agg(F.sum("value").alias("total"))
            writer = job.writeStream.format("memory").queryName(table).outputMode("complete")
            query = writer.option("execution.runtime-mode", mode).start()
            query.awaitTermination(300)
            batch = world.spark.createDataFrame(
                [(key, support.at(seconds), value) for key, seconds, value in PARTS[0]], support.ROW_SCHEMA
            )
            expected = batch.groupBy(*grouping).agg(F.sum("value").alias("total")).collect()
            assert sorted(map(repr, world.spark.table(table).collect())) == sorted(map(repr, expected))


@pytest.mark.parametrize(
    "shown",
    [
        lambda rows: rows.withColumnRenamed("total", "sum").orderBy(F.desc("total"), "key", "window"),
        lambda rows: rows.select((F.col("total") * 2).alias("twice")).where("twice > 20").orderBy("key", "mean"),
        lambda rows: rows.drop("mean", "key").alias("t").orderBy(-F.col("t.total"), "window"),
        lambda rows: rows.orderBy("total", "key", "window").select("mean").orderBy(F.desc("key"), "total", "window"),
    ],
)
def test_a_result_is_in_the_order_of_a_column_that_is_hidden(
    world: World, shown: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """As in Spark, which sorts before what hides it; so does the table that is shown.  No error is logged."""
    frame = shown(totals(world.read(PARTS[0], live=False).withWatermark("ts", "0 seconds")))
    assert "UNRESOLVED_COLUMN" not in capfd.readouterr().err
    writer = frame.writeStream.outputMode("complete").format("memory").queryName("in_hidden_order")
    writer.option("checkpointLocation", str(world.checkpoints)).start().awaitTermination(300)
    whole, batch = world.spark.table("in_hidden_order"), shown(as_batch(world, PARTS[0]))
    assert whole.columns == frame.columns == batch.columns
    assert [tuple(row) for row in whole.collect()] == [tuple(row) for row in batch.collect()]
    assert whole.count() > 5


def test_what_complete_mode_does_not_do_is_said(world: World) -> None:
    """Files cannot be replaced, a processor has no whole result, and order needs one."""
    frame = totals(world.read().withWatermark("ts", "0 seconds"))
    with pytest.raises(mixedmode.PlanError, match="format parquet supports outputMode append only, got complete"):
        frame.writeStream.format("parquet").outputMode("complete").option("path", "x").plan()
    with pytest.raises(mixedmode.PlanError, match="orderBy is supported behind an aggregate in outputMode complete"):
        top(frame).writeStream.format("noop").outputMode("update").plan()
    with pytest.raises(
        mixedmode.PlanError, match="select comes after orderBy, which is done where the result is shown"
    ):
        frame.orderBy("total").select(F.rand())
    with pytest.raises(mixedmode.PlanError, match="groupBy comes after orderBy, which is done where"):
        frame.orderBy("total").groupBy("key")
    with pytest.raises(mixedmode.PlanError, match="orderBy needs a whole result"):
        world.read().orderBy("ts")
    hidden = frame.select("key", F.rand().alias("chance"))
    with pytest.raises(mixedmode.PlanError, match=r"orderBy needs a column .*`total`.* result has key, chance"):
        hidden.orderBy("total")
    with pytest.raises(mixedmode.PlanError, match="uid comes after orderBy"):
        frame.orderBy("total").uid("totals")
    text = top(frame).writeStream.format("noop").outputMode("complete").plan().explain()
    assert "complete: key string" in text
