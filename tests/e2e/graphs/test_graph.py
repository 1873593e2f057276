"""Jobs of two keyed stages: closed sessions, counted by the hour (``support.hours``)."""

from __future__ import annotations

from datetime import timezone
from typing import Any

import mixedmode
import pyarrow.parquet as pq
import pytest
import support
from epoch_failures import EpochFailures
from mixedmode.runtime.driver.epochs import graph_epochs
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from session_options import session_options
from support import World

support.by_value(__name__)

EVENTS = support.stream_of(600, seed=5)
EXPECTED = support.hours_of(EVENTS)
FLUSH = support.flush_after(EVENTS)


def of_flush(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Without the hours that only the flush has sessions in."""
    return [row for row in rows if row[0]["start"] <= EXPECTED[-1][0]["start"]]


@pytest.mark.parametrize("mode", ["mixed", pytest.param("streaming", marks=pytest.mark.slow)])
def test_a_bounded_job_of_two_stages_gives_what_is_expected(world: World, mode: str) -> None:
    """History only, sorted (as in the mode ``batch``) and streamed: the first stage fires all, its rows reach the
    second, then that fires all."""
    options = {"execution.runtime-mode": mode, "execution.history.rows-per-epoch": 150}
    query = world.start(support.hours(world.history(EVENTS), None), options)
    query.awaitTermination(120)
    assert world.output() == EXPECTED
    assert query.lastProgress is not None
    assert [one["operatorName"] for one in query.lastProgress["stateOperators"]] == ["sessions", "hours"]


@pytest.mark.smoke
def test_a_job_of_two_stages_goes_from_backlog_to_stream(world: World) -> None:
    """What straddles the switch is carried over in both stages; in each epoch the later stage fires up to what the
    earlier one has; nothing is late, and no file is left between the stages."""
    parts = support.parts_of(EVENTS, 6)
    world.land(parts[2])
    query = world.start(
        support.hours(world.history(parts[0] + parts[1]), world.live()), {"execution.checkpointing.interval": "1 ms"}
    )
    query.processAllAvailable()
    at_switch = world.output()
    assert at_switch
    for part in [*parts[3:], FLUSH]:
        world.feed(query, part)
        assert query.lastProgress is not None
        reached = query.lastProgress["eventTime"]["watermark"]
        fired = [row for row in EXPECTED if row[0]["end"].strftime("%Y-%m-%dT%H:%M:%S.000Z") <= reached]
        assert of_flush(world.output()) == fired
    assert of_flush(world.output()) == EXPECTED
    assert all(one["numRowsDroppedByWatermark"] == 0 for p in query.recentProgress for one in p["stateOperators"])
    assert sum(p["numInputRows"] for p in query.recentProgress) == len(EVENTS) + len(FLUSH)
    query.stop()
    assert list((world.checkpoints / "mixedmode" / "exchange").rglob("*.parquet")) == []


@pytest.mark.slow
def test_a_drain_goes_stage_by_stage(world: World) -> None:
    """C7: the first stage gets MAX_WATERMARK, fires and finishes before the second gets it; what the drain fires is the
    rest.  C8: its savepoint is restored stage by stage, with another number of shards."""
    world.land(EVENTS[300:])
    query = world.start(support.hours(world.history(EVENTS[:300]), world.live()))
    query.processAllAvailable()
    savepoint = query.savepoint(str(world.folder / "sp"))
    query.stopWithSavepoint(str(world.folder / "drained"), drain=True)
    assert world.output() == EXPECTED
    steps = [(one.task.partition("[")[0], one.event) for one in query.lifecycle.tasks if one.task.startswith("stage ")]
    order = [name for name, event in steps if event.startswith("MAX_WATERMARK")]
    assert list(dict.fromkeys(order)) == ["stage sessions", "stage hours"]
    ended = steps.index(("stage hours", next(event for name, event in steps if event.startswith("MAX_WATERMARK"))))
    assert any(name == "stage sessions" and "finish" in event for name, event in steps[:ended])

    again = World(world.spark, world.folder / "again")
    world.land(FLUSH)
    more = again.start(
        support.hours(None, world.live()), {"execution.savepoint.path": savepoint, "pipeline.parallelism": 3}
    )
    support.finish(more)
    assert of_flush(sorted(again.output() + at_most(world, savepoint), key=repr)) == EXPECTED


def at_most(world: World, savepoint: str) -> list[tuple[Any, ...]]:
    """What the job had given when the savepoint was taken: hours whose end its watermark had passed."""
    reached = support.at(max(event[1] for event in EVENTS))
    return [row for row in EXPECTED if row[0]["end"].replace(tzinfo=None) <= reached]


def test_savepoints_of_other_stages_are_refused(world: World) -> None:
    """C8: state that the job does not claim, and ids that were exchanged; a stage that is new begins empty."""
    query = world.start(support.hours(world.history(EVENTS), world.live()))
    query.processAllAvailable()
    savepoint = query.savepoint(str(world.folder / "sp"))
    query.stop()
    other = World(world.spark, world.folder / "other")
    alone = support.sessions(None, other.live()).uid("sessions")
    options = {"execution.savepoint.path": savepoint}
    assert "operator 'hours' (the job's is 'sessions')" in str(support.refusal(lambda: other.start(alone, options)))
    swapped = (
        other.read()
        .withWatermark("ts", "0 seconds")
        .groupBy("key", F.window("ts", "1 minute"))
        .count()
        .uid("sessions")
        .groupBy(F.window(F.window_time("window"), "1 hour"))
        .count()
        .uid("hours")
    )
    said = str(support.refusal(lambda: other.start(swapped, options)))
    assert "is another job's (stage 'sessions')" in said


@pytest.mark.slow
def test_a_failure_between_the_stages_leaves_no_trace(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """C4, C6: the first stage's job has succeeded, the epoch has not: neither stage has changed.  A run that follows
    reuses its finished shards of the first stage in the backlog, and repeats the epoch in the stream."""
    failures = EpochFailures(monkeypatch, "epoch-between-stages")
    parts = support.parts_of(EVENTS, 3)
    job = support.hours(world.history(parts[0]), world.live())
    query = world.start(job)
    with pytest.raises(mixedmode.QueryError, match="failed at epoch-between-stages"):
        query.awaitTermination(300)
    assert world.output() == []
    failures.point = None
    query = world.start(job)
    query.processAllAvailable()
    assert support.details(query, "reused") == ["2 of 2 shards were finished"]
    failures.point = "epoch-between-stages"
    world.land(parts[1])
    with pytest.raises(mixedmode.QueryError, match="failed at epoch-between-stages"):
        query.awaitTermination(300)
    failures.point = None
    query = world.start(job)
    world.land(parts[2], FLUSH)
    support.finish(query)
    assert of_flush(world.output()) == EXPECTED


class Followed(StatefulProcessor):
    """Says which watermark it is shown with each row, and with a timer seven minutes later."""

    def init(self, handle: Any) -> None:
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        shown = timerValues.getCurrentWatermarkInMs()
        for row in rows:
            yield key[0], row.total, shown
        self._handle.registerTimer(shown + 7 * 60_000)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield key[0], None, timerValues.getCurrentWatermarkInMs()


def followed(rows: Any) -> Any:
    """Totals of five minutes, and a processor that is told when each was complete."""
    windows = rows.withWatermark("ts", "2 minutes").groupBy("key", F.window("ts", "5 minutes"))
    totals = windows.agg((F.sum("value") + 0).alias("total")).select(F.col("key").alias("k"), "window", "total")
    watched = totals.groupBy("k").transformWithState(Followed(), "k string, total long, at long", "append", "eventTime")
    return watched


def followed_of(events: list[support.Event], last_ms: int) -> list[tuple[Any, ...]]:
    """What the orderly stream gives: a window is there when the watermark is at its end, a timer at its own time.

    Windows that only the end of input completes come while the next stage's watermark is where it was, ``last_ms``.
    """
    totals: dict[tuple[str, int], int] = {}
    for key, seconds, value in events:
        totals[key, seconds // 300] = totals.get((key, seconds // 300), 0) + value
    rows = [(key, total, min(support.at_ms(300 * (window + 1)), last_ms)) for (key, window), total in totals.items()]
    return sorted([*rows, *{(key, None, at_ms + 7 * 60_000) for key, _, at_ms in rows}], key=repr)


@pytest.mark.slow
@pytest.mark.parametrize(("cuts", "mode"), [(4, "mixed"), (3, "streaming")])
def test_rows_of_a_stage_come_when_they_were_emitted(world: World, cuts: int, mode: str) -> None:
    """A later processor with event-time timers sees the watermark at which each row was emitted, and fires its timers
    between them, however the input is cut."""
    events = EVENTS[:200]
    parts = support.parts_of(events, cuts + 1)
    job = followed(world.read(parts[0]))
    query = world.start(job, {"execution.runtime-mode": mode})
    world.feed(query, *parts[1:], [("flush", events[-1][1] + 5000, 0)])
    query.stop()
    last = events[-1][1] + 5000 - 120
    assert world.results() == followed_of(events, support.at_ms(last))


@pytest.mark.slow
def test_a_harmed_exchange_is_never_read_as_fewer_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """C5: the epoch fails and names the file, whatever the session tells Spark to overlook; the next run is right."""
    real, harms = graph_epochs.failpoint, ["missing", "truncated", "altered"]

    def harming(name: str) -> None:
        if name == "epoch-between-stages" and harms:
            path = max(
                (world.checkpoints / "mixedmode" / "exchange").rglob("*.parquet"), key=lambda p: p.stat().st_size
            )
            content = path.read_bytes()
            if harms[0] == "missing":
                path.unlink()
            elif harms[0] == "truncated":
                path.write_bytes(content[: len(content) // 2])
            else:
                chunk = pq.read_metadata(path).row_group(0).column(1)  # one that is read
                last = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1
                path.write_bytes(content[:last] + bytes([content[last] ^ 1]) + content[last + 1 :])
        real(name)

    monkeypatch.setattr(graph_epochs, "failpoint", harming)
    ignored = dict.fromkeys(("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"), "true")
    # Each run computes the first stage anew: what it hands on is harmed in each.
    options = {"execution.backlog.reuse-finished-shards": "false"}
    with session_options(world.spark, ignored):
        job = support.hours(world.history(EVENTS), None)
        while harms:
            query = world.start(job, options)
            with pytest.raises(mixedmode.QueryError, match=r"e00000001-s\d{4}-.*\.parquet"):
                query.awaitTermination(300)
            harms.pop(0)
        world.start(job, options).awaitTermination(300)
        assert world.output() == EXPECTED


def diamond(rows: Any) -> Any:
    """One input, two stages, and a third over both: what each minute has per key, small values and large apart."""
    timed = rows.withWatermark("ts", "0 seconds")

    def counted(kind: str, condition: str, delay: str) -> Any:
        some = timed.withWatermark("ts", delay).where(condition).withColumn("kind", F.lit(kind))
        windows = some.groupBy("kind", F.window("ts", "5 minutes")).agg(F.count("*").alias("n"))
        return windows.uid(kind).select("kind", "window", "n")

    both = counted("small", "value < 50", "0 seconds").union(counted("large", "value >= 50", "3 minutes"))
    return both.groupBy(F.window(F.window_time("window"), "1 hour")).agg(
        F.sum("n").alias("n"), F.count("*").alias("parts")
    )


@pytest.mark.slow
def test_a_diamond_has_the_lesser_watermark(world: World) -> None:
    """C11: one input, two stages with other rows and delays, a union, a third stage: nothing of either is late there,
    over the switch and a restart in the stream."""
    parts = support.parts_of(EVENTS, 5)
    last = EVENTS[-1][1]

    def start() -> Any:
        job = diamond(world.read(parts[0])).uid("hours")
        return world.start(job)

    world.land(parts[1])
    query = start()
    query.processAllAvailable()
    world.land(parts[2])
    support.finish(query)
    query = start()
    world.feed(query, parts[3], parts[4], [("flush", last + 40_000, 0), ("flush", last + 40_000, 99)])
    assert all(one["numRowsDroppedByWatermark"] == 0 for p in query.recentProgress for one in p["stateOperators"])
    query.stop()
    rows = [(key, support.at(seconds), value) for key, seconds, value in EVENTS]
    small = F.when(F.col("value") < 50, "small").otherwise("large").alias("kind")
    windows = world.spark.createDataFrame(rows, support.ROW_SCHEMA).groupBy(small, F.window("ts", "5 minutes")).count()
    expected = windows.groupBy(F.window(F.window_time("window"), "1 hour")).agg(F.sum("count"), F.count("*"))
    found = [({"start": row[0].start, "end": row[0].end}, *row[1:]) for row in expected.collect()]
    utc = [
        ({name: time.replace(tzinfo=timezone.utc) for name, time in window.items()}, *rest) for window, *rest in found
    ]
    output = world.output()
    assert [row for row in output if row[0]["start"] <= max(one[0]["start"] for one in utc)] == sorted(utc, key=repr)
    plan = diamond(world.read()).writeStream.format("noop").plan()
    assert [stage.reads for stage in plan.stages] == [("live",), ("live",), ("small", "large")]


@pytest.mark.slow
def test_the_end_of_input_comes_to_a_shared_stage_when_all_before_it_have_ended(world: World) -> None:
    """A diamond over a bounded history: no window of the third stage fires before both of the others have.

    (Streamed, stage by stage: the first test here.)
    """
    job = diamond(world.read(EVENTS, live=False)).uid("hours")
    world.start(job).awaitTermination(300)
    counted: dict[Any, int] = {}
    for window, n, _ in world.output():
        assert window["start"] not in counted, "fired twice"
        counted[window["start"]] = n
    hours: dict[int, int] = {}
    for _, seconds, _ in EVENTS:
        hours[seconds // 3600] = hours.get(seconds // 3600, 0) + 1
    assert list(counted.values()) == [hours[hour] for hour in sorted(hours)]


class Parting(support.ClosedSessions):
    """Has one more row when all input has ended."""

    def endInput(self) -> Any:
        yield "end", support.at(10**6), 1, 1


@pytest.mark.slow
def test_rows_of_an_end_hook_reach_the_stages_behind(world: World) -> None:
    """A later stage, and one behind that, get MAX_WATERMARK when the hooks before them have been called."""
    rows = world.read(EVENTS, live=False).withWatermark("ts", "0 seconds").groupBy("key")
    closed = rows.transformWithState(
        Parting(), support.CLOSED_SCHEMA, "append", "eventTime", eventTimeColumnName="closed"
    ).uid("sessions")
    minutes = closed.groupBy(F.window("closed", "5 minutes")).agg(F.sum("count").alias("rows")).uid("minutes")
    hours = minutes.groupBy(F.window(F.window_time("window"), "1 hour")).agg(F.sum("rows").alias("rows")).uid("hours")
    with pytest.raises(mixedmode.PlanError, match="stage sessions may hand on more rows when all input has ended"):
        hours.writeStream.option("execution.runtime-mode", "batch").format("noop").plan()
    world.start(hours).awaitTermination(300)
    output = world.output()
    assert len({row[0]["start"] for row in output}) == len(output), "fired twice"
    shards = 2  # each has its hook called
    assert [row[1] for row in output] == [*(row[2] for row in EXPECTED), shards]


@pytest.mark.slow
def test_rows_that_are_emitted_at_once_are_in_order_behind(world: World) -> None:
    """A processor behind a deduplication sees t - delay with a row of t in the stream, too, and its timers between."""
    events = EVENTS[:120]
    parts = support.parts_of(events, 3)
    rows = world.read(parts[0]).withWatermark("ts", "2 minutes")
    unique = rows.dropDuplicates(["key", "ts", "value"]).uid("unique").dropna(how="all").toDF("k", "ts", "total")
    schema = "k string, total long, at long"
    query = world.start(
        unique.groupBy("k").transformWithState(Followed(), schema, "append", "eventTime").uid("followed")
    )
    for part in [*parts[1:], [(support.FLUSH_KEY, events[-1][1] + 5000, 0)]]:
        world.feed(query, part + part)
    query.stop()
    seen = {(key, value, support.at_ms(seconds - 120)) for key, seconds, value in events}
    timers = {(key, None, at_ms + 7 * 60_000) for key, _, at_ms in seen}
    assert world.results() == sorted([*seen, *timers], key=repr)


def test_overlapping_windows_over_an_earlier_window_are_those_of_a_batch(world: World) -> None:
    """As Spark takes it, the time of an earlier window is its last instant: F.window("window", …) = F.window_time."""

    def job(rows: Any) -> Any:
        minutes = rows.groupBy("key", F.window("ts", "5 minutes")).agg(F.sum("value").alias("v"))
        return minutes.groupBy(F.window("window", "1 hour", "20 minutes")).agg(F.max("v").alias("v"), F.count("*"))

    parts, last = support.parts_of(EVENTS, 2), EVENTS[-1][1]
    frame = world.read(parts[0]).withWatermark("ts", "1 hour")
    query = world.start(job(frame))
    world.feed(query, parts[1], [("flush", last + 40_000, 0)], [("flush", last + 40_000, 1)])
    query.stop()
    rows = [(key, support.at(seconds), value) for key, seconds, value in EVENTS]
    expected = job(world.spark.createDataFrame(rows, support.ROW_SCHEMA)).collect()
    windows = [
        ({name: time.replace(tzinfo=timezone.utc) for name, time in row[0].asDict().items()}, *row[1:])
        for row in expected
    ]
    assert [row for row in world.output() if row[0]["start"] <= max(one[0]["start"] for one in windows)] == sorted(
        windows, key=repr
    )
