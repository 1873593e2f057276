"""Backlogs and epochs of few rows, all shards of which are one Spark task's work, among others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mixedmode
import pytest
import support
from epoch_calls import EpochCalls
from mixedmode.runtime.tasks.shard.shards_in_one import InOneTask
from pyspark.sql import functions as F
from support import World

EVENTS = support.stream_of(200, seed=9, keys=9)
OPTIONS = {
    "execution.checkpointing.interval": "1 hour",
    "execution.backlog.final-watermark": "observed",
    "pipeline.parallelism": 4,
}


def plain(frame: Any) -> Any:
    """Keys of two columns, one of them a number with a fraction; its rows are staged as they are."""
    window, half = F.window("ts", "30 minutes"), (F.col("value") % 3 / 2).alias("half")
    totals = frame.withWatermark("ts", "0 seconds").groupBy("key", half, window)
    return totals.agg(F.sum("value").alias("total"), F.count("*").alias("n"), F.max("ts").alias("latest"))


def jobs(world: World) -> range:
    """The numbers of all jobs so far."""
    return range(int(world.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()))


def tasks(world: World, number: int) -> list[int]:
    """How many tasks each stage of a job has."""
    tracker = world.spark.sparkContext.statusTracker()
    job = tracker.getJobInfo(number)
    stages = [] if job is None else [tracker.getStageInfo(stage) for stage in job.stageIds]
    return [stage.numTasks for stage in stages if stage is not None]


def assert_ends_as_a_batch(
    world: World,
    query: mixedmode.MixedQuery,
    job: Callable[[Any], Any],
    events: Sequence[support.Event],
    form: Callable[[list[Any]], list[Any]],
) -> None:
    """End all windows and the query; its output is what a batch over all events gives, both in a form."""
    world.land(support.flush_after(events))
    support.finish(query)
    made = [(key, support.at(seconds), value) for key, seconds, value in events]
    expected = job(world.spark.createDataFrame(made, support.ROW_SCHEMA)).collect()
    shown = world.spark.read.parquet(str(world.out)).where(F.col("key") != support.FLUSH_KEY).collect()
    assert sorted(map(str, form(shown))) == sorted(map(str, form(expected)))


@pytest.mark.slow
def test_few_rows_are_one_task_and_more_are_one_for_each_shard(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either way the state is the same one, also when it is dealt to others; what comes of both in turn is what a batch
    over everything gives.  The backlog is one small file."""
    before_all = jobs(world)
    query = world.start(plain(world.read(EVENTS[:60])), OPTIONS)
    support.live(query)
    backlog = [tasks(world, number) for number in jobs(world)[len(before_all) :]]
    assert [1] in backlog and not any(4 in stages for stages in backlog), backlog

    def shapes(start: int) -> list[list[int]]:
        """How many tasks the jobs of an epoch have, which has the events from there on."""
        before = jobs(world)
        world.feed(query, EVENTS[start : start + 20])
        return [tasks(world, number) for number in jobs(world)[len(before) :]]

    small: dict[bool, list[list[int]]] = {True: [], False: []}
    for place, start in enumerate(range(60, 160, 20)):
        is_small = place % 2 == 0
        monkeypatch.setattr(InOneTask, "is_of_use", staticmethod(lambda _, small=is_small: small))
        small[is_small] += shapes(start)
    monkeypatch.undo()
    assert small[True].count([1]) == 3, small  # what else there is fires what is due, without rows
    assert [1] not in small[False], small
    for start, shards in ((160, 8), (180, 2)):
        query.rescale(shards)
        assert ([1] in shapes(start)) is (shards == 2)
    assert_ends_as_a_batch(world, query, plain, EVENTS, list)


def falls(frame: Any) -> Any:
    """An aggregate that a task computes itself, unless a number is a zero with a sign."""
    rows = frame.withWatermark("ts", "0 seconds").groupBy("key", F.window("ts", "30 minutes"))
    return rows.agg(F.max(-F.col("value").cast("double")).alias("least"), F.sum(F.col("value") / 3).alias("sum"))


@pytest.mark.slow
def test_a_task_aggregates_few_rows_until_it_has_to_leave_them_to_spark(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With default options.  The rows that it leaves are counted once, and from then on Spark aggregates."""
    events = [(key, seconds, 1 + value) for key, seconds, value in EVENTS[:140]]
    events[90] = (*events[90][:2], 0)
    query = support.live(world.start(falls(world.read(events[:20])), {}))
    calls = EpochCalls(monkeypatch.setattr)
    by_spark = []
    for start in range(20, 140, 20):
        world.feed(query, events[start : start + 20])
        by_spark.append("Aggregate" in str(calls.plans[-1].top.toString()) if calls.plans else None)
    # The first epoch of a plan runs it as Spark has planned it for this epoch; the fourth one has the zero.
    assert by_spark[1:3] == [False, False] and by_spark[-1] is True, by_spark
    assert_ends_as_a_batch(world, query, falls, events, canonical_rows)


def canonical_rows(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Sums of fractions are added in another order over epochs; zeros of either sign are one."""
    return [(row["key"], row["window"], row["least"] + 0.0, round(row["sum"], 9)) for row in rows]
