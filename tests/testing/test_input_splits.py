"""``assert_same_results``: cuts at random of the same rows, told so that they can be repeated."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.testing.input_splits import input_splits
from orderly_stream import orderly_stream
from processors import Buckets, CallCounts, Counts, at, harness, ms_of
from pyspark.sql import Row

OBSERVED = {"execution.backlog.final-watermark": "observed"}
EVENT_TIME: dict[str, Any] = {"time_mode": "eventTime", "event_time": "ts", "delay": "30 ms"}


def some_rows(seed: int, count: int = 40) -> list[tuple[str, Any, int]]:
    chance = random.Random(seed)
    return [(chance.choice("abc"), at(chance.randint(0, 700)), n) for n in range(count)]


def test_a_sound_processor_gives_the_same_whatever_the_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """Timers at the end of windows and sums do not depend on cuts, nor on restarts, nor on rows within the delay."""
    harness(Buckets(), **EVENT_TIME).assert_same_results(some_rows(1), cuts=4, seed=3, out_of_order=True)
    assert "random cuts of 40 rows, seed=3" in capsys.readouterr().out


def test_rows_without_event_time_keep_their_order() -> None:
    """Where there is no event time rows come as they are given, in a backlog as in a stream."""
    harness(Counts()).assert_same_results([("a", None, n) for n in range(20)], cuts=3)


def test_what_depends_on_the_cut_is_shown() -> None:
    """The message has both ways, and the rows that only one of them gave."""
    rows = [("a", at(1), 1), ("a", at(1), 2), ("b", at(2), 3)]
    with pytest.raises(AssertionError) as caught:
        harness(CallCounts(), event_time="ts").assert_same_results(rows, seed=7)
    assert str(caught.value).splitlines() == [
        "results depend on how the rows are cut: all rows as one backlog and all rows as a stream, 1 at a time",
        "output before the end of the input:",
        "  only with all rows as one backlog:",
        "    Row(key='a', what='call', n=2)",
        "  only with all rows as a stream, 1 at a time:",
        "    Row(key='a', what='call', n=1)",
        "    Row(key='a', what='call', n=1)",
    ]


def test_a_switch_under_max_is_told_as_the_reason() -> None:
    """Under MAX_WATERMARK a window that straddles the switch is told twice; the message names the option."""
    made = harness(Buckets(), **{**EVENT_TIME, "options": {"execution.backlog.final-watermark": "max"}})
    rows = [("a", at(ms), 1) for ms in range(0, 100, 10)]
    with pytest.raises(AssertionError, match="final-watermark = observed they wait for the stream") as caught:
        made.assert_same_results(rows, seed=1)
    assert "to repeat it: assert_same_results(…, seed=1)" in str(caught.value)


def test_a_seed_repeats_its_cuts() -> None:
    """The same seed gives the same ways, and another one others."""
    times = [10 * n for n in range(30)]
    assert list(input_splits(times, 5, 1, 20)) == list(input_splits(times, 5, 1, 20))
    assert list(input_splits(times, 5, 1, 20)) != list(input_splits(times, 5, 2, 20))


@given(
    times=st.lists(st.none() | st.integers(0, 500), max_size=30),
    seed=st.integers(0, 99),
    delay_ms=st.integers(0, 100),
)
def test_a_way_has_each_row_once_and_none_too_late(times: list[int | None], seed: int, delay_ms: int) -> None:
    """However a way cuts and delays rows, all are there, and none is behind the watermark of those before it."""
    for way in input_splits(times, 3, seed, delay_ms):
        places = [place for part in way.parts for place in part]
        assert sorted(places) == list(range(len(times)))
        greatest = None
        for place in places:
            time = times[place]
            if time is not None:
                assert greatest is None or time >= greatest - delay_ms
                greatest = time if greatest is None else max(greatest, time)


@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 600), st.integers(0, 9)), min_size=1, max_size=12),
    delay_ms=st.integers(0, 150),
)
@settings(max_examples=15)
def test_a_backlog_is_the_orderly_stream(rows: list[tuple[str, int, int]], delay_ms: int) -> None:
    """Under observed a backlog gives what the orderly stream does, the definition, which shares no code with it."""
    model = orderly_stream(Buckets, [(k, ms, Row(k=k, ts=at(ms), v=v)) for k, ms, v in rows], delay_ms)
    with harness(Buckets(), **{**EVENT_TIME, "delay": f"{delay_ms} ms"}) as made:
        found = made.backlog([(k, at(ms), v) for k, ms, v in rows])
        assert sorted(found) == sorted(row for key in model.values() for row in key.output)
        assert [(timer.key, timer.at_ms) for timer in made.timers()] == sorted(
            ((key, ms) for key, one in model.items() for ms in one.pending), key=lambda timer: (timer[1], timer[0])
        )
    assert ms_of(at(5)) == 5
