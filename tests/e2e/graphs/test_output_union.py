"""Jobs whose output is the union of what several keyed stages give."""

from __future__ import annotations

from typing import Any

import mixedmode
import pytest
import support
from epoch_failures import EpochFailures
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World

EVENTS = support.stream_of(240, seed=8, keys=5, step_s=60)
FLUSH = support.flush_after(EVENTS)


def totals(frame: Any) -> Any:
    """Totals of ten minutes by key, those of an hour, which a later stage makes of them, and the rows of each key once;
    the first part twice, since what is done to it differs."""
    timed = frame.withWatermark("ts", "0 seconds")
    minutes = timed.groupBy("key", F.window("ts", "10 minutes")).agg(F.sum("value").alias("v"))
    hours = minutes.groupBy(F.window(F.window_time("window"), "1 hour")).agg(F.sum("v").alias("v"), F.count("*"))
    named = minutes.select(F.lit("minutes").alias("kind"), "key", F.col("window.start").alias("start"), "v")
    once = timed.dropDuplicates(["key", "ts"]).select(F.lit("once"), "key", "ts", "value").where("value > 50")
    several = named.where("v % 2 = 0").union(named.where("v % 2 = 1").withColumn("kind", F.upper("kind")))
    several = several.union(once).union(hours.select(F.lit("hours"), F.lit(None).cast("string"), "window.start", "v"))
    return several if isinstance(frame, DataFrame) else several.observe("out", F.count("*").alias("n"))


@pytest.mark.slow
def test_rows_of_several_stages_are_one_output(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over backlog and stream, as plain Spark has it: of two readers, and of a stage behind one of them.  An epoch that
    fails where they are united leaves no trace in any; a drain ends each in its turn, and what it fires is output."""
    failures = EpochFailures(monkeypatch, "epoch-before-tail")
    job = totals(world.read(EVENTS[:120]))
    text = " ".join(str(job.writeStream.format("noop").plan()).split())
    assert "[keyed-0] + [keyed-1] + [keyed-2] -> noop" in text
    assert "union of [keyed-0] (select, where" in text
    assert "in a Spark job of its own in each epoch, over what the keyed stages hand on" in text

    query = world.start(job)
    with pytest.raises(mixedmode.QueryError, match="failed at epoch-before-tail"):
        query.awaitTermination(300)
    failures.point = None
    query = support.live(world.start(job))
    assert support.details(query, "reused")
    world.feed(query, EVENTS[120:160])
    failures.point = "epoch-before-tail"
    world.land(EVENTS[160:161])
    with pytest.raises(mixedmode.QueryError, match="failed at epoch-before-tail"):
        query.awaitTermination(300)
    failures.point = None
    query = support.live(world.start(job))
    world.feed(query, EVENTS[161:])
    query.stopWithSavepoint(str(world.folder / "drained"), drain=True)
    stock = totals(world.spark.createDataFrame([(k, support.at(s), v) for k, s, v in EVENTS], support.ROW_SCHEMA))
    assert world.output() == sorted((tuple(row) for row in stock.collect()), key=repr)
    assert list((world.checkpoints / "mixedmode" / "exchange").rglob("*.parquet")) == []
    written = [(one["sink"]["numOutputRows"], one["observedMetrics"]["out"].n) for one in query.recentProgress]
    assert all(rows == n for rows, n in written)
    assert sum(rows for rows, _ in written) > 0


@pytest.mark.slow
def test_rows_that_no_keyed_stage_takes_are_output_beside_others(world: World) -> None:
    """As plain Spark has it, of the same source and of another, over the switch, a failure and a restart: each row
    once."""
    other = World(world.spark, world.folder / "other")
    other.land(EVENTS[:7])

    def job(rows: Any, more: Any) -> Any:
        plain = rows.withColumn("kind", F.lit("row")).where("value > 20")
        once = rows.dropDuplicates(["key"]).withColumn("kind", F.lit("first"))
        return plain.union(once).union(more.withColumn("kind", F.lit("more"))).select("kind", "key", "ts", "value")

    def start() -> mixedmode.MixedQuery:
        rows = world.read(EVENTS[:100])
        return world.start(job(rows, other.read()), {"execution.checkpointing.interval": "200 ms"})

    query = start()
    support.live(query)
    world.land(EVENTS[100:150])
    support.finish(query)
    world.land(EVENTS[150:])
    other.land(EVENTS[7:9])
    query = start()
    support.finish(query)

    def static(events: list[support.Event]) -> DataFrame:
        return world.spark.createDataFrame([(k, support.at(s), v) for k, s, v in events], support.ROW_SCHEMA)

    found = world.output()
    expected = job(static(EVENTS), static(EVENTS[:9]))
    assert [row for row in found if row[0] != "first"] == sorted(
        (tuple(row) for row in expected.where("kind != 'first'").collect()), key=repr
    )
    firsts = {key: (support.at(seconds), value) for key, seconds, value in reversed(EVENTS)}
    assert {row[1]: row[2:] for row in found if row[0] == "first"} == firsts
