"""Latencies in buckets say what all of them would say, within a bucket's width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.tasks.realtime.latency_histogram import EpochProgress, LatencyHistogram

#: Up to some weeks, with many small ones; what is negative counts as 0.
LATENCIES = st.lists(
    st.one_of(st.integers(-50, 40), st.integers(0, 5_000), st.integers(0, 20_000_000), st.integers(0, 5_000_000_000)),
    max_size=60,
)
#: The last bucket has no end.
LONG_MS = 4_000_000_000


def histogram(latencies: list[int]) -> LatencyHistogram:
    made = LatencyHistogram()
    made.add(np.array(latencies, np.int64))
    return made


@given(LATENCIES.filter(bool), st.sampled_from([0, 1, 50, 90, 99, 99.9, 100]))
def test_a_percentile_is_that_of_all_latencies_within_a_buckets_width(latencies: list[int], percent: float) -> None:
    """It is never too small, exact below 16 ms, and at most an eighth too great above."""
    counted = np.maximum(latencies, 0)
    exact = int(np.percentile(counted, percent, method="inverted_cdf"))
    found = histogram(latencies).percentile_ms(percent)
    if exact < LONG_MS:
        assert exact <= found <= (exact if exact < 16 else exact * 9 / 8)
    assert found <= counted.max()
    assert histogram(latencies).max_ms == counted.max()
    assert histogram(latencies).messages == len(latencies)


@given(LATENCIES, LATENCIES, LATENCIES)
def test_what_came_in_between_is_a_difference(first: list[int], second: list[int], other: list[int]) -> None:
    """Histograms of shards are summed up; two states of a sum tell of the messages between them."""
    before, after = EpochProgress(), EpochProgress()
    before.include(EpochProgress(len(first), histogram(first)))
    for latencies in (first, second, other):
        after.include(EpochProgress(len(latencies), histogram(latencies)))
    between = after.since(before)
    latencies = [*second, *other]
    assert between.rows == between.latencies.messages == len(latencies)
    for percent in (50, 99, 100) if latencies else ():
        exact = int(np.percentile(np.maximum(latencies, 0), percent, method="inverted_cdf"))
        found = between.latencies.percentile_ms(percent)
        assert exact <= found <= after.latencies.max_ms
        if exact < LONG_MS:
            assert found <= (exact if exact < 16 else exact * 9 / 8)


def test_messages_without_a_time_are_counted_and_have_no_latency() -> None:
    """An old format has none; Kafka says -1."""
    now_ms = 1_795_208_400_000
    made = histogram([now_ms + 1, 7])
    assert (made.messages, made.max_ms) == (1, 7)
    assert histogram([now_ms + 1]).percentile_ms(50) == LatencyHistogram().percentile_ms(50) == 0


@given(LATENCIES, st.data())
def test_a_file_that_is_half_written_is_no_progress(latencies: list[int], data: st.DataObject) -> None:
    """A file is written in place: one state may be the beginning, and another one the end."""
    progress = EpochProgress(len(latencies), histogram(latencies))
    whole = progress.to_bytes()
    assert EpochProgress.from_bytes(whole) == progress
    longer = EpochProgress(len(latencies) + 100, histogram([*latencies, *range(100)])).to_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert EpochProgress.from_bytes(whole[:cut]) is None
    torn = longer[:cut] + whole[cut:]
    if torn != whole:
        assert EpochProgress.from_bytes(torn) is None
    assert EpochProgress.from_bytes(longer[: len(whole)]) is None


@pytest.mark.parametrize("data", [b"", b"00000000 ", b"no progress at all"])
def test_another_file_is_no_progress(data: bytes) -> None:
    """What is no progress is none, whoever wrote it."""
    assert EpochProgress.from_bytes(data) is None
