"""A query that is paused begins no epoch, holds nothing back, and goes on as if nothing had been."""

from __future__ import annotations

from pathlib import Path

import pytest
import support
from mixedmode import MixedQuery, QueryError
from support import World

OBSERVED = {"execution.backlog.final-watermark": "observed", "execution.checkpointing.interval": "1 hour"}
EVENTS = support.stream_of(160, seed=21)


@pytest.mark.slow
def test_live_query_makes_pauses(world: World, tmp_path: Path) -> None:
    """nothing is pending in a pause, new rows wait, savepoints are taken, and whatever ends a query ends it then.

    The results are those of an undisturbed run, also of a query that is stopped in a pause and started again, which
    is not paused.
    """

    def start() -> MixedQuery:
        query = world.start(support.sessions(world.history(EVENTS[:60]), world.live()).uid("sessions"), OBSERVED)
        support.live(query)
        return query

    world.land(EVENTS[60:90])
    query = start()
    world.land(EVENTS[90:100])
    support.wait_beside(query, lambda: query.status["epoch"] >= 2)
    query.pause()
    epoch, status = query.status["epoch"], query.status
    assert (status["isPaused"], status["message"], status["phase"]) == (True, "live (paused)", "live")
    assert query.checkpoints[-1]["trigger"] == "pause" and status["checkpoint"] == query.checkpoints[-1]["id"]
    assert set(world.output()) <= set(support.sessions_of(EVENTS[:100])), "what is visible is whole"
    with pytest.raises(QueryError, match="the query is paused"):
        query.processAllAvailable()
    world.land(EVENTS[100:120])
    source = query._runner.context.live
    assert source is not None and source.query is not None
    support.wait_beside(
        query, lambda: source.query.status["isDataAvailable"] and source.query.status["isTriggerActive"]
    )
    assert query.savepoint(tmp_path / "in-pause") == str(tmp_path / "in-pause")
    query.pause()  # again
    assert query.status["epoch"] == epoch and query.status["isPaused"]
    query.resume()
    query.resume()
    query.processAllAvailable()
    assert query.status["epoch"] > epoch and not query.status["isPaused"]
    assert [event for event in support.events_of(query) if event in ("paused", "resumed")] == ["paused", "resumed"]

    query.pause()
    world.land(EVENTS[120:140])
    support.wait_beside(
        query, lambda: source.query.status["isDataAvailable"] and source.query.status["isTriggerActive"]
    )
    support.stop(query)
    with pytest.raises(QueryError, match="cannot be resumed: the query has ended"):
        query.resume()

    again = start()
    assert not again.status["isPaused"]
    world.land(EVENTS[140:], support.flush_after(EVENTS))
    again.processAllAvailable()
    assert world.results() == world.expected(EVENTS)
    again.pause()
    again.stopWithSavepoint(tmp_path / "at-the-end")
    assert not again.isActive


def test_backlog_that_runs_as_a_stream_makes_pauses(world: World) -> None:
    """a pause comes between two slices of the history, or two micro-batches of a backlog, with a checkpoint, and
    so do other shards."""
    options = {**OBSERVED, "execution.runtime-mode": "streaming", "execution.history.rows-per-epoch": "20"}
    world.land(EVENTS[80:])
    query = world.start(
        support.sessions(world.history(EVENTS[:80]), world.live(maxFilesPerTrigger="1")).uid("sessions"), options
    )
    query.pause()
    where, epoch = query.status["phase"], query.status["epoch"]
    assert where in ("history", "catch-up") and query.checkpoints[-1]["trigger"] == "pause"
    query.pause()  # again
    query.rescale(3)
    assert query.status["epoch"] == epoch and query.checkpoints[-1]["trigger"] == "rescale"
    query.resume()
    support.live(query)
    world.feed(query, support.flush_after(EVENTS))
    assert world.results() == world.expected(EVENTS)
    query.stop()
