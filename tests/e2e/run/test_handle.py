"""The handle of a running query and the sinks that are not files, end to end."""

from __future__ import annotations

import io
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import MixedQuery, QueryError
from rich.console import Console
from support import World

EVENTS = support.stream_of(60, seed=9)


@pytest.fixture(scope="module")
def running(worlds: Callable[[], World]) -> Iterator[MixedQuery]:
    """A query in its live phase, behind a switch that closes all sessions; into a memory table, without a location."""
    world = worlds()
    world.land(EVENTS[40:])
    keyed = support.sessions(world.history(EVENTS[:40]), world.live())
    writer = keyed.writeStream.format("memory").queryName("sessions_table").option("pipeline.parallelism", 2)
    query = support.live(writer.option("execution.backlog.final-watermark", "max").start())
    yield query
    query.stop()


def test_identity(running: MixedQuery) -> None:
    """The handle has an id, a run id and the name that was given."""
    assert running.name == "sessions_table"
    assert running.id == str(uuid.UUID(running.id)) and running.runId == str(uuid.UUID(running.runId))
    assert running.isActive
    assert running.exception() is None


def test_status_says_what_is_going_on(running: MixedQuery) -> None:
    """The status names phase, mode, epoch and checkpoint."""
    status = running.status
    assert (status["phase"], status["mode"], status["isBacklog"]) == ("live", "streaming", False)
    assert status["epoch"] >= 1 and status["checkpoint"] >= 1


def test_a_cell_shows_how_the_query_is(running: MixedQuery) -> None:
    """In a notebook the handle says what it is, what it does, and what its last epoch was."""
    html = running._repr_html_()
    assert "MixedQuery sessions_table" in html and running.id in html and "live" in html and "rows/s" in html


def test_waiting_times_out(running: MixedQuery) -> None:
    """awaitTermination with a timeout says that the query still runs; a timeout of 0 is refused."""
    assert running.awaitTermination(0.01) is False
    with pytest.raises(ValueError, match=r"^timeout of awaitTermination\(\) is 0; allowed: a number of seconds"):
        running.awaitTermination(0)


def test_memory_table_holds_the_rows(running: MixedQuery) -> None:
    """The memory table has every session that the backlog closed, under the query's name."""
    running.processAllAvailable()
    spark = running._job.spark
    found = sorted((tuple(row) for row in spark.table("sessions_table").collect()), key=repr)
    assert found == support.expected_sessions(spark, EVENTS)


def test_explain_prints_the_phases_that_ran(running: MixedQuery, capsys: pytest.CaptureFixture[str]) -> None:
    """explain() has one heading per phase, and they are the phases that the lifecycle shows."""
    running.explain()
    text = capsys.readouterr().out
    assert re.findall(r"^Phase \d of 3: ([\w-]+)", text, re.MULTILINE) == support.details(running, "phase")
    assert "straddle the switch" in text, "the warning that goes with final-watermark = max"


def test_history_of_progress(running: MixedQuery) -> None:
    """lastProgress is the last of recentProgress, with entries that are also attributes."""
    assert running.lastProgress == running.recentProgress[-1]
    assert running.recentProgress[0].phase == "backlog"
    assert running.lastProgress is not None and running.lastProgress.id == running.id
    assert running.recentProgress[0]["numInputRows"] == len(EVENTS)


def test_watching_shows_what_the_run_has_told(running: MixedQuery) -> None:
    """Also what was before somebody watched; it ends with a phase or in time, leaves no thread, and the run goes on."""
    before, shown = set(threading.enumerate()), Console(file=io.StringIO())
    assert running.watch(until="live", console=shown)
    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert re.findall(r" phase +(\S+)\n", text) == support.details(running, "phase")
    assert " live       epoch " in text and "checkpoint 1" in text
    assert running.watch(timeout=0.01, console=Console(file=io.StringIO())) is False
    assert running.isActive
    left = [thread for thread in set(threading.enumerate()) - before if "Feed" in thread.name]
    for thread in left:
        thread.join(60)
    assert not any(thread.is_alive() for thread in left)
    with pytest.raises(ValueError, match=r"phase of watch\(\) is 'alive'; the phases are recovery, backlog"):
        running.watch(until="alive")  # type: ignore[arg-type]


def test_stopped_query(world: World) -> None:
    """After stop() the query is not active, waiting returns, and stopping again does nothing."""
    query = support.live(world.start(support.sessions(None, world.live())))
    query.stop()
    query.stop()
    assert not query.isActive
    assert query.awaitTermination() is None
    assert query.awaitTermination(1) is True
    assert query.status["message"] == "Stopped"


def test_a_name_is_of_one_active_query(world: World) -> None:
    """As in stock Spark: while a query of the session has the name, ours or a stock one; then it can be used again."""
    live = world.live().select("key")

    def named(name: str, checkpoints: str) -> MixedQuery:
        writer = mixedmode.read(live=live).dropDuplicates(["key"]).writeStream.queryName(name).format("noop")
        query = writer.option("checkpointLocation", str(world.folder / checkpoints)).start()
        world.queries.append(query)
        return query

    first = named("mine", "first")
    stock = live.writeStream.queryName("stocks").format("noop")
    other = stock.option("checkpointLocation", str(world.folder / "stock")).start()
    try:
        for name in ("mine", "stocks"):
            with pytest.raises(mixedmode.OptionError, match=f"queryName is '{name}', but an active query"):
                named(name, "second")
    finally:
        other.stop()
    first.stop()
    for name in ("mine", "stocks"):
        query = named(name, "second")
        query.stop()
        assert query.exception() is None


def test_failing_foreach_batch_is_called_again_with_the_same_rows(world: World) -> None:
    """A foreachBatch function that fails fails the query; after a restart the same id comes with the same rows."""
    calls: list[tuple[int, list[Any]]] = []

    def function(frame: Any, number: int) -> None:
        calls.append((number, sorted(map(tuple, frame.collect()), key=repr)))
        if len(calls) == 1:
            raise OSError("the table is locked")

    def start() -> MixedQuery:
        keyed = support.sessions(world.history(EVENTS), None)
        writer = keyed.writeStream.foreachBatch(function).option("pipeline.parallelism", 2)
        return writer.option("checkpointLocation", str(world.checkpoints)).start()

    ids = set()
    for fails in (True, False, False):
        query = start()
        ids.add(query.id)
        if fails:
            with pytest.raises(QueryError, match="the table is locked"):
                query.awaitTermination(300)
        else:
            query.awaitTermination(300)
    assert len(ids) == 1, "the query's id is known from the start, and the same over restarts"
    assert calls == [(1, world.expected(EVENTS))] * 2


def test_processing_trigger_and_idle_clock(world: World) -> None:
    """With a long trigger interval a row is taken by processAllAvailable and its timer fires without another row."""
    query = support.live(world.start(support.sessions(None, world.live()), processingTime="1 second"))
    world.land([("a", 0, 1)], [("b", 10_000, 1)])
    support.finish(query)
    assert world.output() == [("a", support.at(0), 1, 1)]
