"""The lifecycle of a whole job: its vertices' state machines, connected by channels, as one that the driver asks.

The runtime tells what happened (a source ended, a checkpoint completed, ...), and does what :meth:`JobLifecycle.next`
says until there is nothing more to do.  A task's next step is taken only when its last one is reported as done, so the
order of the tables holds for what really happens, and a failure in between leaves nothing half done behind it.

All shards of a stage step together, so there is one state machine for each vertex (:mod:`.vertex_tasks`), and what its
subtasks tell those of another vertex is one message (:mod:`.task_network`): the work grows with the stages of the job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ....errors import CheckpointError
from .actions import Commit, OperatorStatus, Snapshot, TaskStatus, Work
from .checkpoint_plan import CheckpointPlan, Execution, plan_checkpoint
from .events import Stop
from .graph import JobGraph, TaskId
from .index_set import IndexSet
from .source_task import SourceTask
from .task_journal import TaskEvent, TaskJournal
from .task_network import TaskNetwork
from .vertex_tasks import Cohort, Machine


@dataclass(frozen=True)
class TriggerCheckpoint:
    """All tasks have sent EndOfData and wait: take the final checkpoint now."""


@dataclass(frozen=True)
class TaskWork:
    """The same work for some or all subtasks of one vertex."""

    vertex: str
    subtasks: IndexSet
    work: Work


JobWork = TaskWork | TriggerCheckpoint


@dataclass
class _UnderWay:
    """A checkpoint that has begun, and neither completed nor failed."""

    plan: CheckpointPlan
    #: Tasks that have taken their snapshots, and those among them that did after finish().
    taken: defaultdict[str, IndexSet] = field(default_factory=lambda: defaultdict(IndexSet))
    finishing: defaultdict[str, IndexSet] = field(default_factory=lambda: defaultdict(IndexSet))


class JobLifecycle:
    """Drives the tasks of one run.

    Args:
        graph: the job.
        clock_ms: wall clock of the journal.
        checkpointing: False: tasks end without waiting for a checkpoint.
        finished: tasks that had finished in the checkpoint that the job goes on from.
        journal_guard: a lock, if threads other than the driver's read :attr:`events`.
    """

    def __init__(
        self,
        graph: JobGraph,
        *,
        clock_ms: Callable[[], int],
        checkpointing: bool = True,
        finished: Collection[TaskId] = (),
        journal_guard: AbstractContextManager[object] | None = None,
    ) -> None:
        self.graph = graph
        self.checkpointing = checkpointing
        self._journal = TaskJournal(clock_ms, journal_guard)
        self._under_way: dict[int, _UnderWay] = {}
        self._latest_completed = 0
        self._tasks = TaskNetwork(graph, checkpointing, finished, self._journal, self._taken)

    # -- what it knows -----------------------------------------------------------------------------------------------

    @property
    def events(self) -> list[TaskEvent]:
        """The event history of all tasks, in order."""
        return self._journal.events

    def status(self, task: TaskId) -> tuple[TaskStatus, OperatorStatus]:
        """How a task and its operator stand."""
        machine = next(one.machine for one in self._tasks.vertices[task.vertex].cohorts if task.index in one.subtasks)
        return machine.status, machine.operator

    @property
    def is_closed(self) -> bool:
        """True if every task has closed."""
        return all(cohort.machine.status is TaskStatus.CLOSED for cohort in self._tasks.cohorts)

    @property
    def is_ending(self) -> bool:
        """True if every task has sent EndOfData or closed: no record will come."""
        return all(cohort.machine.status is not TaskStatus.RUNNING for cohort in self._tasks.cohorts)

    @property
    def finished(self) -> frozenset[TaskId]:
        """Tasks that no run which goes on from here needs to run again: all that they would ever get is processed."""
        found: dict[str, IndexSet] = {}
        for vertex in self.graph.vertices:
            ended = self._tasks.vertices[vertex.name].where(_has_ended)
            for edge in self.graph.inputs_of(vertex.name):
                before = found[edge.source]
                if edge.pattern == "one-to-one":
                    ended &= before
                elif before != self.graph.vertex(edge.source).subtasks:
                    ended = IndexSet()
            found[vertex.name] = ended
        return frozenset(TaskId(vertex, index) for vertex, ended in found.items() for index in ended)

    @property
    def waiting_sources(self) -> frozenset[str]:
        """Sources whose data has ended, and which wait for a checkpoint to close."""
        return frozenset(
            cohort.vertex
            for cohort in self._tasks.cohorts
            if isinstance(cohort.machine, SourceTask) and cohort.machine.status is TaskStatus.WAITING_FOR_FINAL_CP
        )

    # -- what happened -----------------------------------------------------------------------------------------------

    def source_ended(self, vertex: str, subtasks: IndexSet | None = None) -> None:
        """A source gives no more records.

        Args:
            vertex: the source.
            subtasks: those that have ended; None: all.  Protocol only: our sources have one subtask.
        """
        tasks = self._tasks.vertices[vertex]
        for cohort in tasks.cohorts if subtasks is None else tasks.of(subtasks):
            assert isinstance(cohort.machine, SourceTask), f"{vertex} is not a source"
            cohort.will(cohort.machine.no_more_records())
        self._tasks.deliver()

    def plan(self) -> CheckpointPlan:
        """The tasks of a checkpoint that would be triggered now.

        Raises:
            CheckpointError: a task neither runs nor has finished.
        """
        executions = {}
        for vertex in self.graph.vertices:
            closed = self._tasks.vertices[vertex.name].where(lambda machine: machine.status is TaskStatus.CLOSED)
            executions[vertex.name] = {Execution.FINISHED: closed, Execution.RUNNING: vertex.subtasks - closed}
        return plan_checkpoint(self.graph, executions)

    def trigger(self, checkpoint_id: int, stop: Stop | None = None, plan: CheckpointPlan | None = None) -> None:
        """A checkpoint begins; with ``stop`` it is a savepoint that ends the job.

        Args:
            checkpoint_id: greater than that of every checkpoint before.
            stop: how the savepoint ends the job; None: the job goes on.
            plan: what :meth:`plan` gave; None: it is made now.  Protocol only: the driver plans when it triggers.

        Raises:
            CheckpointError: a task declines; the checkpoint is aborted, nothing of it is under way.
        """
        plan = plan or self.plan()
        if not plan.to_trigger:
            raise CheckpointError(f"checkpoint {checkpoint_id} is declined: all tasks have finished")
        first = list(self._tasks.of(plan.to_trigger))
        for cohort in first:
            reason = cohort.machine.refusal(stop)
            if reason is not None:
                # Nobody has heard of the checkpoint yet, so there is nothing to cancel.
                task = TaskId(cohort.vertex, cohort.subtasks.first)
                raise CheckpointError(f"checkpoint {checkpoint_id} is declined by task {task}: {reason}")
        self._under_way[checkpoint_id] = _UnderWay(plan)
        for cohort in first:
            cohort.will(cohort.machine.trigger(checkpoint_id, stop))
        self._tasks.deliver()

    def is_under_way(self, checkpoint_id: int) -> bool:
        """True from the trigger of a checkpoint until it has completed or failed."""
        return checkpoint_id in self._under_way

    def is_taken(self, checkpoint_id: int) -> bool:
        """True if all of a checkpoint's tasks have taken their snapshots.

        Raises:
            CheckpointError: an operator with union state has finished on some of its subtasks only.
        """
        checkpoint = self._under_way[checkpoint_id]
        if not all(tasks <= checkpoint.taken[vertex] for vertex, tasks in checkpoint.plan.to_wait_for.items()):
            return False
        checkpoint.plan.check_union_state(self.graph, checkpoint.finishing)
        return True

    def completed(self, checkpoint_id: int) -> None:
        """A checkpoint is complete."""
        self._latest_completed = max(self._latest_completed, checkpoint_id)
        for cohort in self._settled(checkpoint_id):
            cohort.will(cohort.machine.completed(checkpoint_id))
        self._tasks.deliver()

    def aborted(self, checkpoint_id: int) -> None:
        """A checkpoint has failed."""
        for cohort in self._settled(checkpoint_id):
            cohort.will(cohort.machine.aborted(checkpoint_id, self._latest_completed))
        self._tasks.deliver()

    def cancel(self) -> None:
        """The job was stopped after an ordinary checkpoint: everything closes as it is."""
        for cohort in self._tasks.cohorts:
            cohort.will(cohort.machine.cancel())
        self._tasks.deliver()

    # -- what to do --------------------------------------------------------------------------------------------------

    def next(self) -> JobWork | None:
        """The next thing to do; None: nothing until something happens.  The same until it is :meth:`done`."""
        found = [
            TaskWork(vertex, subtasks, work)
            for vertex, tasks in self._tasks.vertices.items()
            for work, subtasks in tasks.heads().items()
        ]
        if found:
            # What a completed checkpoint commits is made visible before anything closes.
            return next((one for one in found if isinstance(one.work, Commit)), found[0])
        waiting = self.checkpointing and not self.is_closed and self.is_ending
        return TriggerCheckpoint() if waiting and not self._final_under_way else None

    def done(self, work: JobWork) -> None:
        """What :meth:`next` gave is done."""
        if isinstance(work, TaskWork):
            for cohort in self._tasks.vertices[work.vertex].of(work.subtasks):
                assert cohort.queue[0].action == work.work, f"{cohort.vertex}[{cohort.subtasks}] has other work"
                self._tasks.work_done(cohort)
        self._tasks.deliver()

    # -- private -----------------------------------------------------------------------------------------------------

    def _taken(self, cohort: Cohort, snapshot: Snapshot) -> None:
        """Tasks have taken their part of a checkpoint."""
        checkpoint = self._under_way.get(snapshot.checkpoint_id)
        if checkpoint is not None:
            checkpoint.taken[cohort.vertex] |= cohort.subtasks
            if snapshot.finished:
                checkpoint.finishing[cohort.vertex] |= cohort.subtasks

    def _settled(self, checkpoint_id: int) -> list[Cohort]:
        """A checkpoint is under way no longer; the tasks that are told."""
        checkpoint = self._under_way.pop(checkpoint_id, None)
        return [] if checkpoint is None else list(self._tasks.of(checkpoint.plan.to_wait_for))

    @property
    def _final_under_way(self) -> bool:
        """True if a checkpoint is under way whose completion would let all tasks close."""
        return any(
            all(cohort.machine.awaits(checkpoint_id) for cohort in self._tasks.of(checkpoint.plan.to_wait_for))
            for checkpoint_id, checkpoint in self._under_way.items()
        )


def _has_ended(machine: Machine) -> bool:
    return machine.is_exhausted if isinstance(machine, SourceTask) else machine.end_of_data is not None
