"""Barriers and channels that have ended (B1-B4), against a model that knows everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.protocols.lifecycle.barriers import BarrierTracker
from mixedmode.runtime.protocols.lifecycle.index_set import IndexSet


def play(tracker: BarrierTracker, script: str) -> list[int]:
    """Play "b<checkpoint>:<channel>" and "EOP<channel>"; the checkpoints that complete."""
    completed = []
    for word in script.split():
        if word.startswith("EOP"):
            found = tracker.end_of_partition(IndexSet.of([int(word[3:])]))
        else:
            checkpoint_id, channel = word[1:].split(":")
            found = tracker.barrier(IndexSet.of([int(channel)]), int(checkpoint_id))
        if found is not None:
            completed.append(found)
    return completed


def test_end_of_a_channel_completes_the_newest() -> None:
    """B1: the end of a channel completes the newest checkpoint that only lacked it; older ones are subsumed."""
    tracker = BarrierTracker(3)
    assert play(tracker, "b1:0 b2:0 b2:1 b3:0 b4:0 b4:1 b5:1 EOP2") == [4]
    assert tracker.pending == (5,)


def test_end_after_a_barrier_of_the_same_channel_counts_once() -> None:
    """B2: a channel that has delivered its barrier and then ends does not stand for another channel."""
    tracker = BarrierTracker(3)
    assert play(tracker, "b2:0 b2:1 EOP1") == []
    assert play(tracker, "b2:2") == [2]


def test_checkpoint_completes_once() -> None:
    """B3: barrier, end of the same channel, barrier of the other: one completion; one that comes again is none."""
    assert play(BarrierTracker(2), "b1:0 EOP0 b1:1") == [1]
    assert play(BarrierTracker(2), "b1:0 b1:1 EOP1 b1:0") == [1]


def test_cancelled_once() -> None:
    """B4: a cancelled checkpoint is cancelled once, with the older ones, and its later barriers are ignored."""
    tracker = BarrierTracker(3)
    play(tracker, "b1:0 b2:0")
    assert tracker.cancel(2) == (1, 2)
    assert tracker.cancel(2) == ()
    assert play(tracker, "b2:1 b2:2 b1:1 b1:2") == []
    assert play(tracker, "b3:0 b3:1 b3:2") == [3]


def test_channels_that_deliver_together() -> None:
    """Barriers and ends that come on several channels at once count for each of them."""
    tracker = BarrierTracker(4)
    assert tracker.barrier(IndexSet.of([0, 2]), 1) is None
    assert tracker.end_of_partition(IndexSet.of([1, 2])) is None
    assert tracker.barrier(IndexSet.of([3]), 1) == 1
    assert tracker.barrier(IndexSet.of([0, 3]), 2) == 2


def test_later_barriers_need_no_ended_channel() -> None:
    """A checkpoint that begins after a channel has ended does not wait for it."""
    assert play(BarrierTracker(2), "EOP0 b1:1 b2:1") == [1, 2]


def test_needs_channels() -> None:
    """A task without channels has no barriers to count."""
    with pytest.raises(ValueError, match="> 0, got 0"):
        BarrierTracker(0)


@given(
    st.integers(1, 4).flatmap(
        lambda channels: st.tuples(
            st.just(channels),
            st.lists(st.tuples(st.integers(0, channels - 1), st.sampled_from(["barrier", "end"])), max_size=40),
        )
    )
)
def test_newest_aligned_checkpoint_completes(case: tuple[int, list[tuple[int, str]]]) -> None:
    """Whatever the order, what completes is the newest checkpoint all of whose channels have delivered or ended."""
    channels, script = case
    tracker = BarrierTracker(channels)
    reached, ended, completed = [0] * channels, set(), 0
    for channel, what in script:
        if channel in ended:
            continue
        if what == "end":
            ended.add(channel)
            found = tracker.end_of_partition(IndexSet.of([channel]))
        else:
            reached[channel] += 1
            found = tracker.barrier(IndexSet.of([channel]), reached[channel])
        running = [reached[one] for one in range(channels) if one not in ended]
        aligned = min(running) if running else max(reached)
        expected = aligned if aligned > completed and aligned <= max(reached) else None
        assert found == expected
        completed = max(completed, found or 0)
