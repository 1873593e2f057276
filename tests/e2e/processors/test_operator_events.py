"""Coordinators end to end: events across the switch, restarts, savepoints and endings, each once and in order."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import mixedmode
import numbering
import pytest
import support
from failing import fail_at
from mixedmode import CheckpointMismatchError, CoordinatorError, MixedQuery, OperatorEventError, QueryError
from mixedmode.runtime.driver.checkpoint import async_checkpoint
from mixedmode.runtime.support import failpoints
from numbering import Counting, Numbering
from pyspark import cloudpickle
from support import World, live

for _module in (numbering, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(_module)
EVENTS = support.stream_of(300, seed=4)
SLOW = {"execution.checkpointing.interval": "1 h"}


def start(world: World, coordinator: Any, options: dict[str, Any] | None = None, **trigger: Any) -> MixedQuery:
    job = numbering.described(world.history(EVENTS[:100]), world.live(), coordinator)
    return world.start(job, {**SLOW, **(options or {})}, **trigger)


def delivered(world: World) -> dict[int, list[int]]:
    """Numbers of the events that the committed output has, by shard."""
    found: dict[int, list[int]] = {}
    for kind, shard, number in world.output():
        if kind == "event":
            found.setdefault(shard, []).append(number)
    return {shard: sorted(numbers) for shard, numbers in found.items()}


def test_across_the_switch(world: World) -> None:
    """Events of the backlog are handed over at the switch, and the coordinator's answers reach every shard in an epoch
    of their own, rows or not; status and progress count them."""
    coordinator = Numbering(5)
    query = live(start(world, coordinator))
    query.processAllAvailable()
    assert sum(coordinator.received.values()) == 100
    assert delivered(world) == {0: [0, 1, 2, 3, 4], 1: [0, 1, 2, 3, 4]}
    assert [progress.numInputRows for progress in query.recentProgress] == [100, 0]
    backlog, streamed = query.recentProgress
    assert backlog.coordinator["eventsReceived"] == 0
    assert streamed.coordinator == {
        "eventsSent": 10,
        "eventsDelivered": 10,
        "eventsReceived": 100,
        "eventsBuffered": 0,
    }
    assert query.status["coordinator"] == streamed.coordinator
    world.feed(query, EVENTS[100:200])
    assert sum(coordinator.received.values()) == 200
    query.stop()
    numbering.check_all_there(world.checkpoints, 200, 5, 2)


@pytest.mark.slow
def test_restarts(world: World) -> None:
    """A coordinator goes on from its checkpoint; an event that was sent inside checkpoint() comes after it, once."""
    for life, part in enumerate((EVENTS[100:160], EVENTS[160:220], EVENTS[220:]), start=1):
        coordinator = Numbering(1000, every_s=3600)
        query = live(start(world, coordinator))
        assert coordinator.resets == ([] if life == 1 else [(shard, coordinator.resets[0][1]) for shard in (0, 1)])
        world.land(part)
        support.finish(query)
        events = numbering.stored(world.checkpoints)["events"]
        assert [(entry["to"], entry["shard"], len(entry["events"])) for entry in events] == [
            ("subtask", 0, 1),
            ("subtask", 1, 1),
        ]
    assert sum(coordinator.received.values()) == 300
    numbers = delivered(world)
    assert numbers[0] == numbers[1] == list(range(coordinator.sent - 1))
    numbering.check_all_there(world.checkpoints, 300, coordinator.sent, 2)


@pytest.mark.slow
def test_events_wait_while_a_checkpoint_is_completed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a coordinator and its shards send after a cut goes on its way when ``_metadata`` is there: not before,
    though epochs go on, and not only with the next epoch or the next checkpoint."""
    in_flight, go_on = threading.Event(), threading.Event()

    def reached(name: str) -> None:
        if name == "events-stored" and threading.current_thread().name.startswith(failpoints.BESIDE):
            in_flight.set()
            assert go_on.wait(300)

    coordinator = Numbering(1000, every_s=3600)
    query = live(start(world, coordinator))
    query.processAllAvailable()
    monkeypatch.setattr(async_checkpoint, "failpoint", reached)
    running = query._runner.running
    assert running is not None
    support.wait_until(lambda: all_delivered(query))  # what checkpoints have sent so far
    before, taken = counts(query), query.status["checkpoint"]
    try:
        running.scheduler.request()
        running.context.wake.set()
        assert in_flight.wait(300), query.exception()
        with coordinator.context.lock:
            coordinator.send_one()
        world.land(EVENTS[100:200])
        support.wait_until(lambda: sum(one.numInputRows for one in query.recentProgress) == 200)
        held = counts(query)
        assert held["eventsSent"] == before["eventsSent"] + 4, "two in checkpoint(), two behind it"
        assert held["eventsDelivered"] == before["eventsDelivered"] + 2, "those of checkpoint() are in the cut"
        assert held["eventsReceived"] == before["eventsReceived"] == sum(coordinator.received.values())
        assert held["eventsBuffered"] == 102
        assert query.status["checkpoint"] == taken
    finally:
        go_on.set()
    support.wait_until(lambda: all_delivered(query))
    now = counts(query)
    assert now["eventsSent"] == before["eventsSent"] + 4
    assert now["eventsReceived"] == before["eventsReceived"] + 100
    query.stop()
    numbering.check_all_there(world.checkpoints, 200, coordinator.sent, 2)


def all_delivered(query: MixedQuery) -> bool:
    now = counts(query)
    return now["eventsDelivered"] == now["eventsSent"] and now["eventsBuffered"] == 0


def counts(query: MixedQuery) -> dict[str, int]:
    found: dict[str, int] = query._runner.running.events.counts
    return found


@pytest.mark.slow
def test_reused_shards(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart in the backlog that takes over finished shards hands their events over, once."""
    fail_at(monkeypatch, "phase-switch=raise")
    history, coordinator = world.history(EVENTS[:100]), Numbering(3)
    with pytest.raises(QueryError, match="phase-switch"):
        world.start(numbering.described(history, world.live(), Numbering(3)), SLOW).awaitTermination(300)
    fail_at(monkeypatch, "")
    query = live(world.start(numbering.described(history, world.live(), coordinator), SLOW))
    support.finish(query)
    assert support.details(query, "reused") == ["2 of 2 shards were finished"]
    assert delivered(world) == {0: [0, 1, 2], 1: [0, 1, 2]}
    numbering.check_all_there(world.checkpoints, 100, 3, 2)


class Collect(mixedmode.OperatorCoordinator):
    """Broadcasts one word per checkpoint, inside it."""

    def open(self, context: mixedmode.CoordinatorContext) -> None:
        self.context = context

    def checkpoint(self) -> bytes:
        self.context.broadcast({"shard": self.context.parallelism, "number": 0})
        return b""


class Hear(Counting):
    """Takes everything."""

    def restoreShard(self, states: list[Any]) -> None:
        self._kept = {"sent": len(states), "received": 0}

    def handleEvent(self, event: dict[str, Any]) -> Any:
        yield ("event", event["shard"], self._kept["sent"])

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        yield ("backlog" if self._coordinator.isBacklog else "stream", None, sum(1 for _ in rows))


@pytest.mark.slow
def test_other_number_of_shards(world: World) -> None:
    """With another number of shards, each gets a waiting broadcast once, and the states of all its old shards."""

    def run(parallelism: int) -> None:
        job = (
            world.read(EVENTS[:50])
            .groupBy("key")
            .transformWithState(Hear(), numbering.OUTPUT, "append", "none", coordinator=Collect())
        )
        query = live(world.start(job, {**SLOW, "pipeline.parallelism": parallelism}))
        if parallelism == 3:
            world.land(EVENTS[50:70])
        support.finish(query)

    for parallelism in (2, 3, 1):
        run(parallelism)
    rows = [row[1:] for row in world.output() if row[0] == "event"]
    # (shards of the sender's life, states that the receiver has got); own state is there from the first epoch on
    assert rows.count((2, 1)) + rows.count((2, 2)) >= 3
    assert rows.count((3, 3)) == 1, "three shards' copies of a broadcast met in one shard"
    read = {kind: sum(row[2] for row in world.output() if row[0] == kind) for kind in ("backlog", "stream")}
    assert read == {"backlog": 50, "stream": 20}, "processors know which of the two it is"


@pytest.mark.slow
def test_savepoint(worlds: Any, tmp_path: Path) -> None:
    """A savepoint holds the coordinator's state and the events on their way; another job goes on with both."""
    world: World = worlds()
    coordinator = Numbering(1000, every_s=3600)
    query = live(start(world, coordinator))
    query.stopWithSavepoint(str(tmp_path / "sp"))
    other: World = worlds()
    again = Numbering(1000, every_s=3600)
    job = numbering.described(None, other.live(), again)
    query = live(other.start(job, {**SLOW, "execution.savepoint.path": str(tmp_path / "sp")}))
    support.finish(query)
    assert again.received == coordinator.received
    assert again.sent > coordinator.sent >= 1
    before, after = delivered(world), delivered(other)
    for shard in (0, 1):
        assert before.get(shard, []) + after[shard] == list(range(again.sent - 1)), "the last one still waits"


@pytest.mark.parametrize("mode", ["batch", "mixed"])
def test_bounded_job(world: World, mode: str) -> None:
    """At the end of a bounded job the coordinator hears everything, and its answers arrive before finish()."""
    coordinator = Numbering(3)
    job = numbering.described(world.history(EVENTS), None, coordinator)
    query = world.start(job, {"execution.runtime-mode": mode})
    query.awaitTermination(300)
    assert sum(coordinator.received.values()) == 300
    assert delivered(world) == {0: [0, 1, 2], 1: [0, 1, 2]}
    assert [row for row in world.output() if row[0] == "finished"] == [("finished", None, 3)] * 2


@pytest.mark.slow
def test_streaming_mode(world: World) -> None:
    """In streaming mode events flow after each epoch of the history, and checkpoints in between change nothing."""
    coordinator = Numbering(40, every_s=0.01)
    options = {
        "execution.runtime-mode": "streaming",
        "execution.history.rows-per-epoch": "20",
        "execution.checkpointing.interval": "1 ms",
    }
    query = live(start(world, coordinator, options))
    assert any(progress.coordinator["eventsReceived"] for progress in query.recentProgress[:3])
    while coordinator.sent < 40:
        query.processAllAvailable()
    query.stop()
    assert len(query.checkpoints) > 3
    numbering.check_all_there(world.checkpoints, 100, 40, 2)


@pytest.mark.slow
def test_available_now(world: World) -> None:
    """Runs that end by themselves deliver what the backlog has brought about before their checkpoint at the switch."""
    for part, heard in ((EVENTS[100:150], 150), (EVENTS[150:200], 200)):
        world.land(part)
        coordinator = Numbering(4)
        start(world, coordinator, availableNow=True).awaitTermination(300)
        assert sum(coordinator.received.values()) == heard
    assert delivered(world) == {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]}
    numbering.check_all_there(world.checkpoints, 200, 4, 2)


class Fragile(Numbering):
    """Raises at the nth event."""

    fails_at = 130

    def handleEventFromSubtask(self, shard: int, event: int) -> None:
        if sum(self.received.values()) == self.fails_at:
            raise ValueError("no more")
        super().handleEventFromSubtask(shard, event)


@pytest.mark.slow
def test_failing_coordinator(world: World) -> None:
    """A coordinator that raises fails the query with an error that names it; a restart goes on exactly once, without a
    coordinator it is refused."""
    query = live(start(world, Fragile(3)))
    world.land(EVENTS[100:200])
    with pytest.raises(
        QueryError, match=r"coordinator Fragile raised in handleEventFromSubtask\(\): ValueError"
    ) as raised:
        query.processAllAvailable()
    assert isinstance(raised.value.__cause__, CoordinatorError)
    query = start(world, None)
    with pytest.raises(QueryError, match="holds the state of a coordinator, and the job has none") as raised:
        query.awaitTermination(300)
    assert isinstance(raised.value.__cause__, CheckpointMismatchError)
    coordinator = Numbering(3)
    query = live(start(world, coordinator))
    support.finish(query)
    assert sum(coordinator.received.values()) == 200
    assert delivered(world) == {0: [0, 1, 2], 1: [0, 1, 2]}


class Chatty(Counting):
    """Sends what cannot be sent."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        self._coordinator.send({"event": threading})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("coordinator", "message"),
    [
        (Numbering(1), "event of type dict from processor Chatty is not plain data: it has <module 'threading'"),
        (None, "event of type dict from processor Chatty has no receiver; give transformWithState a coordinator"),
    ],
)
def test_bad_events_of_a_processor(world: World, coordinator: Any, message: str) -> None:
    """A processor's event that is not plain, or that nobody takes, fails the query with the sender's error."""
    job = (
        world.read(EVENTS[:5], live=False)
        .groupBy("key")
        .transformWithState(Chatty(), numbering.OUTPUT, "append", "none", coordinator=coordinator)
    )
    query = world.start(job)
    with pytest.raises(QueryError, match="processor Chatty") as raised:
        query.awaitTermination(300)
    assert isinstance(raised.value.__cause__, OperatorEventError)
    assert message in str(raised.value)
