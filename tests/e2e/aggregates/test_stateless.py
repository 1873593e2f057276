"""A job without a keyed stage: the history as a batch, then the stream, and in the sink what Spark gives over both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mixedmode
import pytest
import stateless_jobs
import support
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from stateless_jobs import chain
from support import World

if TYPE_CHECKING:
    from mixedmode import MixedQuery

cloudpickle.register_pickle_by_value(stateless_jobs)
pytestmark = pytest.mark.timeout(600)

EVENTS = support.stream_of(90, seed=21)
PARTS = (EVENTS[:50], EVENTS[50:65], EVENTS[65:80], EVENTS[80:])
FAST = {"execution.checkpointing.interval": "200 ms"}


def static(world: World) -> DataFrame:
    return world.spark.range(100).selectExpr("id AS value", "concat('v', id) AS label")


def expected(world: World, *parts: list) -> Counter:
    """What Spark makes of the same rows in one batch."""
    events = [(key, support.at(seconds), value) for part in parts for key, seconds, value in part]
    return rows_of(chain(world.spark.createDataFrame(events, support.ROW_SCHEMA), static(world)))


def rows_of(frame: DataFrame) -> Counter:
    return Counter(map(tuple, frame.collect()))


def ours(world: World) -> Any:
    return chain(world.read(PARTS[0]), static(world))


def test_rows_come_once_over_the_switch_and_a_restart(world: World) -> None:
    """Parquet files hold what Spark gives over history and stream; a restart goes on in the stream, and reads nothing
    of the history again, whatever there is by then."""
    world.land(PARTS[1])
    first = support.live(world.start(ours(world), FAST))
    first.processAllAvailable()

    def written() -> Counter:
        return rows_of(world.spark.read.parquet(str(world.out)))

    assert written() == expected(world, *PARTS[:2])
    world.feed(first, PARTS[2])
    assert written() == expected(world, *PARTS[:3])
    last = [one for one in first.recentProgress if one["numInputRows"]][-1]
    count = sum(expected(world, PARTS[2]).values())
    assert last["stateOperators"] == []
    assert (last["numInputRows"], last["sink"]["numOutputRows"]) == (count, count)
    assert first.status["message"] == "live"
    with pytest.raises(mixedmode.QueryError, match="no keyed stage, so it has no shards"):
        first.rescale(3)
    first.stop()
    world.land(PARTS[3])
    world.history(PARTS[3])  # other rows at the same place
    second = world.start(ours(world), FAST, availableNow=True)
    assert second.awaitTermination(240)
    assert written() == expected(world, *PARTS)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_every_mode_writes_each_row_once(world: World, mode: str) -> None:
    """In the modes ``streaming`` and ``batch``, too; also if a column is another one each time that it is computed."""
    world.land(PARTS[1])
    marked = ours(world).withColumn("mark", F.expr("uuid()")).withColumn("written", F.current_timestamp())
    options = {"execution.runtime-mode": mode, "execution.history.rows-per-epoch": "10"}
    query = world.start(marked, options, availableNow=True)
    assert query.awaitTermination(240)
    written = world.spark.read.parquet(str(world.out))
    assert written.select("mark").distinct().count() == written.count()
    assert rows_of(written.drop("mark", "written")) == expected(world, *PARTS[:2])


@pytest.mark.slow
def test_kinds_of_sinks(world: World) -> None:
    """Formats of Spark's writer, tables, memory, and a function, whose ids rise; ``update`` is the same as ``append``,
    and ``complete`` is refused as in Spark.  (The format json: tests/e2e/sinks/test_tables.py.)"""
    world.land(PARTS[1])
    spark, whole = world.spark, expected(world, *PARTS[:2])
    calls: list[tuple[int, Counter]] = []

    def run(name: str, writer: Any, start: Callable[[Any], MixedQuery] = lambda writer: writer.start()) -> None:
        if name:
            writer = writer.option("checkpointLocation", str(world.checkpoints / name))
        query = start(writer.trigger(availableNow=True))
        world.queries.append(query)
        assert query.awaitTermination(240), name

    for name in ("csv", "orc"):
        run(name, ours(world).writeStream.format(name).option("path", str(world.out / name)))
        schema = ours(world).schema
        assert rows_of(spark.read.format(name).schema(schema).load(str(world.out / name))) == whole, name
    run("", ours(world).writeStream.format("memory").queryName("stateless_rows").outputMode("update"))
    assert rows_of(spark.table("stateless_rows")) == whole
    try:
        run("table", ours(world).writeStream, lambda writer: writer.toTable("stateless_table"))
        assert rows_of(spark.table("stateless_table")) == whole
    finally:
        spark.sql("DROP TABLE IF EXISTS stateless_table")
    for part in (PARTS[2], PARTS[3]):
        run("function", ours(world).writeStream.foreachBatch(lambda rows, id: calls.append((id, rows_of(rows)))))
        world.land(part)
    run("function", ours(world).writeStream.foreachBatch(lambda rows, id: calls.append((id, rows_of(rows)))))
    ids = [id for id, _ in calls]
    assert ids == sorted(set(ids)) and len(ids) == 4, "the history, then a call for each micro-batch"
    assert sum((rows for _, rows in calls), Counter()) == expected(world, *PARTS)
    error = support.refusal(lambda: ours(world).writeStream.outputMode("complete").format("noop").start())
    assert "complete is not supported for a job without a keyed stage" in str(error)


def test_a_union_and_what_is_observed(world: World) -> None:
    """Two reads united, one of them a history alone; aggregates of ``observe`` are in the progress of each epoch."""
    more = mixedmode.read(history=world.spark.createDataFrame([("more", support.at(0), 5)], support.ROW_SCHEMA))
    rows = world.read(PARTS[0]).union(more)
    query = support.live(world.start(rows.observe("seen", F.count("*").alias("n"), F.max("value").alias("most")), FAST))
    world.feed(query, PARTS[1])
    seen = [tuple(one["observedMetrics"]["seen"]) for one in query.recentProgress if one["numInputRows"]]
    assert seen == [
        (len(PARTS[0]) + 1, max(5, *[value for *_, value in PARTS[0]])),
        (len(PARTS[1]), max(value for *_, value in PARTS[1])),
    ]
    told = [("more", support.at(0), 5), *[(k, support.at(s), v) for k, s, v in (*PARTS[0], *PARTS[1])]]
    assert world.output() == sorted(told, key=repr)


def test_a_job_says_how_many_files_it_writes(world: World) -> None:
    """``coalesce`` and ``repartition`` hold where no keyed stage takes the rows; ``explain()`` tells what does not."""
    plain = mixedmode.read(history=world.history(PARTS[0]).repartition(5))
    query = world.start(plain.repartition(4).select("key", "ts", "value").coalesce(1))
    assert query.awaitTermination(240)
    assert len(list(world.out.glob("*.parquet"))) == 1
    plan = str(plain.repartition(4).select("key", "ts", "value").coalesce(1).writeStream.format("noop").plan())
    assert "repartition: the last call counts" in plan and "coalesce" not in plan
    assert "none: rows go from the sources to the sink" in plan and "state store" not in plan
