"""The worker does what the lifecycle asks, through handlers, in order."""

from __future__ import annotations

import pytest
from mixedmode.errors import QueryError
from mixedmode.runtime.protocols.lifecycle.actions import AdvanceToMaxWatermark, Close, Commit, EndInputAndFinish
from mixedmode.runtime.protocols.lifecycle.events import Stop
from mixedmode.runtime.protocols.lifecycle.graph import JobGraph
from mixedmode.runtime.protocols.lifecycle.job import JobLifecycle, TaskWork
from mixedmode.runtime.protocols.lifecycle.work import TaskWorker


def worker() -> tuple[TaskWorker, list[str]]:
    """A worker of a small job, and what it did."""
    tasks = TaskWorker(JobLifecycle(JobGraph.of_job(["source"], "stage", 2), clock_ms=lambda: 0))
    done: list[str] = []

    def handle(work: TaskWork) -> None:
        done.append(f"{work.vertex}: {work.work}")

    for vertex, kind in (
        ("stage", AdvanceToMaxWatermark),
        ("stage", EndInputAndFinish),
        ("sink", Commit),
        ("sink", Close),
    ):
        tasks.on(vertex, kind, handle)
    return tasks, done


def test_work_without_a_handler_is_none() -> None:
    """What nobody handles counts as done; the rest is done once for all subtasks, up to the final checkpoint."""
    tasks, done = worker()
    tasks.lifecycle.source_ended("source")
    assert tasks.run() is True
    assert done == ["stage: advance to MAX_WATERMARK", "stage: endInput, finish"]


def test_commit_leaves_closing_for_later() -> None:
    """After a completed checkpoint its output is committed first; tasks close when the worker runs again."""
    tasks, done = worker()
    tasks.lifecycle.trigger(1, Stop.SUSPEND)
    tasks.lifecycle.completed(1)
    assert [commit.up_to for commit in tasks.commits()] == [1]
    assert done == []
    assert tasks.run() is False
    assert done == ["sink: close"]


def test_work_that_fails_is_not_done() -> None:
    """A handler that raises leaves its work at hand: nothing behind it happens."""
    tasks, done = worker()

    def fail(work: TaskWork) -> None:
        raise OSError("no space left")

    tasks.on("stage", AdvanceToMaxWatermark, fail)
    tasks.lifecycle.source_ended("source")
    for _ in range(2):
        with pytest.raises(OSError, match="no space left"):
            tasks.run()
    assert done == []


def test_task_that_fails() -> None:
    """F4: a stop-with-savepoint that failed is an error that names the task and the savepoint."""
    tasks, _ = worker()
    tasks.lifecycle.trigger(1, Stop.DRAIN)
    tasks.run()
    tasks.lifecycle.aborted(1)
    with pytest.raises(QueryError, match="source: stop-with-savepoint 1 failed"):
        tasks.run()
