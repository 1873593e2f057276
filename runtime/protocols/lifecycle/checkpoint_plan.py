"""Which tasks a checkpoint begins at, which it waits for, and what it says about those that have ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ....errors import CheckpointError
from .graph import JobGraph, TaskId
from .index_set import IndexSet

#: Some of a job's tasks: subtasks by the name of their vertex; a vertex without any may be missing.
TaskSet = Mapping[str, IndexSet]


class Execution(Enum):
    """What the driver knows of a task.

    All but RUNNING and FINISHED are protocol only: our tasks are there as soon as the job is, and one that fails takes
    the run with it.
    """

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class CheckpointPlan:
    """The tasks of one checkpoint."""

    #: Running tasks that get their barrier from nobody.
    to_trigger: TaskSet
    #: Running tasks: each must take its snapshot, and is told how the checkpoint ended.
    to_wait_for: TaskSet
    #: Tasks that have ended: they take no part.
    finished: TaskSet = field(default_factory=dict)

    def check_union_state(self, graph: JobGraph, finishing: TaskSet | None = None) -> None:
        """Refuse a checkpoint that would hold the union state of only some subtasks.

        Args:
            graph: the job.
            finishing: tasks that run, and whose snapshot came after finish().

        Raises:
            CheckpointError: an operator with union state has finished on some of its subtasks only.
        """
        for vertex in graph.vertices:
            ended = self.finished.get(vertex.name, IndexSet()) | (finishing or {}).get(vertex.name, IndexSet())
            if vertex.union_state and 0 < len(ended) < vertex.parallelism:
                raise CheckpointError(
                    f"operator {vertex.name!r} has finished on {len(ended)} of {vertex.parallelism} subtasks, and its"
                    " state is restored as the union of all: the checkpoint would lose a part; it is taken when all"
                    " have finished"
                )


def plan_checkpoint(graph: JobGraph, executions: Mapping[str, Mapping[Execution, IndexSet]]) -> CheckpointPlan:
    """Decide where a checkpoint begins.

    Args:
        graph: the job.
        executions: by vertex, how each of its subtasks stands.

    Raises:
        CheckpointError: a task neither runs nor has finished.
    """
    running: dict[str, IndexSet] = {}
    finished: dict[str, IndexSet] = {}
    to_trigger: dict[str, IndexSet] = {}
    for vertex in graph.vertices:
        known = executions[vertex.name]
        for execution, subtasks in known.items():
            if subtasks and execution not in (Execution.RUNNING, Execution.FINISHED):
                raise CheckpointError(
                    f"task {TaskId(vertex.name, subtasks.first)} is {execution.value}; a checkpoint needs every task"
                    " to be RUNNING or FINISHED"
                )
        running[vertex.name] = known.get(Execution.RUNNING, IndexSet())
        finished[vertex.name] = known.get(Execution.FINISHED, IndexSet())
        to_trigger[vertex.name] = running[vertex.name] - _reached(graph, vertex.name, running)
    return CheckpointPlan(
        *({name: subtasks for name, subtasks in tasks.items() if subtasks} for tasks in (to_trigger, running, finished))
    )


def _reached(graph: JobGraph, vertex: str, running: TaskSet) -> IndexSet:
    """Subtasks of a vertex that get the barrier from a running sender."""
    reached = IndexSet()
    for edge in graph.inputs_of(vertex):
        senders = running[edge.source]
        if edge.pattern == "one-to-one":
            reached |= senders
        elif senders:
            return graph.vertex(vertex).subtasks
    return reached
