"""The tasks of a job with the channels between them: messages are delivered, work waits to be done.

What subtasks do together is one step, and what they send along an edge is one message, so nothing here grows with the
number of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from .actions import Acknowledge, Decline, Emit, Saw, Snapshot
from .channel_task import ChannelTask
from .checkpoint_plan import TaskSet
from .events import ChannelEvent
from .graph import Edge, JobGraph, TaskId, Vertex
from .index_set import IndexSet
from .source_task import SourceTask
from .task_journal import TaskJournal
from .vertex_tasks import Cohort, Machine, VertexTasks

#: Steps that are taken as soon as they are at the head of a queue; all others are work.
_MESSAGES = (Emit, Acknowledge, Saw, Snapshot, Decline)


class TaskNetwork:
    """The vertices of a job, connected.

    Args:
        graph: the job.
        checkpointing: see :class:`~.task.Task`.
        finished: tasks that had finished in the checkpoint that the job goes on from.
        journal: keeps the steps that are taken.
        on_snapshot: told of each snapshot that tasks have taken.
    """

    def __init__(
        self,
        graph: JobGraph,
        checkpointing: bool,
        finished: Collection[TaskId],
        journal: TaskJournal,
        on_snapshot: Callable[[Cohort, Snapshot], None],
    ) -> None:
        self._graph = graph
        self._checkpointing = checkpointing
        self._journal = journal
        self._on_snapshot = on_snapshot
        self.vertices: dict[str, VertexTasks] = {}
        for vertex in graph.vertices:
            restored = IndexSet.of(task.index for task in finished if task.vertex == vertex.name)
            self.vertices[vertex.name] = VertexTasks(vertex, self._machines_of(vertex), restored, journal)
        for cohort in self.cohorts:
            if isinstance(cohort.machine, SourceTask) and cohort.machine.finished_on_restore:
                cohort.will(cohort.machine.restore())
        self.deliver()

    @property
    def cohorts(self) -> list[Cohort]:
        """All tasks, those that records reach first in front."""
        return [cohort for tasks in self.vertices.values() for cohort in tasks.cohorts]

    def of(self, tasks: TaskSet) -> Iterator[Cohort]:
        """Some of the tasks."""
        for vertex, subtasks in tasks.items():
            yield from self.vertices[vertex].of(subtasks)

    def deliver(self) -> None:
        """Deliver messages and take all steps that are no work, until work is at the head of every queue."""
        moved = True
        while moved:
            moved = False
            for cohort in self.cohorts:
                if cohort.queue:
                    self._journal.next_stretch()
                while cohort.queue and isinstance(cohort.queue[0].action, _MESSAGES):
                    self._take(cohort)
                    moved = True

    def work_done(self, cohort: Cohort) -> None:
        """The work at the head of a queue is done."""
        self._journal.next_stretch()
        self._take(cohort)

    # -- private -----------------------------------------------------------------------------------------------------

    def _machines_of(self, vertex: Vertex) -> Callable[[bool], Machine]:
        graph = self._graph
        channels = sum(graph.senders(edge) for edge in graph.inputs_of(vertex.name))
        receivers = sum(graph.receivers(edge) for edge in graph.outputs_of(vertex.name))

        def new_machine(finished: bool) -> Machine:
            options = {
                "checkpointing": self._checkpointing,
                "finished_on_restore": finished,
                "transactional": not receivers,
            }
            return ChannelTask(channels, receivers, **options) if channels else SourceTask(receivers, **options)

        return new_machine

    def _take(self, cohort: Cohort) -> None:
        """Take the step at the head of a queue."""
        step = cohort.queue.popleft()
        self._journal.note(cohort.story, step)
        action = step.action
        if isinstance(action, Emit):
            for edge in self._graph.outputs_of(cohort.vertex):
                self._send(cohort.subtasks, edge, action.event)
        elif isinstance(action, Acknowledge):
            for edge in self._graph.inputs_of(cohort.vertex):
                self._acknowledge(cohort.subtasks, edge, action.channels)
        elif isinstance(action, Snapshot):
            self._on_snapshot(cohort, action)

    def _send(self, senders: IndexSet, edge: Edge, event: ChannelEvent) -> None:
        """Subtasks send an event along an edge."""
        target, first = self.vertices[edge.target], self._graph.first_channel(edge)
        if edge.pattern == "all-to-all":
            receivers, channels = target.cohorts, senders.moved(first)
        else:
            receivers, channels = target.of(senders), IndexSet.of([first])
        for cohort in receivers:
            assert isinstance(cohort.machine, ChannelTask)
            cohort.will(cohort.machine.receive(channels, event))

    def _acknowledge(self, receivers: IndexSet, edge: Edge, channels: IndexSet) -> None:
        """Subtasks have processed all records of some of their channels: tell the senders at an edge's other end."""
        senders = channels.moved(-self._graph.first_channel(edge)) & IndexSet.below(self._graph.senders(edge))
        if edge.pattern == "one-to-one" and senders:
            senders = receivers
        for cohort in self.vertices[edge.source].of(senders):
            cohort.will(cohort.machine.acknowledged(len(receivers) if edge.pattern == "all-to-all" else 1))
