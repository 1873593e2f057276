"""A pause in a backlog at batch speed: between shards, without a checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ...connectors.sources.live_query import Stopped
from ...metrics.events.facts import FactListener, RunPaused, RunResumed
from ..clocks import now_ms
from ..requests.pause_switch import PauseSwitch

_LOOK_EVERY_S = 1.0


@dataclass(frozen=True)
class BacklogPause:
    """Holds the run's thread while a pause is wanted."""

    pause: PauseSwitch
    stopping: threading.Event
    #: Set when there is something to look at.
    wake: threading.Event
    #: Raises if the location is not this run's any more.
    check: Callable[[], object]
    listener: FactListener

    def hold(self) -> None:
        """Return when no pause is wanted.

        Raises:
            Stopped: the run is to end.
        """
        if not self.pause.is_wanted:
            return
        if self.pause.stand(now_ms()):
            self.listener.on(RunPaused("backlog"))
        while self.pause.is_wanted and not self.stopping.is_set():
            self.check()
            self.wake.wait(_LOOK_EVERY_S)
            self.wake.clear()
        if self.stopping.is_set():
            raise Stopped
        if self.pause.stands:
            self.listener.on(RunResumed(self.pause.go_on(now_ms())))
