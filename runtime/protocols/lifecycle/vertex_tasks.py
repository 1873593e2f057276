"""The state machine of a vertex: of all its subtasks at once.

Subtasks that have always been told the same stand alike, so they are one *cohort*: a set of subtasks with one state
machine.  A vertex of a running job is a single cohort.  Only what concerns a part of a cohort splits it, and it costs
as much as there are cohorts, never as there are channels.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from .actions import Step, Work
from .channel_task import ChannelTask
from .graph import Vertex
from .index_set import IndexSet
from .source_task import SourceTask
from .task_journal import TaskJournal, TaskStory

Machine = SourceTask | ChannelTask


@dataclass(eq=False)
class Cohort:
    """Subtasks of one vertex that stand alike."""

    vertex: str
    subtasks: IndexSet
    machine: Machine
    story: TaskStory
    #: What each of them does next; the head waits to be done.
    queue: deque[Step] = field(default_factory=deque)

    def will(self, steps: list[Step]) -> None:
        """What their machine has answered comes after all that is still to be done."""
        self.queue.extend(steps)


class VertexTasks:
    """The subtasks of one vertex.

    Args:
        vertex: the vertex.
        new_machine: makes the machine of subtasks; True: they had finished in the checkpoint that the job goes on from.
        finished: subtasks that had.
        journal: keeps what they do.
    """

    def __init__(
        self, vertex: Vertex, new_machine: Callable[[bool], Machine], finished: IndexSet, journal: TaskJournal
    ) -> None:
        self._journal = journal
        self.cohorts = [
            Cohort(vertex.name, subtasks, new_machine(restored), journal.begin(vertex.name, subtasks))
            for subtasks, restored in ((finished, True), (vertex.subtasks - finished, False))
            if subtasks
        ]
        self._sort()

    def of(self, subtasks: IndexSet) -> list[Cohort]:
        """The cohorts that are these subtasks; one of which only a part is meant is split."""
        meant = []
        for cohort in list(self.cohorts):
            inside = cohort.subtasks & subtasks
            if not inside:
                continue
            if inside != cohort.subtasks:
                self._split(cohort, cohort.subtasks - inside)
            meant.append(cohort)
        return meant

    def where(self, holds: Callable[[Machine], bool]) -> IndexSet:
        """The subtasks whose machine answers yes."""
        found = IndexSet()
        for cohort in self.cohorts:
            if holds(cohort.machine):
                found |= cohort.subtasks
        return found

    def heads(self) -> dict[Work, IndexSet]:
        """The work that the subtasks have at hand."""
        found: dict[Work, IndexSet] = {}
        for cohort in self.cohorts:
            if cohort.queue:
                work: Work = cohort.queue[0].action  # type: ignore[assignment]  # messages have been delivered
                found[work] = found.get(work, IndexSet()) | cohort.subtasks
        return found

    def _split(self, cohort: Cohort, leaving: IndexSet) -> None:
        """Some subtasks leave their cohort."""
        other = Cohort(
            cohort.vertex,
            leaving,
            copy.deepcopy(cohort.machine),
            self._journal.part(cohort.story, leaving),
            deque(cohort.queue),
        )
        cohort.subtasks -= leaving
        self.cohorts.append(other)
        self._sort()

    def _sort(self) -> None:
        """What several cohorts have to do is done in the order of their first subtasks."""
        self.cohorts.sort(key=lambda cohort: cohort.subtasks.first)
