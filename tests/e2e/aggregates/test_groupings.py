"""rollup, cube and pivot through whole jobs: over a backlog, over stock's micro-batches, and in deliveries."""

from __future__ import annotations

from typing import Any

import mixedmode
import pytest
import support
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World

#: Micro-batches with keys that are null, and rows whose window is over.
BATCHES: list[list[Any]] = [
    [("a", 1000, 1), ("b", 1010, 2), (None, 950, 3)],
    [("a", 5000, 4), (None, 5005, 5), ("c", 5011, 6)],
    [("c", 1101, 7), ("a", 5099, 1), ("b", 9650, 8)],  # the watermark is beyond the first hour: c is late
    [("d", 9700, 9), (None, 5551, 10), ("a", 20_000, 11)],
]


def by_hour(frame: Any) -> Any:
    """Hours and keys, hours, and everything."""
    grouped = frame.rollup(F.window("ts", "1 hour"), "key")
    return grouped.agg(F.sum("value").alias("total"), F.grouping("key").alias("of_hour"), F.grouping_id().alias("gid"))


def by_size(frame: Any) -> Any:
    """Counts and sums of even and of odd values, in every choice of hour and key."""
    sizes = frame.withColumn("odd", (F.col("value") % 2).cast("int")).groupBy(F.window("ts", "1 hour"), "key")
    return sizes.pivot("odd", [0, 1]).agg(F.count(F.lit(1)).alias("n"), F.sum("value").alias("total"))


def as_batch(world: World, *parts: list[Any]) -> DataFrame:
    rows = [(key, support.at(seconds), value) for part in parts for key, seconds, value in part]
    return world.spark.createDataFrame(rows, support.ROW_SCHEMA)


@pytest.mark.slow
def test_updates_of_a_rollup_are_stocks_batch_by_batch(world: World) -> None:
    """Windows drop late rows, the group of all rows takes them, as in stock, and equal rows of two sets are two."""
    stock = by_hour(world.live().withWatermark("ts", "100 seconds")).writeStream.format("memory")
    with support.one_partition(world.spark):
        stock_query = stock.queryName("stock_hours").outputMode("update").start()
    ours = by_hour(world.read().withWatermark("ts", "100 seconds"))
    writer = ours.writeStream.format("memory").queryName("our_hours").outputMode("update")
    query = writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", 2).start()
    world.queries.append(query)
    try:
        for batch in BATCHES:
            world.feed(stock_query, batch)
            query.processAllAvailable()
            assert support.rows_of(world.spark.table("our_hours")) == support.rows_of(world.spark.table("stock_hours"))
    finally:
        stock_query.stop()
    assert query.lastProgress is not None
    whole = by_hour(as_batch(world, *BATCHES)).where("gid = 3").collect()
    last = [tuple(row) for row in world.spark.table("our_hours").where("gid = 3").collect()]
    assert max(last, key=lambda row: row[2]) == tuple(whole[0])


@pytest.mark.slow
def test_a_delivery_of_several_epochs_has_the_last_row_of_each_group(world: World) -> None:
    """With the grouping id in the output a null that is left out is told from a null of the rows; without, every update
    is delivered.  After a restart with other shards the totals go on."""
    delivered: list[list[Any]] = []

    def take(rows: DataFrame, number: int) -> None:
        delivered.append([tuple(row) for row in rows.collect()])

    def start(shards: int) -> mixedmode.MixedQuery:
        frame = mixedmode.read(history=world.history(BATCHES[0]), live=world.live(maxFilesPerTrigger="1"))
        job = frame.cube("key", (F.col("value") % 2).alias("odd"))
        totals = job.agg(F.sum("value").alias("total"), F.grouping_id().alias("gid"))
        writer = totals.writeStream.outputMode("update").foreachBatch(take)
        writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", shards)
        query = writer.option("execution.checkpointing.interval", "1 hour").start()
        world.queries.append(query)
        return query

    def totals_of(*parts: list[Any]) -> dict[Any, Any]:
        cube = as_batch(world, *parts).cube("key", (F.col("value") % 2).alias("odd"))
        rows = cube.agg(F.sum("value").alias("total"), F.grouping_id().alias("gid")).collect()
        return {(row.key, row.odd, row.gid): row.total for row in rows}

    query = start(2)
    support.live(query)
    world.land(BATCHES[1], BATCHES[2])
    support.finish(query)
    query = start(4)
    support.live(query)
    world.land(BATCHES[3])
    support.finish(query)
    table: dict[Any, Any] = {}
    for rows in delivered:
        keyed = {(key, odd, gid): total for key, odd, total, gid in rows}
        assert len(keyed) == len(rows)
        table |= keyed
    assert table == totals_of(*BATCHES)


def test_a_backlog_and_its_end_give_what_a_batch_gives(world: World) -> None:
    """History and live to their end, in append: sql before the stage, a pivot, and sums of it by rollup behind it.

    Spark's own streams never write the group of all rows; here a drain does.
    """
    world.land(*BATCHES[2:])

    def job(frame: Any, sql: Any) -> Any:
        rows = by_size(sql("SELECT *, 0 AS none FROM {rows} WHERE value <> {other}", rows=frame, other=2))
        return rows.rollup("window", "key").agg(F.sum("1_total").alias("odd"), F.max("0_n").alias("evens"))

    history = world.history(BATCHES[0] + BATCHES[1])
    frame = mixedmode.read(history=history, live=world.live()).withWatermark("ts", "100 seconds")
    query = support.live(world.start(job(frame, mixedmode.sql), {"pipeline.parallelism": 2}))
    assert all(window is not None for window, *_ in world.output())
    query.stopWithSavepoint(str(world.folder / "end"), drain=True)
    expected = job(as_batch(world, *BATCHES), world.spark.sql).collect()
    assert len(expected) > 8
    actual = [(hour and hour["start"].replace(tzinfo=None), *others) for hour, *others in world.output()]
    assert sorted(actual, key=repr) == sorted(
        ((row.window and row.window.start, row.key, row.odd, row.evens) for row in expected), key=repr
    )
