"""``mixedmode watch LOCATION``: the run of another process, as ``query.watch()`` shows one of this."""

from __future__ import annotations

import time

from rich.console import Console

from ...errors import CheckpointError
from ...runtime.checkpoints.lease.claims import ClaimFolder
from ...runtime.checkpoints.lease.run_presence import standing_of
from ...runtime.metrics.events.event_reader import HistoryTail
from ...runtime.metrics.watch.displays import display_for
from ...runtime.metrics.watch.watcher import Watcher, watch
from ...runtime.storage.filesystem import resolve
from .console import FAILED, say
from .status import NOT_RUNNING

_INTERRUPTED = 130
#: Time between two looks at who has the location.
_ASK_EVERY_S = 1.0


class _Driver:
    """Whether the location has one."""

    def __init__(self, location: str) -> None:
        filesystem, path = resolve(location)
        self._folder = ClaimFolder(filesystem, f"{path}/mixedmode")
        self._asked_s = float("-inf")
        self._runs = False
        #: The generation of the claim that holds it; None: nobody holds it.
        self.generation: int | None = None

    def __call__(self) -> bool:
        if time.monotonic() - self._asked_s >= _ASK_EVERY_S:
            self._asked_s = time.monotonic()
            standing = standing_of(self._folder, round(time.time() * 1000))
            self._runs, self.generation = standing.is_running, standing.held_generation
        return self._runs


def watch_location(location: str) -> int:
    """Watch until the run ends; returns the exit code.

    Raises:
        CheckpointError: the location cannot be reached.
    """
    try:
        driver = _Driver(location)
        runs = driver()
        history = HistoryTail(location, lambda: driver.generation)
        watcher = Watcher(history.new_events, display_for(Console(highlight=False)))
        watch(watcher, driver)
    except KeyboardInterrupt:
        say("stopped watching; the job still runs")
        return _INTERRUPTED
    except OSError as error:
        raise CheckpointError(f"{location!r} cannot be read: {error}") from error
    if not runs:
        say("no job is running there; shown is the last run")
        return NOT_RUNNING
    ended = None if watcher.run is None else watcher.run.ended
    if ended is None:
        say("the run has not written how it ended: its driver was killed or cannot be reached (see mixedmode status)")
    return FAILED if ended is None or ended.how == "failed" else 0
