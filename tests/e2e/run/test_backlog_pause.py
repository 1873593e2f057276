"""A backlog that is paused between its shards, or has to do with few cores."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import support
from mixedmode import MixedQuery
from pyspark import TaskContext
from support import World

support.by_value(__name__)

EVENTS = support.stream_of(160, seed=21)
OPTIONS = {
    "execution.backlog.final-watermark": "observed",
    "execution.checkpointing.interval": "1 hour",
    "pipeline.parallelism": "4",
}


class Patient(support.Sessions):
    """Sessions; the first two shards wait for a file.  Leaves a file for each task that begins with a shard."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def init(self, handle: Any) -> None:
        super().init(handle)
        self._shard: int | None = None

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        if self._shard is None:
            context = TaskContext.get()
            assert context is not None
            self._shard = context.partitionId()
            pool = context.getLocalProperty("spark.scheduler.pool")
            (self.folder / f"{self._shard}-{uuid.uuid4().hex}-{pool}").touch()
        while self._shard < 2 and not (self.folder / "go").exists():
            time.sleep(0.02)
        yield from super().handleInputRows(key, rows, timerValues)


def begun(folder: Path) -> Counter[int]:
    """How often each shard was begun with."""
    return Counter(int(path.name.split("-")[0]) for path in folder.iterdir() if path.name != "go")


def start(world: World, history: Any, folder: Path, options: dict[str, str]) -> MixedQuery:
    folder.mkdir(exist_ok=True)
    keyed = support.mixedmode.read(history=history, live=world.live()).withWatermark("ts", "0 seconds").groupBy("key")
    processed = keyed.transformWithState(Patient(folder), support.SESSION_SCHEMA, "append", "eventTime")
    return world.start(processed.uid("sessions"), {**OPTIONS, **options})


def assert_right(world: World, query: MixedQuery) -> None:
    support.live(query)
    world.land(EVENTS[140:], support.flush_after(EVENTS))
    support.finish(query)
    assert world.results() == world.expected(EVENTS)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [{}, {"execution.backlog.max-cores": "2"}], ids=["all cores", "max-cores"])
def test_pause_comes_between_shards(world: World, tmp_path: Path, limit: dict[str, str]) -> None:
    """Shards in hand are finished and kept, no other is begun, and after the pause each has been computed once."""
    folder, marker = tmp_path / "tasks", world.checkpoints / "mixedmode" / "pause"
    world.land(EVENTS[100:140])
    history = world.history(EVENTS[:100])
    query = start(world, history, folder, limit)
    support.wait_beside(query, lambda: folder.exists() and len(begun(folder)) == 2)
    with ThreadPoolExecutor(1) as others:
        paused = others.submit(query.pause)
        support.wait_beside(query, marker.exists)
        assert not paused.done() and not query.status["isPaused"]
        (folder / "go").touch()
        paused.result(300)
    assert (query.status["isPaused"], query.status["phase"], query.status["epoch"]) == (True, "backlog", 0)
    assert begun(folder) == {0: 1, 1: 1} and len(list(world.checkpoints.glob("mixedmode/backlog/*/*.report"))) == 2
    if limit:
        query.stop()
        query = start(world, history, folder, limit)
    else:
        query.resume()
    support.live(query)
    assert begun(folder) == {0: 1, 1: 1, 2: 1, 3: 1}
    assert support.details(query, "reused") == (["2 of 4 shards were finished"] if limit else [])
    assert not marker.exists()
    assert_right(world, query)


@pytest.mark.slow
def test_pause_while_a_backlog_is_read(world: World, tmp_path: Path) -> None:
    """A pause does not wait for the reading to end if no shard has been begun; it is read again after the pause."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "go").touch()
    read, reading = tmp_path / "read", tmp_path / "reading"

    def slowly(batches: Iterator[Any]) -> Iterator[Any]:
        reading.touch()
        while not read.exists():
            time.sleep(0.02)
        yield from batches

    history = world.history(EVENTS[:140])
    options = {"execution.backlog.final-watermark": "max"}  # no look ahead
    query = start(world, history.mapInArrow(slowly, history.schema), folder, options)
    support.wait_beside(query, reading.exists)
    query.pause()
    assert query.status["isPaused"] and not begun(folder)
    read.touch()
    query.resume()
    support.live(query)
    assert begun(folder) == {0: 1, 1: 1, 2: 1, 3: 1}
    query.stop()


@pytest.mark.slow
def test_backlog_on_one_core_in_a_pool(world: World, tmp_path: Path) -> None:
    """One task at a time reads, and works on shards; jobs are in the pool of the thread that started the query."""
    context = world.spark.sparkContext
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "go").touch()
    rows = [(key, support.at(seconds), value) for key, seconds, value in EVENTS[:140]]
    history = world.spark.createDataFrame(rows, support.ROW_SCHEMA)
    context.setLocalProperty("spark.scheduler.pool", "slow")
    try:
        query = start(world, history, tmp_path / "tasks", {"execution.backlog.max-cores": "1"})
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
    support.live(query)
    tasks = [stage.numTasks() for stage in stages_of(query)]
    assert len(tasks) >= 5 and max(tasks) == 1, tasks
    assert_right(world, query)
    names = [path.name for path in (tmp_path / "tasks").iterdir() if path.name != "go"]
    assert len(names) > 4 and all(name.endswith("-slow") for name in names), "in the stream, too"


def stages_of(query: MixedQuery) -> list[Any]:
    """What Spark tells of the stages of a query's jobs."""
    running = query._runner.running
    assert running is not None
    tracker: Any = running.job.spark.sparkContext._jsc.sc().statusTracker()  # type: ignore[union-attr]
    jobs = [tracker.getJobInfo(number).get() for number in tracker.getJobIdsForTag(running.context.tag)]
    stages = [tracker.getStageInfo(number) for job in jobs for number in job.stageIds()]
    return [stage.get() for stage in stages if stage.isDefined()]
