"""The last checkpoint of a run is tried again as others are: when one is due."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from mixedmode.errors import QueryError
from mixedmode.runtime.checkpoints.savepoints.queue import SavepointQueue, SavepointRequest
from mixedmode.runtime.connectors.sources.live_query import Stopped
from mixedmode.runtime.driver.requests.rescale_queue import RescaleQueue
from mixedmode.runtime.driver.run import idle_wait, shutdown
from mixedmode.runtime.driver.run.phases import run_switch
from mixedmode.runtime.driver.run.shutdown import Ending
from mixedmode.runtime.protocols.checkpoint_scheduler import CheckpointScheduler
from mixedmode.runtime.protocols.lifecycle.actions import Commit
from mixedmode.runtime.protocols.lifecycle.events import Stop

INTERVAL_MS = 10_000


class Wake:
    """Time goes on while somebody sleeps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def wait(self, seconds: float) -> None:
        self._clock.ms += round(seconds * 1000)

    def clear(self) -> None:
        pass


class Clock:
    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


class Checkpoints:
    """Some of them fail, within what is tolerated; remembers when each was taken."""

    next_id = 1
    last = object()

    def __init__(self, run: Any, clock: Clock, failing: int) -> None:
        self.run, self.clock, self.failing = run, clock, failing
        self.taken_ms: list[int] = []
        self.drained: list[bool] = []

    def wait(self) -> None:
        pass

    def checkpoint(self, trigger: str, **how: Any) -> object | None:
        self.taken_ms.append(self.clock.ms)
        self.drained.append(how.get("drained", False))
        self.run.scheduler.began(self.clock.ms)
        self.run.scheduler.ended_checkpoint(self.clock.ms)
        return object() if len(self.taken_ms) > self.failing else None

    def checkpoint_if_due(self, trigger: str, *, wait: bool) -> None:
        assert self.run.scheduler.due(self.clock.ms)
        self.checkpoint(trigger)

    def checkpoint_if_behind(self, trigger: str, *, when_due: bool) -> bool:
        if len(self.taken_ms) > self.failing:
            return True
        return self.run.scheduler.due(self.clock.ms) and self.checkpoint(trigger) is not None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[Ending, Any, Checkpoints]:
    """What ends a run, the run, and its checkpoints, of which two fail."""
    run, clock = mock.MagicMock(), Clock()
    run.scheduler = CheckpointScheduler(INTERVAL_MS, 0, 0, 0, frozenset({"history"}), backlog={"history"})
    run.state.sources, run.state.stages = {"history": SimpleNamespace(finished=True)}, {}
    run.sources.ended = lambda name: run.scheduler.source_ended(name, clock.ms)
    run.context.rescales, run.context.wake = RescaleQueue(), Wake(clock)
    run.context.stopping, run.context.savepoints = threading.Event(), SavepointQueue()
    run.job.plan_json = "{}"
    run.checkpoints = Checkpoints(run, clock, failing=2)
    run.tasks.run = lambda: len(run.checkpoints.taken_ms) <= 2
    monkeypatch.setattr(idle_wait, "clock_ms", clock)
    monkeypatch.setattr(shutdown, "SavepointCopies", mock.Mock())
    return Ending(run), run, run.checkpoints


def test_it_is_tried_again_when_the_next_one_is_due(made: Any) -> None:
    """Tolerated failures are not used up within moments; the first try comes with the end."""
    ending, _, checkpoints = made
    ending.natural_end(mock.Mock())
    assert checkpoints.taken_ms == [0, INTERVAL_MS, 2 * INTERVAL_MS]


def test_without_checkpoints_what_is_shown_at_the_end_is_tried_again_too(made: Any) -> None:
    """A failure that is tolerated is not the end of the output."""
    ending, run, checkpoints = made
    run.sources.ended("history")
    ending._commit(SimpleNamespace(work=Commit(None)))
    assert checkpoints.taken_ms == [0, INTERVAL_MS, 2 * INTERVAL_MS]


def test_nothing_comes_behind_the_switch_of_a_run_that_ends_there(made: Any) -> None:
    """Its checkpoint is the last chance of the run's output; where a stream follows, its checkpoints come later."""
    _, run, checkpoints = made
    run.job.has_phase.return_value = False
    run.sources.set_backlog = lambda name, is_backlog, why: run.scheduler.set_backlog(name, is_backlog, 0)
    run_switch(run, mock.Mock(), mock.Mock())
    assert checkpoints.taken_ms == [0, INTERVAL_MS, 2 * INTERVAL_MS]
    run.job.has_phase.return_value = True
    run.scheduler.request()
    checkpoints.taken_ms.clear()
    run_switch(run, mock.Mock(), mock.Mock())
    assert len(checkpoints.taken_ms) == 1


@pytest.mark.parametrize("why", ["stop", "takeover"])
def test_whoever_ends_the_run_meanwhile_need_not_wait(made: Any, why: str) -> None:
    """A stop, and another driver that has taken over."""
    ending, run, checkpoints = made
    if why == "stop":
        run.context.wake.wait = lambda seconds: run.context.stopping.set()
    else:
        run.context.lease.check.side_effect = QueryError("another one")
    with pytest.raises(Stopped if why == "stop" else QueryError):
        ending.natural_end(mock.Mock())
    assert checkpoints.taken_ms == [0]


def ask_after(checkpoints: Checkpoints, request: SavepointRequest, after_ms: int) -> None:
    """Somebody asks for a savepoint in the wait."""
    context, clock = checkpoints.run.context, checkpoints.clock
    sleep = context.wake.wait

    def wait(seconds: float) -> None:
        sleep(min(seconds, after_ms / 1000) if clock.ms < after_ms else seconds)
        if clock.ms == after_ms:
            context.savepoints.ask(request)

    context.wake.wait = wait


@pytest.mark.parametrize("stop", list(Stop))
def test_whoever_wants_to_end_the_run_with_a_savepoint_does_not_wait_for_the_interval(
    made: Any, monkeypatch: pytest.MonkeyPatch, stop: Stop
) -> None:
    """The next try comes at once, and a drain has it; what cannot be is refused at once: a process that is told to end
    waits for the answer."""
    ending, run, checkpoints = made
    checkpoints.failing = 1
    run.tasks.run = lambda: len(checkpoints.taken_ms) <= 1
    copies: list[Any] = []
    monkeypatch.setattr(Ending, "_begin_copies", lambda _, requests: copies.extend(requests))
    request = SavepointRequest("/savepoint", stop)
    ask_after(checkpoints, request, 700)
    ending.natural_end(mock.Mock())
    assert checkpoints.taken_ms == [0, 700]
    is_drain = stop is Stop.DRAIN
    assert (checkpoints.drained, copies) == ([False, is_drain], [request] if is_drain else [])
    if not is_drain:
        with pytest.raises(QueryError, match="all data had ended before"):
            request.answer.result(0)


def test_a_drain_fails_with_its_checkpoint_at_once(made: Any) -> None:
    """It is not tried again, so nothing is waited for before it is said."""
    ending, run, checkpoints = made
    request = SavepointRequest("/savepoint", Stop.DRAIN)
    run.context.savepoints.ask(request)
    run.tasks.run = mock.Mock(side_effect=[True, QueryError("its checkpoint failed")])
    with pytest.raises(QueryError):
        ending.natural_end(mock.Mock())
    assert (checkpoints.clock.ms, checkpoints.drained) == (0, [True])
    with pytest.raises(QueryError, match="failed"):
        request.answer.result(0)


def test_a_run_that_ends_at_its_switch_with_a_savepoint_leaves_the_output_to_that(made: Any) -> None:
    """Its checkpoint is taken at once, and is the last."""
    _, run, checkpoints = made
    run.job.has_phase.return_value = False
    run.sources.set_backlog = lambda name, is_backlog, why: run.scheduler.set_backlog(name, is_backlog, 0)
    request = SavepointRequest("/savepoint", Stop.SUSPEND)
    ask_after(checkpoints, request, 700)
    run_switch(run, mock.Mock(), mock.Mock())
    assert (checkpoints.taken_ms, checkpoints.clock.ms) == ([0], 700)
    assert run.context.savepoints.take_stop() is request
