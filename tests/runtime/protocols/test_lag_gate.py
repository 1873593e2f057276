"""isBacklog by watermark lag: the rule, and what keeps it from being for ever or all the time."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.protocols.lag_gate import LagGate, LagGates

THRESHOLD_MS, CALM_MS = 100, 10


def gate(**given: object) -> LagGate:
    return LagGate(THRESHOLD_MS, CALM_MS, **given)  # type: ignore[arg-type]


def test_lag_alone_decides_while_rows_keep_coming() -> None:
    """Without a look at a drained input isBacklog is the lag's (I9)."""
    one = gate()
    assert [one.judge(lags, now) for now, lags in enumerate([False, True, True, False, False])] == [
        False,
        True,
        True,
        False,
        False,
    ]


def test_idle_input_leaves_backlog() -> None:
    """An input that lags and has nothing more to give leaves backlog once the calm time has passed."""
    one = gate()
    assert one.judge(True, 0)
    assert one.drained(CALM_MS - 1)
    assert not one.drained(CALM_MS)


def test_input_of_old_records_stays_out_of_backlog_while_it_keeps_up() -> None:
    """A replay whose batches are drained one by one is excused however long its watermark lags."""
    one = gate()
    one.judge(True, 0)
    one.drained(CALM_MS)
    for now in range(CALM_MS, 50 * THRESHOLD_MS, THRESHOLD_MS):
        assert not one.judge(True, now)
        assert not one.drained(now)


def test_excused_input_that_falls_behind_anew_goes_back() -> None:
    """An excused input that was not seen drained for longer than the threshold is in backlog again."""
    one = gate()
    one.judge(True, 0)
    one.drained(CALM_MS)
    assert not one.judge(True, CALM_MS + THRESHOLD_MS)
    assert one.judge(True, CALM_MS + THRESHOLD_MS + 1)


def test_catching_up_ends_the_excuse() -> None:
    """Once the watermark was within the threshold, the next lag above it counts at once."""
    one = gate()
    one.judge(True, 0)
    one.drained(CALM_MS)
    one.judge(False, CALM_MS + 1)
    assert one.judge(True, 2 * CALM_MS)


def test_lag_about_the_threshold_does_not_switch_all_the_time() -> None:
    """An input that left backlog does not go back within the calm time."""
    one = gate()
    one.judge(True, 0)
    one.judge(False, 1)
    assert not one.judge(True, CALM_MS)
    assert one.judge(True, CALM_MS + 1)


def test_a_fresh_start_needs_no_calm() -> None:
    """The first micro-batch of a run may find the input in backlog."""
    assert gate().judge(True, 0)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["lags", "keeps up", "drained"])), min_size=1, max_size=60)
)
def test_leaves_at_most_once_per_calm_time_and_never_while_behind(steps: list[tuple[int, str]]) -> None:
    """For any course: two exits are at least the calm time apart, and an exit has lag within threshold or no data."""
    one, now, exits = gate(), 0, []
    for wait, what in steps:
        now += wait
        before = one.is_backlog
        after = one.drained(now) if what == "drained" else one.judge(what == "lags", now)
        assert after == one.is_backlog
        if before and not after:
            assert what != "lags"
            exits.append(now)
        if after and not before:
            assert what == "lags"
    assert all(later - earlier >= CALM_MS for earlier, later in itertools.pairwise(exits))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.booleans())
def test_a_drained_input_is_never_in_backlog_for_long(waits: list[int], lags: bool) -> None:
    """However it lags: after looks at a drained input over the calm time, isBacklog is false (no endless backlog)."""
    one, now = gate(), 0
    one.judge(True, now)
    for wait in waits:
        now += wait
        one.judge(lags, now)
        one.drained(now)
    if now >= CALM_MS:
        assert not one.drained(now)


def test_inputs_are_judged_each_on_its_own() -> None:
    """One input's lag says nothing about another's."""
    gates = LagGates(THRESHOLD_MS, CALM_MS)
    assert gates.of("a").judge(True, 0)
    assert not gates.of("b").is_backlog
    assert gates.of("a").is_backlog
