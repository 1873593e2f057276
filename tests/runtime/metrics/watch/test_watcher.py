"""Watching goes on until the run ends, whatever ends it; no clock, no thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from event_support import RUN, began, common, epoch, phase
from mixedmode.runtime.metrics.events.events import RunEnded, RunEvent
from mixedmode.runtime.metrics.run_records import RunRecord
from mixedmode.runtime.metrics.watch.watcher import Watcher, watch

SECOND = "22222222-0000-0000-0000-000000000000"
ENDED = RunEnded(**common(9), how="stopped")


class Screen:
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, int]] = []
        self.closed = 0

    def show(self, run: RunRecord, now_ms: int) -> None:
        self.shown.append((run.run_id, run.phase, len(run.epochs)))

    def close(self, run: RunRecord | None, now_ms: int) -> None:
        self.closed += 1


def watcher_of(*looks: list[RunEvent]) -> tuple[Watcher, Screen]:
    screen, left = Screen(), iter(looks)
    return Watcher(lambda: next(left), screen, now_ms=lambda: 0), screen


def running(*answers: bool) -> Callable[[], bool]:
    left: Iterator[bool] = iter(answers)
    return lambda: next(left)


def test_it_ends_with_the_run() -> None:
    """What the run told last is shown, and the screen is closed."""
    watcher, screen = watcher_of([], [began(1)], [phase("live", 2), epoch(1, 3)], [ENDED])
    assert watch(watcher, lambda: True, wait=lambda s: None)
    assert screen.shown == [(RUN, "recovery", 0), (RUN, "live", 1), (RUN, "live", 1)] and screen.closed == 1
    assert watcher.run is not None and watcher.run.ended == ENDED


def test_it_ends_with_a_driver_that_cannot_say_so() -> None:
    """One look follows the moment at which the driver was found to be gone: what it told before is shown."""
    watcher, screen = watcher_of([began(1)], [phase("live", 2)])
    assert watch(watcher, running(True, False), wait=lambda s: None)
    assert screen.shown[-1] == (RUN, "live", 0) and watcher.run is not None and watcher.run.ended is None


def test_it_ends_with_a_phase_or_in_time() -> None:
    """Whichever is asked for; False says that time was up."""
    watcher, _ = watcher_of([began(1)], [phase("backlog", 2), phase("live", 3)])
    assert watch(watcher, lambda: True, until="live", wait=lambda s: None)
    watcher, screen = watcher_of([began(1)])
    assert not watch(watcher, lambda: True, timeout_s=0, wait=lambda s: None)
    assert screen.closed == 1


def test_the_next_run_is_shown_when_it_begins() -> None:
    """A run that ended and one that began between two looks: the new one is watched."""
    watcher, screen = watcher_of(
        [began(1)], [ENDED, began(10, SECOND)], [RunEnded(**common(11, SECOND), how="stopped")]
    )
    assert watch(watcher, lambda: True, wait=lambda s: None)
    assert [run for run, _, _ in screen.shown] == [RUN, SECOND, SECOND]


def test_an_interruption_closes_the_screen() -> None:
    """Ctrl-C is the caller's; the terminal is as it was."""

    def interrupt(s: float) -> None:
        raise KeyboardInterrupt

    watcher, screen = watcher_of([began(1)])
    with pytest.raises(KeyboardInterrupt):
        watch(watcher, lambda: True, wait=interrupt)
    assert screen.closed == 1


def test_weeks_of_epochs_are_forgotten() -> None:
    """What is kept of a run is bounded; its sums, and its backlog, are not forgotten."""
    backlog = epoch(0, 1, mode="backlog", phase="backlog", input_rows=7)
    watcher, _ = watcher_of([began(1), backlog], [epoch(n, n, input_rows=2) for n in range(2, 5000)])
    watcher.look()
    run = watcher.look()
    assert run is not None and len(run.epochs) < 1100
    assert run.epochs[0] == backlog and run.epochs[-1].epoch == 4999
    assert run.input_rows == 7 + 2 * 4998
