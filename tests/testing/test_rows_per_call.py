"""``execution.backlog.rows-per-call``: how the rows of a key are cut into calls in the backlog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mixedmode.errors import OptionError, PlanError
from mixedmode.testing import Harness
from processors import OUTPUT, SCHEMA, CallCounts, CountsInPandas, at
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

NAME = "execution.backlog.rows-per-call"


def harness(processor: Any, cut: str | None, **changes: Any) -> Harness:
    options = {} if cut is None else {NAME: cut}
    return Harness(processor, **{"key": "k", "schema": SCHEMA, "output": OUTPUT, "options": options, **changes})


def calls(output: Any) -> list[tuple[str, int]]:
    return [(row.key, row.n) for row in output]


ROWS = [(key, at(ms), ms) for key, most in (("a", 7), ("b", 2), ("c", 3)) for ms in range(most)]


@pytest.mark.parametrize(
    ("cut", "of_a"), [(None, [7]), ("3", [3, 3, 1]), ("1", [1] * 7), ("7", [7]), ("5 ms", [5, 2]), ("1 hour", [7])]
)
def test_calls_of_a_key_are_cut_by_rows_or_by_event_time(cut: str | None, of_a: list[int]) -> None:
    """Each key by itself: its first call does not depend on the key before."""
    found = calls(harness(CallCounts(), cut, event_time="ts").backlog(ROWS))
    assert [n for key, n in found if key == "a"] == of_a
    assert [sum(n for key, n in found if key == name) for name in "abc"] == [7, 2, 3]
    assert [n for key, n in found if key == "c"] == ([3] if cut != "1" else [1, 1, 1])


def test_calls_of_a_stream_are_not_cut() -> None:
    """A micro-batch's rows of a key come in one call, as in stock Spark."""
    made = harness(CallCounts(), "2")
    made.backlog([])
    assert calls(made.push([("a", None, n) for n in range(5)])) == [("a", 5)]


def test_one_event_time_is_cut_where_timers_fire_between_rows() -> None:
    """A span makes no call larger that in-order timers cut, and a number cuts the rows of one event time."""
    rows = [("a", at(1), 1)] * 5 + [("a", at(2), 1)]
    times = {"time_mode": "eventTime", "event_time": "ts"}
    assert calls(harness(CallCounts(), "2", **times).backlog(rows)) == [("a", 2), ("a", 2), ("a", 1), ("a", 1)]
    assert calls(harness(CallCounts(), "1 hour", **times).backlog(rows)) == [("a", 5), ("a", 1)]


class Steps(StatefulProcessor):
    """Tells of each call, with its state, and of a timer that the first call has set."""

    def init(self, handle: Any) -> None:
        self._handle, self._seen = handle, handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        (seen,) = self._seen.get() or (0,)
        if not seen:
            self._handle.registerTimer(1)
        seen += len(list(rows))
        self._seen.update((seen,))
        yield (key[0], "rows", seen)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield (key[0], "timer", *self._seen.get())

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self._seen.update((initialState.n,))


def test_state_goes_from_call_to_call_and_timers_come_after_the_last() -> None:
    """After-rows timers of a key fire when all of its rows have been handed over, before the next key."""
    given = {"time_mode": "eventTime", "event_time": "ts", "options": {NAME: "2", "pipeline.timers": "after-rows"}}
    made = harness(Steps(), None, **given)
    found = [(row.key, row.what, row.n) for row in made.backlog([(key, at(5), n) for key in "ab" for n in range(3)])]
    each = [("rows", 2), ("rows", 3), ("timer", 3)]
    assert found == [(key, *step) for key in "ab" for step in each]


def test_rows_of_an_initial_state_are_not_counted() -> None:
    given = {"initial_state": [("a", 10), ("b", 20)], "initial_schema": "k string, n long"}
    made = harness(Steps(), "2", **given)
    found = [(row.key, row.what, row.n) for row in made.backlog([("a", None, n) for n in range(3)])]
    assert found == [("a", "rows", 12), ("a", "rows", 13)]


def test_frames_are_cut_alike() -> None:
    """A call of transformWithStateInPandas gets frames of so many rows together, and counts go on."""
    made = harness(CountsInPandas(), "2", in_pandas=True)
    assert [n for _, n in calls(made.backlog([("a", None, n) for n in range(5)]))] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("value", ["0", "-1", "0 s", "many", "1.5"])
def test_a_value_that_is_no_cut_is_refused(value: str) -> None:
    with pytest.raises(OptionError, match=rf"{NAME}.*{value}.*a whole number of rows, 1 or more, or a span"):
        harness(CallCounts(), value)


def test_a_span_without_event_time_is_refused() -> None:
    with pytest.raises(PlanError, match=rf"{NAME} is 1 h, a span of event time, but processor CallCounts has no event"):
        harness(CallCounts(), "1 hour")


class Blocks(StatefulProcessor):
    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        return iter(())

    def handleArrowRows(self, block: Any, timerValues: Any) -> Iterator[Any]:
        return iter(())


def test_whole_keys_cannot_be_cut() -> None:
    with pytest.raises(PlanError, match=rf"{NAME} is 5, but processor Blocks gets whole keys by handleArrowRows"):
        harness(Blocks(), "5")
