"""limit of a stream: its first rows, over all epochs, as stock Structured Streaming lets them through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import PlanError
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from support import World

PARTS = [support.stream_of(20, seed=seed, keys=5) for seed in (31, 32, 33)]
#: One event after the other: parts do not overlap in time.
EVENTS = [[(key, seconds + 2000 * place, value) for key, seconds, value in part] for place, part in enumerate(PARTS)]
FAST = {"execution.checkpointing.interval": "200 ms"}


def first(rows: Any) -> Any:
    return rows.limit(27).filter("value > 5").withColumn("twice", F.col("value") * 2)


def counted(rows: Any) -> Any:
    return rows.limit(33).groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("total"))


def windows(rows: Any) -> Any:
    timed = rows.withWatermark("ts", "1 minute").limit(45)
    return timed.groupBy(F.window("ts", "5 minutes"), "key").count().select("window.start", "key", "count")


def distinct(rows: Any) -> Any:
    return rows.select("key").dropDuplicates(["key"]).limit(3)


def before_distinct(rows: Any) -> Any:
    return rows.limit(22).dropDuplicates(["key"]).select("key")


def stock(world: World, job: Callable[[Any], Any], mode: str) -> list[tuple[Any, ...]]:
    """Stock's memory table, a file a micro-batch."""
    other = World(world.spark, world.folder / "stock")
    other.land(*EVENTS)
    live = other.live(maxFilesPerTrigger="1")
    name = f"stock_limit_{job.__name__}"
    writer = job(live).writeStream.format("memory").queryName(name).outputMode(mode).trigger(availableNow=True)
    with support.one_partition(world.spark):
        query = writer.start()
    assert query.awaitTermination(300)
    return sorted(map(tuple, world.spark.table(name).collect()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "mode"), [(first, "append"), (counted, "complete"), (windows, "append"), (before_distinct, "append")]
)
def test_the_first_rows_are_stocks(world: World, job: Callable[[Any], Any], mode: str) -> None:
    """The history counts, and what went out before a restart; in front of aggregates and deduplications, too, whose
    windows close by the rows that were not let through."""
    found: dict[int, list[tuple[Any, ...]]] = {}

    def take(rows: Any, number: int) -> None:
        found[number] = list(map(tuple, rows.collect()))

    def start() -> Any:
        frame = mixedmode.read(history=world.history(EVENTS[0]), live=world.live(maxFilesPerTrigger="1"))
        writer = job(frame).writeStream.outputMode(mode).foreachBatch(take).options(**FAST)
        query = writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", 2).start()
        world.queries.append(query)
        support.live(query)
        return query

    query = start()
    world.land(EVENTS[1])
    support.finish(query)
    world.land(EVENTS[2])
    query = start()
    query.processAllAvailable()
    expected = stock(world, job, mode)
    assert expected
    support.wait_until(lambda: rows_of(found, mode) == expected, 30)


def rows_of(found: dict[int, list[tuple[Any, ...]]], mode: str) -> list[tuple[Any, ...]]:
    kept = [found[max(found)]] if mode == "complete" else list(found.values())
    return sorted(row for rows in kept for row in rows)


@pytest.mark.slow
def test_more_rows_go_out_when_the_limit_is_raised(world: World) -> None:
    """As in stock, whose state is a number of rows; under a smaller one nothing more does."""
    world.land(*EVENTS[:2])

    def run(rows: int) -> int:
        frame = world.read().limit(rows)
        query = world.start(frame, FAST, availableNow=True)
        assert query.awaitTermination(300)
        return len(world.spark.read.parquet(str(world.out)).collect())

    assert run(15) == 15
    world.land(EVENTS[2])
    assert run(10) == 15
    world.land(EVENTS[0])
    assert run(21) == 21


def test_what_stock_refuses_is_refused(world: World) -> None:
    """Mode update, complete without an aggregate, and a number that is none; behind aggregates limit is of the whole
    result."""
    live, rows = world.live(), world.read()

    def refused(frame: Any, mode: str) -> Any:
        return frame.writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(world.checkpoints))

    for job, mode in ((first, "update"), (counted, "update"), (first, "complete")):
        with pytest.raises(AnalysisException):
            refused(job(live), mode).start()
        with pytest.raises(PlanError, match=f"outputMode {mode} is not supported after limit"):
            refused(job(rows), mode).start()
    with pytest.raises((PlanError, AnalysisException), match="limit"):
        rows.limit(-1)
    with pytest.raises(PlanError, match=r"limit\('3'\) is not allowed"):
        rows.limit("3")
    whole = rows.groupBy("key").count().limit(2)
    assert refused(whole, "complete").plan().stages[-1].operator["operator"] == "agg"
    with pytest.raises(PlanError, match="limit is supported behind an aggregate in outputMode complete only"):
        refused(whole, "append").plan()
    assert [stage.operator["operator"] for stage in refused(distinct(rows), "append").plan().stages] == [
        "dropDuplicates",
        "limit",
    ]
    assert "limit" in refused(distinct(rows), "append").plan().explain()
