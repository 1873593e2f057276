"""What ``query.lifecycle`` gives: the events of the run as a list, and those of its tasks as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ..protocols.lifecycle.index_set import IndexSet
from ..protocols.lifecycle.task_journal import TaskEvent


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


def as_table(events: Iterable[TaskEvent]) -> str:
    """The events as text in columns; what several subtasks of an operator did at once is one line."""
    lines: list[tuple[str, ...]] = []
    for (vertex, event, status, operator), group in itertools.groupby(
        _grouped(events), key=lambda one: (_vertex(one.task), one.event, one.status, one.operator)
    ):
        same = list(group)
        numbers = IndexSet.of(_index(one.task) for one in same)
        time = datetime.fromtimestamp(same[0].at_ms / 1000, timezone.utc).strftime("%H:%M:%S.%f")[:-3]
        lines.append((time, f"{vertex}[{numbers}]", event, status, operator))
    return _columns(("time (UTC)", "task", "event", "task status", "operator"), lines)


def _grouped(events: Iterable[TaskEvent]) -> list[TaskEvent]:
    """Subtasks of one vertex take their steps one after another: put equal steps next to each other."""
    ordered: list[TaskEvent] = []
    for _, stretch in itertools.groupby(events, key=lambda one: _vertex(one.task)):
        by_task: dict[str, list[TaskEvent]] = {}
        for event in stretch:
            by_task.setdefault(event.task, []).append(event)
        histories = list(by_task.values())
        if all([one.event for one in history] == [one.event for one in histories[0]] for history in histories):
            ordered.extend(event for step in zip(*histories, strict=True) for event in step)
        else:
            ordered.extend(event for history in histories for event in history)
    return ordered


def _vertex(task: str) -> str:
    return task.rpartition("[")[0]


def _index(task: str) -> int:
    return int(task.rpartition("[")[2].rstrip("]"))


def _columns(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[place]) for row in (header, *lines)) for place in range(len(header))]
    rows = [header, ["-" * width for width in widths], *lines]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
