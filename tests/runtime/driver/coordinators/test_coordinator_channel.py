"""A coordinator's channels as the driver runs them: epochs out and back, checkpoints between, threads at any time."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.errors import CheckpointError, CoordinatorError, OperatorEventError
from mixedmode.runtime.driver.coordinators.coordinator_channel import UserChannel
from mixedmode.runtime.driver.coordinators.event_channels import JobEvents
from mixedmode.runtime.operators.contract import ShardCounters
from mixedmode.runtime.protocols.operator_events.coordinator import CoordinatorContext, OperatorCoordinator
from mixedmode.runtime.protocols.operator_events.event_codec import decode
from mixedmode.runtime.protocols.operator_events.snapshot import StoredEvents
from mixedmode.runtime.protocols.operator_events.task_events import ShardInbox
from mixedmode.runtime.tasks.report import ShardReport
from mixedmode.state.keys.keygroups import shard_ranges


class Told(OperatorCoordinator):
    """Writes down what it is told; ``on`` does something in a method."""

    def __init__(self, **on: Any) -> None:
        self.calls: list[Any] = []
        self.on = on
        self.context: CoordinatorContext | None = None

    def _call(self, name: str, *arguments: Any) -> Any:
        self.calls.append((name, *arguments))
        return self.on[name](self, *arguments) if name in self.on else None

    def restore(self, state: bytes) -> None:
        self._call("restore", state)

    def open(self, context: CoordinatorContext) -> None:
        self.context = context
        self._call("open")

    def subtaskReset(self, shard: int, checkpointId: int) -> None:
        self._call("subtaskReset", shard, checkpointId)

    def handleEventFromSubtask(self, shard: int, event: Any) -> None:
        self._call("handleEventFromSubtask", shard, event)

    def checkpoint(self) -> bytes:
        found = self._call("checkpoint")
        return b"state" if found is None else found

    def close(self) -> None:
        self._call("close")


def channel(coordinator: OperatorCoordinator, restored: StoredEvents | None = None, **changes: Any) -> UserChannel:
    """An open channel to two shards."""
    options: dict[str, Any] = {"max_bytes": 100, "processor": "P", "takes_events": True, "latest": 0}
    made = UserChannel(coordinator, 2, restored=restored, wake=lambda: None, **{**options, **changes})
    made.open()
    return made


def epoch(one: UserChannel, *sent: str) -> dict[int, list[Any]]:
    """An epoch over both shards, in which shard 0 sends."""
    taken = one.take((0, 1))
    one.accept(0, sent)
    one.accept(1, ())
    one.hand_over()
    return {shard: [decode(text) for text in texts] for shard, texts in taken.items()}


def test_events_in_both_directions() -> None:
    """What is sent goes with the next epoch, once; what a winner's report has is handed over after it, in order."""
    told = Told()
    one = channel(told)
    assert told.context is not None
    told.context.gateway(1).send({"x": 1})
    told.context.broadcast("all")
    assert one.waiting == [0, 1]
    assert epoch(one, '"a"', "2") == {0: ["all"], 1: [{"x": 1}, "all"]}
    assert epoch(one) == {}
    assert told.calls == [("open",), ("handleEventFromSubtask", 0, "a"), ("handleEventFromSubtask", 0, 2)]
    assert one.counts == {"eventsSent": 3, "eventsDelivered": 3, "eventsReceived": 2, "eventsBuffered": 0}


def test_failed_epoch() -> None:
    """Events of an epoch that failed wait again, before later ones."""
    told = Told(open=lambda self: self.context.broadcast(1))
    one = channel(told)
    one.take((0, 1))
    one.send((0,), 2)
    one.fail_epoch((0, 1))
    assert epoch(one) == {0: [1, 2], 1: [1]}


def test_g10_checkpoint() -> None:
    """G10: what is sent inside checkpoint() is delivered after the checkpoint and stored in it; later events wait."""
    told = Told(checkpoint=lambda self: self.context.gateway(0).send("inside"))
    one = channel(told)
    one.send((0,), "before")
    stored = one.begin(1)
    one.send((0,), "after")
    assert one.counts["eventsBuffered"] == 3
    assert [[decode(event.text) for event in inbox] for inbox in stored.inboxes] == [["before", "inside"], []]
    assert one.take((0,)) == {0: ('"before"', '"inside"')}
    one.accept(0, ())
    assert one.waiting == []
    one.complete(1)
    assert epoch(one) == {0: ["after"]}


@pytest.mark.parametrize("tells", [True, False])
def test_a_coordinator_that_serialises_first_and_sends_afterwards(tells: bool) -> None:
    """An event that is sent inside checkpoint() is in the checkpoint even if the state was made before it was sent; a
    state that does not tell of it makes the coordinator send it again after a restore."""

    class Counter(Told):
        def open(self, context: CoordinatorContext) -> None:
            super().open(context)
            self.next = getattr(self, "restored", 0)

        def restore(self, state: bytes) -> None:
            self.restored = int(state)

        def checkpoint(self) -> bytes:
            state = str(self.next + tells).encode()
            self.send()
            return state

        def send(self) -> None:
            assert self.context is not None
            self.context.gateway(0).send(self.next)
            self.next += 1

    first = Counter()
    one = channel(first)
    first.send()
    assert epoch(one) == {0: [0]}
    stored = one.begin(1)
    first.send()  # after the cut: the one that is restored has not heard of it
    again = Counter()
    other = channel(again, stored, latest=1)
    again.send()
    assert epoch(other) == {0: [1, 2] if tells else [1, 1]}
    one.complete(1)
    assert epoch(one) == {0: [1, 2]}


def test_aborted_checkpoint_releases() -> None:
    """An aborted checkpoint gives back what was buffered for it, and the next one can be taken."""
    one = channel(Told())
    one.begin(1)
    one.send((1,), "x")
    one.abort(1)
    one.abort(1)
    one.begin(2)
    one.complete(2)
    assert epoch(one) == {1: ["x"]}


def test_restored() -> None:
    """A restored coordinator gets its state first, then its context, then its shards; events of the time before come
    once, before new ones."""
    first = channel(Told(open=lambda self: self.context.broadcast("old")))
    first.accept(1, ['"kept"'])
    stored = first.begin(7)
    assert stored.to_coordinator == ((1, '"kept"'),)
    told = Told(open=lambda self: self.context.broadcast("new"))
    one = channel(told, stored, latest=7)
    assert told.calls == [("restore", b"state"), ("open",), ("subtaskReset", 0, 7), ("subtaskReset", 1, 7)]
    assert epoch(one) == {0: ["old", "new"], 1: ["old", "new"]}
    assert told.calls[4:] == [("handleEventFromSubtask", 1, "kept")]
    one.begin(8)


def test_threads() -> None:
    """A thread that counts and sends under the lock is cut by every checkpoint between two events, never inside one."""
    count = [0]
    told = Told(checkpoint=lambda self: str(count[0]).encode())
    one = channel(told, max_bytes=100)
    context = told.context
    assert context is not None

    def run() -> None:
        for _ in range(400):
            with context.lock:
                context.gateway(0).send(count[0])
                count[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    delivered: list[int] = []
    number = 0
    while thread.is_alive() or len(delivered) < 400:
        number += 1
        stored = one.begin(number)
        waiting = [decode(event.text) for event in stored.inboxes[0]]
        assert delivered + waiting == list(range(int(stored.coordinator)))
        one.complete(number)
        delivered += epoch(one).get(0, [])
    thread.join()
    assert delivered == list(range(400))


def fails(self: Told, *arguments: Any) -> None:
    raise ValueError("boom")


def leaves(self: Told, *arguments: Any) -> None:
    sys.exit("boom")


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
@pytest.mark.parametrize("method", ["open", "restore", "subtaskReset", "handleEventFromSubtask", "checkpoint"])
def test_raising_coordinator(method: str, kind: type[BaseException]) -> None:
    """An error of the coordinator names it and the method; so does ``sys.exit()``."""
    stored = StoredEvents(b"", ((), ()))

    def live() -> None:
        one = channel(Told(**{method: fails if kind is ValueError else leaves}), stored, latest=3)
        epoch(one, "1")
        one.begin(4)

    said = rf"coordinator Told raised in {method}\(\): {kind.__name__}: boom"
    with pytest.raises(CoordinatorError, match=said) as raised:
        live()
    assert isinstance(raised.value.__cause__, kind)


def test_failed_snapshot_leaves_the_channel_usable() -> None:
    """After checkpoint() has raised, gateways are open and the next checkpoint can be taken."""
    told = Told(checkpoint=fails)
    one = channel(told)
    with pytest.raises(CoordinatorError):
        one.begin(1)
    del told.on["checkpoint"]
    one.send((0,), 1)
    assert epoch(one) == {0: [1]}
    assert one.begin(2).coordinator == b"state"


def test_checkpoint_must_be_bytes() -> None:
    """checkpoint() that returns something else is an error that says what."""
    with pytest.raises(CoordinatorError, match=r"checkpoint\(\) of coordinator Told returned \{'n': 1\} \(dict\)"):
        channel(Told(checkpoint=lambda self: {"n": 1})).begin(1)


def test_refused_sends() -> None:
    """What cannot be sent is refused at once: not plain, too large, nobody to take it, too late, no such shard."""
    told = Told()
    one = channel(told)
    context = told.context
    assert context is not None
    with pytest.raises(OperatorEventError, match="event of type set from coordinator Told is not plain data"):
        context.broadcast({1})
    with pytest.raises(OperatorEventError, match=r"takes 202 bytes, .*max-bytes allows 100"):
        context.gateway(0).send("x" * 200)
    with pytest.raises(IndexError, match="shard must be between 0 and 1, got 2"):
        context.gateway(2)
    assert one.waiting == []
    one.close()
    with pytest.raises(OperatorEventError, match="the query has ended"):
        context.gateway(0).send(1)
    deaf = Told()
    channel(deaf, takes_events=False)
    assert deaf.context is not None
    with pytest.raises(OperatorEventError, match=r"processor P has no handleEvent\(event\)"):
        deaf.context.broadcast(1)


def test_fail_job() -> None:
    """An error that a coordinator's thread reports fails the next step."""
    told = Told()
    one = channel(told)
    assert told.context is not None
    told.context.failJob(OSError("lost"))
    with pytest.raises(CoordinatorError, match="coordinator Told has failed: OSError: lost"):
        one.hand_over()


def test_close_may_wait_for_threads() -> None:
    """close() is called without the lock, so it can join a thread that wants it; its errors are only logged."""
    told = Told()

    def join(self: Told) -> None:
        def take_lock() -> None:
            assert self.context is not None
            with self.context.lock:
                pass

        thread = threading.Thread(target=take_lock)
        thread.start()
        thread.join()
        raise ValueError("too late to matter")

    told.on["close"] = join
    one = channel(told)
    one.close()
    one.close()
    assert told.calls.count(("close",)) == 1


@dataclass
class Listed:
    n: int


def test_event_types_of_the_coordinator() -> None:
    """A coordinator gets the dataclasses that it lists as what they were."""
    told = Told()
    told.eventTypes = (Listed,)
    epoch(channel(told), '{"$dataclass":["Listed",{"n":3}]}')
    assert told.calls[-1] == ("handleEventFromSubtask", 0, Listed(3))


def test_a_checkpoint_waits_for_the_events_of_an_epoch() -> None:
    """While an epoch works on events a checkpoint is refused; gateways stay open, and the next one can be taken."""
    one = channel(Told())
    one.send((0,), "x")
    one.take((0, 1))
    with pytest.raises(CheckpointError, match="checkpoint 1 has to wait for an epoch that is under way"):
        one.begin(1)
    one.send((1,), "y")
    one.accept(0, ())
    assert epoch(one) == {1: ["y"]}
    one.take((0, 1))
    one.fail_epoch((0, 1))
    one.begin(2)
    one.complete(2)
    assert one.waiting == []


def state_of(*own_states: tuple[str, ...]) -> Any:
    """What an epoch asks of a job's state: what its shards keep."""
    shards = [SimpleNamespace(own_state=kept) for kept in own_states]
    return SimpleNamespace(uid="stage", shards=shards, finished=False)


def test_events_go_with_the_epoch_of_a_job() -> None:
    """A shard's task gets its events and what it has kept; in a backlog only the latter; a shard without either gets
    nothing, and no shard is asked for of a stage that has finished."""
    one = channel(Told())
    one.send((0,), "x")
    events, kept = JobEvents({"stage": one}), state_of((), ("kept",))
    assert events.take((0, 1), kept, with_events=False) == {1: ShardInbox((), ("kept",))}
    events.accept("stage", [report(1)])
    assert events.waiting(kept) == [0]
    kept.finished = True
    assert events.waiting(kept) == []
    kept.finished = False
    assert events.take((0, 1), kept, with_events=True) == {0: ShardInbox(('"x"',)), 1: ShardInbox((), ("kept",))}
    events.fail("stage", (0, 1))
    assert events.take((0,), kept, with_events=True) == {0: ShardInbox(('"x"',))}
    events.accept("stage", [report(0, '"back"')])
    stored = events.begin(1)["stage"]
    assert (events.waiting(kept), stored.inboxes, stored.to_coordinator) == ([], ((), ()), ((0, '"back"'),))


def test_a_job_without_a_coordinator_has_no_events() -> None:
    """What its shards keep still goes with their tasks; nothing else is done."""
    events = JobEvents()
    assert events.take((0, 1), state_of((), ("kept",)), with_events=True) == {1: ShardInbox((), ("kept",))}
    events.accept("stage", [report(0)])
    events.fail("stage", (1,))
    assert (events.begin(1), events.has_news, events.counts) == ({}, False, None)
    assert events.waiting(state_of((), ())) == []


def report(shard: int, *sent: str) -> ShardReport:
    return ShardReport(shard, "a", (), (), ShardCounters(), {}, events=sent)


def test_other_shards_in_the_middle_of_a_run() -> None:
    """What waits for shards goes to those that have their key groups, a broadcast once to each; the coordinator goes on
    and is told of the new shards, and later checkpoints know them."""
    told = Told()
    one, before, after = channel(told), shard_ranges(2, 16), shard_ranges(3, 16)
    assert told.context is not None
    old = told.context.gateway(1)
    one.begin(4)
    told.context.broadcast("kept")
    with pytest.raises(CheckpointError, match="checkpoint 4 is under way"):
        one.redeal(before, after, 3)
    one.complete(4)
    told.context.gateway(0).send("to 0")
    one.accept(1, ['"from 1"'])
    one.redeal(before, after, 4)
    assert [call for call in told.calls if call[0] == "subtaskReset"] == [("subtaskReset", n, 4) for n in range(3)]
    assert told.context.parallelism == 3 and one.waiting == [0, 1, 2] and one.has_news
    old.send("to the new 1")
    told.context.broadcast("all")
    with pytest.raises(CheckpointError, match="ids ascend"):
        one.begin(4)
    stored = one.begin(5)
    assert len(stored.inboxes) == 3 and stored.to_coordinator == ((1, '"from 1"'),)
    one.complete(5)
    taken = {shard: [decode(text) for text in texts] for shard, texts in one.take(range(3)).items()}
    assert taken == {0: ["kept", "to 0", "all"], 1: ["kept", "to 0", "to the new 1", "all"], 2: ["kept", "all"]}
    for shard in range(3):
        one.accept(shard, ())
    one.hand_over()
    assert told.calls[-1] == ("handleEventFromSubtask", 1, "from 1")
    one.redeal(after, shard_ranges(1, 16), 5)
    with pytest.raises(OperatorEventError, match="subtask 1 does not run"):
        old.send("nobody")
