"""The watermark over one or several inputs, idle inputs, its steps, and isBacklog by its lag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.runtime.protocols.watermarks import WatermarkTracker

times = st.lists(st.none() | st.integers(-(10**12), 10**13), max_size=20)


def two(**options: int) -> WatermarkTracker:
    """Inputs a (no delay) and b (delay 10), watched from 0 on."""
    tracker = WatermarkTracker(10, delays_ms={"a": 0, "b": 10}, **options)
    tracker.watch(0)
    return tracker


def test_starts_at_min() -> None:
    """Before the first event time there is no watermark."""
    tracker = WatermarkTracker(1000)
    assert not tracker.advance(0)
    assert tracker.current_ms == MIN_WATERMARK


@given(times, st.integers(0, 10**9))
def test_is_the_greatest_event_time_less_the_delay(seen: list[int | None], delay_ms: int) -> None:
    """The watermark is the greatest event time so far minus the delay, and never goes back."""
    tracker = WatermarkTracker(delay_ms)
    greatest: int | None = None
    for time_ms in seen:
        before = tracker.current_ms
        foreseen = tracker.would_reach(time_ms)
        tracker.observe(time_ms)
        tracker.advance(0)
        if time_ms is not None:
            greatest = time_ms if greatest is None else max(greatest, time_ms)
        assert tracker.current_ms == (MIN_WATERMARK if greatest is None else greatest - delay_ms)
        assert tracker.current_ms == foreseen >= before


def test_looking_ahead_does_not_advance() -> None:
    """Asking where the watermark would be leaves it where it is."""
    tracker = WatermarkTracker(10)
    assert tracker.would_reach(100) == 90
    assert not tracker.advance(0)
    assert tracker.current_ms == MIN_WATERMARK


def test_end_of_input_is_the_last_word() -> None:
    """At the end of input the watermark is MAX and stays there."""
    tracker = WatermarkTracker(0)
    tracker.end_of_input()
    tracker.observe(5)
    assert not tracker.advance(0)
    assert tracker.current_ms == MAX_WATERMARK


def test_what_has_fired_is_never_ahead_of_event_times() -> None:
    """MAX_WATERMARK, at a switch or at the end of input, makes no row late that event times do not (P16)."""
    tracker = WatermarkTracker(10)
    tracker.fired(MAX_WATERMARK)
    assert tracker.fired_ms == MIN_WATERMARK
    tracker.observe(100)
    tracker.fired(MAX_WATERMARK)
    assert tracker.fired_ms == 90
    tracker.fired(50)
    assert tracker.fired_ms == 90, "it never goes back"
    tracker.advance(0)
    tracker.end_of_input()
    tracker.fired(MAX_WATERMARK)
    assert (tracker.fired_ms, tracker.would_reach(None), tracker.would_reach(200)) == (90, 90, 190)


# -- several inputs ----------------------------------------------------------------------------------------------------


def test_the_slowest_input_holds_the_others_back() -> None:
    """The job's watermark is the least of its inputs', each behind its own greatest event time by its own delay."""
    tracker = two()
    tracker.observe({"a": 100})
    assert not tracker.advance(0)
    tracker.observe({"b": 60})
    assert tracker.advance(0)
    assert tracker.current_ms == 50
    tracker.observe({"b": 500})
    tracker.advance(0)
    assert tracker.current_ms == 100


def test_a_look_ahead_takes_every_input_into_account() -> None:
    """Before an epoch it is known where the watermark will be after it."""
    tracker = two()
    assert tracker.would_reach({"a": 100}) == MIN_WATERMARK
    assert tracker.would_reach({"a": 100, "b": 60}) == 50


def test_an_idle_input_does_not_hold_the_others_back() -> None:
    """After the timeout without rows the watermark goes on without that input, at the moment that was foretold."""
    tracker = two(idle_timeout_ms=1000)
    tracker.observe({"a": 100, "b": 60}, 500)
    tracker.advance(500)
    tracker.observe({"a": 900}, 1400)
    assert not tracker.advance(1499)
    assert tracker.next_step_ms(1499) == 1500
    assert tracker.advance(1500)
    assert tracker.current_ms == 900


def test_an_input_that_never_gave_rows_becomes_idle_too() -> None:
    """The timeout counts from the moment at which somebody began to watch."""
    tracker = two(idle_timeout_ms=1000)
    tracker.observe({"a": 100}, 900)
    assert not tracker.advance(999)
    assert tracker.advance(1000)
    assert tracker.current_ms == 100


def test_an_input_that_wakes_up_holds_back_again_but_takes_nothing_back() -> None:
    """The first rows make an input active again; the watermark stays where it was until that input has caught up."""
    tracker = two(idle_timeout_ms=1000)
    tracker.observe({"a": 900}, 1000)
    tracker.advance(1000)
    tracker.observe({"a": 2000, "b": 300}, 1100)
    assert not tracker.advance(1100)
    assert tracker.current_ms == 900
    tracker.observe({"b": 1510}, 1200)
    assert tracker.advance(1200)
    assert tracker.current_ms == 1500


def test_when_all_are_idle_the_greatest_watermark_counts() -> None:
    """Nobody is left who could be waited for, so what the fastest input has reached is flushed."""
    tracker = two(idle_timeout_ms=1000)
    tracker.observe({"a": 900, "b": 300}, 0)
    tracker.advance(0)
    assert tracker.current_ms == 290
    assert tracker.advance(1000)
    assert tracker.current_ms == 900


@pytest.mark.parametrize("delay_ms", [0, 10], ids=["no delay", "delay"])
def test_an_idle_input_beside_one_that_has_ended_counts_alone(delay_ms: int) -> None:
    """Where all that go on are idle the greatest of those counts, never MAX of an earlier stage that has finished."""
    delays_ms = {"a": 0, "b": 10, "ended": delay_ms}
    tracker = WatermarkTracker(10, delays_ms=delays_ms, idle_timeout_ms=1000)
    tracker.watch(0, ["a", "b"])
    tracker.observe({"ended": MAX_WATERMARK})
    assert not tracker.advance(5000), "both are idle and have had no row"
    assert tracker.next_step_ms(5000) is None
    tracker.observe({"a": 900, "b": 300}, 5000)
    assert tracker.would_reach({"ended": MAX_WATERMARK}) == 290
    assert tracker.advance(5000)
    assert tracker.current_ms == 290
    assert tracker.advance(6000)
    assert tracker.current_ms == 900
    tracker.observe({"a": MAX_WATERMARK}, 6000)
    assert not tracker.advance(9000), "b goes on, and is behind"
    tracker.observe({"b": MAX_WATERMARK}, 9000)
    assert tracker.would_reach(None) == MAX_WATERMARK - 10, "all have ended"


def test_time_in_which_no_input_could_be_read_is_not_idle() -> None:
    """An epoch that runs for longer than the timeout makes nobody idle."""
    tracker = two(idle_timeout_ms=1000)
    tracker.pause(5000)
    tracker.observe({"a": 900}, 5000)
    assert not tracker.is_idle("b", 5999)
    assert tracker.is_idle("b", 6000)


def test_without_a_timeout_nobody_is_idle() -> None:
    """An input without rows holds the watermark back for ever unless a timeout says otherwise."""
    tracker = two()
    tracker.observe({"a": 100}, 0)
    assert not tracker.advance(10**15)
    assert tracker.next_step_ms(10**15) is None


def test_the_only_input_cannot_be_overtaken() -> None:
    """Where there is one input its being idle changes no watermark."""
    tracker = WatermarkTracker(10, idle_timeout_ms=1000)
    tracker.watch(0)
    tracker.observe(100, 0)
    tracker.advance(0)
    assert not tracker.advance(10**9)
    assert tracker.current_ms == 90
    assert tracker.next_step_ms(10**9) is None


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", ""]), st.integers(0, 10_000), st.integers(0, 2_000)), max_size=30),
    st.none() | st.integers(1, 3_000),
    st.integers(0, 3_000),
)
def test_never_goes_backwards_and_never_beyond_the_fastest(
    steps: list[tuple[str, int, int]], timeout_ms: int | None, interval_ms: int
) -> None:
    """Whatever comes when, the watermark ascends and stays at or below the greatest watermark of an input."""
    tracker = WatermarkTracker(0, delays_ms={"a": 0, "b": 10}, interval_ms=interval_ms, idle_timeout_ms=timeout_ms)
    tracker.watch(0)
    now_ms, before = 0, MIN_WATERMARK
    for name, time_ms, later_ms in steps:
        now_ms += later_ms
        tracker.observe({name: time_ms} if name else {}, now_ms)
        tracker.advance(now_ms)
        assert before <= tracker.current_ms <= max(one.reached_ms() for one in tracker.inputs.values())
        before = tracker.current_ms


# -- steps -------------------------------------------------------------------------------------------------------------


def test_moves_at_most_once_per_interval() -> None:
    """Between two steps lies the interval; the step that is due is known in advance."""
    tracker = WatermarkTracker(0, interval_ms=200)
    tracker.observe(5)
    assert tracker.advance(1000)
    tracker.observe(6)
    assert not tracker.advance(1199)
    assert tracker.current_ms == 5
    assert tracker.next_step_ms(1199) == 1200
    assert tracker.advance(1200)
    assert tracker.current_ms == 6
    assert tracker.next_step_ms(1200) is None


def test_a_sorted_pass_moves_it_at_once() -> None:
    """What has fired must be behind the watermark, whatever the interval says; never backwards."""
    tracker = WatermarkTracker(0, interval_ms=10**9)
    tracker.observe(5)
    tracker.advance(0)
    assert tracker.advance_to(50, 1)
    assert not tracker.advance_to(49, 2)
    assert tracker.current_ms == 50


# -- lag ---------------------------------------------------------------------------------------------------------------


@given(lag_ms=st.integers(-100, 200), threshold_ms=st.integers(1, 100), delay_ms=st.integers(0, 50))
def test_backlog_if_and_only_if_lag_exceeds_the_threshold(lag_ms: int, threshold_ms: int, delay_ms: int) -> None:
    """isBacklog by lag is true exactly when now - watermark > threshold (I9)."""
    tracker = WatermarkTracker(delay_ms, threshold_ms)
    tracker.observe(10_000 + delay_ms)
    assert tracker.is_backlog(10_000 + lag_ms) is (lag_ms > threshold_ms)


def test_each_input_lags_on_its_own() -> None:
    """Of two inputs one can be in backlog while the other is not (I5, X11)."""
    tracker = two(lag_threshold_ms=100)
    tracker.observe({"a": 1000, "b": 500})
    assert not tracker.is_backlog(1050, "a")
    assert tracker.is_backlog(1050, "b")


def test_an_idle_input_is_not_in_backlog() -> None:
    """An input that gives nothing has nothing to work off, however old its last row is."""
    tracker = two(lag_threshold_ms=100, idle_timeout_ms=1000)
    tracker.observe({"b": 500}, 900)
    assert tracker.is_backlog(1899, "b")
    assert not tracker.is_backlog(1900, "b")


def test_unset_threshold_has_no_effect() -> None:
    """Without a threshold no lag makes a backlog (I9)."""
    tracker = WatermarkTracker(0)
    tracker.observe(0)
    assert not tracker.is_backlog(10**15)


def test_no_watermark_is_no_lag() -> None:
    """Before the first event time there is nothing that could lag."""
    assert not WatermarkTracker(0, 1).is_backlog(10**15)
