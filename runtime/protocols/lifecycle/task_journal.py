"""The event history of each task.

Subtasks that take their steps together share one story, and a step is noted once for all of them; only who reads the
journal makes an event of each subtask from it.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from .actions import Snapshot, Step, TaskStatus
from .events import Barrier, CheckpointAborted, CheckpointCompleted
from .graph import TaskId
from .index_set import IndexSet

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


@dataclass(frozen=True, slots=True)
class _Entry:
    """A step that some subtasks have taken together."""

    #: Steps of one stretch are told subtask by subtask: all of the first one's, then all of the second one's, ...
    stretch: int
    number: int
    at_ms: int
    step: Step


class TaskStory:
    """What subtasks of one vertex did that have always done the same."""

    def __init__(self, vertex: str, subtasks: IndexSet) -> None:
        self.vertex = vertex
        self.subtasks = subtasks
        self.events: deque[_Entry] = deque(maxlen=_MAX_EVENTS)
        self.checkpoints: deque[_Entry] = deque(maxlen=_EVENTS_OF_CHECKPOINT * _RECENT_CHECKPOINTS)


class TaskJournal:
    """What the tasks of a job did, in order.

    Checkpoints come for months on end: of those that a running task took part in only the last are kept.

    Args:
        clock_ms: wall clock.
        guard: entered around every look and change; a lock if threads other than the one that writes read
            :attr:`events`.
    """

    def __init__(self, clock_ms: Callable[[], int], guard: AbstractContextManager[object] | None = None) -> None:
        self._clock_ms = clock_ms
        self._guard = nullcontext() if guard is None else guard
        self._numbers = itertools.count()
        self._stretch = 0
        self._stories: list[TaskStory] = []

    def begin(self, vertex: str, subtasks: IndexSet) -> TaskStory:
        """The story of subtasks that go together from the start."""
        with self._guard:
            self._stories.append(TaskStory(vertex, subtasks))
            return self._stories[-1]

    def part(self, story: TaskStory, leaving: IndexSet) -> TaskStory:
        """Subtasks leave a story: the one that they go on with, which begins as the one they had."""
        with self._guard:
            other = TaskStory(story.vertex, leaving)
            other.events.extend(story.events)
            other.checkpoints.extend(story.checkpoints)
            story.subtasks -= leaving
            self._stories.append(other)
            return other

    def next_stretch(self) -> None:
        """What is noted from here on is another stretch."""
        self._stretch += 1

    def note(self, story: TaskStory, step: Step) -> None:
        """A step is done by the subtasks of a story."""
        periodic = step.status is TaskStatus.RUNNING and _is_of_checkpoint(step)
        entry = _Entry(self._stretch, next(self._numbers), self._clock_ms(), step)
        with self._guard:
            (story.checkpoints if periodic else story.events).append(entry)

    @property
    def events(self) -> list[TaskEvent]:
        """The events of all tasks, in order."""
        with self._guard:
            kept = [(story.vertex, story.subtasks, (*story.events, *story.checkpoints)) for story in self._stories]
        found = [
            ((entry.stretch, index, entry.number), _event_of(TaskId(vertex, index), entry))
            for vertex, subtasks, entries in kept
            for index in subtasks
            for entry in entries
        ]
        return [event for _, event in sorted(found, key=lambda each: each[0])]


def _event_of(task: TaskId, entry: _Entry) -> TaskEvent:
    step = entry.step
    return TaskEvent(entry.at_ms, str(task), str(step.action), step.status.value, step.operator.value)


def _is_of_checkpoint(step: Step) -> bool:
    event = getattr(step.action, "event", None)
    return isinstance(step.action, Snapshot) or isinstance(event, Barrier | CheckpointCompleted | CheckpointAborted)
