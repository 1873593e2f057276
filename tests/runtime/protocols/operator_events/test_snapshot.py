"""What a checkpoint holds of a coordinator: it comes back as it was, and is dealt to other shards by key groups."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.protocols.operator_events.snapshot import StoredEvent, StoredEvents
from mixedmode.state.keys.keygroups import shard_ranges

inboxes = st.lists(st.lists(st.builds(StoredEvent, st.integers(1, 99), st.text()), max_size=3).map(tuple), max_size=4)


@given(st.binary(), inboxes, st.lists(st.tuples(st.integers(0, 9), st.text())))
def test_round_trip(state: bytes, inbox: list[tuple[StoredEvent, ...]], sent: list[tuple[int, str]]) -> None:
    """State, events to each shard and events of shards survive JSON, in order."""
    stored = StoredEvents(state, tuple(inbox), tuple(sent))
    coordinator, buffered = stored.to_json()
    again = StoredEvents.from_json(coordinator, json.loads(json.dumps(buffered)), len(inbox))
    assert again == stored


def numbers(stored: StoredEvents) -> list[list[int]]:
    return [[event.number for event in inbox] for inbox in stored.inboxes]


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, [[1, 2, 3, 4]]), (2, [[1, 2, 3], [1, 2, 4]]), (4, [[1, 2, 3], [1, 2, 3], [1, 2, 4], [1, 2, 4]])],
)
def test_redealt(parallelism: int, expected: list[list[int]]) -> None:
    """An event goes to every new shard with a key group of its old one; a broadcast comes there once, in its place."""
    broadcast, second = StoredEvent(1, "to all"), StoredEvent(2, "to all again")
    stored = StoredEvents(
        b"s",
        ((broadcast, second, StoredEvent(3, "to 0")), (broadcast, second, StoredEvent(4, "to 1"))),
        ((1, "kept"),),
    )
    dealt = stored.redealt(shard_ranges(2, 128), shard_ranges(parallelism, 128))
    assert numbers(dealt) == expected
    assert (dealt.coordinator, dealt.to_coordinator, dealt.next_number) == (b"s", ((1, "kept"),), 5)


def test_odd_split() -> None:
    """A new shard with key groups of two old ones gets the events of both, in the order of sending."""
    stored = StoredEvents(b"", ((StoredEvent(2, "a"),), (StoredEvent(1, "b"),)))
    assert numbers(stored.redealt(shard_ranges(2, 128), shard_ranges(3, 128))) == [[2], [1, 2], [1]]
