"""``stop()`` comes back from a user's code that does not: the run is given up, and the next one has each row once."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import support
from mixedmode import MixedQuery, StopTimeoutError
from mixedmode.runtime.handle import stopping
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World, counted

support.by_value(__name__)


class Deliver:
    """A function of foreachBatch that keeps rows by id, and does not return before it may."""

    def __init__(self) -> None:
        self.rows: dict[int, list[tuple[Any, ...]]] = {}
        self.may, self.inside, self.returned = threading.Event(), threading.Event(), threading.Event()
        self.may.set()

    def __call__(self, rows: DataFrame, number: int) -> None:
        found = sorted((tuple(row) for row in rows.collect()), key=repr)
        if not self.may.is_set():
            self.inside.set()
            self.may.wait()
            self.returned.set()
            return
        self.rows[number] = found

    @property
    def all(self) -> list[tuple[Any, ...]]:
        return sorted((row for rows in self.rows.values() for row in rows), key=repr)


@pytest.fixture
def deliver() -> Iterator[Deliver]:
    made = Deliver()
    yield made
    made.may.set()


def start(world: World, deliver: Deliver, **options: str) -> MixedQuery:
    keyed = support.counts(world.live(), world.history(counted(0)))
    writer = keyed.writeStream.foreachBatch(deliver).option("checkpointLocation", str(world.checkpoints))
    for name, value in {"pipeline.parallelism": "2", **options}.items():
        writer = writer.option(name, value)
    query: MixedQuery = writer.queryName("kept").start()
    world.queries.append(query)
    return query


def threads_of(query: MixedQuery) -> list[str]:
    """The threads of a run that are still there, but its event log's, by their names."""
    return [one.name for one in threading.enumerate() if query._runner.context.run_id in one.name]


@pytest.mark.parametrize("phase", ["backlog", pytest.param("live", marks=pytest.mark.slow)])
def test_a_function_of_foreach_batch_that_never_returns(world: World, deliver: Deliver, phase: str) -> None:
    """The error names the function, its id and the line that it is in.  The location is free at once; the next run
    makes the call again, and what the old one returns at last changes nothing."""
    world.land(counted(1))
    if phase == "backlog":
        deliver.may.clear()
    query = start(world, deliver)
    if phase == "live":
        support.live(query)
        query.processAllAvailable()
        deliver.may.clear()
        world.land(counted(2))
    assert deliver.inside.wait(300)
    with pytest.raises(StopTimeoutError) as caught:
        query.stop(timeout=1)
    assert re.match(
        r"query kept was given up: after 1 s stop\(\) still waited for function Deliver of foreachBatch, batch \d+"
        rf' \(File "{__file__}", line \d+, in __call__: self.may.wait\(\)',
        str(caught.value),
    ), str(caught.value)
    assert isinstance(caught.value, TimeoutError) and caught.value.code == "MIXEDMODE_STOP_TIMED_OUT"
    assert not query.isActive and query.exception() is None and query.awaitTermination() is None
    hung, deliver.may = deliver.may, threading.Event()
    deliver.may.set()
    try:
        again = start(world, deliver)
        support.live(again)
        if phase == "backlog":
            world.land(counted(2))
        again.processAllAvailable()
    finally:
        hung.set()
    assert deliver.returned.wait(300)
    support.wait_until(lambda: not threads_of(query))
    world.land(counted(3))
    support.finish(again)
    given = [row for number in range(1, 4) for row in support.counts_after(*range(number + 1))]
    assert deliver.all == sorted(given, key=repr)


@pytest.mark.slow
def test_a_function_that_hangs_while_a_run_recovers(
    world: World, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the run's own thread is in it, which nobody can end: the query ends without it, and the location is free.
    When the function returns after all, that thread does nothing more."""
    monkeypatch.setattr(stopping, "_CANCELLED_WITHIN_S", 1.0)
    deliver.may.clear()
    first = start(world, deliver)
    assert deliver.inside.wait(300)
    with pytest.raises(StopTimeoutError):
        first.stop(timeout=1)
    deliver.inside.clear()
    second = start(world, deliver)
    assert deliver.inside.wait(300)
    with pytest.raises(StopTimeoutError, match="waited for function Deliver of foreachBatch, batch") as caught:
        second.stop(timeout=1)
    assert "in __call__: self.may.wait()" in str(caught.value)
    assert not second.isActive and second.exception() is None
    hung, deliver.may = deliver.may, threading.Event()
    deliver.may.set()
    third = start(world, deliver)
    support.live(third)
    hung.set()
    support.wait_until(lambda: not threads_of(first) and not second._run.thread.is_alive())
    world.land(counted(1))
    support.finish(third)
    given = [*support.counts_after(0), *support.counts_after(0, 1)]
    assert deliver.all == sorted(given, key=repr)


class Sleepy(StatefulProcessor):
    """Echoes its rows; one of value -1 takes for ever while a file is there."""

    def __init__(self, awake: Path) -> None:
        self._awake = str(awake)

    def init(self, handle: Any) -> None:
        self._seen = handle.getValueState("seen", "rows long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            if row.value == -1 and not os.path.exists(self._awake):
                Path(f"{self._awake}-not").touch()
                time.sleep(3600)
            self._seen.update(((self._seen.get() or (0,))[0] + 1,))
            yield (row.key, row.value, self._seen.get()[0])


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["backlog", "live"])
def test_a_processor_that_never_returns(world: World, phase: str) -> None:
    """Its task is killed: at once in a backlog, of which nothing is kept, and after ``execution.stop.timeout`` in the
    live phase, where the error names processor, stage and shard.  The next run gives each row once."""
    awake = world.folder / "awake"

    def begin(**options: str) -> MixedQuery:
        keyed = world.read([("a", 1, 1), ("b", 1, 1)]).groupBy("key")
        keyed = keyed.transformWithState(Sleepy(awake), "key string, value long, rows long", "append", "None")
        return world.start(keyed.uid("sleepy"), options)

    sleeps = [("a", 2, 2), ("a", 3, -1), ("b", 2, 2)]
    if phase == "backlog":
        world.land(sleeps)
    query = begin(**({"execution.stop.timeout": "500 ms"} if phase == "live" else {}))
    if phase == "live":
        support.live(query)
        query.processAllAvailable()
        world.land(sleeps)
    support.wait_until((world.folder / "awake-not").exists)
    if phase == "backlog":
        query.stop()
    else:
        support.wait_until(
            lambda: "shard" in query._runner.stopping.what_hangs()
        )  # Spark has noticed that the task runs
        with pytest.raises(
            StopTimeoutError, match=r"still waited for processor Sleepy of stage 'sleepy', shard [01] \("
        ):
            query.stop()
    assert not query.isActive and query.exception() is None
    awake.touch()
    again = begin()
    support.live(again)
    support.finish(again)
    rows = [("a", 1, 1), ("a", 2, 2), ("a", -1, 3), ("b", 1, 1), ("b", 2, 2)]
    assert world.output() == sorted(rows, key=repr)


def test_a_timeout_that_is_none(world: World) -> None:
    """It has to be greater than 0, and an end in time raises nothing."""
    query = world.start(support.counts(world.live(), world.history(counted(0))), {"pipeline.parallelism": "1"})
    with pytest.raises(ValueError, match="is 0; allowed: a number of seconds, greater than 0"):
        query.stop(timeout=0)
    query.stop(timeout=300)
    query.stop(timeout=1)
