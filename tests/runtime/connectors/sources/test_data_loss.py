"""Which messages a topic has forgotten, told by its first offsets alone."""

from __future__ import annotations

import pytest
from mixedmode.runtime.connectors.sources.data_loss import behind, between, logged_offsets
from mixedmode.runtime.spark_io.spark_kafka import TopicRange


@pytest.mark.parametrize(
    ("at", "begins", "ends", "told"),
    [
        ({0: 5}, {0: 5}, {0: 9}, []),
        ({0: 5}, {0: 0}, {0: 5}, []),
        ({0: 5}, {0: 8}, {0: 9}, ["offsets 5 to 7"]),
        ({0: 5}, {0: 9}, {0: 9}, ["offsets 5 to 8"]),
        ({0: 5}, {0: 0, 1: 3}, {0: 5, 1: 4}, ["partition 1, offsets 0 to 2"]),
        ({0: 5}, {0: 0}, {0: 3}, ["offsets from 5 on (the topic was made anew, and has offsets 0 to 2)"]),
        ({0: 5}, {0: 0}, {0: 0}, ["offsets from 5 on (the topic was made anew, and has no messages)"]),
        ({0: 5, 1: 7}, {}, {}, ["partition 0, offsets from 5 on", "partition 1, offsets from 7 on"]),
    ],
)
def test_what_is_gone_behind_a_position(
    at: dict[int, int], begins: dict[int, int], ends: dict[int, int], told: list[str]
) -> None:
    """The offsets from the position to the topic's first; of a partition that was added all before its first; a
    partition that ends before the position, or is not there, is told as what it is."""
    found = [str(one) for one in behind("t", at, TopicRange(begins, ends), is_tolerated=False)]
    assert len(found) == len(told)
    assert all(line.startswith("topic t, partition") and word in line for line, word in zip(found, told, strict=True))


@pytest.mark.parametrize(
    ("at", "begin", "end", "told"),
    [
        (5, 0, 9, ["made anew, and other messages have offsets 0 to 4)"]),
        (5, 2, 5, ["made anew, and other messages have offsets 2 to 4)"]),
        (5, 5, 9, ["made anew, and what came first is gone)"]),
        (5, 7, 9, ["made anew, and what came first is gone)", "offsets 5 to 6"]),
        (5, 0, 3, ["made anew, and has offsets 0 to 2)"]),
        (0, 0, 9, []),
        (0, 2, 9, ["offsets 0 to 1"]),
    ],
)
def test_what_is_gone_of_a_topic_that_is_another(at: int, begin: int, end: int, told: list[str]) -> None:
    """All that the new topic has before the position, however much that is; nothing where nothing had been read."""
    known = TopicRange({0: begin}, {0: end})
    found = [str(one) for one in behind("t", {0: at}, known, is_tolerated=False, is_another=True)]
    assert len(found) == len(told)
    assert all(line.endswith(end_of_it) for line, end_of_it in zip(found, told, strict=True))


@pytest.mark.parametrize(
    ("start", "end", "before", "after", "told"),
    [
        (5, 9, 0, 5, []),
        (5, 9, 7, 7, [(5, 6, "gone")]),
        (5, 9, 7, 8, [(5, 6, "gone"), (7, 7, "perhaps")]),
        (5, 9, 5, 99, [(5, 8, "perhaps")]),
        (5, 9, 99, 99, [(5, 8, "gone")]),
        (None, 9, 2, 2, [(0, 1, "gone")]),
        (5, 3, 1, 1, [(1, 2, "made-anew")]),
        (5, 0, 0, 0, [(0, -1, "made-anew")]),
        (5, None, None, None, [(5, 4, "no-partition")]),
        (5, 9, None, None, []),
    ],
)
def test_what_a_micro_batch_lacks(
    start: int | None, end: int | None, before: int | None, after: int | None, told: list[tuple[int, int, str]]
) -> None:
    """Exactly what was gone before it was read; what went meanwhile is told apart; nothing behind its end counts."""
    there = [{} if one is None else {3: one} for one in (start, end, before, after)]
    assert [(one.first, one.last, one.fate) for one in between("t", *there)] == told


def test_offsets_of_other_sources_are_none() -> None:
    """A file source's entry, one of no known form, and none at all are no offsets of partitions."""
    assert logged_offsets('{"t":{"0":3}}') == {"t": {0: 3}}
    assert [logged_offsets(line) for line in ('{"logOffset":3}', "-", "17")] == [None, None, None]
