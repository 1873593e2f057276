"""Savepoints that fail, are refused or take long: the job goes on, or nothing of what was to end it is left."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import support
from failing import fail_at
from mixedmode import CheckpointError, MixedQuery, QueryError
from mixedmode.planner.cli.app import app
from mixedmode.runtime.checkpoints.savepoints import writer as savepoint_writer
from mixedmode.runtime.driver.checkpoint import housekeeping
from support import World, latest, live
from typer.testing import CliRunner

OBSERVED = {"execution.backlog.final-watermark": "observed"}
BATCH = {"execution.runtime-mode": "batch"}
EVENTS = support.stream_of(160, seed=21)


def job(history: Any, live: Any) -> Any:
    return support.sessions(history, live).uid("sessions")


@pytest.mark.slow
def test_failed_savepoint_fails_the_job(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F4: a stop-with-savepoint that fails ends the query, and nothing of it is left: the next run goes on as if
    nobody had asked, from the last checkpoint, which no drain has emptied."""
    keyed = job(world.history(EVENTS[:60]), world.live())
    ways = [(point, drain) for point in ("savepoint-copy", "checkpoint-before-metadata") for drain in (True, False)]
    for number, (point, drain) in enumerate(ways):
        query = live(world.start(keyed, OBSERVED))
        world.feed(query, EVENTS[60 + 20 * number :][:20])
        before, output = latest(world).checkpoint_id, world.output()
        fail_at(monkeypatch, f"{point}=raise:1")
        with pytest.raises(QueryError, match=r"with(out)? drain failed: .*failpoint"):
            query.stopWithSavepoint(str(tmp_path / "savepoint"), drain=drain)
        fail_at(monkeypatch, "")
        with pytest.raises(QueryError, match="failpoint"):
            query.awaitTermination(300)
        assert not (tmp_path / "savepoint").exists()
        assert latest(world).checkpoint_id == before and world.output() == output
        assert [event.event for event in query.lifecycle.of("sink[0]")][-1] == f"checkpoint {before + 1} aborted"
    again = live(world.start(keyed, OBSERVED))
    world.land(EVENTS[140:], support.flush_after(EVENTS))
    support.finish(again)
    assert world.results() == world.expected(EVENTS)


@pytest.mark.slow
def test_savepoint_that_fails_after_its_checkpoint(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain whose checkpoint is complete cannot be taken back: the error says so, and no run goes on before there is
    its savepoint, where it was asked for or, by command, elsewhere."""
    query = live(world.start(job(world.history(EVENTS[:60]), world.live()), OBSERVED))
    world.feed(query, EVENTS[60:80])
    fail_at(monkeypatch, "savepoint-before-metadata=raise:1")
    with pytest.raises(
        QueryError, match=r"failpoint.*; but its checkpoint \d+ is complete.* first writes the savepoint"
    ):
        query.stopWithSavepoint(str(tmp_path / "savepoint"), drain=True)
    fail_at(monkeypatch, "")
    assert not (tmp_path / "savepoint").exists()
    assert world.output() == world.expected(EVENTS[:80])

    (tmp_path / "savepoint").mkdir()
    (tmp_path / "savepoint" / "mine.txt").touch()
    refused = world.start(job(world.history(EVENTS[:60]), world.live()), OBSERVED)
    with pytest.raises(QueryError, match=rf"cannot be written to '{tmp_path}/savepoint' .*mine\.txt.*--complete"):
        refused.awaitTermination(300)
    assert [path.name for path in (tmp_path / "savepoint").iterdir()] == ["mine.txt"]
    complete = ["savepoint", str(world.checkpoints), "--complete"]
    assert CliRunner().invoke(app, complete).exit_code == 1
    elsewhere = str(tmp_path / "elsewhere")
    done = CliRunner().invoke(app, [*complete, elsewhere, "--json"])
    assert json.loads(done.stdout) == {
        "savepoint": elsewhere,
        "drained": True,
        "checkpoint": latest(world).checkpoint_id,
    }
    again = live(world.start(job(world.history(EVENTS[:60]), world.live()), OBSERVED))
    world.land(EVENTS[80:], support.flush_after(EVENTS))
    support.finish(again)
    assert support.details(again, "restored")[0].endswith("this run continues after it")
    assert "savepoint" not in support.events_of(again)
    two_jobs = [*support.sessions_of(EVENTS[:80]), *support.sessions_of(EVENTS[80:])]
    assert world.results() == sorted(two_jobs, key=repr)


def test_place_that_cannot_be_written_to(world: World, tmp_path: Path) -> None:
    """A stop-with-savepoint to a place that cannot be written to is refused at once, and the query goes on."""
    query = live(world.start(job(world.history(EVENTS[:60]), world.live()), OBSERVED))
    (tmp_path / "file").touch()
    for drain in (False, True):
        with pytest.raises(CheckpointError, match=r"cannot be written to .*Not a directory"):
            query.stopWithSavepoint(str(tmp_path / "file" / "savepoint"), drain=drain)
    world.land(EVENTS[60:], support.flush_after(EVENTS))
    query.processAllAvailable()
    assert world.results() == world.expected(EVENTS)
    assert Path(query.stopWithSavepoint(str(tmp_path / "savepoint"), drain=True), "_metadata").exists()


@pytest.mark.slow
def test_stream_goes_on_while_a_savepoint_is_written(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A savepoint whose copies take long holds up neither rows nor checkpoints, and still holds what it was taken of.

    A job that begins from it gives what comes after it, whatever the first one has done meanwhile; the first one does
    not end before it is complete.
    """
    copied = threading.Event()

    def at_a_copy(name: str) -> None:
        if name == "savepoint-copy":
            copied.wait(300)

    monkeypatch.setattr(savepoint_writer, "failpoint", at_a_copy)
    monkeypatch.setattr(housekeeping, "CLEAN_EVERY_MS", 0)
    monkeypatch.setattr(housekeeping, "KEEP_MS", 0)
    options = {**OBSERVED, "state.checkpoints.num-retained": "1", "pipeline.parallelism": 1}
    query = live(world.start(job(world.history(EVENTS[:60]), world.live()), options))
    world.feed(query, EVENTS[60:80])
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(query.savepoint, str(tmp_path / "savepoint"))
        while not (tmp_path / "savepoint").exists():
            assert not asked.done(), asked.exception()
        before, taken = world.output(), latest(world).checkpoint_id
        world.feed(query, EVENTS[80:110], EVENTS[110:])
        assert len(world.output()) > len(before) and latest(world).checkpoint_id > taken + 1
        stopped = pool.submit(query.stop)
        assert not query.awaitTermination(0.1) and not asked.done()
        copied.set()
        stopped.result(300)
        assert asked.done() and asked.result() == str(tmp_path / "savepoint")
    monkeypatch.undo()
    assert query.exception() is None

    other = World(world.spark, tmp_path / "other")
    other.landing, other._landed = world.landing, world._landed
    options = {**OBSERVED, "pipeline.parallelism": 2, "execution.savepoint.path": str(tmp_path / "savepoint")}
    restored = live(other.start(job(None, other.live()), options))
    other.land(support.flush_after(EVENTS))
    support.finish(restored)
    rows = sorted(before + other.output(), key=repr)
    assert support.without_flush(rows) == world.expected(EVENTS)


@pytest.mark.slow
@pytest.mark.parametrize("drain", [True, False])
def test_end_of_data_overtakes_savepoints(world: World, tmp_path: Path, drain: bool) -> None:
    """F4, F5: at the end of all data a pending drain becomes the final checkpoint; one without drain is refused."""
    asked: list[Future[str]] = []

    def in_the_backlog(name: str, query: MixedQuery) -> None:
        if name == "backlog-epoch-applied" and not asked:
            asked.append(support.stop_in_background(query, tmp_path / "savepoint", drain=drain, wait=True))

    with support.at_failpoints(world, in_the_backlog):
        query = world.start(job(world.history(EVENTS[:40]), None))
        query.awaitTermination(300)

    assert world.output() == world.expected(EVENTS[:40])
    if drain:
        assert asked[0].result(300) == str(tmp_path / "savepoint")
        assert "(stop with drain)" in " ".join(event.event for event in query.lifecycle.of("sink[0]"))
    else:
        assert "all data had ended before" in str(asked[0].exception(300))


@pytest.mark.slow
def test_place_that_is_lost_while_a_stop_waits(world: World, tmp_path: Path) -> None:
    """A drain that has waited for the end of a backlog, and whose place somebody has filled meanwhile, is refused
    before anything fires: the error names the place, and the query goes on into the stream."""
    asked: list[Any] = []
    place = tmp_path / "savepoint"

    def in_the_backlog(name: str, query: MixedQuery) -> None:
        if name == "backlog-epoch-applied" and not asked:
            asked.append(support.stop_in_background(query, place, drain=True, wait=True))
            place.mkdir(exist_ok=True)
            (place / "theirs.txt").touch()

    with support.at_failpoints(world, in_the_backlog):
        query = live(world.start(job(world.history(EVENTS[:60]), world.live()), OBSERVED))
    with pytest.raises(QueryError, match=rf"'{place}' is not empty \(theirs\.txt\).*; the query goes on"):
        asked[0].result(300)
    world.land(EVENTS[60:], support.flush_after(EVENTS))
    query.processAllAvailable()
    assert world.results() == world.expected(EVENTS)
    assert [path.name for path in place.iterdir()] == ["theirs.txt"]
    query.stopWithSavepoint(str(tmp_path / "another"))


def test_batch_mode_has_no_savepoints(world: World, tmp_path: Path) -> None:
    """A job that keeps no state refuses savepoints, and one that has ended does too (F5)."""
    query = world.start(job(world.history(EVENTS[:20]), None), BATCH)
    with pytest.raises(QueryError, match="batch, which keeps no state"):
        query.savepoint(str(tmp_path / "savepoint"), wait=True)
    query.awaitTermination(300)


def test_savepoint_after_the_end(world: World, tmp_path: Path) -> None:
    """F5: a job whose data has ended takes no savepoint any more, with or without drain."""
    query = world.start(job(world.history(EVENTS[:20]), None))
    query.awaitTermination(300)
    for ask in (query.savepoint, query.stopWithSavepoint):
        with pytest.raises(QueryError, match="the query has ended"):
            ask(str(tmp_path / "savepoint"))
