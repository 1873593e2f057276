"""The lifecycle of a whole job: its tasks' state machines, connected by channels, as one that the driver asks.

The runtime tells what happened (a source ended, a checkpoint completed, ...), and does what :meth:`JobLifecycle.next`
says until there is nothing more to do.  A task's next step is taken only when its last one is reported as done, so the
order of the tables holds for what really happens, and a failure in between leaves nothing half done behind it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ....errors import CheckpointError
from .actions import (
    Acknowledge,
    Commit,
    Decline,
    Emit,
    OperatorStatus,
    Saw,
    Snapshot,
    Step,
    TaskStatus,
    Work,
)
from .channel_task import ChannelTask
from .checkpoint_plan import CheckpointPlan, Execution, plan_checkpoint
from .events import Stop
from .graph import JobGraph, TaskId, Vertex
from .journal import Journal, TaskEvent
from .source_task import SourceTask


@dataclass(frozen=True)
class TriggerCheckpoint:
    """All tasks have sent EndOfData and wait: take the final checkpoint now."""


@dataclass(frozen=True)
class TaskWork:
    """The same work for some or all subtasks of one vertex."""

    vertex: str
    subtasks: tuple[int, ...]
    work: Work


JobWork = TaskWork | TriggerCheckpoint


class JobLifecycle:
    """Drives the tasks of one run.

    Args:
        graph: the job.
        checkpointing: False: tasks end without waiting for a checkpoint.
        finished: tasks that had finished in the checkpoint that the job goes on from.
        clock_ms: wall clock of the journal.
    """

    def __init__(
        self,
        graph: JobGraph,
        *,
        checkpointing: bool = True,
        finished: Collection[TaskId] = (),
        clock_ms: Callable[[], int] = lambda: round(time.time() * 1000),
    ) -> None:
        self.graph = graph
        self.checkpointing = checkpointing
        self._tasks: dict[TaskId, SourceTask | ChannelTask] = {}
        for task in graph.tasks:
            channels, receivers = len(graph.senders(task)), len(graph.receivers(task))
            options = {
                "checkpointing": checkpointing,
                "finished_on_restore": task in finished,
                "transactional": not receivers,
            }
            self._tasks[task] = (
                ChannelTask(channels, receivers, **options) if channels else SourceTask(receivers, **options)
            )
        self._queues: dict[TaskId, deque[Step]] = {task: deque() for task in graph.tasks}
        self._journal = Journal(clock_ms)
        #: Checkpoints under way: their tasks, and those that have taken their snapshots (True: after finish()).
        self._plans: dict[int, CheckpointPlan] = {}
        self._snapshots: dict[int, dict[TaskId, bool]] = {}
        self._latest_completed = 0
        for task, machine in self._tasks.items():
            if isinstance(machine, SourceTask) and machine.finished_on_restore:
                self._queues[task].extend(machine.restore())
        self._run()

    # -- what it knows -----------------------------------------------------------------------------------------------

    @property
    def events(self) -> list[TaskEvent]:
        """The event history of all tasks, in order."""
        return self._journal.events

    def knows(self, vertex: str) -> bool:
        """True if the job has a vertex of that name."""
        return any(known.name == vertex for known in self.graph.vertices)

    def status(self, task: TaskId) -> tuple[TaskStatus, OperatorStatus]:
        """How a task and its operator stand."""
        machine = self._tasks[task]
        return machine.status, machine.operator

    @property
    def is_closed(self) -> bool:
        """True if every task has closed."""
        return all(machine.status is TaskStatus.CLOSED for machine in self._tasks.values())

    @property
    def is_ending(self) -> bool:
        """True if every task has sent EndOfData or closed: no record will come."""
        return all(machine.status is not TaskStatus.RUNNING for machine in self._tasks.values())

    @property
    def finished(self) -> frozenset[TaskId]:
        """Tasks that no run which goes on from here needs to run again: all that they would ever get is processed."""
        found: set[TaskId] = set()
        for task, machine in self._tasks.items():
            if isinstance(machine, SourceTask):
                ended = machine.is_exhausted
            else:
                ended = machine.end_of_data is not None and found.issuperset(self.graph.senders(task))
            if ended:
                found.add(task)
        return frozenset(found)

    @property
    def waiting_sources(self) -> frozenset[str]:
        """Sources whose data has ended, and which wait for a checkpoint to close."""
        return frozenset(
            task.vertex
            for task, machine in self._tasks.items()
            if isinstance(machine, SourceTask) and machine.status is TaskStatus.WAITING_FOR_FINAL_CP
        )

    # -- what happened -----------------------------------------------------------------------------------------------

    def source_ended(self, vertex: str) -> None:
        """A source gives no more records."""
        for task in self.graph.vertex(vertex).tasks:
            machine = self._tasks[task]
            assert isinstance(machine, SourceTask), f"{vertex} is not a source"
            self._queues[task].extend(machine.no_more_records())
        self._run()

    def plan(self) -> CheckpointPlan:
        """The tasks of a checkpoint that would be triggered now.

        Raises:
            CheckpointError: a task neither runs nor has finished.
        """
        return plan_checkpoint(
            self.graph,
            {
                task: Execution.FINISHED if machine.status is TaskStatus.CLOSED else Execution.RUNNING
                for task, machine in self._tasks.items()
            },
        )

    def trigger(self, checkpoint_id: int, stop: Stop | None = None, plan: CheckpointPlan | None = None) -> None:
        """A checkpoint begins; with ``stop`` it is a savepoint that ends the job.

        Args:
            checkpoint_id: greater than that of every checkpoint before.
            stop: how the savepoint ends the job; None: the job goes on.
            plan: what :meth:`plan` gave; None: it is made now.

        Raises:
            CheckpointError: a task declines; the checkpoint is aborted, nothing of it is under way.
        """
        plan = plan or self.plan()
        if not plan.to_trigger:
            raise CheckpointError(f"checkpoint {checkpoint_id} is declined: all tasks have finished")
        for task in plan.to_trigger:
            reason = self._tasks[task].refusal(stop)
            if reason is not None:
                # Nobody has heard of the checkpoint yet, so there is nothing to cancel.
                raise CheckpointError(f"checkpoint {checkpoint_id} is declined by task {task}: {reason}")
        self._plans[checkpoint_id] = plan
        self._snapshots[checkpoint_id] = {}
        for task in plan.to_trigger:
            self._queues[task].extend(self._tasks[task].trigger(checkpoint_id, stop))
        self._run()

    def is_under_way(self, checkpoint_id: int) -> bool:
        """True from the trigger of a checkpoint until it has completed or failed."""
        return checkpoint_id in self._plans

    def is_taken(self, checkpoint_id: int) -> bool:
        """True if all of a checkpoint's tasks have taken their snapshots.

        Raises:
            CheckpointError: an operator with union state has finished on some of its subtasks only.
        """
        plan, snapshots = self._plans[checkpoint_id], self._snapshots[checkpoint_id]
        if any(task not in snapshots for task in plan.to_wait_for):
            return False
        plan.check_union_state(self.graph, [task for task, finished in snapshots.items() if finished])
        return True

    def completed(self, checkpoint_id: int) -> None:
        """A checkpoint is complete."""
        self._latest_completed = max(self._latest_completed, checkpoint_id)
        plan = self._plans.pop(checkpoint_id, None)
        self._snapshots.pop(checkpoint_id, None)
        for task in () if plan is None else plan.to_wait_for:
            self._queues[task].extend(self._tasks[task].completed(checkpoint_id))
        self._run()

    def aborted(self, checkpoint_id: int) -> None:
        """A checkpoint has failed."""
        plan = self._plans.pop(checkpoint_id, None)
        self._snapshots.pop(checkpoint_id, None)
        for task in () if plan is None else plan.to_wait_for:
            self._queues[task].extend(self._tasks[task].aborted(checkpoint_id, self._latest_completed))
        self._run()

    def cancel(self) -> None:
        """The job was stopped after an ordinary checkpoint: everything closes as it is."""
        for task, machine in self._tasks.items():
            self._queues[task].extend(machine.cancel())
        self._run()

    # -- what to do --------------------------------------------------------------------------------------------------

    def next(self) -> JobWork | None:
        """The next thing to do; None: nothing until something happens.  The same until it is :meth:`done`."""
        found = [
            TaskWork(vertex.name, tuple(index for index, head in heads.items() if head == work), work)
            for vertex in self.graph.vertices
            if (heads := self._heads(vertex))
            for work in dict.fromkeys(heads.values())
        ]
        if found:
            # What a completed checkpoint commits is made visible before anything closes.
            return next((one for one in found if isinstance(one.work, Commit)), found[0])
        waiting = self.checkpointing and not self.is_closed and self.is_ending
        return TriggerCheckpoint() if waiting and not self._final_under_way else None

    def done(self, work: JobWork) -> None:
        """What :meth:`next` gave is done."""
        if isinstance(work, TaskWork):
            for index in work.subtasks:
                self._take(TaskId(work.vertex, index))
        self._run()

    # -- private -----------------------------------------------------------------------------------------------------

    def _heads(self, vertex: Vertex) -> dict[int, Work]:
        """The work that the subtasks of a vertex have at hand."""
        return {task.index: self._queues[task][0].action for task in vertex.tasks if self._queues[task]}  # type: ignore[misc]

    @property
    def _final_under_way(self) -> bool:
        """True if a checkpoint is under way whose completion would let all tasks close."""
        return any(
            all(self._tasks[task].awaits(checkpoint_id) for task in plan.to_wait_for)
            for checkpoint_id, plan in self._plans.items()
        )

    def _run(self) -> None:
        """Deliver messages and take all steps that are no work, until work is at the head of every queue."""
        moved = True
        while moved:
            moved = False
            for task, queue in self._queues.items():
                while queue and isinstance(queue[0].action, Emit | Acknowledge | Saw | Snapshot | Decline):
                    self._take(task)
                    moved = True

    def _take(self, task: TaskId) -> None:
        """Take the step at the head of a task's queue."""
        step = self._queues[task].popleft()
        self._journal.note(task, step)
        action = step.action
        if isinstance(action, Emit):
            for receiver in self.graph.receivers(task):
                machine = self._tasks[receiver]
                assert isinstance(machine, ChannelTask)
                channel = self.graph.channel(task, receiver)
                self._queues[receiver].extend(machine.receive(channel, action.event))
        elif isinstance(action, Acknowledge):
            sender = self.graph.senders(task)[action.channel]
            self._queues[sender].extend(self._tasks[sender].acknowledged())
        elif isinstance(action, Snapshot) and action.checkpoint_id in self._snapshots:
            self._snapshots[action.checkpoint_id][task] = action.finished
