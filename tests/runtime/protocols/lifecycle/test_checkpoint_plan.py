"""Where a checkpoint begins, and which finished operators a job may go on from (P1-P3, U1, V1)."""

from __future__ import annotations

import pytest
from mixedmode.errors import CheckpointError, CheckpointMismatchError
from mixedmode.runtime.protocols.lifecycle.checkpoint_plan import (
    CheckpointPlan,
    Execution,
    TaskSet,
    plan_checkpoint,
)
from mixedmode.runtime.protocols.lifecycle.finished_state import Finished, check_finished, of_subtasks
from mixedmode.runtime.protocols.lifecycle.graph import Edge, JobGraph, Pattern, TaskId, Vertex
from mixedmode.runtime.protocols.lifecycle.index_set import IndexSet


def two(width: int, pattern: Pattern, union: bool = False) -> JobGraph:
    """Sources and targets."""
    return JobGraph((Vertex("source", width, union), Vertex("target", width)), (Edge("source", "target", pattern),))


def some(*tasks: TaskId) -> TaskSet:
    """Tasks as sets of subtasks."""
    return {
        vertex: IndexSet.of(task.index for task in tasks if task.vertex == vertex)
        for vertex in {task.vertex for task in tasks}
    }


def plan(graph: JobGraph, *finished: TaskId, **others: tuple[Execution, int]) -> CheckpointPlan:
    """A plan if these have finished; of a vertex that is named, the first so many are something else."""
    executions = {}
    for vertex in graph.vertices:
        other, count = others.get(vertex.name, (Execution.RUNNING, 0))
        done = some(*finished).get(vertex.name, IndexSet())
        executions[vertex.name] = {
            Execution.FINISHED: done,
            Execution.RUNNING: vertex.subtasks - done - IndexSet.below(count),
        }
        if count:
            executions[vertex.name][other] = IndexSet.below(count)
    return plan_checkpoint(graph, executions)


def names(tasks: TaskSet) -> list[str]:
    return [str(TaskId(vertex, index)) for vertex, subtasks in tasks.items() for index in subtasks]


def test_all_to_all() -> None:
    """P1: of three sources two have finished: the checkpoint begins at the third, and all running tasks take part."""
    found = plan(two(3, "all-to-all"), TaskId("source", 0), TaskId("source", 1))
    assert names(found.to_trigger) == ["source[2]"]
    assert names(found.to_wait_for) == ["source[2]", "target[0]", "target[1]", "target[2]"]
    assert names(found.finished) == ["source[0]", "source[1]"]


def test_one_to_one() -> None:
    """P2: targets whose only source has finished get the barrier themselves."""
    found = plan(two(4, "one-to-one"), TaskId("source", 0), TaskId("source", 1))
    assert names(found.to_trigger) == ["source[2]", "source[3]", "target[0]", "target[1]"]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("vertex", ["source", "target"])
@pytest.mark.parametrize("execution", [Execution.CREATED, Execution.FAILED])
def test_task_that_does_not_run(vertex: str, execution: Execution, count: int) -> None:
    """P3: a task that neither runs nor has finished declines the checkpoint, and the reason names it."""
    with pytest.raises(CheckpointError, match=rf"task {vertex}\[0\] is {execution.value}; .*RUNNING or FINISHED"):
        plan(two(2, "all-to-all"), **{vertex: (execution, count)})


def test_union_state() -> None:
    """U1: union state of which a part has finished aborts the checkpoint; all or none is fine."""
    graph = two(2, "all-to-all", union=True)
    sources = graph.vertex("source").tasks
    with pytest.raises(CheckpointError, match="'source' has finished on 1 of 2 subtasks"):
        plan(graph, sources[0]).check_union_state(graph)
    with pytest.raises(CheckpointError, match="'source' has finished on 1 of 2 subtasks"):
        plan(graph).check_union_state(graph, finishing=some(*sources[:1]))
    plan(graph).check_union_state(graph)
    plan(graph, *sources).check_union_state(graph)
    plan(graph, sources[0]).check_union_state(graph, finishing=some(*sources[1:]))


def test_state_without_union_may_finish_in_parts() -> None:
    """U1: it only concerns operators that restore the union of their subtasks' state."""
    graph = two(2, "all-to-all")
    plan(graph, TaskId("source", 0)).check_union_state(graph)


def test_finished_state_of_an_operator() -> None:
    """An operator has finished if all of its subtasks have, and partly if some have."""
    assert of_subtasks([True, True]) is Finished.FULLY
    assert of_subtasks([False, True]) is Finished.PARTLY
    assert of_subtasks([False, False]) is of_subtasks([]) is Finished.NOT


@pytest.mark.parametrize(
    ("pattern", "before", "after", "fits"),
    [
        ("all-to-all", Finished.FULLY, Finished.FULLY, True),
        ("all-to-all", Finished.PARTLY, Finished.FULLY, False),
        ("all-to-all", Finished.NOT, Finished.FULLY, False),
        ("all-to-all", Finished.FULLY, Finished.PARTLY, True),
        ("all-to-all", Finished.PARTLY, Finished.PARTLY, False),
        ("all-to-all", Finished.NOT, Finished.PARTLY, False),
        ("one-to-one", Finished.PARTLY, Finished.FULLY, False),
        ("one-to-one", Finished.FULLY, Finished.PARTLY, True),
        ("one-to-one", Finished.PARTLY, Finished.PARTLY, True),
        ("one-to-one", Finished.NOT, Finished.PARTLY, False),
        ("all-to-all", Finished.NOT, Finished.NOT, True),
        ("all-to-all", Finished.FULLY, Finished.NOT, True),
    ],
)
def test_recovery_check(pattern: Pattern, before: Finished, after: Finished, fits: bool) -> None:
    """V1: before a finished operator everything has finished; before a partly finished one at least its own partner."""
    graph, stored = two(2, pattern), {"source": before, "target": after}
    if fits:
        check_finished(graph, stored, "checkpoint 3")
    else:
        with pytest.raises(CheckpointMismatchError, match=f"'target' is {after.value} in checkpoint 3, but 'source'"):
            check_finished(graph, stored, "checkpoint 3")


def test_strictest_of_two_edges_counts() -> None:
    """V1: of several edges between two operators the all-to-all one decides."""
    edges = (Edge("source", "target", "one-to-one"), Edge("source", "target", "all-to-all"))
    graph = JobGraph((Vertex("source", 2), Vertex("target", 2)), edges)
    with pytest.raises(CheckpointMismatchError, match="partly finished"):
        check_finished(graph, {"source": Finished.PARTLY, "target": Finished.PARTLY}, "here")


def test_new_source_before_a_finished_operator() -> None:
    """V1: an operator that is not in the checkpoint runs, so it may not feed one that has finished."""
    graph = JobGraph.of_job(["source history", "source live"], "stage flights", 2)
    stored = {"source history": Finished.FULLY, "stage flights": Finished.FULLY, "sink": Finished.FULLY}
    with pytest.raises(CheckpointMismatchError, match=r"'source live', which feeds it, is running \(it is not in"):
        check_finished(graph, stored, "checkpoint 3")


def test_graph_is_checked() -> None:
    """Names are unique, edges lead onwards, and one-to-one needs equal parallelism."""
    with pytest.raises(ValueError, match="different names"):
        JobGraph((Vertex("a", 1), Vertex("a", 1)), ())
    with pytest.raises(ValueError, match="later one"):
        JobGraph((Vertex("a", 1), Vertex("b", 1)), (Edge("b", "a"),))
    with pytest.raises(ValueError, match="between 1 and 2"):
        JobGraph((Vertex("a", 1), Vertex("b", 2)), (Edge("a", "b", "one-to-one"),))
