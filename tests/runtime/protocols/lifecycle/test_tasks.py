"""The tables of FLIP-147, row by row (L1-L4), and tasks that had finished before (R1)."""

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
from mixedmode.runtime.protocols.lifecycle.index_set import IndexSet
from mixedmode.runtime.protocols.lifecycle.source_task import SourceTask

R, W, C = TaskStatus.RUNNING.value, TaskStatus.WAITING_FOR_FINAL_CP.value, TaskStatus.CLOSED.value
F = OperatorStatus.FINISHED.value
C0, C1, BOTH = IndexSet.of([0]), IndexSet.of([1]), IndexSet.below(2)


def rows(steps: list[Step]) -> list[tuple[str, str, str]]:
    """Action, task status, operator status: the columns of the tables."""
    return [(str(step.action), step.status.value, step.operator.value) for step in steps]


def actions(steps: list[Step]) -> list[str]:
    return [str(step.action) for step in steps]


def shard(channels: int = 2, **options: bool) -> ChannelTask:
    return ChannelTask(channels, 1, **options)


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
        first = task.receive(C0, event)
        assert [action for action in actions(first) if not action.startswith("acknowledge")] == []
        steps += task.receive(C1, event)
    steps += task.completed(7) + task.acknowledged()
    assert actions(task.receive(C0, EndOfPartition())) == []
    steps += task.receive(C1, EndOfPartition())

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
    steps = task.receive(C0, EndOfData(False)) + task.receive(C0, Barrier(7, Stop.SUSPEND))
    steps += task.completed(7) + task.acknowledged() + task.receive(C0, EndOfPartition())

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
    task.receive(C0, MaxWatermark())
    task.receive(C0, EndOfData(True))
    steps = task.receive(C1, EndOfData(False))

    assert "endInput, finish" not in actions(steps)
    assert "emit EndOfData(finished=false)" in actions(steps)


def test_repeated_events_of_a_channel_count_once() -> None:
    """L3: what comes twice on one channel does not stand for another channel."""
    task = shard()
    for event in (MaxWatermark(), EndOfData(True)):
        task.receive(C0, event)
        assert actions(task.receive(C0, event)) == []


def test_channels_that_deliver_together() -> None:
    """L3: an event that comes on all channels at once is acted on at once, and acknowledged once for all of them."""
    task = shard()
    steps = [step for event in (MaxWatermark(), EndOfData(True), Barrier(7)) for step in task.receive(BOTH, event)]
    steps += task.completed(7) + task.acknowledged() + task.receive(BOTH, EndOfPartition())

    assert actions(steps) == [
        "MAX_WATERMARK",
        "advance to MAX_WATERMARK",
        "emit MAX_WATERMARK",
        "EndOfData(finished=true)",
        "endInput, finish",
        "emit EndOfData(finished=true)",
        "acknowledge EndOfData of channels 0-1",
        "barrier 7",
        "emit barrier 7",
        "snapshot 7",
        "checkpoint 7 completed",
        "EndOfData acknowledged",
        "EndOfPartition",
        "close",
        "emit EndOfPartition",
    ]


def test_only_new_channels_are_acknowledged() -> None:
    """L3: of channels that deliver together those that had delivered before do not count again."""
    task = shard()
    assert actions(task.receive(C0, EndOfData(False))) == ["acknowledge EndOfData of channel 0"]
    assert actions(task.receive(BOTH, EndOfData(True)))[-1] == "acknowledge EndOfData of channel 1"
    assert task.end_of_data == EndOfData(False)


@pytest.mark.parametrize("receivers", [1, 2, 3])
def test_all_receivers_acknowledge(receivers: int) -> None:
    """L4: EndOfData is acknowledged when every receiver has done so, by itself or together with others."""
    task = ChannelTask(1, 3)
    task.receive(C0, EndOfData(False))
    *before, last = [actions(task.acknowledged(receivers)) for _ in range(0, 3, receivers)]
    assert not any(before) and last == ["EndOfData acknowledged"]
    assert actions(task.acknowledged()) == []


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
    task.receive(C0, MaxWatermark())
    task.receive(C0, EndOfData(True))
    task.receive(C0, Barrier(7))
    what = {
        "complete": lambda: task.completed(7),
        "ack": task.acknowledged,
        "end": lambda: task.receive(C0, EndOfPartition()),
    }
    for name in order[:-1]:
        assert "close" not in actions(what[name]())
        assert task.status is TaskStatus.WAITING_FOR_FINAL_CP
    assert actions(what[order[-1]]())[-2:] == ["close", "emit EndOfPartition"]


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
    steps = [task.receive(C0, event) for event in (Barrier(1), MaxWatermark(), EndOfData(True), Barrier(2))]
    steps += [task.completed(2), task.acknowledged(), task.receive(C0, EndOfPartition())]
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


def test_cancelled_barrier_is_passed_on_once() -> None:
    """B4: the cancellation of a checkpoint reaches the receivers once, from whichever channel it comes first."""
    task = shard()
    task.receive(C0, Barrier(7))
    assert actions(task.receive(C1, CancelBarrier(7))) == [
        "cancellation of barrier 7",
        "emit cancellation of barrier 7",
    ]
    assert actions(task.receive(C0, CancelBarrier(7))) == []
    assert actions(task.receive(C1, Barrier(7))) == []


def test_closed_task_takes_part_in_nothing() -> None:
    """A task that has closed declines checkpoints and ignores notifications."""
    task = SourceTask(1)
    task.cancel()
    assert actions(task.trigger(9))[-1] == "decline 9: it has finished"
    assert actions(task.aborted(9)) == []


def test_channels_are_checked() -> None:
    """An event of a channel that the task does not have is an error."""
    with pytest.raises(ValueError, match="between 0 and 1, got 2"):
        shard().receive(IndexSet.of([1, 2]), MaxWatermark())
