"""The event history of each task, and how it is shown."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from .actions import Snapshot, Step, TaskStatus
from .events import Barrier, CheckpointAborted, CheckpointCompleted
from .graph import TaskId

#: Entries kept per task: of checkpoints while it runs, and of everything else.
_RECENT_CHECKPOINTS = 5
_MAX_EVENTS = 100
#: Barrier received, barrier sent, snapshot, completion.
_EVENTS_OF_CHECKPOINT = 4


@dataclass(frozen=True)
class TaskEvent:
    """One event in the life of one task."""

    at_ms: int
    task: str
    event: str
    #: How the task and its operator stand after it.
    status: str
    operator: str


class Journal:
    """What the tasks of a job did, in order; thread-safe.

    Checkpoints come for months on end: of those that a running task took part in only the last are kept.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._events: defaultdict[TaskId, deque[tuple[int, TaskEvent]]] = defaultdict(lambda: deque(maxlen=_MAX_EVENTS))
        self._checkpoints: defaultdict[TaskId, deque[tuple[int, TaskEvent]]] = defaultdict(
            lambda: deque(maxlen=_EVENTS_OF_CHECKPOINT * _RECENT_CHECKPOINTS)
        )

    def note(self, task: TaskId, step: Step) -> None:
        """A step is done."""
        periodic = step.status is TaskStatus.RUNNING and _is_of_checkpoint(step)
        event = TaskEvent(self._clock_ms(), str(task), str(step.action), step.status.value, step.operator.value)
        with self._lock:
            (self._checkpoints if periodic else self._events)[task].append((next(self._numbers), event))

    @property
    def events(self) -> list[TaskEvent]:
        """The events of all tasks, in order."""
        with self._lock:
            kept = list(itertools.chain(*self._events.values(), *self._checkpoints.values()))
        return [event for _, event in sorted(kept, key=lambda entry: entry[0])]


def _is_of_checkpoint(step: Step) -> bool:
    event = getattr(step.action, "event", None)
    return isinstance(step.action, Snapshot) or isinstance(event, Barrier | CheckpointCompleted | CheckpointAborted)


def as_table(events: Iterable[TaskEvent]) -> str:
    """The events as text in columns; what several subtasks of an operator did at once is one line."""
    lines: list[tuple[str, ...]] = []
    for (vertex, event, status, operator), group in itertools.groupby(
        _grouped(events), key=lambda one: (_vertex(one.task), one.event, one.status, one.operator)
    ):
        same = list(group)
        indices = sorted({_index(one.task) for one in same})
        numbers = f"{indices[0]}" if len(indices) == 1 else f"{indices[0]}-{indices[-1]}"
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
