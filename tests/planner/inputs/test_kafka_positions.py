"""Which gaps and overlaps positions show, and where a topic is read from behind them."""

from __future__ import annotations

import json

import pytest
from mixedmode.errors import PlanError
from mixedmode.planner.inputs.kafka_positions import (
    EARLIEST,
    HeldPositions,
    HeldRange,
    flaws_of_cut,
    offsets_option,
)
from mixedmode.planner.inputs.seam import Seam
from mixedmode.runtime.spark_io.spark_kafka import TopicRange

TOPIC = TopicRange({0: 0, 1: 10, 2: 0}, {0: 100, 1: 100, 2: 0})


def test_a_topic_is_read_behind_what_is_held() -> None:
    """Behind the greatest offset, at the earliest where nothing is held, at the first that there is behind a gap."""
    held = HeldPositions({0: HeldRange(0, 49, 50), 1: HeldRange(0, 4, 5)})
    assert held.next_offsets(TOPIC) == {0: 50, 1: 10, 2: EARLIEST}
    assert json.loads(offsets_option("t", held.next_offsets(TOPIC))) == {"t": {"0": 50, "1": 10, "2": -2}}


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (HeldPositions({0: HeldRange(0, 49, 50), 1: HeldRange(0, 9, 10)}), []),
        (HeldPositions({0: HeldRange(0, 49, 30), 1: HeldRange(5, 9, 1)}), []),
        (HeldPositions({1: HeldRange(0, 4, 5)}), ["the messages 5 to 9 are in neither"]),
        (HeldPositions({0: HeldRange(0, 49, 50)}), ["has none of it", "the messages 0 to 9 are in neither"]),
        (HeldPositions({1: HeldRange(0, 9, 11)}), ["11 rows of the offsets 0 to 9", "more than once"]),
        (HeldPositions({1: HeldRange(0, 9, 10)}, without=3), ["3 rows of the history do not say"]),
        (HeldPositions.up_to({0: 100, 1: 10, 2: 0}), []),
    ],
)
def test_gaps_and_overlaps(held: HeldPositions, words: list[str]) -> None:
    """Holes inside of what is held mean nothing, since compaction and transactions make them."""
    found = "; ".join(held.flaws(TOPIC))
    assert bool(found) == bool(words)
    assert all(word in found for word in words)
    held.check_of("t", TOPIC)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (HeldPositions({3: HeldRange(0, 1, 2)}), "partition 3, and topic 't' has 3 partitions, 0 to 2"),
        (HeldPositions({0: HeldRange(0, 100, 2)}), "offset 100 of partition 0, and topic 't' ends at 100 there"),
    ],
)
def test_the_history_of_another_topic(held: HeldPositions, words: str) -> None:
    """Positions that the topic has never had are refused, whatever is tolerated."""
    with pytest.raises(PlanError, match=words):
        held.check_of("t", TOPIC)


@pytest.mark.parametrize(("begin", "first_ms", "is_flawed"), [(0, 9_000, False), (5, 900, False), (5, 9_000, True)])
def test_a_cut_that_the_topic_no_longer_reaches(begin: int, first_ms: int, is_flawed: bool) -> None:
    """What the topic has forgotten may belong behind the cut only if what it still has begins after it."""
    found = list(flaws_of_cut(TopicRange({0: begin}, {0: 20}, {0: first_ms}), 1_000))
    assert bool(found) == is_flawed
    assert all("before offset 5" in one and "1970-01-01 00:00:09 UTC" in one for one in found)


def test_a_partition_that_has_forgotten_all() -> None:
    """Of messages that are all gone nobody knows when they came; one that never had any lacks nothing."""
    (found,) = flaws_of_cut(TopicRange({0: 7, 1: 0}, {0: 7, 1: 0}), 1_000)
    assert found.startswith("partition 0: the topic has forgotten the messages before offset 7")


def test_flaws_refuse_or_warn() -> None:
    """A seam with flaws refuses the beginning of a job, or warns of them if told so; one without does neither."""
    assert (Seam("x").refusal, Seam("x").warning) == (None, None)
    assert (Seam("x", ("a", "b")).refusal, Seam("x", ("a", "b")).warning) == ("a; b", None)
    assert (Seam("x", ("a",), True).refusal, Seam("x", ("a",), True).warning) == (None, "a")
