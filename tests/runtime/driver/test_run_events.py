"""What runs tell their listeners and their event log, with the real driver and without Spark."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mixedmode
import pytest
from event_support import folder_of
from graph_kinds import Unique, Windows
from graph_support import Job, Stage
from mixedmode import events
from mixedmode.runtime.checkpoints.lease.driver_lease import LocationLost
from mixedmode.runtime.connectors.sources.data_loss import ForgottenMessages
from mixedmode.runtime.connectors.sources.source_lanes import Lane
from mixedmode.runtime.metrics.events import facts as facts
from mixedmode.runtime.metrics.events.event_reader import read_history
from mixedmode.runtime.metrics.events.run_listener import LISTENERS, Listeners
from mixedmode.runtime.metrics.run_events import RunEvents
from mixedmode.runtime.protocols.lifecycle.events import Stop

RUN = "0a0a0a0a-0000-0000-0000-000000000000"


class Recorder(mixedmode.RunListener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[events.RunEvent] = []

    def onEvent(self, event: events.RunEvent) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if type(event) is kind]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """Two stages: windows, and each of their keys once."""
    (tmp_path / "job").mkdir()
    made = Job(tmp_path / "job", [Stage("windows", Windows(5)), Stage("unique", Unique("key"), ("windows",))])
    sink: Any = SimpleNamespace(shows_at_once=False, describe=lambda: "noop: rows are dropped")
    made.spec = replace(made.spec, name="job", sink=sink, lanes=(Lane(),))
    context: Any = made.spec.spark.sparkContext
    context.applicationId, context.uiWebUrl = "app-1", None
    yield made
    made.close()


def heard(job: Job, location: Path, *told_to: mixedmode.RunListener, drain_s: float = 60.0) -> RunEvents:
    """The events of a run of the job, which has begun; there is time between any two."""
    registry = Listeners()
    for listener in told_to:
        registry.add(listener)
    times = itertools.count(1_000_000, 5_000)
    run = RunEvents(job.spec, RUN, listeners=registry, now_ms=lambda: next(times), drain_s=drain_s)
    run.begin("q", 2, str(location), folder_of(location))
    both = facts.FactListeners(job.graph.listener, run)
    job.graph.listener = job.epochs.listener = both
    return run


def row(time_ms: int, key: str = "a") -> tuple[str, int, int]:
    return (key, time_ms * 1000, 1)


def test_a_run_is_told_from_its_beginning_to_its_end(job: Job, tmp_path: Path) -> None:
    """Listeners and the log get the same: what the job is, its epochs by stage, and how it ended."""
    recorder = Recorder()
    run = heard(job, tmp_path, recorder)
    job.take("live", [row(1), row(2, "b"), row(12)])
    job.take("live", [row(13)])
    job.take("live", [row(1), row(30)])
    run.end(None, was_stopped=True)

    began, first, _, second, ended = recorder.events
    assert isinstance(began, events.RunBegan)
    assert (began.query_id, began.run_id, began.name, began.generation) == ("q", RUN, "job", 2)
    assert began.sink == "noop: rows are dropped"
    assert [(stage.uid, stage.inputs, stage.stages, stage.is_output) for stage in began.stages] == [
        ("windows", ("live",), (), False),
        ("unique", (), ("windows",), True),
    ]
    assert began.inputs == (events.InputNode(name="live", kind="live"),)
    assert began.versions.keys() == {"mixedmode", "spark", "python"}

    assert isinstance(first, events.EpochApplied)
    assert isinstance(second, events.EpochApplied)
    assert (first.epoch, first.input_rows, first.mode, first.phase) == (1, 3, "streaming", "live")
    assert (second.input_rows, second.late_rows) == (2, 1)
    assert [stage.uid for stage in second.stages] == ["windows", "unique"]
    assert second.stages[0].late_rows == 1
    assert second.state_bytes == sum(stage.state_bytes for stage in second.stages) > 0
    assert second.watermark_ms == 30
    assert second.stages[0].watermark_ms == 13
    assert second.watermark_lag_ms == second.at_ms - 30
    assert len(second.stages[0].slowest) == 2
    assert second.input_rows_per_second > 0

    assert isinstance(ended, events.RunEnded)
    assert (ended.how, ended.error, ended.dropped_events) == ("stopped", None, 0)
    assert list(read_history(str(tmp_path))) == recorder.events
    with pytest.raises(FrozenInstanceError):
        ended.how = "failed"  # type: ignore[misc]


def told(*happened: facts.Fact, error: BaseException | None = None, job: Job, location: Path) -> Recorder:
    recorder = Recorder()
    run = heard(job, location, recorder)
    for fact in happened:
        run.on(fact)
    run.end(error, was_stopped=False)
    return recorder


def test_every_fact_is_told(job: Job, tmp_path: Path) -> None:
    """Phases, losses, positions, checkpoints that succeed and that do not, savepoints: each is an event of its own."""
    report = events.CheckpointCompleted(
        checkpoint_id=4, trigger="interval", kind="checkpoint", max_duration_ms=9, state_entries=3, output_rows=5
    )
    read = facts.OffsetsRead({"t": {"0": 1}}, {"t": {"0": 4, "1": 9}}, {"t": {"0": 9, "1": 9}}, {"m": "1"})
    recorder = told(
        events.RunRestored(checkpoint_id=3, epoch=8, drained=True),
        facts.StateEvolved("a field was added"),
        events.PhaseBegan(phase="live"),
        facts.OffsetsKnown(9, {"live": read}),
        facts.messages_lost(ForgottenMessages("t", 2, 5, 9, True), "live", 9),
        events.SourceChanged(source="live", is_backlog=True, epoch=9, reason="watermark lag"),
        report,
        facts.checkpoint_failed(5, "interval", "declined", ValueError("busy"), is_tolerated=True, in_a_row=2),
        facts.checkpoint_failed(6, "interval", "aborted", LocationLost("gone")),
        events.SavepointWritten(path="sp/1"),
        facts.RunStopped(savepoint=Stop.DRAIN),
        job=job,
        location=tmp_path,
    )
    assert (recorder.of(events.RunRestored)[0].checkpoint_id, recorder.of(events.RunRestored)[0].drained) == (3, True)
    assert [(one.what, one.text) for one in recorder.of(events.Noted)] == [("state-evolved", "a field was added")]
    assert recorder.of(events.PhaseBegan)[0].phase == "live"
    (position,) = recorder.of(events.PositionsKnown)[0].positions
    assert (position.name, position.epoch, position.lag, position.lag_messages) == (
        "live",
        9,
        {"t": {"0": 5, "1": 0}},
        5,
    )
    (lost,) = recorder.of(events.DataLost)
    assert (lost.topic, lost.partition, lost.first_offset, lost.last_offset, lost.fate) == ("t", 2, 5, 9, "gone")
    assert recorder.of(events.SourceChanged)[0].reason == "watermark lag"
    (done,) = recorder.of(events.CheckpointCompleted)
    assert (done.checkpoint_id, done.state_entries, done.output_rows, done.max_duration_ms) == (4, 3, 5, 9)
    assert [
        (one.checkpoint_id, one.outcome, one.error_class, one.is_tolerated, one.failures_in_a_row)
        for one in recorder.of(events.CheckpointFailed)
    ] == [(5, "declined", "ValueError", True, 2), (6, "aborted", "LocationLost", False, 1)]
    (ended,) = recorder.of(events.RunEnded)
    assert (ended.how, ended.savepoint, ended.drained) == ("stopped", "sp/1", True)
    assert list(read_history(str(tmp_path))) == recorder.events


@pytest.mark.parametrize(
    ("fact", "error", "how"),
    [
        (facts.RunFinished(3), None, "finished"),
        (facts.RunFinished(None), None, "finished"),
        (None, None, "finished"),
        (facts.RunStopped(inside_epoch=True), None, "stopped"),
        (facts.RunFailed(ValueError("x")), ValueError("x"), "failed"),
    ],
)
def test_how_a_run_ends(
    fact: facts.Fact | None, error: BaseException | None, how: str, job: Job, tmp_path: Path
) -> None:
    """A run that comes to its end has finished, unless somebody has stopped it or it has failed, which says of what."""
    recorder = told(*([] if fact is None else [fact]), error=error, job=job, location=tmp_path)
    (ended,) = recorder.of(events.RunEnded)
    assert ended.how == how
    assert (ended.error_class, ended.error) == ((None, None) if error is None else ("ValueError", "x"))


def test_a_listener_that_fails_or_is_slow_stands_in_nobody_s_way(
    job: Job, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver waits for no listener, nor do others; the end of the run does, and not for ever."""
    go = threading.Event()

    class Fails(mixedmode.RunListener):
        def onEpochApplied(self, event: events.EpochApplied) -> None:
            raise RuntimeError("a listener's own")

    class Waits(mixedmode.RunListener):
        def onRunBegan(self, event: events.RunBegan) -> None:
            go.wait(60)

    recorder = Recorder()
    with caplog.at_level(logging.WARNING):
        run = heard(job, tmp_path, Fails(), Waits(), recorder, drain_s=0.2)
        for _ in range(3):
            job.take("live", [row(1)])
        run.end(None, was_stopped=True)
    go.set()
    deadline = time.monotonic() + 60
    while len(list(read_history(str(tmp_path)))) < 5 or len(recorder.events) < 5:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(recorder.of(events.EpochApplied)) == 3
    assert len(recorder.of(events.RunEnded)) == 1
    raised = [str(record.exc_info[1]) for record in caplog.records if record.exc_info is not None]
    assert raised == ["a listener's own"]
    said = [record.getMessage() for record in caplog.records]
    assert any("1 of its listeners did not take all events" in message for message in said)
    assert list(read_history(str(tmp_path))) == recorder.events


def test_listeners_come_and_go() -> None:
    """One that is added twice is told once, one that was removed nothing; what is none is refused."""
    registry, recorder = Listeners(), Recorder()
    registry.add(recorder)
    registry.add(recorder)
    assert len(registry.mailboxes) == 1
    registry.remove(recorder)
    registry.remove(recorder)
    assert registry.mailboxes == []
    with pytest.raises(TypeError, match=r"takes a mixedmode\.RunListener, got <class"):
        registry.add(Recorder)  # type: ignore[arg-type]

    mixedmode.add_listener(recorder)
    assert len(LISTENERS.mailboxes) == 1
    mixedmode.remove_listener(recorder)
    assert LISTENERS.mailboxes == []


def test_a_misspelled_method_is_an_error() -> None:
    """A method that would never be called is refused when its class is made, with what was probably meant."""
    with pytest.raises(TypeError, match="onCheckpointFail is no method of a RunListener: did you mean onCheckpointFai"):
        type("Mine", (mixedmode.RunListener,), {"onCheckpointFail": lambda self, event: None})
    assert {name[2:] for name in dir(mixedmode.RunListener) if name.startswith("on")} == {
        *(kind.__name__ for kind in events.RunEvent.__subclasses__() if kind is not events.UnknownEvent),
        "Event",
    }


def test_telling_costs_the_driver_little(job: Job, tmp_path: Path) -> None:
    """What an epoch's thread does for all of this is to put a fact into a queue."""
    run = heard(job, tmp_path, Recorder())
    fact = events.PhaseBegan(phase="live")
    started = time.thread_time()
    for _ in range(1_000):
        run.on(fact)
    each_ms = time.thread_time() - started
    run.end(None, was_stopped=True)
    assert each_ms < 1.0
