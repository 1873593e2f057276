"""The lifecycle of whole jobs: sources, shards, sink."""

from __future__ import annotations

import itertools

import pytest
from mixedmode.errors import CheckpointError
from mixedmode.runtime.protocols.lifecycle.actions import Commit, Fail, TaskStatus
from mixedmode.runtime.protocols.lifecycle.events import Stop
from mixedmode.runtime.protocols.lifecycle.graph import Edge, JobGraph, TaskId, Vertex
from mixedmode.runtime.protocols.lifecycle.index_set import IndexSet
from mixedmode.runtime.protocols.lifecycle.job import JobLifecycle, TaskWork, TriggerCheckpoint

HISTORY, LIVE = TaskId("source history", 0), TaskId("source live", 0)
SINK = TaskId("sink", 0)


def job(*sources: str, shards: int = 2, **options: object) -> JobLifecycle:
    clock = itertools.count(1_700_000_000_000)
    graph = JobGraph.of_job([f"source {name}" for name in sources or ("history", "live")], "stage stage", shards)
    return JobLifecycle(graph, clock_ms=lambda: next(clock), **options)  # type: ignore[arg-type]


def drive(lifecycle: JobLifecycle, checkpoint_ids: itertools.count[int] | None = None) -> list[str]:
    """Do what the lifecycle asks, as the runtime does; what was done."""
    done = []
    while (work := lifecycle.next()) is not None:
        if isinstance(work, TriggerCheckpoint):
            assert checkpoint_ids is not None, "no checkpoint is expected here"
            done.append(checkpoint(lifecycle, next(checkpoint_ids)))
        else:
            done.append(f"{work.vertex}{list(work.subtasks)}: {work.work}")
            lifecycle.done(work)
    return done


def checkpoint(lifecycle: JobLifecycle, checkpoint_id: int, stop: Stop | None = None) -> str:
    lifecycle.trigger(checkpoint_id, stop)
    drive(lifecycle)
    assert lifecycle.is_taken(checkpoint_id)
    lifecycle.completed(checkpoint_id)
    return f"checkpoint {checkpoint_id}"


def history_of(lifecycle: JobLifecycle, task: TaskId) -> list[str]:
    return [event.event for event in lifecycle.events if event.task == str(task)]


def test_natural_end_of_a_job() -> None:
    """L1: timers, finish and commit come in the order of the graph; then all close, from the source to the sink."""
    lifecycle = job("history")
    lifecycle.source_ended("source history")

    assert drive(lifecycle, itertools.count(7)) == [
        "source history[0]: advance to MAX_WATERMARK",
        "source history[0]: endInput, finish",
        "stage stage[0, 1]: advance to MAX_WATERMARK",
        "stage stage[0, 1]: endInput, finish",
        "sink[0]: advance to MAX_WATERMARK",
        "sink[0]: endInput, finish",
        "checkpoint 7",
        "sink[0]: commit up to 7",
        "source history[0]: close",
        "stage stage[0, 1]: close",
        "sink[0]: close",
    ]
    assert lifecycle.is_closed
    assert lifecycle.finished == set(lifecycle.graph.tasks)


def test_source_that_ends_early() -> None:
    """A source that ends closes at the next checkpoint, and the others go on: its channels count as aligned."""
    lifecycle = job()
    lifecycle.source_ended("source history")
    assert drive(lifecycle) == ["source history[0]: advance to MAX_WATERMARK", "source history[0]: endInput, finish"]
    assert lifecycle.waiting_sources == {"source history"}
    checkpoint(lifecycle, 1)
    drive(lifecycle)

    assert lifecycle.status(HISTORY)[0] is TaskStatus.CLOSED
    assert lifecycle.finished == {HISTORY}
    assert lifecycle.plan().to_trigger == {LIVE.vertex: IndexSet.of([0])}
    checkpoint(lifecycle, 2)
    assert drive(lifecycle) == ["sink[0]: commit up to 2"]


def test_drain() -> None:
    """L1: a drain fires and finishes everything before its barrier; the live source has not ended for good."""
    lifecycle = job()
    lifecycle.source_ended("source history")
    drive(lifecycle)
    checkpoint(lifecycle, 1)
    drive(lifecycle)
    lifecycle.trigger(2, Stop.DRAIN)
    assert not lifecycle.is_taken(2)
    before = drive(lifecycle)
    assert lifecycle.is_taken(2)
    lifecycle.completed(2)

    assert before == [
        "source live[0]: advance to MAX_WATERMARK",
        "source live[0]: endInput, finish",
        "stage stage[0, 1]: advance to MAX_WATERMARK",
        "stage stage[0, 1]: endInput, finish",
        "sink[0]: advance to MAX_WATERMARK",
        "sink[0]: endInput, finish",
    ]
    assert drive(lifecycle) == [
        "sink[0]: commit up to 2",
        "source live[0]: close",
        "stage stage[0, 1]: close",
        "sink[0]: close",
    ]
    assert lifecycle.finished == {HISTORY}


def test_stop_without_drain() -> None:
    """L2: without drain nothing is done before the savepoint, and nothing finishes."""
    lifecycle = job("live")
    checkpoint(lifecycle, 1, Stop.SUSPEND)
    assert drive(lifecycle) == [
        "sink[0]: commit up to 1",
        "source live[0]: close",
        "stage stage[0, 1]: close",
        "sink[0]: close",
    ]
    assert not lifecycle.finished


def test_stop_without_drain_waits_for_a_source_that_has_ended() -> None:
    """F5: while a source waits for its final checkpoint, a savepoint without drain is declined and leaves no trace."""
    lifecycle = job()
    lifecycle.source_ended("source history")
    drive(lifecycle)
    with pytest.raises(CheckpointError, match=r"declined by task source history\[0\]: its data has ended"):
        lifecycle.trigger(1, Stop.SUSPEND)
    checkpoint(lifecycle, 2)
    drive(lifecycle)
    checkpoint(lifecycle, 3, Stop.SUSPEND)
    drive(lifecycle)
    assert lifecycle.is_closed


def test_failed_final_checkpoint_is_asked_for_again() -> None:
    """A final checkpoint that fails is followed by another: the tasks wait for one that completes."""
    lifecycle = job("history")
    lifecycle.source_ended("source history")
    while isinstance(work := lifecycle.next(), TaskWork):
        lifecycle.done(work)
    assert work == TriggerCheckpoint()
    lifecycle.trigger(1)
    assert lifecycle.next() is None
    lifecycle.aborted(1)
    assert drive(lifecycle, itertools.count(2))[0] == "checkpoint 2"
    assert lifecycle.is_closed


def at_its_end() -> JobLifecycle:
    """A job whose data has ended and whose operators have finished; checkpoint 41 began before that."""
    lifecycle = job("history")
    lifecycle.trigger(41)
    drive(lifecycle)
    lifecycle.source_ended("source history")
    while isinstance(work := lifecycle.next(), TaskWork):
        lifecycle.done(work)
    assert work == TriggerCheckpoint()
    return lifecycle


def test_any_checkpoint_after_the_end_ends_the_job() -> None:
    """F1: of 42, 43 and 44 that are under way 43 completes: all tasks close, 44 is aborted, and 42 changes nothing."""
    lifecycle = at_its_end()
    for number in (42, 43, 44):
        lifecycle.trigger(number)
        assert lifecycle.next() is None, "a checkpoint that would end the job is under way"
    lifecycle.completed(43)
    assert drive(lifecycle) == [
        "sink[0]: commit up to 43",
        "source history[0]: close",
        "stage stage[0, 1]: close",
        "sink[0]: abort 44",
        "sink[0]: close",
    ]
    lifecycle.completed(42)
    assert lifecycle.next() is None and lifecycle.is_closed


def test_checkpoint_from_before_the_end_does_not_end_the_job() -> None:
    """F2: 41 completes after finish(): what it holds is committed, and the final checkpoint is still asked for."""
    lifecycle = at_its_end()
    lifecycle.completed(41)
    assert drive(lifecycle, itertools.count(42))[:2] == ["sink[0]: commit up to 41", "checkpoint 42"]
    assert lifecycle.is_closed


def test_abort_repairs_lost_completions() -> None:
    """F3: tasks that were never told that 43 is complete learn it from the abort of 44."""
    lifecycle = at_its_end()
    lifecycle.trigger(43)
    lifecycle.trigger(44)
    lifecycle._under_way.pop(43)  # nobody is told
    lifecycle.completed(43)
    assert lifecycle.next() is None
    lifecycle.aborted(44)
    done = drive(lifecycle)
    assert done[0] == "sink[0]: commit up to 43" and done[-1] == "sink[0]: close"
    assert lifecycle.is_closed


def test_failed_savepoint_fails_the_job() -> None:
    """F4: the failure of a stop-with-savepoint is work for the driver: fail."""
    lifecycle = job("live")
    lifecycle.trigger(1, Stop.DRAIN)
    drive(lifecycle)
    lifecycle.aborted(1)
    work = lifecycle.next()
    assert isinstance(work, TaskWork) and work.work == Fail("stop-with-savepoint 1 failed")


def test_task_that_finishes_between_planning_and_triggering() -> None:
    """P4: a checkpoint whose plan is out of date fails as a whole; the next one works."""
    lifecycle = job()
    lifecycle.source_ended("source history")
    drive(lifecycle)
    plan = lifecycle.plan()
    checkpoint(lifecycle, 1)
    drive(lifecycle)  # the history closes
    assert HISTORY.vertex in plan.to_trigger
    with pytest.raises(CheckpointError, match=r"declined by task source history\[0\]: it has finished"):
        lifecycle.trigger(2, plan=plan)
    checkpoint(lifecycle, 3)


def test_nothing_is_left_to_checkpoint() -> None:
    """A checkpoint of a job that has closed is declined."""
    lifecycle = job("history")
    lifecycle.cancel()
    drive(lifecycle)
    with pytest.raises(CheckpointError, match="all tasks have finished"):
        lifecycle.trigger(1)


def test_union_state_that_finishes_in_parts() -> None:
    """U1: a snapshot after finish() of one source and one before it of another do not make a checkpoint."""
    graph = JobGraph((Vertex("source", 2, union_state=True), Vertex("sink", 1)), (Edge("source", "sink"),))
    lifecycle = JobLifecycle(graph, clock_ms=lambda: 0)
    lifecycle.source_ended("source", IndexSet.of([0]))
    drive(lifecycle)
    lifecycle.trigger(1)
    with pytest.raises(CheckpointError, match="finished on 1 of 2"):
        lifecycle.is_taken(1)


def test_without_checkpointing() -> None:
    """F6: without checkpoints the sink commits when it finishes, and everything closes at once."""
    lifecycle = job("history", checkpointing=False)
    lifecycle.source_ended("source history")
    assert drive(lifecycle) == [
        "source history[0]: advance to MAX_WATERMARK",
        "source history[0]: endInput, finish",
        "source history[0]: close",
        "stage stage[0, 1]: advance to MAX_WATERMARK",
        "stage stage[0, 1]: endInput, finish",
        "stage stage[0, 1]: close",
        "sink[0]: advance to MAX_WATERMARK",
        "sink[0]: endInput, finish",
        "sink[0]: commit",
        "sink[0]: close",
    ]
    assert lifecycle.is_closed


def test_go_on_with_a_finished_source() -> None:
    """R1: a source that was finished in the checkpoint does no work again, and closes at the first checkpoint."""
    lifecycle = job(finished=[HISTORY])
    assert lifecycle.next() is None
    assert lifecycle.finished == {HISTORY}
    checkpoint(lifecycle, 8)
    assert drive(lifecycle) == ["sink[0]: commit up to 8"]
    assert history_of(lifecycle, HISTORY) == [
        "finished in an earlier run",
        "emit MAX_WATERMARK",
        "emit EndOfData(finished=true)",
        "EndOfData acknowledged",
        "emit barrier 8",
        "snapshot 8",
        "checkpoint 8 completed",
        "emit EndOfPartition",
    ]


def test_stopped_job() -> None:
    """A job that is stopped after a checkpoint closes everything and finishes nothing."""
    lifecycle = job()
    checkpoint(lifecycle, 1)
    drive(lifecycle)
    lifecycle.cancel()
    assert [one.split(": ")[1] for one in drive(lifecycle)] == ["close"] * 4
    assert lifecycle.is_closed and not lifecycle.finished


def test_steps_wait_for_work() -> None:
    """Nothing reaches the next task before the work of the one in front of it is reported as done."""
    lifecycle = job("history")
    lifecycle.source_ended("source history")
    assert history_of(lifecycle, TaskId("stage stage", 0)) == []
    work = lifecycle.next()
    assert work == lifecycle.next()
    assert isinstance(work, TaskWork)
    lifecycle.done(work)
    assert history_of(lifecycle, TaskId("stage stage", 0)) == ["MAX_WATERMARK"]


def test_journal_does_not_grow_with_checkpoints() -> None:
    """Months of checkpoints leave the last few in the history, and push nothing else out."""
    lifecycle = job()
    lifecycle.source_ended("source history")
    drive(lifecycle)
    for number in range(1, 200):
        checkpoint(lifecycle, number)
        drive(lifecycle)
    assert history_of(lifecycle, HISTORY)[0] == "no more records"
    assert "checkpoint 199 completed" in history_of(lifecycle, SINK)
    assert len(history_of(lifecycle, SINK)) < 200


def test_commit_comes_before_close() -> None:
    """What a checkpoint commits is visible before any task closes."""
    lifecycle = job("history")
    lifecycle.source_ended("source history")
    order: list[str] = []
    while (work := lifecycle.next()) is not None:
        if isinstance(work, TriggerCheckpoint):
            lifecycle.trigger(1)
            lifecycle.completed(1)
        else:
            order.append("commit" if isinstance(work.work, Commit) else str(work.work))
            lifecycle.done(work)
    assert order.index("commit") < order.index("close")
