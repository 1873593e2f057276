"""What ``query.lifecycle`` shows of tasks."""

from __future__ import annotations

from mixedmode.runtime.metrics.lifecycle import Lifecycle, LifecycleEvent, as_table
from mixedmode.runtime.protocols.lifecycle.graph import JobGraph
from mixedmode.runtime.protocols.lifecycle.job import JobLifecycle, TriggerCheckpoint
from mixedmode.runtime.protocols.lifecycle.task_journal import TaskEvent


def run_to_the_end(lifecycle: JobLifecycle, checkpoint_id: int) -> None:
    """Do what the lifecycle asks for until the job has closed."""
    while (work := lifecycle.next()) is not None:
        if isinstance(work, TriggerCheckpoint):
            lifecycle.trigger(checkpoint_id)
            lifecycle.completed(checkpoint_id)
        else:
            lifecycle.done(work)


def test_table() -> None:
    """The history prints as a table in which equal steps of the shards are one line."""
    lifecycle = JobLifecycle(JobGraph.of_job(["source history"], "stage stage", 3), clock_ms=lambda: 1_700_000_000_000)
    lifecycle.source_ended("source history")
    run_to_the_end(lifecycle, 7)
    lines = str(Lifecycle([], lifecycle.events).tasks).splitlines()

    assert lines[0].split() == ["time", "(UTC)", "task", "event", "task", "status", "operator"]
    (finish,) = [line for line in lines if "stage stage[0-2]" in line and "endInput, finish" in line]
    assert finish.split()[-2:] == ["WAITING_FOR_FINAL_CP", "FINISHED"]
    assert lines[-1].split()[-2:] == ["CLOSED", "CLOSED"]


def test_table_tells_which_subtasks() -> None:
    """A line names exactly the subtasks that took the step: a gap between them shows."""
    events = [TaskEvent(0, f"stage[{index}]", "close", "CLOSED", "CLOSED") for index in (0, 1, 3)]
    assert as_table(events).splitlines()[-1].split()[1:] == ["stage[0-1,", "3]", "close", "CLOSED", "CLOSED"]


def test_history_of_a_task_and_of_a_vertex() -> None:
    """``of`` gives the events of one task, or of all tasks of a vertex."""
    events = [TaskEvent(0, task, "close", "CLOSED", "CLOSED") for task in ("stage[0]", "stage[1]", "sink[0]")]
    assert Lifecycle([], events).of("stage[1]") == events[1:2]
    assert Lifecycle([], events).of("stage") == events[:2]


def test_the_lifecycle_reads_as_a_story() -> None:
    """Printed, shown by itself and in a cell it is the story of the run: sentences, and the time since its start;
    many checkpoints in a row are told by their first and last."""
    events = [
        LifecycleEvent(0, "phase", "backlog", "the backlog: one sorted pass"),
        LifecycleEvent(61_000, "phase", "live", "live: micro-batches"),
        *(LifecycleEvent(70_000 + number, "checkpoint", "", f"checkpoint {number} <&>") for number in range(9)),
        LifecycleEvent(90_000_000, "failed", "ValueError: no", ""),
    ]
    story = Lifecycle(events, [TaskEvent(0, "sink[0]", "close", "CLOSED", "CLOSED")])
    lines = str(story).splitlines()
    assert str(story) == repr(story)
    assert [line.split("  ", 1)[0] for line in lines[2:4]] == ["00:00:00.000", "00:01:01.000"]
    assert [line.split("  ")[-1].strip() for line in lines[2:]] == [
        "the backlog: one sorted pass",
        "live: micro-batches",
        "checkpoint 0 <&>",
        "… 7 more checkpoints",
        "checkpoint 8 <&>",
        "failed ValueError: no",
    ]
    assert "+1 min 1 s" in lines[3] and "+1 d 1 h" in lines[-1]
    html = story._repr_html_()
    assert "checkpoint 8 &lt;&amp;&gt;" in html and "<table" in html
    assert "sink[0]" in story.tasks._repr_html_() and str(story.of("sink")) == str(story.tasks)
