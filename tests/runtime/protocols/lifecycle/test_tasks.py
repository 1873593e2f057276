"""The tables of FLIP-147, row by row, and the rules of the wait for the final checkpoint (L1-L4, F1-F6)."""

from __future__ import annotations

import pytest
from mixedmode.runtime.protocols.lifecycle.actions import OperatorStatus, Step, TaskStatus
from mixedmode.runtime.protocols.lifecycle.channel_task import ChannelTask
from mixedmode.runtime.protocols.lifecycle.events import (
    Barrier,
    CancelBarrier,
    EndOfData,
    EndOfPartition,
    MaxWatermark,
    Stop,
)
from mixedmode.runtime.protocols.lifecycle.source_task import SourceTask

R, W, C = TaskStatus.RUNNING.value, TaskStatus.WAITING_FOR_FINAL_CP.value, TaskStatus.CLOSED.value
F = OperatorStatus.FINISHED.value


def rows(steps: list[Step]) -> list[tuple[str, str, str]]:
    """Action, task status, operator status: the columns of the tables."""
    return [(str(step.action), step.status.value, step.operator.value) for step in steps]


def actions(steps: list[Step]) -> list[str]:
    return [str(step.action) for step in steps]


def shard(channels: int = 2, **options: bool) -> ChannelTask:
    return ChannelTask(channels, 1, **options)


def sink_at_its_end() -> ChannelTask:
    """A sink whose only sender has ended its data, and which has finished."""
    task = ChannelTask(1, 0, transactional=True)
    task.receive(0, MaxWatermark())
    task.receive(0, EndOfData(True))
    return task


def take(task: ChannelTask, *checkpoints: int) -> None:
    for checkpoint_id in checkpoints:
        task.receive(0, Barrier(checkpoint_id))


# -- L1, L2: the three columns of the source's table -----------------------------------------------------------------


def test_source_natural_end() -> None:
    """L1: a source that has no more records goes through the first column of its table, in order."""
    task = SourceTask(1)
    steps = task.no_more_records() + task.trigger(7) + task.completed(7) + task.acknowledged()

    assert rows(steps) == [
        ("no more records", R, R),
        ("advance to MAX_WATERMARK", R, R),
        ("emit MAX_WATERMARK", R, R),
        ("endInput, finish", W, F),
        ("emit EndOfData(finished=true)", W, F),
        ("emit barrier 7", W, F),
        ("snapshot 7", W, F),
        ("checkpoint 7 completed", W, F),
        ("EndOfData acknowledged", W, F),
        ("close", C, C),
        ("emit EndOfPartition", C, C),
    ]


def test_source_drain() -> None:
    """L1: stop-with-savepoint with drain takes the same steps, and the barrier is the savepoint's."""
    task = SourceTask(1)
    steps = task.trigger(7, Stop.DRAIN) + task.acknowledged() + task.completed(7)

    assert rows(steps) == [
        ("stop-with-savepoint 7 with drain", R, R),
        ("advance to MAX_WATERMARK", R, R),
        ("emit MAX_WATERMARK", R, R),
        ("endInput, finish", W, F),
        ("emit EndOfData(finished=true)", W, F),
        ("emit barrier 7 (stop with drain)", W, F),
        ("snapshot 7", W, F),
        ("EndOfData acknowledged", W, F),
        ("checkpoint 7 completed", W, F),
        ("close", C, C),
        ("emit EndOfPartition", C, C),
    ]


def test_source_stop_without_drain() -> None:
    """L2: without drain nothing fires and nothing finishes; the operator is closed as it is."""
    task = SourceTask(1)
    steps = task.trigger(7, Stop.SUSPEND) + task.completed(7) + task.acknowledged()

    assert rows(steps) == [
        ("stop-with-savepoint 7 without drain", R, R),
        ("emit EndOfData(finished=false)", W, R),
        ("emit barrier 7 (stop without drain)", W, R),
        ("snapshot 7", W, R),
        ("checkpoint 7 completed", W, R),
        ("EndOfData acknowledged", W, R),
        ("close", C, C),
        ("emit EndOfPartition", C, C),
    ]


# -- L3: the table of the other tasks ----------------------------------------------------------------------------------


def test_task_acts_when_all_channels_have_delivered() -> None:
    """L3: MAX_WATERMARK, EndOfData and the barrier count when they have come on the last channel, not before."""
    task = shard()
    steps = []
    for event in (MaxWatermark(), EndOfData(True), Barrier(7)):
        first = task.receive(0, event)
        assert [action for action in actions(first) if not action.startswith("acknowledge")] == []
        steps += task.receive(1, event)
    steps += task.completed(7) + task.acknowledged()
    assert actions(task.receive(0, EndOfPartition())) == []
    steps += task.receive(1, EndOfPartition())

    assert rows(steps) == [
        ("MAX_WATERMARK", R, R),
        ("advance to MAX_WATERMARK", R, R),
        ("emit MAX_WATERMARK", R, R),
        ("EndOfData(finished=true)", R, R),
        ("endInput, finish", W, F),
        ("emit EndOfData(finished=true)", W, F),
        ("acknowledge EndOfData of channel 1", W, F),
        ("barrier 7", W, F),
        ("emit barrier 7", W, F),
        ("snapshot 7", W, F),
        ("checkpoint 7 completed", W, F),
        ("EndOfData acknowledged", W, F),
        ("EndOfPartition", W, F),
        ("close", C, C),
        ("emit EndOfPartition", C, C),
    ]


def test_task_stops_without_drain() -> None:
    """L2: a task that gets EndOfData(finished=false) neither advances nor finishes, and closes after the savepoint."""
    task = shard(1)
    steps = task.receive(0, EndOfData(False)) + task.receive(0, Barrier(7, Stop.SUSPEND))
    steps += task.completed(7) + task.acknowledged() + task.receive(0, EndOfPartition())

    assert rows(steps) == [
        ("EndOfData(finished=false)", R, R),
        ("emit EndOfData(finished=false)", W, R),
        ("acknowledge EndOfData of channel 0", W, R),
        ("barrier 7 (stop without drain)", W, R),
        ("emit barrier 7 (stop without drain)", W, R),
        ("snapshot 7", W, R),
        ("checkpoint 7 completed", W, R),
        ("EndOfData acknowledged", W, R),
        ("EndOfPartition", W, R),
        ("close", C, C),
        ("emit EndOfPartition", C, C),
    ]


def test_one_channel_that_only_stops_keeps_the_operator_from_finishing() -> None:
    """L2, L3: finished and stopped inputs together are a stop: records of the stopped ones are still to come."""
    task = shard()
    task.receive(0, MaxWatermark())
    task.receive(0, EndOfData(True))
    steps = task.receive(1, EndOfData(False))

    assert "endInput, finish" not in actions(steps)
    assert "emit EndOfData(finished=false)" in actions(steps)


def test_repeated_events_of_a_channel_count_once() -> None:
    """L3: what comes twice on one channel does not stand for another channel."""
    task = shard()
    for event in (MaxWatermark(), EndOfData(True)):
        task.receive(0, event)
        assert actions(task.receive(0, event)) == []


@pytest.mark.parametrize(
    "order",
    [
        ("complete", "ack", "end"),
        ("complete", "end", "ack"),
        ("ack", "complete", "end"),
        ("ack", "end", "complete"),
        ("end", "complete", "ack"),
        ("end", "ack", "complete"),
    ],
)
def test_close_needs_all_three(order: tuple[str, ...]) -> None:
    """L4: completion, acknowledgement and EndOfPartition may come in any order; the last one closes the task."""
    task = shard(1)
    task.receive(0, MaxWatermark())
    task.receive(0, EndOfData(True))
    task.receive(0, Barrier(7))
    what = {
        "complete": lambda: task.completed(7),
        "ack": task.acknowledged,
        "end": lambda: task.receive(0, EndOfPartition()),
    }
    for name in order[:-1]:
        assert "close" not in actions(what[name]())
        assert task.status is TaskStatus.WAITING_FOR_FINAL_CP
    assert actions(what[order[-1]]())[-2:] == ["close", "emit EndOfPartition"]


# -- F1-F6: the wait ---------------------------------------------------------------------------------------------------


def test_any_checkpoint_after_finish_ends_the_wait() -> None:
    """F1: of 42, 43 and 44 the completion of 43 commits 42 and 43, aborts 44 and closes; 42 is then ignored."""
    task = sink_at_its_end()
    take(task, 42, 43, 44)
    task.receive(0, EndOfPartition())

    assert actions(task.completed(43)) == ["checkpoint 43 completed", "commit up to 43", "abort 44", "close"]
    assert actions(task.completed(42)) == []
    assert actions(task.completed(44)) == []


def test_checkpoint_from_before_finish_does_not_end_the_wait() -> None:
    """F2: 41 began before finish(): it commits its transaction, and the task waits on."""
    task = ChannelTask(1, 0, transactional=True)
    take(task, 41)
    task.receive(0, MaxWatermark())
    task.receive(0, EndOfData(True))
    take(task, 42)
    task.receive(0, EndOfPartition())

    assert actions(task.completed(41)) == ["checkpoint 41 completed", "commit up to 41"]
    assert task.status is TaskStatus.WAITING_FOR_FINAL_CP


def test_abort_repairs_a_lost_completion() -> None:
    """F3: the abort of 44 that names 43 as the latest complete checkpoint counts as its completion."""
    task = sink_at_its_end()
    take(task, 42, 43, 44)
    task.receive(0, EndOfPartition())

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
    task.receive(0, Barrier(43, Stop.DRAIN))
    task.receive(0, EndOfPartition())

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
    task.receive(0, Barrier(42, Stop.DRAIN))
    take(task, 43)
    task.receive(0, EndOfPartition())

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
    task.receive(0, MaxWatermark())
    assert actions(task.receive(0, EndOfData(True))) == [
        "EndOfData(finished=true)",
        "endInput, finish",
        "commit",
        "acknowledge EndOfData of channel 0",
    ]
    assert actions(task.receive(0, EndOfPartition())) == ["EndOfPartition", "close"]
    assert "checkpointing is off" in actions(SourceTask(1, checkpointing=False).trigger(1))[-1]


# -- R1 and cancellation -----------------------------------------------------------------------------------------------


def test_source_that_had_finished_only_passes_on() -> None:
    """R1: a source that was finished in the checkpoint is not opened, finished or closed again."""
    task = SourceTask(1, finished_on_restore=True)
    steps = task.restore() + task.trigger(7) + task.completed(7) + task.acknowledged()
    assert actions(steps) == [
        "finished in an earlier run",
        "emit MAX_WATERMARK",
        "emit EndOfData(finished=true)",
        "emit barrier 7",
        "snapshot 7",
        "checkpoint 7 completed",
        "EndOfData acknowledged",
        "emit EndOfPartition",
    ]


def test_task_that_had_finished_only_passes_on() -> None:
    """R1: a finished operator forwards MAX_WATERMARK, EndOfData and barriers, and does nothing else."""
    task = shard(1, finished_on_restore=True)
    steps = [task.receive(0, event) for event in (Barrier(1), MaxWatermark(), EndOfData(True), Barrier(2))]
    steps += [task.completed(2), task.acknowledged(), task.receive(0, EndOfPartition())]
    done = [action for some in steps for action in actions(some)]
    assert [action for action in done if action.startswith("emit")] == [
        "emit barrier 1",
        "emit MAX_WATERMARK",
        "emit EndOfData(finished=true)",
        "emit barrier 2",
        "emit EndOfPartition",
    ]
    assert not {"advance to MAX_WATERMARK", "endInput, finish", "close"} & set(done)


def test_restore_is_for_finished_sources() -> None:
    """A source that had not finished is not told that it had."""
    with pytest.raises(ValueError, match="had finished"):
        SourceTask(1).restore()


def test_cancelled_task_closes_as_it_is() -> None:
    """A job that is just stopped closes its operators without finishing them."""
    task = sink_at_its_end()
    take(task, 42)
    assert actions(task.cancel()) == ["stopped", "abort 42", "close"]
    assert actions(task.cancel()) == []


def test_cancelled_barrier_is_passed_on_once() -> None:
    """B4: the cancellation of a checkpoint reaches the receivers once, from whichever channel it comes first."""
    task = shard()
    task.receive(0, Barrier(7))
    assert actions(task.receive(1, CancelBarrier(7))) == [
        "cancellation of barrier 7",
        "emit cancellation of barrier 7",
    ]
    assert actions(task.receive(0, CancelBarrier(7))) == []
    assert actions(task.receive(1, Barrier(7))) == []


def test_closed_task_takes_part_in_nothing() -> None:
    """A task that has closed declines checkpoints and ignores notifications."""
    task = SourceTask(1)
    task.cancel()
    assert actions(task.trigger(9))[-1] == "decline 9: it has finished"
    assert actions(task.aborted(9)) == []


def test_channels_are_checked() -> None:
    """An event of a channel that the task does not have is an error."""
    with pytest.raises(ValueError, match="between 0 and 1, got 2"):
        shard().receive(2, MaxWatermark())
