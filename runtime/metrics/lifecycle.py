"""What ``query.lifecycle`` gives: the events of the run as a list, and those of its tasks as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..protocols.lifecycle.journal import TaskEvent, as_table


@dataclass(frozen=True)
class LifecycleEvent:
    """One thing that happened in the life of a query."""

    at_ms: int
    event: str
    detail: str


class Lifecycle(list[LifecycleEvent]):
    """The events of a run, oldest first; prints as the event history of each of its tasks.

    Args:
        events: what happened to the run as a whole: phases, switch, checkpoints, end.
        tasks: what happened to its tasks: sources, shards of the keyed stage, sink.
    """

    def __init__(self, events: Sequence[LifecycleEvent], tasks: Sequence[TaskEvent]) -> None:
        super().__init__(events)
        #: Records with ``task``, ``event``, ``status``, ``operator``, ``at_ms``, in order.
        self.tasks = list(tasks)

    def of(self, task: str) -> list[TaskEvent]:
        """The history of one task ("sink[0]"), or of all tasks of one vertex ("sink")."""
        return [one for one in self.tasks if one.task == task or one.task.rpartition("[")[0] == task]

    def __str__(self) -> str:
        return as_table(self.tasks)
