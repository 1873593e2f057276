"""Attacks on a running job: failing twice in the backlog, a rewind, a function that stops its own query."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import support
from failing import fail_at
from mixedmode import MixedQuery
from session_options import session_options
from support import World

OBSERVED = {"execution.backlog.final-watermark": "observed"}
EVENTS = support.stream_of(240, seed=11)


@pytest.mark.slow
def test_killed_again_in_the_pass_over_new_arrivals(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that fails in the backlog, and again over what arrived in between, still takes every row once."""

    def life(failing: str) -> None:
        fail_at(monkeypatch, failing)
        query = world.start(support.sessions(history, world.live()), OBSERVED)
        if failing:
            query._run.ended.wait(300)
            assert "failpoint" in str(query.exception())
            return
        support.live(query)
        support.finish(query)

    history = world.history(EVENTS[:80])
    world.land(EVENTS[80:120])
    life("epoch-before-apply=raise")
    world.land(EVENTS[120:])
    life("epoch-before-apply=raise:2")
    world.land(support.flush_after(EVENTS))
    life("")
    assert world.results() == world.expected(EVENTS)


@pytest.mark.slow
def test_a_rewind_beyond_what_spark_retains(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that fails more micro-batches after its checkpoint than Spark's log goes back starts again and is right."""
    history, live = world.history(EVENTS[:80]), world.live(maxFilesPerTrigger="1")
    options = {**OBSERVED, "execution.checkpointing.interval": "1 hour"}
    retained = "spark.sql.streaming.minBatchesToRetain"
    with session_options(world.spark, {retained: 2}):
        world.land(EVENTS[80:90], EVENTS[90:100])
        first = support.live(world.start(support.sessions(history, live), options))
        first.stop()
        fail_at(monkeypatch, "batch-before-spark-commit=raise:6")
        world.land(*[EVENTS[n : n + 20] for n in range(100, 240, 20)])
        failed = world.start(support.sessions(history, live), options)
        failed._run.ended.wait(300)
        assert "failpoint" in str(failed.exception())
        fail_at(monkeypatch, "")
        world.land(support.flush_after(EVENTS))
        last = support.live(world.start(support.sessions(history, live), options))
        last.processAllAvailable()
    assert world.results() == world.expected(EVENTS)


def with_function(world: World, function: Any) -> MixedQuery:
    """The sessions, handed to a function."""
    keyed = support.sessions(world.history(EVENTS[:80]), world.live())
    writer = keyed.writeStream.foreachBatch(function).option("checkpointLocation", str(world.checkpoints))
    query: MixedQuery = writer.options(**OBSERVED, **{"execution.checkpointing.interval": "1 ms"}).start()
    world.queries.append(query)
    return query


@pytest.mark.slow
def test_a_function_may_stop_its_own_query(world: World) -> None:
    """``stop()`` in foreachBatch, at the switch or in the stream, ends the query after the function; all rows stay."""
    rows: dict[int, list[Any]] = {}
    running: list[MixedQuery] = []
    ready = threading.Event()

    def collect_and_stop(frame: Any, batch_id: int) -> None:
        assert batch_id not in rows, "a batch came twice"
        rows[batch_id] = frame.collect()
        assert ready.wait(300)
        if len(running) < 4:
            running[-1].stop()

    for landing in ([], EVENTS[80:160], EVENTS[160:]):
        world.land(landing)
        ready.clear()
        running.append(with_function(world, collect_and_stop))
        ready.set()
        assert running[-1].awaitTermination(300), running[-1].status
        assert running[-1].exception() is None
    assert len(rows) >= 3  # an epoch that went on beside the function is shown when the query ends
    world.land(support.flush_after(EVENTS))
    running.append(with_function(world, collect_and_stop))
    assert running[-1].wait_for("live", 300)
    running[-1].processAllAvailable()
    found = sorted((tuple(row) for batch in rows.values() for row in batch), key=repr)
    assert support.without_flush(found) == world.expected(EVENTS)


@pytest.mark.slow
def test_a_failure_of_the_last_checkpoint_is_told(world: World) -> None:
    """A function that fails while the query is being stopped makes the query failed; the rows come with the restart."""
    rows: dict[int, list[Any]] = {}
    broken = threading.Event()

    def collect(frame: Any, batch_id: int) -> None:
        if broken.is_set():
            raise OSError("the table is locked")
        rows[batch_id] = frame.collect()

    query = with_function(world, collect)
    assert query.wait_for("live", 300)
    query.processAllAvailable()
    broken.set()
    world.land(EVENTS[80:], support.flush_after(EVENTS))
    query._run.ended.wait(300)
    query.stop()
    assert "the table is locked" in str(query.exception())
    broken.clear()
    again = with_function(world, collect)
    support.live(again)
    again.processAllAvailable()
    found = sorted((tuple(row) for batch in rows.values() for row in batch), key=repr)
    assert support.without_flush(found) == world.expected(EVENTS)
