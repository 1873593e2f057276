"""A run's history is what it was told: bounded, in order, and in the words that users know."""

from __future__ import annotations

import logging

import pytest
from mixedmode.errors import QueryError
from mixedmode.runtime.connectors.sources.data_loss import ForgottenMessages
from mixedmode.runtime.metrics.events.events import (
    CheckpointCompleted,
    Latencies,
    PhaseBegan,
    RealTimeProgressed,
    RunRestored,
    SavepointWritten,
    SourceChanged,
)
from mixedmode.runtime.metrics.events.facts import (
    EpochReport,
    Fact,
    InputEnded,
    LiveBegins,
    LiveFolderGone,
    LiveFolderIsBack,
    RowsDelivered,
    RunFailed,
    RunFinished,
    RunStopped,
    ShardsReused,
    StateEvolved,
    file_lost,
    messages_lost,
)
from mixedmode.runtime.metrics.run_history import RunHistory
from mixedmode.runtime.protocols.lifecycle.events import Stop


def completed(number: int) -> CheckpointCompleted:
    return CheckpointCompleted(checkpoint_id=number, trigger="interval", kind="checkpoint", duration_ms=1)


def test_checkpoints_do_not_push_out_other_events() -> None:
    """After any number of checkpoints the phases are still there, in order, and memory has not grown."""
    history = RunHistory("run", "name", "sink")
    history.on(PhaseBegan(phase="backlog"))
    for number in range(5_000):
        history.on(completed(number))
    history.on(RunStopped())

    events = history.events
    assert (events[0].event, events[0].detail, events[-1].event) == ("phase", "backlog", "stopped")
    assert len(events) == 102
    assert [kept.checkpoint_id for kept in history.checkpoints] == list(range(4_900, 5_000))


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_a_failed_query_leaves_one_error_in_the_log(caplog: pytest.LogCaptureFixture, level: int) -> None:
    """Name, phase and the first line of the cause; the trace only for those who look closely."""
    caplog.set_level(level, "mixedmode")
    history = RunHistory("run", "orders", "sink")
    history.on(PhaseBegan(phase="live"))
    history.on(RunFailed(ValueError("no such column: price\n\nJVM stacktrace:\n…")))
    [error] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert error.getMessage() == "query orders failed in phase live: no such column: price"
    assert (error.exc_info is not None) == (level == logging.DEBUG)


def test_other_events_do_not_push_out_the_phases() -> None:
    """Which phases have begun is known after any number of other events, and by nothing that only looks like one."""
    history = RunHistory("run", "name", "sink")
    history.on(PhaseBegan(phase="switch"))
    for number in range(2_000):
        history.on(SourceChanged(source="live", is_backlog=bool(number % 2), epoch=number, reason="lag"))
    history.on(StateEvolved("live"))
    history.on(PhaseBegan(phase="finish"))
    assert history.phases == ["switch", "finish"]
    assert len(history.events) == 1_000


@pytest.mark.parametrize(
    ("fact", "event", "detail"),
    [
        (RunRestored(checkpoint_id=7, epoch=12, drained=False), "restored", "checkpoint 7, epoch 12"),
        (
            RunRestored(checkpoint_id=7, epoch=12, drained=True),
            "restored",
            "checkpoint 7, epoch 12, taken by a drain; this run continues after it",
        ),
        (StateEvolved("variable 'n' widened"), "state-evolved", "variable 'n' widened"),
        (LiveBegins('v1\n{"batchWatermarkMs":0}\n{"a":1}\n-'), "positions", 'the live source begins at {"a":1} -'),
        (
            messages_lost(ForgottenMessages("t", 2, 5, 9, True), "live", 1),
            "data-lost",
            "topic t, partition 2, offsets 5 to 9: gone from the source, never read (failOnDataLoss = false)",
        ),
        (
            file_lost("/landing/a.json", "changed", 1),
            "data-lost",
            "/landing/a.json is changed: its rows that no checkpoint holds are lost (failOnDataLoss = false)",
        ),
        (PhaseBegan(phase="catch-up"), "phase", "catch-up"),
        (ShardsReused(3, 8), "reused", "3 of 8 shards were finished"),
        (
            SourceChanged(source="live", is_backlog=True, epoch=4, reason="watermark lag"),
            "switch",
            "live isBacklog=true after epoch 4: watermark lag",
        ),
        (
            SourceChanged(source="history", is_backlog=False, epoch=1, reason="the backlog is processed"),
            "switch",
            "history isBacklog=false after epoch 1: the backlog is processed",
        ),
        (LiveFolderGone("hdfs://u:pw@host/in"), "folder-gone", "hdfs://u:*********(redacted)@host/in"),
        (LiveFolderIsBack("/in"), "folder-is-back", "/in"),
        (completed(3), "checkpoint", "3 (interval, 1 ms): 0 B new, 0 entries of state"),
        (SavepointWritten(path="/sp/1"), "savepoint", "/sp/1"),
        (
            SavepointWritten(path="/sp/1", by_recovery=True),
            "savepoint",
            "/sp/1, completed for an earlier run that was stopped with it",
        ),
        (InputEnded(), "MAX_WATERMARK", "all sources have ended"),
        (RunFinished(9), "finished", "checkpoint 9"),
        (RunFinished(None), "finished", "an earlier run has already processed all input"),
        (RunStopped(Stop.DRAIN), "stopped", "with savepoint, with drain"),
        (RunStopped(Stop.SUSPEND), "stopped", "with savepoint, without drain"),
        (
            RunStopped(inside_epoch=True),
            "stopped",
            "in the middle of an epoch; the next start processes that epoch again",
        ),
        (RunStopped(), "stopped", "before the switch; the next start processes what no checkpoint holds again"),
        (RunFailed(QueryError("no rows")), "failed", "QueryError: no rows"),
    ],
)
def test_facts_in_words(fact: Fact, event: str, detail: str) -> None:
    """What happens in a run is an event of its lifecycle, in these words."""
    history = RunHistory("run", "name", "sink", now_s=lambda: 12.3456)
    history.on(fact)
    (told,) = history.events
    assert (told.at_ms, told.event, told.detail) == (12_346, event, detail)


def test_a_delivery_is_no_event() -> None:
    """A delivery is part of its epoch's record; without an epoch it changes nothing."""
    history = RunHistory("run", "name", "sink")
    history.on(RowsDelivered(1.0))
    assert (history.events, history.recent) == ([], [])


def test_progress_in_real_time_is_no_event_of_a_run(caplog: pytest.LogCaptureFixture) -> None:
    """It comes each second; the record of the epoch has its latencies."""
    history = RunHistory("run", None, "sink")
    latencies = Latencies(p50_ms=12, p99_ms=40, max_ms=700)
    with caplog.at_level(logging.INFO):
        history.on(RealTimeProgressed(epoch=1, elapsed_s=1.0, rows=5, rows_per_second=5.0, latencies=latencies))
    assert (history.events, history.recent, caplog.records) == ([], [], [])
    for number, found in ((1, latencies), (2, None)):
        history.on(EpochReport("job", number, "random", "live", 60.0, 0, None, (), (), latencies=found))
    assert [record.latencyMs for record in history.recent] == [{"p50": 12, "p99": 40, "max": 700}, None]
