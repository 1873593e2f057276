"""The watermark and isBacklog by its lag."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.spec import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.runtime.watermarks import WatermarkTracker

times = st.lists(st.none() | st.integers(-(10**12), 10**13), max_size=20)


def test_starts_at_min() -> None:
    """Before the first event time there is no watermark."""
    assert WatermarkTracker(1000).current_ms == MIN_WATERMARK


@given(times, st.integers(0, 10**9))
def test_is_the_greatest_event_time_less_the_delay(seen: list[int | None], delay_ms: int) -> None:
    """The watermark is the greatest event time so far minus the delay, and never goes back."""
    tracker = WatermarkTracker(delay_ms)
    greatest: int | None = None
    for time_ms in seen:
        before = tracker.current_ms
        foreseen = tracker.would_reach(time_ms)
        tracker.observe(time_ms)
        if time_ms is not None:
            greatest = time_ms if greatest is None else max(greatest, time_ms)
        assert tracker.current_ms == (MIN_WATERMARK if greatest is None else greatest - delay_ms)
        assert tracker.current_ms == foreseen >= before


def test_looking_ahead_does_not_advance() -> None:
    """Asking where the watermark would be leaves it where it is."""
    tracker = WatermarkTracker(10)
    assert tracker.would_reach(100) == 90
    assert tracker.current_ms == MIN_WATERMARK


def test_end_of_input_is_the_last_word() -> None:
    """At the end of input the watermark is MAX and stays there."""
    tracker = WatermarkTracker(0)
    tracker.end_of_input()
    tracker.observe(5)
    assert tracker.current_ms == MAX_WATERMARK


@given(lag_ms=st.integers(-100, 200), threshold_ms=st.integers(1, 100), delay_ms=st.integers(0, 50))
def test_backlog_if_and_only_if_lag_exceeds_the_threshold(lag_ms: int, threshold_ms: int, delay_ms: int) -> None:
    """isBacklog by lag is true exactly when now - watermark > threshold (I9)."""
    tracker = WatermarkTracker(delay_ms, threshold_ms)
    tracker.observe(10_000 + delay_ms)
    assert tracker.is_backlog(10_000 + lag_ms) is (lag_ms > threshold_ms)


def test_unset_threshold_has_no_effect() -> None:
    """Without a threshold no lag makes a backlog (I9)."""
    tracker = WatermarkTracker(0)
    tracker.observe(0)
    assert not tracker.is_backlog(10**15)


def test_no_watermark_is_no_lag() -> None:
    """Before the first event time there is nothing that could lag."""
    assert not WatermarkTracker(0, 1).is_backlog(10**15)
