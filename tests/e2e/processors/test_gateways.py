"""Gateways of a coordinator end to end: a scenario that gateways must not survive which do not do what they are for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numbering
import pytest
import support
from mixedmode.runtime.driver.checkpoint import async_checkpoint
from mixedmode.runtime.protocols.operator_events.gateway import CoordinatorGateway, Gateway, SubtaskGateway
from mixedmode.runtime.support import failpoints
from numbering import Numbering
from pyspark import cloudpickle
from support import World

for _module in (numbering, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(_module)
EVENTS = support.stream_of(100, seed=12)
RARELY = {"execution.checkpointing.interval": "1 h"}
#: Seconds for whatever comes in the end; and for what never comes, of which one cannot be sure.
PATIENCE_S, LITTLE_S = 300.0, 1.0


class Found(AssertionError):
    """What a user would find wrong."""


class Scenario:
    """A job whose coordinator and shards send numbers while a checkpoint is completed beside its epochs.

    Either end raises over a number that is not the next one.  Only what users see is looked at: what the coordinator
    has heard, progress, status, and the rows in the sink.

    Args:
        world: the job's folders.
        monkeypatch: holds the completion of a checkpoint.
        patience_s: how long to wait for events that are free to go.
        before: called when the job runs, before the checkpoint.
    """

    def __init__(
        self,
        world: World,
        monkeypatch: pytest.MonkeyPatch,
        patience_s: float = PATIENCE_S,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self.world, self.monkeypatch, self.patience_s, self.before = world, monkeypatch, patience_s, before
        self.coordinator = Numbering(1000, every_s=3600)
        self.landed = 0

    def play(self) -> None:
        """Go through it.

        Raises:
            Found: something is not as it must be.
        """
        in_flight, go_on = threading.Event(), threading.Event()

        def reached(name: str) -> None:
            if name == "events-stored" and threading.current_thread().name.startswith(failpoints.BESIDE):
                in_flight.set()
                assert go_on.wait(PATIENCE_S)

        self.query = self.world.start(numbering.described(None, self.world.live(), self.coordinator), RARELY)
        self._until(lambda: self.query.status["phase"] == "live", "it is live")
        self._land(20)
        self._until(lambda: self.heard == 20, "rows that come while all is open are heard of")
        self.before()
        self.monkeypatch.setattr(async_checkpoint, "failpoint", reached)
        running, taken = self.query._runner.running, self.query.status["checkpoint"]
        assert running is not None
        try:
            running.scheduler.request()
            running.context.wake.set()
            self._until(in_flight.is_set, "a checkpoint is in flight")
            sent = self.sent  # one by the snapshot itself, which is in the cut
            self._send(3)
            self._land(20)
            self._land(20)  # what has been let through by now is handed over with this one
            self._check(self.heard == 20, "the coordinator hears before the checkpoint is there")
            delivered = self.query.recentProgress[-1].coordinator["eventsDelivered"]
            self._check(delivered == 2 * sent, "shards hear before the checkpoint is there")
            self._check(self.query.status["checkpoint"] == taken, "it is there too early")
        finally:
            go_on.set()
        self._until(lambda: self.query.status["checkpoint"] > taken, "it is complete")
        self._until(lambda: self.heard == 60, "the coordinator hears what was kept", self.patience_s)
        self._until(lambda: self._counts["eventsBuffered"] == 0, "shards hear what was kept", self.patience_s)
        self._send(1)
        self._land(20)
        self._until(lambda: self.heard == 80, "what comes afterwards passes", self.patience_s)
        self.query.stop()
        self._check(self.query.exception() is None, "it ends well")
        numbers = sorted(number for kind, shard, number in self.world.output() if (kind, shard) == ("event", 0))
        self._check(numbers == list(range(len(numbers))) and len(numbers) >= sent + 4, "all are in the sink, once")
        numbering.check_all_there(self.world.checkpoints, 80, self.sent, 2)

    @property
    def heard(self) -> int:
        """How many events of shards the coordinator has got."""
        return sum(self.coordinator.received.values())

    @property
    def sent(self) -> int:
        """How many it has sent to each shard."""
        return int(self.coordinator.sent)

    @property
    def _counts(self) -> dict[str, int]:
        found: dict[str, int] = self.query.status["coordinator"]
        return found

    def _send(self, count: int) -> None:
        with self.coordinator.context.lock:
            for _ in range(count):
                self.coordinator.send_one()

    def _land(self, count: int) -> None:
        """Rows come, and are processed."""
        self.world.land(EVENTS[self.landed : self.landed + count])
        self.landed += count
        rows = self.landed
        self._until(lambda: sum(one.numInputRows for one in self.query.recentProgress) == rows, "rows are processed")

    def _until(self, true: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        try:
            support.wait_until(lambda: not self.query.isActive or true(), patience_s)
        except AssertionError as late:
            raise Found(f"not in time: {what}") from late
        if not self.query.isActive:
            raise Found(str(self.query.exception()))

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            raise Found(what)


@pytest.mark.slow
def test_events_pass_the_gateways(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What either end sends while a checkpoint is in flight comes when that is there, in order, once; not before, and
    with nothing else that has to happen first."""
    Scenario(world, monkeypatch).play()


def _never_buffers(self: Any, event: Any) -> None:
    self._transmit(event)


def _opens_never(self: Any, checkpoint_id: int) -> None:
    pass


_open = Gateway.open


def _opens_with_the_next(self: Any, checkpoint_id: int) -> None:
    _open(self, max([number for number in self._kept if number < checkpoint_id], default=0))


def _reverses(self: Any, checkpoint_id: int) -> None:
    for events in self._kept.values():
        events.reverse()
    _open(self, checkpoint_id)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "method", "found"),
    [
        (_never_buffers, "send", "hears? before the checkpoint is there"),
        (_opens_never, "open", "not in time: .* hears? what was kept"),
        (_opens_with_the_next, "open", "not in time: .* hears? what was kept"),
        (_reverses, "open", r"(got|from shard \d,) .*expected"),
    ],
    ids=["never buffers", "never opens", "opens too late", "loses the order"],
)
@pytest.mark.parametrize("direction", [SubtaskGateway, CoordinatorGateway], ids=["to shards", "to the coordinator"])
def test_gateways_that_do_otherwise_are_found(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    direction: type[Gateway[Any]],
    mutant: Callable[..., None],
    method: str,
    found: str,
) -> None:
    """The scenario finds each way in which a gateway may fail, in either direction."""
    patience_s = LITTLE_S if found.startswith("not in time") else PATIENCE_S
    with pytest.raises(Found, match=found):
        Scenario(world, monkeypatch, patience_s, lambda: monkeypatch.setattr(direction, method, mutant)).play()
