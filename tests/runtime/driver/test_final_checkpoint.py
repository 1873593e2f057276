"""The last checkpoint of a run is tried again as others are: when one is due."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from mixedmode.errors import QueryError
from mixedmode.runtime.connectors.sources.live_query import Stopped
from mixedmode.runtime.driver import endings, naps
from mixedmode.runtime.driver.endings import Ending
from mixedmode.runtime.driver.phases import run_switch
from mixedmode.runtime.driver.rescale_desk import RescaleDesk
from mixedmode.runtime.protocols.checkpoint_scheduler import CheckpointScheduler
from mixedmode.runtime.protocols.lifecycle.actions import Commit

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
        self._run, self._clock, self._failing = run, clock, failing
        self.taken_ms: list[int] = []

    def wait(self) -> None:
        pass

    def checkpoint(self, trigger: str, **how: Any) -> object | None:
        self.taken_ms.append(self._clock.ms)
        self._run.scheduler.began(self._clock.ms)
        self._run.scheduler.ended_checkpoint(self._clock.ms)
        return object() if len(self.taken_ms) > self._failing else None

    def checkpoint_if_due(self, trigger: str, *, wait: bool) -> None:
        assert self._run.scheduler.due(self._clock.ms)
        self.checkpoint(trigger)

    def checkpoint_if_behind(self, trigger: str, *, when_due: bool) -> bool:
        if len(self.taken_ms) > self._failing:
            return True
        return self._run.scheduler.due(self._clock.ms) and self.checkpoint(trigger) is not None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[Ending, Any, Checkpoints]:
    """What ends a run, the run, and its checkpoints, of which two fail."""
    run, clock = mock.MagicMock(), Clock()
    run.scheduler = CheckpointScheduler(INTERVAL_MS, 0, 0, 0, frozenset({"history"}), backlog={"history"})
    run.state.sources, run.state.stages = {"history": SimpleNamespace(finished=True)}, {}
    run.sources.ended = lambda name: run.scheduler.source_ended(name, clock.ms)
    run.context.rescales, run.context.wake = RescaleDesk(), Wake(clock)
    run.context.stopping, run.context.desk.take_stop.return_value = threading.Event(), None
    run.checkpoints = Checkpoints(run, clock, failing=2)
    run.tasks.run = lambda: len(run.checkpoints.taken_ms) <= 2
    monkeypatch.setattr(naps, "clock_ms", clock)
    monkeypatch.setattr(endings, "SavepointCopies", mock.Mock())
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
