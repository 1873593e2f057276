"""Shards are dealt to executors evenly, and those that have a place keep it."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st
from mixedmode.runtime.jobs.shard_placement import assign_shards

NAMES = st.sampled_from("abcde")


@given(st.lists(NAMES | st.none(), min_size=1, max_size=20), st.sets(NAMES, min_size=1))
@example(["a", "a", "b", "b"], {"a", "b", "c"})
@example(["a"], {"b", "c", "d"})
def test_shards_are_spread_with_as_few_moves_as_can_be(places: list[str | None], executors: set[str]) -> None:
    """No executor has two more than another, and what leaves one that stays is more than any even deal leaves there."""
    found = assign_shards(places, executors, "stage")
    loads = Counter(found)
    assert loads.keys() <= executors and len(found) == len(places)
    assert max(loads[name] for name in executors) - min(loads[name] for name in executors) <= 1
    held = Counter(place for place in places if place in executors)
    kept = Counter(place for place, then in zip(found, places, strict=True) if place == then)
    share, more = divmod(len(places), len(executors))
    # Of all even deals the one that leaves most in place gives a shard more to those that have most.
    most = sum(
        min(count, share + (number < more))
        for number, count in enumerate(sorted((held[name] for name in executors), reverse=True))
    )
    assert kept.total() == most


@given(st.lists(NAMES | st.none(), min_size=1, max_size=20), st.sets(NAMES, min_size=1))
def test_what_was_dealt_stays(places: list[str | None], executors: set[str]) -> None:
    """Dealt again to the same executors, no shard moves; nor do those of the others if one is lost."""
    found = assign_shards(places, executors, "stage")
    assert assign_shards(found, executors, "stage") == found
    for lost in executors:
        if left := executors - {lost}:
            after = assign_shards(found, left, "stage")
            assert all(place == then for place, then in zip(after, found, strict=True) if then != lost)


def test_stages_with_few_shards_begin_with_different_executors() -> None:
    """The shards of many stages of a single shard are not all on one executor."""
    assert len({assign_shards([None], {"a", "b", "c"}, f"stage-{number}") for number in range(20)}) == 3
