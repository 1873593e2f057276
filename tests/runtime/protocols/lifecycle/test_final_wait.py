"""The wait of a task for its final checkpoint, and the savepoints that end a job (F1-F6)."""

from __future__ import annotations

import pytest
from mixedmode.runtime.protocols.lifecycle.actions import Step, TaskStatus
from mixedmode.runtime.protocols.lifecycle.channel_task import ChannelTask
from mixedmode.runtime.protocols.lifecycle.events import Barrier, EndOfData, EndOfPartition, MaxWatermark, Stop
from mixedmode.runtime.protocols.lifecycle.index_set import IndexSet
from mixedmode.runtime.protocols.lifecycle.source_task import SourceTask

C0 = IndexSet.of([0])


def actions(steps: list[Step]) -> list[str]:
    return [str(step.action) for step in steps]


def sink_at_its_end() -> ChannelTask:
    """A sink whose only sender has ended its data, and which has finished."""
    task = ChannelTask(1, 0, transactional=True)
    task.receive(C0, MaxWatermark())
    task.receive(C0, EndOfData(True))
    return task


def take(task: ChannelTask, *checkpoints: int) -> None:
    for checkpoint_id in checkpoints:
        task.receive(C0, Barrier(checkpoint_id))


def test_any_checkpoint_after_finish_ends_the_wait() -> None:
    """F1: of 42, 43 and 44 the completion of 43 commits 42 and 43, aborts 44 and closes; 42 is then ignored."""
    task = sink_at_its_end()
    take(task, 42, 43, 44)
    task.receive(C0, EndOfPartition())

    assert actions(task.completed(43)) == ["checkpoint 43 completed", "commit up to 43", "abort 44", "close"]
    assert actions(task.completed(42)) == []
    assert actions(task.completed(44)) == []


def test_checkpoint_from_before_finish_does_not_end_the_wait() -> None:
    """F2: 41 began before finish(): it commits its transaction, and the task waits on."""
    task = ChannelTask(1, 0, transactional=True)
    take(task, 41)
    task.receive(C0, MaxWatermark())
    task.receive(C0, EndOfData(True))
    take(task, 42)
    task.receive(C0, EndOfPartition())

    assert actions(task.completed(41)) == ["checkpoint 41 completed", "commit up to 41"]
    assert task.status is TaskStatus.WAITING_FOR_FINAL_CP


def test_abort_repairs_a_lost_completion() -> None:
    """F3: the abort of 44 that names 43 as the latest complete checkpoint counts as its completion."""
    task = sink_at_its_end()
    take(task, 42, 43, 44)
    task.receive(C0, EndOfPartition())

    assert actions(task.aborted(44, latest_completed=43)) == [
        "checkpoint 43 completed",
        "commit up to 43",
        "abort 44",
        "close",
    ]


def test_aborted_checkpoint_goes_with_the_next() -> None:
    """What an aborted checkpoint would have committed is committed by the next one that completes."""
    task = ChannelTask(1, 0, transactional=True)
    take(task, 1, 2)

    assert actions(task.aborted(1)) == ["checkpoint 1 aborted"]
    assert actions(task.completed(2)) == ["checkpoint 2 completed", "commit up to 2"]


def test_pending_savepoint_wins_over_the_final_checkpoint() -> None:
    """F4: 42 does not end the wait of a task that has a stop-with-savepoint pending; the savepoint does."""
    task = sink_at_its_end()
    take(task, 42)
    task.receive(C0, Barrier(43, Stop.DRAIN))
    task.receive(C0, EndOfPartition())

    assert actions(task.completed(42)) == ["checkpoint 42 completed", "commit up to 42"]
    assert task.status is TaskStatus.WAITING_FOR_FINAL_CP
    assert actions(task.completed(43)) == ["checkpoint 43 completed", "commit up to 43", "close"]


def test_pending_savepoint_wins_at_a_source() -> None:
    """F4: a source that waits for its final checkpoint takes part in a drain without a second EndOfData."""
    task = SourceTask(1)
    task.no_more_records()
    task.trigger(42)
    assert actions(task.trigger(43, Stop.DRAIN)) == ["emit barrier 43 (stop with drain)", "snapshot 43"]
    task.acknowledged()

    assert actions(task.completed(42)) == ["checkpoint 42 completed"]
    assert actions(task.completed(43))[-1] == "emit EndOfPartition"


def test_savepoint_that_is_overtaken_still_ends_the_wait() -> None:
    """F4: a checkpoint that began later and completed first does not make the savepoint's completion old news."""
    task = sink_at_its_end()
    task.receive(C0, Barrier(42, Stop.DRAIN))
    take(task, 43)
    task.receive(C0, EndOfPartition())

    assert actions(task.completed(43)) == ["checkpoint 43 completed", "commit up to 43"]
    assert actions(task.completed(42)) == ["checkpoint 42 completed", "close"]


def test_failed_savepoint_fails_the_task() -> None:
    """F4: a stop-with-savepoint that is aborted fails the task; the abort of another checkpoint does not."""
    task = SourceTask(1)
    task.trigger(43, Stop.DRAIN)

    assert actions(task.aborted(42)) == ["checkpoint 42 aborted"]
    assert actions(task.aborted(43)) == ["checkpoint 43 aborted", "fail: stop-with-savepoint 43 failed"]


def test_savepoint_without_drain_after_the_end_is_declined() -> None:
    """F5: data that has ended cannot be stopped without drain; the final checkpoint still ends the task."""
    task = SourceTask(1)
    task.no_more_records()
    declined = actions(task.trigger(43, Stop.SUSPEND))
    assert declined[0] == "emit cancellation of barrier 43"
    assert declined[1].startswith("decline 43: its data has ended")
    task.trigger(44)
    task.acknowledged()
    assert actions(task.completed(44))[-2:] == ["close", "emit EndOfPartition"]


def test_data_that_ends_during_a_savepoint_without_drain_is_an_error() -> None:
    """F5: a source that runs out of data while it stops without drain fails."""
    task = SourceTask(1)
    task.trigger(43, Stop.SUSPEND)
    (failure,) = actions(task.no_more_records())
    assert failure == "fail: the source ran out of data while stop-with-savepoint 43 without drain was under way"


def test_a_closed_source_ignores_the_end_of_its_data() -> None:
    """A source that was suspended and has closed is not told that its data ends: it is the next run's."""
    task = SourceTask(1)
    task.trigger(43, Stop.SUSPEND)
    task.acknowledged()
    assert actions(task.completed(43))[-2:] == ["close", "emit EndOfPartition"]
    assert task.no_more_records() == []
    assert not task.is_exhausted, "it had not given all that it has"


@pytest.mark.parametrize("stop", list(Stop))
def test_second_savepoint_is_declined(stop: Stop) -> None:
    """A stop-with-savepoint that is under way is not replaced by another one."""
    task = SourceTask(1)
    task.trigger(43, stop)
    assert "stop-with-savepoint 43 is under way" in actions(task.trigger(44, stop))[-1]


def test_without_checkpointing_nothing_waits() -> None:
    """F6: without checkpoints a source closes as soon as its data ends, and a sink commits by itself."""
    source = SourceTask(1, checkpointing=False)
    assert actions(source.no_more_records())[-3:] == ["emit EndOfData(finished=true)", "close", "emit EndOfPartition"]
    task = ChannelTask(1, 0, checkpointing=False, transactional=True)
    task.receive(C0, MaxWatermark())
    assert actions(task.receive(C0, EndOfData(True))) == [
        "EndOfData(finished=true)",
        "endInput, finish",
        "commit",
        "acknowledge EndOfData of channel 0",
    ]
    assert actions(task.receive(C0, EndOfPartition())) == ["EndOfPartition", "close"]
    assert "checkpointing is off" in actions(SourceTask(1, checkpointing=False).trigger(1))[-1]


def test_cancelled_task_closes_as_it_is() -> None:
    """A job that is just stopped closes its operators without finishing them."""
    task = sink_at_its_end()
    take(task, 42)
    assert actions(task.cancel()) == ["stopped", "abort 42", "close"]
    assert actions(task.cancel()) == []
