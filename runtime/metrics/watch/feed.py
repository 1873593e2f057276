"""The events of a run of this process, for somebody who begins to watch in the middle of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..events.events import EpochApplied, RunEvent
from ..events.run_listener import LISTENERS, Listeners, RunListener


class Feed(RunListener):
    """The events of a run of this process: what its log has, and then what it tells.

    Args:
        run_id: which run.
        written: what the log has of it.
        listeners: those of the process.
    """

    def __init__(self, run_id: str, written: Callable[[], list[RunEvent]], listeners: Listeners = LISTENERS) -> None:
        self._run_id, self._listeners = run_id, listeners
        self._lock = threading.Lock()
        self._new_events: list[RunEvent] = []
        listeners.add(self)
        try:
            self._written: list[RunEvent] = written()
        except BaseException:
            self.close()
            raise
        self._last_ms = max((event.at_ms for event in self._written), default=0)
        self._last_epoch = max((one.epoch for one in self._written if isinstance(one, EpochApplied)), default=0)

    def onEvent(self, event: RunEvent) -> None:
        if event.run_id == self._run_id:
            with self._lock:
                self._new_events.append(event)

    def __call__(self) -> list[RunEvent]:
        """What is new."""
        with self._lock:
            events, self._new_events = self._new_events, []
        written, self._written = self._written, []
        return [*written, *(event for event in events if self._is_new(event))]

    def _is_new(self, event: RunEvent) -> bool:
        """Whether the log, when it was read, did not have it."""
        if isinstance(event, EpochApplied):
            return event.epoch > self._last_epoch
        return event.at_ms > self._last_ms

    def close(self) -> None:
        """Hear nothing any more; the thread that has called ends."""
        self._listeners.remove(self)
