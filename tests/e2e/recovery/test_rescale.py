"""A running query goes on with other numbers of shards: its results are those of one that was left alone."""

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import MixedQuery, QueryError
from mixedmode.runtime.driver.checkpoint import async_checkpoint
from mixedmode.runtime.driver.epochs import epoch_runner
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World
from test_key_groups import Jobs, shown, visits, visits_of

support.by_value(__name__)

#: Checkpoints come when somebody wants one.
OBSERVED = {"execution.backlog.final-watermark": "observed", "execution.checkpointing.interval": "1 hour"}
EVENTS = support.stream_of(240, seed=31)


def shards_of(checkpoints: Path) -> list[tuple[str, dict[str, int]]]:
    """Of each checkpoint that is kept why it was taken, and the shards of each stage; oldest first."""
    found = []
    for path in sorted(checkpoints.glob("mixedmode/checkpoints/*/_metadata")):
        body = json.loads(json.loads(path.read_text())["body"])
        found.append((body["trigger"], {one["uid"]: len(one["shards"]) for one in body["operators"]}))
    return found


def take(query: MixedQuery, world: World, *batches: Any) -> None:
    world.land(*batches)
    query.processAllAvailable()


@pytest.mark.slow
def test_processor_with_timers_is_dealt_to_other_shards(world: World, tmp_path: Path) -> None:
    """Open sessions and their timers go along, more shards and fewer, also in a pause and beside a savepoint; what was
    pending became visible with the old shards.

    Without pipeline.parallelism a later start keeps the shards; with it, they are what it says.
    """

    def start(**parallelism: int) -> MixedQuery:
        keyed = support.sessions(world.history(EVENTS[:60]), world.live()).uid("sessions")
        writer = keyed.writeStream.option("path", str(world.out)).option("checkpointLocation", str(world.checkpoints))
        for name, value in {**OBSERVED, **{f"pipeline.{name}": value for name, value in parallelism.items()}}.items():
            writer = writer.option(name, value)
        query: MixedQuery = writer.start()
        world.queries.append(query)
        support.live(query)
        return query

    query = start(parallelism=2)
    take(query, world, EVENTS[60:90])
    before = query.status["checkpoint"]
    query.rescale(5)
    assert query.status["shards"] == {"sessions": 5} and query.status["checkpoint"] > before
    assert shards_of(world.checkpoints)[-1] == ("rescale", {"sessions": 5})
    assert support.details(query, "rescaled") == [
        f"sessions 2 to 5 shards, from checkpoint {query.status['checkpoint']} on"
    ]
    (told,) = [one for one in query.history() if isinstance(one, mixedmode.events.ShardsRescaled)]
    assert (told.before, told.after, told.checkpoint_id) == ({"sessions": 2}, {"sessions": 5}, before + 1)
    same = query.status["checkpoint"]
    query.rescale(5, stage="sessions")
    assert query.status["checkpoint"] == same, "nothing is to be done"

    world.land(EVENTS[90:120])
    query.rescale(3)  # in the middle of whatever it does with them
    query.processAllAvailable()
    query.pause()
    query.rescale(1, timeout=300)
    assert query.status["isPaused"] and query.status["shards"] == {"sessions": 1}
    assert query.savepoint(tmp_path / "sp") == str(tmp_path / "sp")
    query.resume()
    take(query, world, EVENTS[120:150])
    assert query.lastProgress.stateOperators[0]["numShufflePartitions"] == 1

    for wrong in (0, 129, True, "2"):
        with pytest.raises(ValueError, match=r"parallelism of rescale\(\) is .*from 1 to 128"):
            query.rescale(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="greater than 0"):
        query.rescale(2, timeout=0)
    with pytest.raises(QueryError, match="no stage 'other'; its stages are sessions"):
        query.rescale(2, "other")
    query.stop()
    with pytest.raises(QueryError, match="rescale to 2 shards can be done: the query has ended"):
        query.rescale(2)

    query = start()
    assert query.status["shards"] == {"sessions": 1} and support.details(query, "rescaled") == []
    take(query, world, EVENTS[150:180])
    query.rescale(4)
    query.stop()
    query = start(parallelism=3)
    assert support.details(query, "rescaled") == ["sessions 4 to 3 shards, by pipeline.parallelism"]
    take(query, world, EVENTS[180:], support.flush_after(EVENTS))
    query.stop()
    assert world.results() == world.expected(EVENTS)


class Numbers(mixedmode.OperatorCoordinator):
    """Broadcasts 0, 1, 2, … from a thread of its own until it is told to end, and hears how far each shard has got."""

    def open(self, context: mixedmode.CoordinatorContext) -> None:
        self.context, self.sent, self.ended = context, 0, threading.Event()
        self.heard: dict[int, int] = {}
        self.resets: list[int] = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self.ended.wait(0.02)
            with self.context.lock:
                self.context.broadcast({"number": self.sent})
                self.sent += 1

    def subtaskReset(self, shard: int, checkpointId: int) -> None:
        self.resets.append(shard)

    def handleEventFromSubtask(self, shard: int, event: int) -> None:
        self.heard[shard] = event

    def close(self) -> None:
        self.ended.set()
        self.thread.join()


class Hearing(StatefulProcessor):
    """Takes each number once and in order, whatever shard it is by now; counts rows of each key."""

    def init(self, handle: Any) -> None:
        self._handle, self._next = handle, 0
        self._count = handle.getValueState("count", "n long")

    def restoreShard(self, states: list[int]) -> None:
        assert len(set(states)) <= 1, states
        self._next = states[0] if states else 0

    def snapshotShard(self) -> int:
        return self._next

    def handleEvent(self, event: dict[str, int]) -> Any:
        assert event["number"] == self._next, (event, self._next)
        self._next += 1
        self._handle.coordinator.send(self._next)
        return iter(())

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        count = (self._count.get() or (0,))[0] + sum(1 for _ in rows)
        self._count.update((count,))
        yield key[0], count


@pytest.mark.slow
def test_events_go_along_to_other_shards(world: World) -> None:
    """Each shard hears every event once and in order, whenever shards are dealt; the coordinator goes on, and is told
    of each new one.  The first number is asked for before the switch, and waits for it."""
    coordinator = Numbers()
    keyed = world.read(EVENTS[:80]).groupBy("key")
    counted = keyed.transformWithState(Hearing(), "key string, n long", "append", "none", coordinator=coordinator)
    query = world.start(counted, {**OBSERVED, "execution.checkpointing.interval": "200 ms"})
    query.rescale(3, wait=True, timeout=300)
    for number, shards in enumerate((5, 1, 4)):
        world.land(EVENTS[80 + 40 * number :][:40])
        query.rescale(shards)
    coordinator.close()
    query.processAllAvailable()
    while [coordinator.heard.get(shard) for shard in range(4)] != [coordinator.sent] * 4:
        assert query.isActive, query.exception()
        query.awaitTermination(0.02)
    support.stop(query)
    assert coordinator.resets == [*range(3), *range(5), *range(1), *range(4)]
    last = {key: max(n for one, n in world.output() if one == key) for key, _ in world.output()}
    assert last == Counter(key for key, _, _ in EVENTS[:200])


@pytest.mark.slow
def test_stages_are_dealt_alone_and_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three stages in one another's key groups: with as many shards, a power of two, rows stay in place; where one has
    others they are moved.  The results are Spark's."""
    expected, jobs = visits_of(world, EVENTS), Jobs(monkeypatch)
    query = world.start(visits(world.read(EVENTS[:100])), OBSERVED)
    query.rescale(4, wait=True)
    jobs.take()
    take(query, world, EVENTS[100:140])
    assert jobs.take() >= 1, "in place"
    query.rescale(3, "hours")
    assert query.status["shards"] == {"sessions": 4, "hours": 3, "busy": 4}
    take(query, world, EVENTS[140:170])
    assert jobs.take() == 0, "moved"
    query.rescale(2)
    assert support.details(query, "rescaled")[-1].startswith("sessions 4 to 2 shards, hours 3 to 2 shards, busy 4 to 2")
    take(query, world, EVENTS[170:], support.flush_after(EVENTS))
    assert jobs.take() >= 1
    query.stop()
    assert shown(world.output()) == expected


def test_a_run_that_fails_says_that_its_last_checkpoint_holds_the_shards(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is completed beside the epoch that fails: a restart finds the new ones, so whoever has asked is told so."""
    held, go_on = threading.Event(), threading.Event()

    def completed(name: str) -> None:
        if name == "checkpoint-after-metadata":
            held.set()
            assert go_on.wait(300)

    def applied(name: str) -> None:
        if name == "epoch-applied" and held.is_set():
            raise RuntimeError("not this one")

    query = support.live(world.start(support.sessions(world.history(EVENTS[:60]), world.live()), OBSERVED))
    query.processAllAvailable()
    monkeypatch.setattr(async_checkpoint, "failpoint", completed)
    monkeypatch.setattr(epoch_runner, "failpoint", applied)
    running = query._runner.running
    assert running is not None
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(query.rescale, 3, timeout=300)
        try:
            assert held.wait(300), query.exception()
            world.land(EVENTS[60:90])
            support.wait_until(running.context.failed.is_set, 300)
            assert not asked.done()
        finally:
            go_on.set()
        asked.result(300)
    support.wait_until(lambda: not query.isActive, 300)
    assert "not this one" in str(query.exception())
    assert support.details(query, "rescaled")
