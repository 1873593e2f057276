"""Follows a run, and has it shown, until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..events.events import RunEvent
from ..run_records import RunRecord
from .displays import Display

#: Time between two looks.
LOOK_INTERVAL_S = 0.25
#: What is kept of a run that is watched for weeks.
_KEPT = 500


@dataclass
class Watcher:
    """Takes events, and shows the newest run that they tell of.

    Args:
        new_events: those since the last call.
        display: shows the run.
        now_ms: the wall clock.
    """

    new_events: Callable[[], list[RunEvent]]
    display: Display
    now_ms: Callable[[], int] = field(default=lambda: round(time.time() * 1000))
    run: RunRecord | None = None

    def look(self) -> RunRecord | None:
        """Take what is new and show it; returns the run, None: there is none yet."""
        for event in self.new_events():
            if self.run is None or self.run.run_id != event.run_id:
                self.run = RunRecord(event.run_id, event.at_ms, event.at_ms)
            self.run.on(event)
        if self.run is not None:
            for kept in (self.run.backlog, self.run.real_time, self.run.checkpoints):
                del kept[:-_KEPT]
            stream = [epoch for epoch in self.run.epochs if epoch.mode == "streaming"]
            if len(stream) > 2 * _KEPT:
                passes = [epoch for epoch in self.run.epochs if epoch.mode == "backlog"]
                self.run.epochs[:] = [*passes, *stream[-_KEPT:]]
            self.display.show(self.run, self.now_ms())
        return self.run

    def close(self) -> None:
        """Leave what was shown last."""
        self.display.close(self.run, self.now_ms())


def watch(
    watcher: Watcher,
    is_running: Callable[[], bool],
    *,
    until: str | None = None,
    timeout_s: float | None = None,
    wait: Callable[[float], object] = time.sleep,
) -> bool:
    """Look again and again until the run has ended; returns whether it has, or has begun the phase that is waited for.

    Args:
        watcher: looks, and is closed.
        is_running: whether there is a driver.
        until: a phase; None: the end.
        timeout_s: how long to watch; None: for ever.
        wait: waits for some seconds, or until there is something to see.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        while True:
            runs = is_running()  # asked first: what a run tells before its end is read after it
            run = watcher.look()
            has_reached = run is not None and any(phase.kind == until for phase in run.phases)
            if not runs or has_reached or (run is not None and run.ended is not None):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            wait(LOOK_INTERVAL_S)
    finally:
        watcher.close()
