"""Which tasks a checkpoint begins at, which it waits for, and what it says about those that have ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from ....errors import CheckpointError
from .graph import JobGraph, TaskId


class Execution(Enum):
    """What the driver knows of a task."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class CheckpointPlan:
    """The tasks of one checkpoint."""

    #: Running tasks that get their barrier from nobody.
    to_trigger: tuple[TaskId, ...]
    #: Running tasks: each must take its snapshot, and is told how the checkpoint ended.
    to_wait_for: tuple[TaskId, ...]
    #: Tasks that have ended: they take no part.
    finished: tuple[TaskId, ...] = ()

    def check_union_state(self, graph: JobGraph, finishing: Collection[TaskId] = ()) -> None:
        """Refuse a checkpoint that would hold the union state of only some subtasks.

        Args:
            graph: the job.
            finishing: tasks that run, and whose snapshot came after finish().

        Raises:
            CheckpointError: an operator with union state has finished on some of its subtasks only.
        """
        for vertex in graph.vertices:
            ended = [task for task in vertex.tasks if task in self.finished or task in finishing]
            if vertex.union_state and 0 < len(ended) < vertex.parallelism:
                raise CheckpointError(
                    f"operator {vertex.name!r} has finished on {len(ended)} of {vertex.parallelism} subtasks, and its"
                    " state is restored as the union of all: the checkpoint would lose a part; it is taken when all"
                    " have finished"
                )


def plan_checkpoint(graph: JobGraph, executions: Mapping[TaskId, Execution]) -> CheckpointPlan:
    """Decide where a checkpoint begins.

    Raises:
        CheckpointError: a task neither runs nor has finished.
    """
    for task in graph.tasks:
        if executions[task] not in (Execution.RUNNING, Execution.FINISHED):
            raise CheckpointError(
                f"task {task} is {executions[task].value}; a checkpoint needs every task to be RUNNING or FINISHED"
            )
    running = tuple(task for task in graph.tasks if executions[task] is Execution.RUNNING)
    return CheckpointPlan(
        to_trigger=tuple(
            task
            for task in running
            if not any(executions[sender] is Execution.RUNNING for sender in graph.senders(task))
        ),
        to_wait_for=running,
        finished=tuple(task for task in graph.tasks if executions[task] is Execution.FINISHED),
    )
