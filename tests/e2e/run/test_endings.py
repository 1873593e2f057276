"""The endings of a job on Spark: natural end, savepoints with and without drain, hooks, waits, failures."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import support
from failing import fail_at
from mixedmode import CheckpointError, MixedQuery, QueryError
from mixedmode.runtime.connectors.sinks.parquet import ParquetSink
from mixedmode.runtime.driver.checkpoint.checkpoint_thread import CompletingThread
from mixedmode.runtime.protocols.lifecycle.final_checkpoint import FinalCheckpoint
from pyspark.sql import functions as F
from support import World, latest, live

support.by_value(__name__)

OBSERVED = {"execution.backlog.final-watermark": "observed"}
STREAMED = {"execution.runtime-mode": "streaming", "execution.history.rows-per-epoch": "10"}
EVENTS = support.stream_of(160, seed=21)
UID = "sessions"
ENDS = ["MAX_WATERMARK", "endInput, finish", "EndOfData", "barrier", "completed", "close", "EndOfPartition"]


def job(history: Any, live: Any) -> Any:
    return support.sessions(history, live).uid(UID)


def of_task(query: MixedQuery, task: str) -> list[str]:
    return [event.event for event in query.lifecycle.of(task)]


def assert_in_order(events: list[str], *expected: str) -> None:
    """Each word comes in an event after that of the word before it."""
    rest = iter(events)
    for word in expected:
        assert any(word in event for event in rest), (word, events)


def place(query: MixedQuery, task: str, event: str) -> int:
    """Where in the history of all tasks a task's first event with these words is."""
    return next(
        place for place, one in enumerate(query.lifecycle.tasks) if one.task == task and one.event.startswith(event)
    )


def hooks_of_the_sink(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls of the hooks that a sink may define, in order."""
    calls: list[str] = []
    for name in ("end_input", "finish", "close"):
        monkeypatch.setattr(ParquetSink, name, lambda sink, name=name: calls.append(name))
    return calls


class Trailer(support.Sessions):
    """Sessions, and one row for each hook and shard when the input has ended."""

    def endInput(self) -> Iterator[tuple[Any, ...]]:
        yield ("endInput", None, 0, 0)

    def finish(self) -> Iterator[tuple[Any, ...]]:
        yield ("finish", None, 0, 0)


class Curious(support.Sessions):
    """Looks at state where there is no key."""

    def finish(self) -> None:
        self._open.get()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, STREAMED, {"execution.runtime-mode": "batch"}], ids=["mixed", "stream", "batch"]
)
def test_natural_end(world: World, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """L1, F6: a bounded job ends by itself, row by row as in the tables, and its hooks' rows are output."""
    calls = hooks_of_the_sink(monkeypatch)
    keyed = (
        world.read(EVENTS, live=False)
        .withWatermark("ts", "0 seconds")
        .groupBy("key")
        .transformWithState(Trailer(), support.SESSION_SCHEMA, "append", "eventTime")
    )
    query = world.start(keyed, options)
    query.awaitTermination(300)
    assert calls == ["end_input", "finish", "close"]

    hooks = [row[0] for row in world.output() if row[0] in ("endInput", "finish")]
    assert sorted(hooks) == ["endInput", "endInput", "finish", "finish"], "once per shard"
    rest = [row for row in world.output() if row[0] not in ("endInput", "finish")]
    assert rest == world.expected(EVENTS)
    shard, sink = of_task(query, "stage keyed-0[1]"), of_task(query, "sink[0]")
    if options.get("execution.runtime-mode") == "batch":
        assert_in_order(sink, "MAX_WATERMARK", "endInput, finish", "commit", "close")
        assert not any("barrier" in event for event in shard + sink)
    else:
        assert_in_order(of_task(query, "source history[0]"), *ENDS)
        assert_in_order(shard, *ENDS)
        assert_in_order(sink, "MAX_WATERMARK", "endInput, finish", "barrier", "completed", "commit", "close")
    last = query.lifecycle.tasks[-1]
    assert (last.task, last.event, last.status, last.operator) == ("sink[0]", "close", "CLOSED", "CLOSED")
    metadata = latest(world)
    assert metadata.operators[0].finished and metadata.sources["history"].finished
    assert all(shard.finished for shard in metadata.operators[0].shards)


def test_state_in_a_hook_is_an_error(world: World) -> None:
    """A hook has no current key: keyed state in it is an error that says where state may be used."""
    keyed = (
        world.read(EVENTS[:20], live=False)
        .withWatermark("ts", "0 seconds")
        .groupBy("key")
        .transformWithState(Curious(), support.SESSION_SCHEMA, "append", "eventTime")
    )
    query = world.start(keyed)
    with pytest.raises(QueryError, match=r"without a current key; .* not in init\(\), endInput\(\) or\s+finish\(\)"):
        query.awaitTermination(300)
    assert world.output() == []


def test_savepoints_of_a_running_job(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L2: savepoint() does not disturb; stopWithSavepoint() without drain fires nothing, and all goes on elsewhere."""
    calls = hooks_of_the_sink(monkeypatch)
    query = live(world.start(job(world.history(EVENTS[:60]), world.live()), OBSERVED))
    world.feed(query, EVENTS[60:80])
    first = Path(query.savepoint(str(tmp_path / "first")))
    assert (first / "_metadata").exists() and query.isActive
    with pytest.raises(CheckpointError, match="holds a savepoint"):
        query.stopWithSavepoint(str(first))
    assert query.isActive, "a refused savepoint does not stop the job"
    world.feed(query, EVENTS[80:110])
    before = len(world.output())
    second = query.stopWithSavepoint(str(tmp_path / "second"))

    assert calls == ["close"]
    assert not query.isActive and query.exception() is None
    assert len(world.output()) == before, "without drain no window fires"
    for task in ("source live[0]", "stage sessions[0]", "sink[0]"):
        events = of_task(query, task)
        assert_in_order(events, "EndOfData(finished=false)", "(stop without drain)", "completed", "close")
        assert not any("endInput" in event for event in events)
    assert_in_order(of_task(query, "source history[0]"), *ENDS)
    assert not latest(world).sources["live"].finished and not latest(world).operators[0].finished

    other = World(world.spark, tmp_path / "other")
    other.landing = world.landing
    shutil.rmtree(world.checkpoints)
    restored = live(
        other.start(
            job(other.history(EVENTS[:60]), other.live()),
            {**OBSERVED, "pipeline.parallelism": 3, "execution.savepoint.path": second},
        )
    )
    world.land(EVENTS[110:], support.flush_after(EVENTS))
    support.finish(restored)
    # R1, R2: the history is not read again, its task only says that it had finished.
    assert of_task(restored, "source history[0]")[0] == "finished in an earlier run"
    assert support.details(restored, "phase") == ["live"]
    rows = sorted(world.output() + other.output(), key=repr)
    assert support.without_flush(rows) == world.expected(EVENTS)


@pytest.mark.slow
def test_windows_of_an_aggregate(world: World, tmp_path: Path) -> None:
    """L1: a drain fires every open window of an aggregate, and what is left of the state fires nothing later."""
    window = F.window("ts", "1 hour").alias("hour")
    keyed = (
        world.read(EVENTS[:60])
        .withWatermark("ts", "10 minutes")
        .groupBy("key", window)
        .agg(F.count("*").alias("rows"), F.sum("value").alias("total"))
    )
    query = live(world.start(keyed, OBSERVED))
    world.feed(query, EVENTS[60:100])
    path = query.stopWithSavepoint(str(tmp_path / "savepoint"), drain=True)
    rows = world.spark.createDataFrame([(k, support.at(s), v) for k, s, v in EVENTS[:100]], support.ROW_SCHEMA)
    expected = rows.groupBy("key", window).agg(F.count("*").alias("rows"), F.sum("value").alias("total"))
    found = world.spark.read.parquet(str(world.out))
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, expected.collect()))
    assert Path(path, "_metadata").exists()


@pytest.mark.slow
def test_drain(world: World, tmp_path: Path) -> None:
    """L1, L3, L4: with drain every open window fires before the savepoint, and a restored job begins with none open.

    The shards wait for both sources, of which one had ended long before, and the sink waits for both shards.
    """
    query = live(world.start(job(world.history(EVENTS[:60]), world.live()), OBSERVED))
    world.feed(query, EVENTS[60:100])
    savepoint = query.stopWithSavepoint(str(tmp_path / "savepoint"), drain=True)

    assert world.output() == world.expected(EVENTS[:100])
    assert_in_order(of_task(query, "source live[0]"), "stop-with-savepoint", *ENDS)
    assert_in_order(of_task(query, "stage sessions[1]"), *ENDS)
    assert not latest(world).sources["live"].finished, "the live source goes on after a drain"
    shards, sources = [f"stage sessions[{shard}]" for shard in (0, 1)], ["source history[0]", "source live[0]"]
    barrier = f"barrier {latest(world).checkpoint_id}"
    for event in ("MAX_WATERMARK", "EndOfData", barrier):
        for receivers, senders in ((shards, sources if event != barrier else sources[1:]), (["sink[0]"], shards)):
            last_sent = max(place(query, sender, f"emit {event}") for sender in senders)
            assert all(last_sent < place(query, receiver, event) for receiver in receivers), event
    for task in (*shards, "sink[0]"):
        needs = [f"checkpoint {latest(world).checkpoint_id} completed", "EndOfPartition"]
        needs += ["EndOfData acknowledged"] if task in shards else []
        assert max(place(query, task, event) for event in needs) < place(query, task, "close")

    other = World(world.spark, tmp_path / "other")
    other.landing = world.landing
    options = {**OBSERVED, "pipeline.parallelism": 1, "execution.savepoint.path": savepoint}
    restored = live(other.start(job(None, other.live()), options))
    world.land(EVENTS[100:], support.flush_after(EVENTS))
    support.finish(restored)
    assert other.results() == world.expected(EVENTS[100:])


@pytest.mark.slow
def test_checkpoints_from_before_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """F2: checkpoints of a history that is streamed complete while its tasks run, the last one of them when the source
    has ended already; only one after finish() ends them.

    What decides it is the state machine that the tests without Spark drive.
    """
    asked: list[tuple[int, bool]] = []
    judge = FinalCheckpoint.completed

    def judged(final: FinalCheckpoint, checkpoint_id: int) -> None:
        judge(final, checkpoint_id)
        asked.append((checkpoint_id, final.is_complete))

    monkeypatch.setattr(FinalCheckpoint, "completed", judged)
    monkeypatch.setattr(CompletingThread, "__call__", lambda thread, work: work())  # one for each epoch, however slow
    often = {"execution.checkpointing.interval": "1 ms", "execution.interval-during-backlog": "1 ms"}
    query = world.start(job(world.history(EVENTS[:60]), None), {**STREAMED, **often})
    query.awaitTermination(300)
    last = latest(world).checkpoint_id
    assert last > 2 and {number for number, ends in asked if ends} == {last}
    assert {number for number, ends in asked if not ends} == set(range(1, last))
    history = [(one.event, one.status) for one in query.lifecycle.of("source history")]
    assert (f"checkpoint {last - 2} completed", "RUNNING") in history
    assert (f"checkpoint {last - 1} completed", "WAITING_FOR_FINAL_CP") in history
    assert (f"checkpoint {last} completed", "WAITING_FOR_FINAL_CP") in history
    assert world.output() == world.expected(EVENTS[:60])


def test_failed_final_checkpoint_is_taken_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1: tasks that have finished wait until a checkpoint completes; it is tried again when the next one is due. The
    id of one that failed is not used again."""
    fail_at(monkeypatch, "checkpoint-start=raise:1")
    options = {
        "execution.checkpointing.tolerable-failed-checkpoints": "1",
        "execution.checkpointing.interval": "200 ms",
    }
    query = world.start(job(world.history(EVENTS[:60]), None), options)
    query.awaitTermination(300)
    assert [report["id"] for report in query.checkpoints] == [2]
    assert_in_order(of_task(query, "sink[0]"), "snapshot 1", "1 aborted", "snapshot 2", "commit up to 2", "close")
    assert world.output() == world.expected(EVENTS[:60])


def test_savepoint_in_the_backlog(world: World, tmp_path: Path) -> None:
    """I8: under interval 0 a savepoint in the backlog is refused with the option's name, or waits for the switch."""
    asked: dict[str, Any] = {}

    def in_the_backlog(name: str, query: MixedQuery) -> None:
        if name == "backlog-epoch-applied" and not asked:
            pool = ThreadPoolExecutor(2)
            asked["refused"] = pool.submit(query.savepoint, str(tmp_path / "refused")).exception(300)
            asked["waiting"] = pool.submit(query.savepoint, str(tmp_path / "waiting"), wait=True)
            pool.shutdown(wait=False)

    with support.at_failpoints(world, in_the_backlog):
        query = live(world.start(job(world.history(EVENTS[:60]), world.live()), OBSERVED))

    assert isinstance(asked["refused"], QueryError)
    assert "execution.interval-during-backlog is 0" in str(asked["refused"]) and "wait=True" in str(asked["refused"])
    assert not (tmp_path / "refused").exists()
    assert asked["waiting"].result(300) == str(tmp_path / "waiting")
    events = [event.event for event in query.lifecycle]
    assert events.index("switch") < events.index("savepoint")


@contextmanager
def stopped_after(world: World, epochs: int, place: Path) -> Iterator[None]:
    """The query that is started in here stops with a savepoint after so many epochs; it has, behind this."""
    asked: list[Future[str]] = []

    def applied(name: str, query: MixedQuery) -> None:
        if name == "epoch-applied" and not asked and query.status["epoch"] == epochs:
            asked.append(support.stop_in_background(query, place))

    with support.at_failpoints(world, applied):
        yield
        world.queries[-1].awaitTermination(300)
    assert asked[0].result(300) == str(place)


@pytest.mark.slow
def test_savepoint_in_a_streamed_history(world: World, tmp_path: Path) -> None:
    """R2: a job that stops in the middle of its history goes on elsewhere behind the slices that it has read."""
    with stopped_after(world, 3, tmp_path / "savepoint"):
        world.start(job(world.history(EVENTS[:80]), world.live()), STREAMED)
    assert latest(world).sources["history"].position is not None
    assert not latest(world).sources["history"].finished

    other = World(world.spark, tmp_path / "other")
    other.landing = world.landing
    options = {**STREAMED, "pipeline.parallelism": 3, "execution.savepoint.path": str(tmp_path / "savepoint")}
    restored = live(other.start(job(other.history(EVENTS[:80]), other.live()), options))
    world.land(EVENTS[80:], support.flush_after(EVENTS))
    support.finish(restored)
    read = sum(progress["numInputRows"] for progress in restored.recentProgress if progress["phase"] == "history")
    assert 0 < read < 80, "the slices before the savepoint are not read again"
    rows = sorted(world.output() + other.output(), key=repr)
    assert support.without_flush(rows) == world.expected(EVENTS)


@pytest.mark.slow
def test_savepoint_in_the_catch_up(world: World, tmp_path: Path) -> None:
    """A job that stops while it catches up leaves the files that it has not read to the one that goes on."""
    world.land(*[EVENTS[start : start + 20] for start in range(0, 120, 20)])
    for age, path in enumerate(sorted(world.landing.iterdir(), reverse=True), start=10):
        os.utime(path, (time.time() - age, time.time() - age))  # Spark reads files in this order
    with stopped_after(world, 2, tmp_path / "savepoint"):
        query = world.start(job(None, world.live(maxFilesPerTrigger="1")), STREAMED)
    assert query.exception() is None and latest(world).sources["live"].is_backlog

    other = World(world.spark, tmp_path / "other")
    other.landing = world.landing
    options = {**STREAMED, "execution.savepoint.path": str(tmp_path / "savepoint")}
    restored = live(other.start(job(None, other.live(maxFilesPerTrigger="1")), options))
    world.land(EVENTS[120:], support.flush_after(EVENTS))
    support.finish(restored)
    assert sum(progress["numInputRows"] for progress in restored.recentProgress) == len(EVENTS) - 40 + 1
    rows = sorted(world.output() + other.output(), key=repr)
    assert support.without_flush(rows) == world.expected(EVENTS)
