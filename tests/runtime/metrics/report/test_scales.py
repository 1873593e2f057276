"""Axes: round marks, cut-out time, and labels that do not lie on each other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.metrics.report.scales import TimeScale, ValueScale, binary, decimal, temporal
from mixedmode.runtime.metrics.units import count, size, span

LEFT, RIGHT = 84.0, 988.0
_RUNS = st.lists(
    st.tuples(st.integers(1_700_000_000_000, 1_800_000_000_000), st.integers(0, 10_000_000_000)),
    min_size=1,
    max_size=30,
).map(lambda pairs: [(began, began + length) for began, length in pairs])


@given(_RUNS)
def test_time_goes_from_left_to_right(runs: list[tuple[int, int]]) -> None:
    """Later is never further left, all runs are inside, and marks have room for their labels."""
    time = TimeScale.of(runs, LEFT, RIGHT)
    moments = sorted(moment for run in runs for moment in run)
    places = [time(moment) for moment in moments]
    assert places == sorted(places)
    assert places[0] >= LEFT - 1e-6 and places[-1] <= RIGHT + 1e-6
    ticks = time.ticks()
    assert all(one.reach[1] < other.reach[0] for one, other in itertools.pairwise(ticks))


def test_a_long_gap_is_cut_out() -> None:
    """Two runs of a minute with a day between them have nearly half of the axis each."""
    day_ms = 86_400_000
    time = TimeScale.of([(0, 60_000), (day_ms, day_ms + 60_000)], 0.0, 100.0)
    (cut,) = time.breaks
    assert cut.length_ms == day_ms - 60_000 and cut.right - cut.left < 6
    assert time(60_000) > 47


@given(st.floats(1e-3, 1e15), st.sampled_from([decimal, binary, temporal]))
def test_round_numbers_are_near(wanted: float, rounds: object) -> None:
    """A round number is not less, and at most some times more."""
    assert callable(rounds)
    if wanted >= 1:
        assert wanted * (1 - 1e-6) <= rounds(wanted) <= wanted * 3.0


def test_a_few_great_values_do_not_hide_the_others() -> None:
    """If most are less than a fiftieth of the greatest the scale is logarithmic, and says so."""
    assert not ValueScale.of([10.0, 20.0, 30.0, 100.0], 100, 0, decimal).is_logarithmic
    scale = ValueScale.of([10.0, 20.0, 30.0, 25.0, 100_000.0], 100, 0, decimal)
    assert scale.is_logarithmic and 0 <= scale(100_000.0) < scale(30.0) < scale(10.0) <= 100 == scale(0.0)
    assert ValueScale.of([0.0], 100, 0, decimal).ticks(count)[0].label == "0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (span(0), "0 s"),
        (span(0.5), "0.5 ms"),
        (span(1500), "1.5 s"),
        (span(999.9), "1 s"),
        (span(90_000_000), "1.04 d"),
        (count(1_234_567), "1.23 M"),
        (count(999_950), "1 M"),
        (size(3 * 1024**2), "3 MiB"),
        (size(0), "0 B"),
    ],
)
def test_numbers_have_a_unit_that_fits(text: str, expected: str) -> None:
    assert text == expected
