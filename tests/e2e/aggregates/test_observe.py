"""``observe`` before, between and behind keyed stages: what passes there in an epoch, each row once."""

from __future__ import annotations

import json
from typing import Any

import mixedmode
import pytest
import support
from pyspark.sql import functions as F
from support import World

EVENTS = support.stream_of(240, seed=3, keys=6)
PARTS = [EVENTS[:120], EVENTS[120:180], EVENTS[180:181], EVENTS[181:]]
FLUSH = support.flush_after(EVENTS)
OPTIONS = {"execution.checkpointing.interval": "1 hour"}


def raw(frame: Any) -> Any:
    distinct = F.approx_count_distinct("key").alias("keys")
    return frame.observe("raw", F.count("*").alias("n"), F.avg("value"), F.max("ts").alias("latest"), distinct)


def observed_hours(frame: Any) -> Any:
    """Windows by key, then by the hour, with something observed wherever rows pass."""
    even = raw(frame).where("value % 2 = 0").withWatermark("ts", "0 seconds")
    even = even.observe("even", F.count(F.lit(1)).alias("n"))
    minutes = even.groupBy("key", F.window("ts", "10 minutes")).agg(F.sum("value").alias("total"))
    minutes = minutes.select("total", F.window_time("window").alias("ts")).observe("minutes", F.sum("total").alias("s"))
    minutes = minutes.withWatermark("ts", "0 seconds")
    hours = minutes.groupBy(F.window("ts", "1 hour")).agg(F.sum("total").alias("total"))
    return hours.observe("hours", F.count("*").alias("n"), F.sum("total").alias("s")).where(F.hour("window.start") > 0)


def seen(query: mixedmode.MixedQuery, name: str) -> list[tuple[Any, ...]]:
    return [tuple(progress["observedMetrics"][name]) for progress in query.recentProgress]


@pytest.mark.slow
def test_each_epoch_says_what_has_passed_it(world: World) -> None:
    """Two stages over backlog and stream: look-aheads, late rows and exchanges count nothing twice, and an epoch in
    which no row passes a place says so.  A row of metrics is as Spark's own stream has it."""
    late = [("k1", 0, 2)]
    frame = world.read(PARTS[0])
    options = {**OPTIONS, "pipeline.late-data.path": str(world.folder / "late")}
    query = support.live(world.start(observed_hours(frame), options))
    parts = [*PARTS[1:], FLUSH, late]
    world.feed(query, *parts)
    support.stop(query)

    with_rows = [one for one in query.recentProgress if one["observedMetrics"]["raw"].n]
    epochs = [PARTS[0], *parts]
    assert [one["observedMetrics"]["raw"][:3] for one in with_rows] == [
        (len(part), sum(value for *_, value in part) / len(part), support.at(max(s for _, s, _ in part)))
        for part in epochs
    ]
    evens = [sum(value % 2 == 0 for *_, value in part) for part in epochs]
    assert [one["observedMetrics"]["even"].n for one in with_rows] == evens
    assert [one["numInputRows"] for one in with_rows] == evens
    total = sum(value for part in epochs[:-1] for *_, value in part if value % 2 == 0)
    for name, place in (("minutes", 0), ("hours", 1)):
        assert sum(row[place] or 0 for row in seen(query, name)) == total
    assert len(world.output()) < sum(n for n, _ in seen(query, "hours"))
    assert list((world.folder / "late").rglob("*.parquet"))

    memory = raw(world.live()).writeStream.format("noop")
    stock = memory.trigger(availableNow=True).start()
    stock.awaitTermination()
    assert stock.lastProgress is not None
    theirs, mine = stock.lastProgress.observedMetrics["raw"], query.lastProgress["observedMetrics"]["raw"]
    assert list(theirs.asDict()) == list(mine.asDict())
    written = json.loads(with_rows[0].json)["observedMetrics"]["raw"]
    assert written["n"] == len(PARTS[0])
    assert json.loads(with_rows[0].prettyJson)["observedMetrics"]["even"] == {"n": evens[0]}


@pytest.mark.slow
def test_rows_that_come_together_are_observed_together(world: World) -> None:
    """Several histories in slices, read by two stages whose rows meet in a third: each row counts once at each place,
    in front of two readers, too; what moves rows behind the last stage counts what has come out of it."""
    events = EVENTS[:150], EVENTS[150:]
    first, second = (
        world.spark.createDataFrame([(key, support.at(s), value) for key, s, value in some], support.ROW_SCHEMA)
        for some in events
    )
    one, other = (mixedmode.read(history=rows).withWatermark("ts", "0 seconds") for rows in (first, second))
    rows = one.observe("one", F.count("*").alias("n")).union(other).observe("in", F.count("*").alias("n"))
    even, all_ = (
        some.dropDuplicates(["key", "ts"]).select("key", "ts") for some in (rows.where("value % 2 = 0"), rows)
    )
    met = even.union(all_).observe("met", F.count("*").alias("n"), F.min("key")).where("key <> 'k0'")
    counted = met.groupBy(F.window("ts", "10 minutes")).count()
    static = world.spark.range(1, 200).selectExpr("id AS count", "id % 2 AS odd").hint("merge")
    out = counted.join(static, "count").observe("out", F.sum("count").alias("n"))
    query = world.start(out, {"execution.runtime-mode": "streaming", "execution.history.rows-per-epoch": 160})
    assert query.awaitTermination(300)

    def total(name: str) -> int:
        return sum(progress["observedMetrics"][name].n or 0 for progress in query.recentProgress)

    assert (total("one"), total("in")) == (150, len(EVENTS))
    assert len([row for row in seen(query, "in") if row[0]]) > 2, "an epoch counts its slice"
    evens = {event[:2] for event in EVENTS if event[2] % 2 == 0}
    assert total("met") == len(evens) + len({event[:2] for event in EVENTS})
    assert total("out") == sum(row[0] for row in world.output()) < total("met")


def test_a_whole_result_is_observed_each_time(world: World) -> None:
    """outputMode complete: what is behind the stage is the result after the epoch; a history counts beside the rows of
    the live source."""
    frame = world.read(PARTS[0]).observe("in", F.count("*").alias("n"))
    totals = frame.groupBy("key").agg(F.sum("value").alias("s")).observe("all", F.sum("s").alias("s"), F.count("key"))
    world.land(PARTS[1])
    writer = totals.where("s > 0").orderBy("key").writeStream.format("memory").queryName("observed")
    query = writer.outputMode("complete").option("checkpointLocation", str(world.checkpoints)).start()
    world.queries.append(query)
    for rows, upto in ((180, 180), (60, 240)):
        query.processAllAvailable()
        found = [one["observedMetrics"] for one in query.recentProgress if one["observedMetrics"]["in"].n][-1]
        assert found["in"].n == rows
        assert tuple(found["all"]) == (sum(value for *_, value in EVENTS[:upto]), 6)
        world.land(EVENTS[180:])
