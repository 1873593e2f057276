"""Gaps and overlaps between where a history ends and where live has begun."""

from __future__ import annotations

import pytest
from mixedmode.runtime.connectors.sources.seam_claim import SeamClaim

CLAIM = SeamClaim("by positions", {"t": {0: 20, 1: 5}}, frozenset({("t", 1)}))


@pytest.mark.parametrize(
    ("began", "told"),
    [
        ({0: 20, 1: 5}, "history and live meet, without gap or overlap"),
        ({0: 20, 1: 5, 2: 0}, "history and live meet"),
        ({0: 20, 1: 3}, "history and live meet"),  # the history has nothing of it
        ({0: 25, 1: 5}, "a gap, topic t, partition 0, offsets 20 to 24"),
        ({0: 20, 1: 8}, "a gap, topic t, partition 1, offsets 5 to 7"),
        ({0: 15, 1: 5}, "an overlap, topic t, partition 0, offsets 15 to 19"),
    ],
)
def test_where_live_began_shows_gaps_and_overlaps(began: dict[int, int], told: str) -> None:
    """By partition; one that the history has nothing of cannot overlap, one that was added later has no claim."""
    assert told in CLAIM.in_words({"t": began}, None)


def test_only_what_is_known_is_told() -> None:
    """Without positions of Spark's log the claim alone; without a claim by positions no word of whether they meet."""
    assert CLAIM.in_words(None, None) == "by positions"
    told = SeamClaim("by time").in_words({"t": {1: 4, 0: 3}}, {"t": {0: 9}})
    assert told == "by time; live began at t {0: 3, 1: 4}; was read up to t {0: 9}"
