"""What breaks under a running job is told as what it is, by the query, and leaves the location free."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from failing import fail_at
from mixedmode import CheckpointError, QueryError, StateSchemaError, UserCodeError, events
from mixedmode.planner.cli.app import app
from mixedmode.runtime.connectors.sources.live_query import Stopped
from mixedmode.runtime.driver.run import phases
from mixedmode.runtime.driver.sources import live_folders
from mixedmode.runtime.metrics.events.run_listener import ROUTINE
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World
from typer.testing import CliRunner

support.by_value(__name__)

pytestmark = pytest.mark.spark

EVENTS = support.stream_of(120, seed=31)
RARELY = {"execution.backlog.final-watermark": "observed", "execution.checkpointing.interval": "1 hour"}


class Told(mixedmode.RunListener):
    """Keeps what it is told; raises each time, and takes the first event only when it may."""

    def __init__(self) -> None:
        self.events: list[events.RunEvent] = []
        self.may = threading.Event()

    def wait_for_ends(self, count: int) -> None:
        """Return when the ends of so many runs have been heard."""
        support.wait_until(lambda: sum(isinstance(one, events.RunEnded) for one in self.events) >= count)

    def onEvent(self, event: events.RunEvent) -> None:
        assert self.may.wait(600)
        self.events.append(event)
        raise RuntimeError("a listener's own")


@pytest.fixture
def told() -> Iterator[Told]:
    listener = Told()
    mixedmode.add_listener(listener)
    yield listener
    listener.may.set()
    mixedmode.remove_listener(listener)


@pytest.mark.slow
def test_a_checkpoint_that_fails_for_a_users_thread(world: World, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """What fails while a user waits for rows to be visible counts as on the clock: tolerated, it is done again when the
    next checkpoint is due; not tolerated, it fails the query.  A listener hears of both, however slow it is, and
    whatever it raises."""
    history, live = world.history(EVENTS[:60]), world.live()
    fail_at(monkeypatch, "checkpoint-start=raise:2")
    tolerant = {**RARELY, "execution.checkpointing.tolerable-failed-checkpoints": "1"}
    query = support.live(world.start(support.sessions(history, live), tolerant))
    world.land(EVENTS[60:90])
    running = query._runner.running
    assert running is not None
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(query.processAllAvailable)
        support.wait_until(lambda: any(one.event == "checkpoint-failed" for one in query.lifecycle))
        for _ in range(3):
            running.context.wake.set()
            with running.context.turn:
                assert not waiting.done() and query.isActive
        running.scheduler.request()
        running.context.wake.set()
        waiting.result(300)
    assert [report["id"] for report in query.checkpoints] == [1, 3], "the second one failed"
    assert query.isActive
    told.may.set()
    query.stop()
    told.wait_for_ends(1)
    assert [(one.checkpoint_id, one.outcome, one.is_tolerated) for one in _failures(told)] == [(2, "failed", True)]
    assert ("checkpoint-failed", "2 (requested)") in [(one.event, one.detail[:13]) for one in query.lifecycle]
    assert _told_once(told.events) == _told_once(query.history())

    world.land(EVENTS[90:], support.flush_after(EVENTS))
    fail_at(monkeypatch, "checkpoint-start=raise:1")
    query = world.start(support.sessions(history, live), RARELY)
    with pytest.raises(QueryError, match=r"checkpoint 4 failed .*tolerable-failed-checkpoints is 0"):
        query.processAllAvailable()
    assert not query.isActive
    assert "checkpoint 4 failed" in str(query.exception())
    told.wait_for_ends(2)
    assert [(one.checkpoint_id, one.is_tolerated) for one in _failures(told)] == [(2, True), (4, False)]
    ends = [(one.how, one.error_class) for one in told.events if isinstance(one, events.RunEnded)]
    assert ends == [("stopped", None), ("failed", "CheckpointError")]

    fail_at(monkeypatch, "")
    query = support.live(world.start(support.sessions(history, live), RARELY))

    def stopped_meanwhile(run: Any, phase: Any) -> bool:
        while run.epochs.tick(phase, phases.now_ms(), idle=True):
            pass
        query._runner.stopping.stop()
        raise Stopped

    monkeypatch.setattr("mixedmode.runtime.driver.run.phases.commit_now", stopped_meanwhile)
    query.processAllAvailable()
    assert (query.isActive, query.exception()) == (False, None)
    assert world.results() == support.sessions_of(EVENTS), "whoever stops it takes a checkpoint"


def _told_once(found: list[events.RunEvent]) -> list[events.RunEvent]:
    """Without what is folded in the event log."""
    return [one for one in found if not isinstance(one, ROUTINE)]


def _failures(told: Told) -> list[events.CheckpointFailed]:
    return [one for one in told.events if isinstance(one, events.CheckpointFailed)]


@pytest.mark.slow
def test_a_location_that_cannot_be_written_to_any_more(world: World) -> None:
    """The query names what could not be written and nothing of the clean-up that fails for the same reason; once the
    cause is gone the same process starts the job again, and nothing is lost."""
    history, live = world.history(EVENTS[:60]), world.live()
    query = support.live(world.start(support.sessions(history, live), RARELY))
    ours, aside = world.checkpoints / "mixedmode", world.checkpoints / "aside"
    ours.rename(aside)
    ours.touch()  # not even root can write below a file
    world.land(EVENTS[60:], support.flush_after(EVENTS))
    with pytest.raises(QueryError) as failed:
        query.processAllAvailable()
    assert not query.isActive
    assert "Not a directory" in str(failed.value)
    assert str(ours) in str(failed.value)
    for file in ("driver.json", "claims"):
        assert file not in str(failed.value), "that is the clean-up"
    ours.unlink()
    aside.rename(ours)
    query = support.live(world.start(support.sessions(history, live), RARELY))
    query.processAllAvailable()
    assert world.results() == support.sessions_of(EVENTS)


class Fragile(StatefulProcessor):
    """Raises where its rows say."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            if row.value == -1:
                json.loads("no json\n\nat all")
            if row.value == -2:
                self._handle.registerTimer(support.at_ms(500))
            if row.value == -3:
                self._seen.update(("three",))
            yield (row.key, row.value)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        raise ValueError(f"one line\n\n    at another {key[0]}")


def line_of(text: str) -> int:
    """Number of the line of this file that has a text, the first one."""
    lines = Path(__file__).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "place", "handler", "raised", "when"),
    [
        (-1, "json.loads", "handleInputRows", "json.decoder.JSONDecodeError: Expecting value", "event time {0}:06:40"),
        (
            -2,
            "raise ValueError",
            "handleExpiredTimer",
            "ValueError: one line\n  | \n  |     at another a",
            "timer of event time {0}:08:20",
        ),
    ],
)
def test_an_exception_of_user_code(world: World, value: int, place: str, handler: str, raised: str, when: str) -> None:
    """The query's error begins with the place in the user's code, and then tells what was raised, stage, processor,
    handler, key and event time; whoever waits for the query gets the same."""
    rows = [("a", 300, 7), ("a", 400, value), ("a", 450, 7), ("b", 1000, 7)]
    keyed = world.read(rows, live=False).withWatermark("ts", "0 seconds").groupBy("key")
    query = world.start(
        keyed.transformWithState(Fragile(), "key string, value long", "append", "eventTime").uid("frail")
    )
    with pytest.raises(QueryError) as caught:
        query.awaitTermination(300)
    assert str(caught.value) == str(query.exception())
    assert isinstance(caught.value, UserCodeError), "who waits for a processor's failure need not look at causes"
    assert isinstance(caught.value.__cause__, UserCodeError)
    first, *others = str(caught.value.__cause__).splitlines()
    assert first.startswith(f'File "{__file__}", line {line_of(place)}, in {handler}: {place}')
    said = "\n".join(others)
    assert said.startswith(raised)
    assert f"in processor Fragile of stage 'frail', {handler}, key ('a',), {when.format('2024-01-01T00')}+00:00" in said
    inside = Path(mixedmode.__file__).parent  # the tests are in this folder, too
    assert not any(f"{inside / room}/" in said for room in ("planner", "runtime", "state")) and "pyspark/" not in said
    assert ("by way of" in said) == (value == -1), "the calls that led into a library"
    what_happened, _, place = str(caught.value).partition(f'\nFile "{__file__}"')
    assert place and what_happened.startswith(f"query {query.runId} failed: {raised}")
    printed = "".join(traceback.format_exception(caught.value))
    assert "java" not in printed and printed.count("\n") < 60


def test_the_log_of_a_failure(
    world: World, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """One record at ERROR has the query's name, phase, last epoch and what was raised.  That Spark's query for the live
    source has failed by it neither Spark nor Py4J logs with their stacks; and we leave no log level behind."""
    keyed = world.read([("a", 1, 7)]).groupBy("key")
    frail = keyed.transformWithState(Fragile(), "key string, value long", "append", "none")
    writer = frail.writeStream.queryName("frail").option("path", str(world.out))
    query = writer.option("checkpointLocation", str(world.checkpoints)).start()
    world.queries.append(query)
    support.live(query)
    world.land([("a", 2, -1)])
    with pytest.raises(UserCodeError):
        query.awaitTermination(300)
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.name for record in errors] == ["mixedmode.runtime.metrics.run_history"], errors
    said = errors[0].getMessage()
    assert re.fullmatch(
        r"query frail failed in phase live, behind epoch \d+: json\.decoder\.JSONDecodeError: .*", said
    ), said
    told = capfd.readouterr().err
    assert "terminated with error" not in told and "BatchNotTaken" not in told, told
    log = world.spark._jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration()
    assert "ResolveWriteToStream" not in str(log.getLoggers().keySet())


def test_a_live_folder_that_is_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """``mixedmode status`` says so while Spark says nothing; files in a folder that is made again are processed."""
    monkeypatch.setattr(live_folders, "_EVERY_MS", 0)
    query = support.live(world.start(support.sessions(None, world.live())))
    kept = world.landing.with_name("moved")
    world.landing.rename(kept)
    support.wait_until(lambda: support.details(query, "folder-gone") == [str(world.landing)])
    query.history()
    asked = CliRunner().invoke(app, ["status", str(world.checkpoints)])
    assert asked.exit_code == 4 and "is gone" in asked.stdout, asked.stdout
    kept.rename(world.landing)
    world.feed(query, [("a", 1, 7)])
    support.wait_until(lambda: support.details(query, "folder-is-back") == [str(world.landing)])
    assert sum(epoch["numInputRows"] for epoch in query.recentProgress) == 1
    query.history()
    assert CliRunner().invoke(app, ["status", str(world.checkpoints)]).exit_code == 0
    query.stop()


@pytest.mark.slow
def test_a_state_value_that_user_code_got_wrong(world: World) -> None:
    """An error of ours about what a handler has handed in keeps its type and tells where that was, too."""
    keyed = world.read([("a", 300, -3)], live=False).groupBy("key")
    query = world.start(keyed.transformWithState(Fragile(), "key string, value long", "append", "none"))
    with pytest.raises(
        QueryError, match=r"'three'(.|\n)*\nat File .*test_breaks.*handleInputRows: self\._seen\.update"
    ):
        query.awaitTermination(300)
    assert isinstance(query.exception().__cause__, StateSchemaError)  # type: ignore[union-attr]


def test_an_exception_of_a_foreach_batch_function(world: World) -> None:
    """The place in the function is named first, and that nothing is lost."""

    def deliver(rows: Any, number: int) -> None:
        raise OSError("the table is locked")

    writer = support.sessions(world.history(EVENTS[:20]), None).writeStream.foreachBatch(deliver)
    query = writer.option("checkpointLocation", str(world.checkpoints)).start()
    world.queries.append(query)
    said = r"failed: OSError: the table is locked\nFile .*test_breaks(.|\n)*Nothing is lost"
    with pytest.raises(UserCodeError, match=said) as caught:
        query.awaitTermination(300)
    assert isinstance(caught.value, CheckpointError) and caught.value.code == "MIXEDMODE_OUTPUT_NOT_SHOWN"


@pytest.mark.slow
@pytest.mark.kill
def test_a_killed_jvm(tmp_path: Path) -> None:
    """Every method of the handle says in a QueryError that the JVM is gone, or works without it; the location is
    free."""
    driver = Path(__file__).parents[1] / "driver_jvm_loss.py"
    done = subprocess.run([sys.executable, str(driver), str(tmp_path)], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    said = json.loads(done.stdout.splitlines()[-1])
    for call in ("processAllAvailable", "awaitTermination", "savepoint", "stopWithSavepoint", "lateRows"):
        kind, text = said[call]
        assert kind == "QueryError", (call, said[call])
        assert "the JVM of the Spark session is gone" in text, (call, text)
    assert "failed: the JVM of the Spark session is gone" in said["exception"][1]
    assert said["status"] == ["value", "Failed"]
    assert said["isActive"] == ["value", "False"]
    for call in ("lastProgress", "stop", "lease"):
        assert said[call][0] == "value", (call, said[call])
