"""Jobs whose later keys contain the earlier ones: their rows stay in the shards that they are in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from epoch_failures import EpochFailures
from mixedmode.planner.plans import graph
from mixedmode.runtime.jobs import shuffle, stage_jobs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World

support.by_value(__name__)

EVENTS = support.stream_of(500, seed=8, keys=20)
FLUSH = support.flush_after(EVENTS)
#: A number of key groups that is no power of two: all stages shuffle.
SHUFFLED = {"pipeline.max-parallelism": 100}


class Jobs:
    """The plans of stages whose rows stay where they are, as Spark executes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_place: list[str] = []
        self.moved: list[str] = []
        holds = shuffle.InPlace.holds

        def noted(way: shuffle.InPlace, job: DataFrame) -> bool:
            found, plan = holds(way, job), job._jdf.queryExecution().executedPlan().toString()
            if "rows_of_the_stage" not in plan:  # the planner's question
                (self.in_place if found else self.moved).append(plan)
            return found

        monkeypatch.setattr(shuffle.InPlace, "holds", noted)

    def take(self) -> int:
        """How many there were since the last time; none of them moves rows."""
        assert self.moved == []
        assert not any("Exchange" in plan for plan in self.in_place)
        assert all("Bucketed: true" in plan for plan in self.in_place)
        found = len(self.in_place)
        self.in_place.clear()
        return found


def uid(stage: Any, name: str) -> Any:
    return stage if isinstance(stage, DataFrame) else stage.uid(name)


def visits(rows: Any) -> Any:
    """Sessions; how many an hour has of each key; and how many of these were how busy.  For Spark's frames, too."""
    sessions = rows.withWatermark("ts", "0 seconds").groupBy("key", F.session_window("ts", "5 minutes"))
    closed = uid(sessions.agg(F.count("*").alias("n"), F.sum("value").alias("total")), "sessions")
    hour = F.window(F.window_time("session_window"), "1 hour")
    hourly = closed.where("n > 0").withColumnRenamed("key", "who").groupBy("who", hour)
    hours = uid(hourly.agg(F.sum("n").alias("n"), F.sum("total").alias("total")), "hours")
    busy = hours.withColumn("busy", F.col("n") > 3)
    counted = busy.groupBy("busy", "window", F.col("who").alias("key")).agg(F.sum("total").alias("total"))
    return uid(counted, "busy").select("key", "window.start", "busy", "total")


def visits_of(world: World, events: list[support.Event]) -> list[tuple[Any, ...]]:
    """What Spark gives in batch."""
    return sorted([tuple(row) for row in visits(world.history(events)).collect()], key=repr)


def shown(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(support.without_flush(rows), key=repr)


def groups_of(checkpoints: Path) -> dict[str, Any]:
    """By stage which key columns decide the key groups of its state, by the newest checkpoint."""
    newest = max(checkpoints.glob("mixedmode/checkpoints/*/_metadata"), key=lambda path: path.parent.name)
    said = json.loads(newest.read_text())
    assert said["format_version"] == 4
    return {one["uid"]: one["layout"]["key_group_places"] for one in json.loads(said["body"])["operators"]}


@pytest.mark.slow
def test_a_key_that_contains_the_earlier_one_needs_no_shuffle(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """C12: in the backlog and in the stream Spark's plans of the later stages have no exchange.  With three shards, no
    power of two, rows are moved, by the same key groups; a savepoint of that is restored to four, where they stay in
    place again, and a key is found.  The results are Spark's."""
    expected, jobs = visits_of(world, EVENTS), Jobs(monkeypatch)
    world.land(EVENTS[200:280])
    query = world.start(visits(world.read(EVENTS[:200])))
    query.processAllAvailable()
    assert jobs.take() == 2
    world.feed(query, EVENTS[280:360])
    assert jobs.take() >= 1
    query.stop()
    assert groups_of(world.checkpoints) == {"sessions": None, "hours": [0], "busy": [2]}

    world.land(EVENTS[360:430])
    job = visits(world.read(EVENTS[:200]))
    query = world.start(job, {"pipeline.parallelism": 3})
    query.processAllAvailable()
    savepoint = query.stopWithSavepoint(str(world.folder / "sp"), drain=False)
    assert jobs.take() == 0

    again = World(world.spark, world.folder / "again")
    world.land(EVENTS[430:], FLUSH)
    job = visits(world.read())
    query = again.start(job, {"pipeline.parallelism": 4, "execution.savepoint.path": savepoint})
    support.finish(query)
    assert jobs.take() >= 2
    assert shown(world.output() + again.output()) == expected
    found = mixedmode.state_reader(savepoint, world.spark)
    keys = [row.key for row in found.state(operator="hours").select("key").collect()]
    assert keys
    assert all(found.lookup(*key, operator="hours")["found"] for key in keys[:3])


@pytest.mark.slow
def test_state_stays_in_the_key_groups_that_it_is_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of a version that hashed whole keys is gone on from: rows are moved as they were."""
    expected, jobs = visits_of(world, EVENTS), Jobs(monkeypatch)
    job = visits(world.read(EVENTS[:200]))
    with monkeypatch.context() as before:
        before.setattr(graph, "with_key_groups", lambda stages, specs, settings: specs)
        query = world.start(job)
        support.finish(query)
    world.land(EVENTS[200:], FLUSH)
    query = world.start(job)
    support.finish(query)
    assert jobs.take() == 0
    assert groups_of(world.checkpoints) == {"sessions": None, "hours": None, "busy": None}
    assert shown(world.output()) == expected


@pytest.mark.slow
def test_finished_shards_are_reused_where_rows_stay_in_place(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that failed when all stages of the backlog were done leaves their shards to the next one; those that are
    computed again read what the others have read."""
    failures = EpochFailures(monkeypatch, "epoch-before-apply")
    expected, jobs = visits_of(world, EVENTS), Jobs(monkeypatch)
    job = visits(world.read(EVENTS, live=False))
    with pytest.raises(mixedmode.QueryError, match="failed at epoch-before-apply"):
        world.start(job).awaitTermination(120)
    assert jobs.take() == 2
    next(iter(sorted(world.checkpoints.glob("mixedmode/backlog/*/hours/*.report")))).unlink()
    failures.point = None
    query = world.start(job)
    query.awaitTermination(120)
    assert support.details(query, "reused")[:2] == ["2 of 2 shards were finished", "1 of 2 shards were finished"]
    assert jobs.take() == 2
    assert world.output() == expected


class Gaps(StatefulProcessor):
    """Says how long before each session of a key its last one had ended, and when nothing has come for an hour."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._last = handle.getValueState("last", "end long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            last = self._last.get()
            yield key[0], row.end - last[0] if last else None
            self._last.update((row.end,))
            for timer in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer)
            self._handle.registerTimer(row.end * 1000 + 3_600_000)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield key[0], -1


def gaps(rows: Any) -> Any:
    """Sessions, and a processor of each key's."""
    sessions = rows.withWatermark("ts", "0 seconds").groupBy("key", F.session_window("ts", "5 minutes")).count()
    ends = sessions.select(F.unix_timestamp("session_window.end").alias("end"), "key")
    return ends.groupBy("key").transformWithState(Gaps(), "key string, gap long", "append", "eventTime")


def first_values(rows: Any) -> Any:
    """When each value was first there, counted by what the deduplication was by, and more."""
    first = rows.withWatermark("ts", "0 seconds").dropDuplicates(["key", "value"])
    return first.groupBy(F.window("ts", "1 hour"), "value", F.col("key").alias("who")).count()


@pytest.mark.slow
@pytest.mark.parametrize("job", [gaps, first_values])
def test_results_are_those_of_a_shuffle(world: World, monkeypatch: pytest.MonkeyPatch, job: Any) -> None:
    """C12: a processor with event-time timers behind sessions, an aggregate behind a deduplication."""
    jobs, outputs = Jobs(monkeypatch), []
    for name, options in (("in-place", {"pipeline.parallelism": 4}), ("shuffled", SHUFFLED)):
        one = World(world.spark, world.folder / name)
        query = one.start(job(world.read(EVENTS, live=False)), options)
        query.awaitTermination(120)
        outputs.append(one.output())
        assert jobs.take() == (1 if name == "in-place" else 0)
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 100


@pytest.mark.slow
def test_rows_that_are_not_in_their_shards_are_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If files were of other shards than they say, tasks would refuse them, and the epoch moves all rows."""

    class Wrong(shuffle.InPlace):
        def __init__(self, spark: Any, parallelism: int) -> None:
            super().__init__(spark, parallelism)
            self.shards = self.shards[::-1]

    monkeypatch.setattr(stage_jobs, "InPlace", Wrong)
    history = world.history(EVENTS)
    world.start(first_values(mixedmode.read(history=history))).awaitTermination(120)
    counts = first_values(history).select("value", "who", "count").collect()
    assert sorted(row[1:] for row in world.output()) == sorted(tuple(row) for row in counts)
    assert "from now on rows are moved to their shards by a shuffle of their own" in caplog.text
