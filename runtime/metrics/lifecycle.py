"""Shows ``query.lifecycle``: the events of the run as a story, and those of its tasks as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ..protocols.lifecycle.index_set import IndexSet
from ..protocols.lifecycle.task_journal import TaskEvent
from ..support.notebook_html import table_html


@dataclass(frozen=True)
class LifecycleEvent:
    """One thing that happened in the life of a query."""

    at_ms: int
    event: str
    detail: str
    #: What happened, as people say it.
    sentence: str = ""

    def __str__(self) -> str:
        return self.sentence or f"{self.event} {self.detail}"


class Lifecycle(list[LifecycleEvent]):
    """The events of a run, oldest first; prints as its story, and so does a cell of a notebook.

    Args:
        events: what happened to the run as a whole: phases, switch, checkpoints, end.
        tasks: what happened to its tasks: sources, shards of the keyed stage, sink.
    """

    def __init__(self, events: Sequence[LifecycleEvent], tasks: Sequence[TaskEvent]) -> None:
        super().__init__(events)
        #: Records of tasks as FLIP-147 has them, in order; print as a table.
        self.tasks = TaskTable(tasks)

    def of(self, task: str) -> TaskTable:
        """The history of one task ("sink[0]"), or of all tasks of one vertex ("sink")."""
        return TaskTable(one for one in self.tasks if one.task == task or one.task.rpartition("[")[0] == task)

    def __str__(self) -> str:
        return _columns(_STORY, list(_story(self)))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table_html(_STORY, list(_story(self)))


class TaskTable(list[TaskEvent]):
    """Records with ``task``, ``event``, ``status``, ``operator``, ``at_ms``, in order; prints as a table."""

    def __str__(self) -> str:
        return as_table(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table_html(_TASKS, task_rows(self))


_STORY = ("time (UTC)", "after", "what happened")
_TASKS = ("time (UTC)", "task", "event", "task status", "operator")
#: So many checkpoints one after the other are told each; of more the first and the last.
_LISTED_CHECKPOINTS = 3


def _story(events: Sequence[LifecycleEvent]) -> Iterator[tuple[str, ...]]:
    """Moment, time since the first event, and what happened; of many checkpoints in a row how many there were."""
    for event, group in itertools.groupby(events, key=lambda one: one.event):
        same = list(group)
        shown = same
        if event == "checkpoint" and len(same) > _LISTED_CHECKPOINTS:
            between = LifecycleEvent(same[1].at_ms, event, "", f"… {len(same) - 2:,} more checkpoints")
            shown = [same[0], between, same[-1]]
        for one in shown:
            yield _time(one.at_ms), f"+{_span(one.at_ms - events[0].at_ms)}", str(one)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).strftime("%H:%M:%S.%f")[:-3]


def _span(ms: int) -> str:
    """A time as people say it: "3.2 s", "4 min 5 s", "2 h 10 min", "3 d 4 h"."""
    seconds = max(ms, 0) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, unit, part_size, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part_size} {part}"
    raise AssertionError("a minute at least")


def as_table(events: Iterable[TaskEvent]) -> str:
    """The events as text in columns; what several subtasks of an operator did at once is one line."""
    return _columns(_TASKS, task_rows(events))


def task_rows(events: Iterable[TaskEvent]) -> list[tuple[str, ...]]:
    """The lines of that table."""
    lines: list[tuple[str, ...]] = []
    for (vertex, event, status, operator), group in itertools.groupby(
        _grouped(events), key=lambda one: (_vertex(one.task), one.event, one.status, one.operator)
    ):
        same = list(group)
        numbers = IndexSet.of(int(one.task.rpartition("[")[2].rstrip("]")) for one in same)
        lines.append((_time(same[0].at_ms), f"{vertex}[{numbers}]", event, status, operator))
    return lines


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


def _columns(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[place]) for row in (header, *lines)) for place in range(len(header))]
    rows = [header, ["-" * width for width in widths], *lines]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
