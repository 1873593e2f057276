"""``handle.coordinator``: how a processor sends events to the job's coordinator."""

from __future__ import annotations

from typing import Any

from ....errors import OperatorEventError
from ...protocols.operator_events.event_codec import encode
from ...protocols.operator_events.task_events import TaskEvents


class TaskCoordinator:
    """``handle.coordinator``: a shard task's way to the job's coordinator.

    Args:
        events: takes the events; they count if this attempt of the task wins.
        sender: name of the processor's class.
        max_bytes: the most that one event may take; None: the job has no coordinator.
        is_backlog: see :attr:`isBacklog`.
    """

    def __init__(self, events: TaskEvents, sender: str, max_bytes: int | None, *, is_backlog: bool) -> None:
        self._events = events
        self._sender = sender
        self._max_bytes = max_bytes
        #: True while any source of the job is in backlog.
        self.isBacklog = is_backlog

    def send(self, event: Any) -> None:
        """Send plain data to the coordinator's ``handleEventFromSubtask``: it comes there after this epoch, and what
        a backlog's epochs send at the switch.

        Raises:
            OperatorEventError: it is not plain or too large, or the job has no coordinator.
        """
        what = f"event of type {type(event).__name__} from processor {self._sender}"
        if self._max_bytes is None:
            raise OperatorEventError(f"{what} has no receiver; give transformWithState a coordinator=…")
        self._events.sent.append(encode(event, what, self._max_bytes))
