"""Savepoints: a job goes on elsewhere from a folder that was moved, and its output is that of the undisturbed run."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from failing import fail_at
from mixedmode import CheckpointError, CheckpointMismatchError, CorruptStateError, MixedQuery, OptionError
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.support import failpoints
from pyarrow import fs
from savepoint_support import write_savepoint
from support import World, live

OBSERVED = {"execution.backlog.final-watermark": "observed"}
EVENTS = support.stream_of(200, seed=11)
UID = "sessions"
PATH = "execution.savepoint.path"


def job(world: World, history: bool = True) -> Any:
    past = world.history(EVENTS[:80]) if history else None
    return support.sessions(past, world.live()).uid(UID)


def savepoint_of(world: World, path: Path) -> Path:
    """The newest checkpoint of a world as a savepoint."""
    store = CheckpointStore(fs.LocalFileSystem(), str(world.checkpoints))
    latest = store.latest()
    assert latest is not None
    return Path(write_savepoint(store, latest, str(path), "{}"))


@pytest.fixture(scope="module")
def first(worlds: Any) -> World:
    """A job that was stopped in the middle of its stream."""
    world: World = worlds()
    query = live(world.start(job(world), OBSERVED))
    world.feed(query, EVENTS[80:110], EVENTS[110:140])
    support.stop(query)
    return world


@pytest.fixture(scope="module")
def taken(first: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of it."""
    return savepoint_of(first, tmp_path_factory.mktemp("savepoints") / "sp")


@pytest.fixture
def second(first: World, taken: Path, tmp_path: Path) -> Iterator[World]:
    """A world with the first one's landing zone and a moved copy of the savepoint, but nothing else of it."""
    shutil.copytree(first.landing, tmp_path / "landing")
    shutil.copytree(taken, tmp_path / "moved")
    made = World(first.spark, tmp_path)
    # The source's log names the files by their full paths: the landing zone stays where it was.
    made.landing = first.landing
    yield made
    made.stop_all()


def from_savepoint(world: World, **more: Any) -> dict[str, Any]:
    return {**OBSERVED, PATH: str(world.folder / "moved"), **more}


def failure(query: MixedQuery) -> BaseException:
    """What ended a query that could not start."""
    with pytest.raises(mixedmode.QueryError):
        query.awaitTermination(300)
    error = query.exception()
    assert error is not None and error.__cause__ is not None
    return error.__cause__


def test_restored_job_goes_on_elsewhere(first: World, second: World, tmp_path: Path) -> None:
    """R3: from the moved savepoint, with other shards, sink and trigger, without the old checkpoints, none is missing.

    Started by the same command line again, without the savepoint, it goes on from its own checkpoints.
    """
    rest = [*EVENTS[140:]]
    collected: list[tuple[Any, ...]] = []

    def collect(rows: Any, number: int) -> None:
        collected.extend(tuple(row) for row in rows.collect())

    def start(parallelism: int) -> MixedQuery:
        writer = job(second, history=False).writeStream.foreachBatch(collect).trigger(processingTime="1 second")
        writer = writer.option("checkpointLocation", str(second.checkpoints)).option(
            "pipeline.parallelism", parallelism
        )
        for name, value in from_savepoint(second).items():
            writer = writer.option(name, value)
        second.queries.append(live(writer.start()))
        return second.queries[-1]

    hidden = tmp_path / "hidden"
    first.checkpoints.rename(hidden)
    try:
        query = start(3)
        assert support.events_of(query)[:2] == ["restored", "rescaled"]
        assert support.details(query, "phase") == ["live"]
        first.land(rest[:30])
        support.finish(query)
        shutil.rmtree(tmp_path / "moved")
        query = start(5)
        first.land(rest[30:], support.flush_after(EVENTS))
        support.finish(query)
    finally:
        hidden.rename(first.checkpoints)
    together = support.without_flush(sorted([*first.output(), *collected], key=repr))
    assert together == first.expected(EVENTS)
    assert query.id != first.queries[0].id


def test_savepoint_can_be_looked_into(first: World, taken: Path) -> None:
    """The reader of checkpoints reads a savepoint as well: state, timers and one key."""
    reader, origin = mixedmode.state_reader(str(taken)), mixedmode.state_reader(str(first.checkpoints))
    assert [info.complete for info in reader.checkpoints(verify=True)] == [True]
    assert [info.uid for info in reader.operators()] == [UID]
    rows = sorted(reader.state("open").drop("partition_id").collect())
    assert rows == sorted(origin.state("open").drop("partition_id").collect())
    assert reader.lookup(*rows[0].key)["state"]["open"] == rows[0].value


@pytest.mark.parametrize("what", ["state/", "spark/sources/"])
@pytest.mark.parametrize("damage", ["flip", *(pytest.param(one, marks=pytest.mark.slow) for one in ("cut", "lose"))])
def test_damaged_savepoint_is_named(second: World, what: str, damage: str) -> None:
    """A file of the savepoint with a flipped bit, cut off or lost is found before the job reads anything, and named."""
    moved = second.folder / "moved"
    path = next(path for path in sorted((moved / what).rglob("*")) if path.is_file())
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    path.write_bytes(content[:-1] if damage == "cut" else content)
    if damage == "lose":
        path.unlink()
    error = failure(second.start(job(second), from_savepoint(second)))
    assert isinstance(error, CorruptStateError)
    assert str(path) in str(error) and "use a copy" in str(error)
    assert not list((second.checkpoints / "mixedmode").glob("checkpoints/*/_metadata"))


def test_failed_restore_is_done_again(second: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that was cut short is done again from the start; without the option the job does not start."""
    fail_at(monkeypatch, "restore-before-metadata=raise")
    assert isinstance(failure(second.start(job(second), from_savepoint(second))), failpoints.InjectedFailure)
    fail_at(monkeypatch, "")
    error = support.refusal(lambda: second.start(job(second), OBSERVED))
    assert isinstance(error, CheckpointError) and "was cut short" in str(error)
    query = live(second.start(job(second), from_savepoint(second)))
    support.stop(query)


def test_used_location_is_not_overwritten(first: World, second: World) -> None:
    """A location with checkpoints of its own that do not come from the savepoint refuses the option at the start."""
    store = first.checkpoints / "mixedmode" / "checkpoints"
    before = sorted(path.name for path in store.iterdir())
    options = {**OBSERVED, PATH: str(second.folder / "moved")}
    error = support.refusal(lambda: first.start(job(first), options))
    assert isinstance(error, CheckpointError) and "begun from no savepoint" in str(error)
    assert sorted(path.name for path in store.iterdir()) == before


def test_option_is_ignored_where_it_was_used(second: World, caplog: pytest.LogCaptureFixture) -> None:
    """The same savepoint under another path is recognised by its id; that it is ignored is logged."""
    live(second.start(job(second), from_savepoint(second))).stop()
    (second.folder / "moved").rename(second.folder / "moved-again")
    with caplog.at_level(logging.INFO, "mixedmode.runtime.checkpoints.savepoints.restore"):
        options = {**OBSERVED, PATH: str(second.folder / "moved-again")}
        query = live(second.start(job(second), options))
    assert "is ignored" in caplog.text
    query.stop()
    (second.folder / "moved-again" / "_metadata").unlink()
    error = support.refusal(lambda: second.start(job(second), {**OBSERVED, PATH: str(second.folder / "other")}))
    assert "was begun from savepoint" in str(error)


@pytest.mark.slow
def test_unclaimed_operator(second: World) -> None:
    """R3: a keyed stage of another name does not find its state: refused by name, unless it is to be dropped."""
    renamed = support.sessions(None, second.live()).uid("renamed")
    error = support.refusal(lambda: second.start(renamed, from_savepoint(second)))
    assert isinstance(error, CheckpointMismatchError)
    assert "operator 'sessions' (the job's is 'renamed')" in str(error) and "ignore-unclaimed-state" in str(error)
    assert not (second.checkpoints / "mixedmode" / "job.json").exists(), "a refused restore claims nothing"
    query = live(
        second.start(renamed, from_savepoint(second, **{"execution.savepoint.ignore-unclaimed-state": "true"}))
    )
    support.stop(query)
    assert mixedmode.state_reader(str(second.checkpoints)).state("open").count() == 0


class Fewer(support.Sessions):
    """Sessions under another variable name."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._open = handle.getValueState("current", "start long, last long, count long, total long")


@pytest.mark.slow
def test_unclaimed_variable(second: World) -> None:
    """A state variable that the job does not declare any more is refused by name, unless it is to be dropped."""
    changed = (
        second.read()
        .withWatermark("ts", "0 seconds")
        .groupBy("key")
        .transformWithState(Fewer(), support.SESSION_SCHEMA, "append", "eventTime")
        .uid(UID)
    )
    error = support.refusal(lambda: second.start(changed, from_savepoint(second)))
    assert "state 'open' (value) of operator 'sessions'" in str(error)
    query = live(
        second.start(changed, from_savepoint(second, **{"execution.savepoint.ignore-unclaimed-state": "true"}))
    )
    support.stop(query)


def test_other_max_parallelism(second: World) -> None:
    """The number of key groups is fixed for the life of the state; the location is not claimed with a wrong one."""
    error = support.refusal(
        lambda: second.start(job(second), from_savepoint(second, **{"pipeline.max-parallelism": 64}))
    )
    assert isinstance(error, OptionError) and "128" in str(error)
    live(second.start(job(second), from_savepoint(second))).stop()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["nowhere", "checkpoints of another job"])
def test_not_a_savepoint(first: World, second: World, path: str) -> None:
    """A path without a savepoint is an error that says what is there, and claims nothing."""
    given = str(second.folder / "nowhere") if path == "nowhere" else str(first.checkpoints)
    error = support.refusal(lambda: second.start(job(second), {**OBSERVED, PATH: given}))
    assert isinstance(error, CheckpointError)
    assert str(error).startswith("execution.savepoint.path: ") and "allowed: a folder that" in str(error)
    assert ("does not exist" if path == "nowhere" else "it is a checkpointLocation") in str(error)
    assert not (second.checkpoints / "mixedmode" / "job.json").exists()


def test_savepoint_is_no_checkpoint_location(second: World) -> None:
    """A savepoint given as checkpointLocation is refused: it never changes."""
    second.checkpoints = second.folder / "moved"
    before = sorted(path.name for path in second.checkpoints.rglob("*"))
    error = support.refusal(lambda: second.start(job(second), OBSERVED))
    assert "is a savepoint" in str(error)
    assert sorted(path.name for path in second.checkpoints.rglob("*")) == before


@pytest.mark.slow
def test_drained_savepoint_is_a_clean_start(worlds: Any, tmp_path: Path) -> None:
    """After a drain no session is open; a job that goes on from it begins new ones and reads nothing twice."""
    world: World = worlds()
    query = live(world.start(job(world), OBSERVED))
    world.feed(query, EVENTS[80:140])
    drained = query.stopWithSavepoint(str(tmp_path / "sp"), drain=True)
    assert world.output() == support.sessions_of(EVENTS[:140])
    world.checkpoints = tmp_path / "elsewhere"
    query = live(world.start(job(world, history=False), {**OBSERVED, PATH: drained}))
    world.land(EVENTS[140:], support.flush_after(EVENTS))
    support.finish(query)
    two_jobs = [*support.sessions_of(EVENTS[:140]), *support.sessions_of(EVENTS[140:])]
    assert world.results() == sorted(two_jobs, key=repr)


def test_plan_names_the_savepoint(first: World) -> None:
    """explain() says what the job begins with."""
    writer = job(first, history=False).writeStream.format("noop")
    assert "begins with" not in str(writer.plan())
    assert "savepoint sp/7, unless" in str(writer.option(PATH, "sp/7").plan())


def test_stage_without_a_name_is_warned_about(first: World) -> None:
    """explain() warns while the keyed stage has no name of its own, and not when it has."""
    writer = support.sessions(None, first.live()).writeStream.format("noop")
    assert "set .uid(" in str(writer.plan())
    assert "set .uid(" not in str(job(first, history=False).writeStream.format("noop").plan())
    given = support.sessions(None, first.live()).uid("keyed-0").writeStream.format("noop")
    assert given.plan().operator == writer.plan().operator, "the name that a stage has without one can be given later"
    with pytest.raises(mixedmode.PlanError, match="names a folder"):
        support.sessions(None, first.live()).uid("a/b")


def test_job_goes_on_from_the_first_format(world: World) -> None:
    """M1: a job begins from a savepoint as format version 1 wrote it, with its state, its timers and what it had read.

    Sessions that were open then are closed with all of their events.
    """
    events = support.stream_of(120, seed=33)
    old = Path(__file__).parents[2] / "data" / "savepoint-1"
    # Whatever the clock says now: files do not look old beside those of the savepoint.
    keyed = support.sessions(None, world.live(maxFileAge="36500d")).uid(UID)
    query = live(world.start(keyed, {**OBSERVED, PATH: str(old), "pipeline.parallelism": 3}))
    world.land(events[80:], support.flush_after(events))
    support.finish(query)
    found, whole = set(world.results()), set(support.sessions_of(events))
    assert whole - set(support.sessions_of(events[:80])) < found < whole
