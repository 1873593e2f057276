"""A processor over two inputs, over one shard: order, timers, late rows, initial state, frames, failures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cogroup_support import CogroupStage, Given, kept, left, right
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.errors import UserCodeError
from mixedmode.runtime.operators.contract import InOrder
from mixedmode.runtime.operators.join.columns import LEFT
from mixedmode.runtime.operators.processor.frames.frame_form import FramesForm
from mixedmode.runtime.operators.processor.frames.frame_settings import FrameSettings
from mixedmode.runtime.operators.processor.initial_state import InitialState
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from orderly_stream import OrderlyKey, orderly_stream
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructType
from stage_support import COUNT, by_key

DELAY_MS, PATIENCE_MS = 3, 10


class Waiting(StatefulProcessor):
    """An order waits for a payment, and says so when none has come; reads now this side first and now that one."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._open = handle.getListState("open", COUNT)
        self._calls = handle.getValueState("calls", COUNT)

    def handleInputRows(
        self, key: Any, left: Iterator[Any], right: Iterator[Any], timerValues: Any
    ) -> Iterator[tuple[Any, ...]]:
        (calls,) = self._calls.get() or (0,)
        self._calls.update((calls + 1,))
        yield "call", key[0], timerValues.getCurrentWatermarkInMs()
        sides = {}
        for name, rows in [("left", left), ("right", right)][:: 1 if calls % 2 else -1]:
            sides[name] = list(rows)
        for row in sides["left"]:
            assert row.k == key[0]
            self._open.appendValue((row.order,))
            self._handle.registerTimer(row.order + PATIENCE_MS)
            yield "order", key[0], row.order
        for row in sides["right"]:
            waiting = sorted(self._open.get())
            if waiting:
                self._keep(waiting[1:])
                self._handle.deleteTimer(waiting[0][0] + PATIENCE_MS)
            yield ("paid" if waiting else "early"), key[0], row.n

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        expiry_ms = expiredTimerInfo.getExpiryTimeInMs()
        self._keep([one for one in self._open.get() if one[0] != expiry_ms - PATIENCE_MS])
        yield "unpaid", key[0], expiry_ms - PATIENCE_MS
        yield "watermark", key[0], timerValues.getCurrentWatermarkInMs()

    def _keep(self, orders: list[Any]) -> None:
        self._open.put(orders) if orders else self._open.clear()


class OneInput(Waiting):
    """The same over rows of both sides together, for the model."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:  # type: ignore[override]
        sides: tuple[list[Any], list[Any]] = ([], [])
        for row in rows:
            sides[0 if hasattr(row, "order") else 1].append(row)
        return super().handleInputRows(key, iter(sides[0]), iter(sides[1]), timerValues)


class _Row:
    def __init__(self, given: Given) -> None:
        self.k = given.key
        if given.side == LEFT:
            self.order = given.value
        else:
            self.n = given.value


#: Rows of one event time and side must not depend on their order: they are alike, and say their time.
rows_of_jobs = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(4, 40), st.booleans()), min_size=1, max_size=30
).map(lambda made: [(left if is_left else right)(key, ms, ms) for key, ms, is_left in made])


def model(rows: list[Given]) -> dict[str, OrderlyKey]:
    return orderly_stream(OneInput, [(row.key, row.time_ms or 0, _Row(row)) for row in rows], DELAY_MS)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    rows=rows_of_jobs,
    cuts=st.lists(st.integers(0, 42), max_size=4).map(sorted),
    with_history=st.booleans(),
    rows_each=st.sampled_from([1, 2, 3, 100]),
)
def test_however_it_is_cut_it_is_the_orderly_stream(
    tmp_path_factory: Any, rows: list[Given], cuts: list[int], with_history: bool, rows_each: int
) -> None:
    """In order: a history as a sorted pass, the rest in micro-batches, batches of any size: the same per key."""
    stage = CogroupStage(tmp_path_factory.mktemp("stage"), Waiting())
    parts = [[row for row in rows if low <= (row.time_ms or 0) < high] for low, high in pairwise([0, *cuts, 100])]
    output, watermark_ms, fired_ms = [], MIN_WATERMARK, MIN_WATERMARK
    if with_history and parts[0]:
        some = parts.pop(0)
        fired_ms = watermark_ms = max(row.time_ms or 0 for row in some) - DELAY_MS
        in_order = InOrder(MIN_WATERMARK, DELAY_MS, watermark_ms)
        reached = {"firing_watermark_ms": watermark_ms, "reached_watermark_ms": watermark_ms}
        output += stage.epoch_of(some, "sorted", rows_each=rows_each, in_order=in_order, **reached)
    for some in [*parts, []]:
        times = {"watermark_ms": watermark_ms, "firing_watermark_ms": watermark_ms, "late_watermark_ms": fired_ms}
        output += stage.epoch_of(some, rows_each=rows_each, in_order=InOrder(fired_ms, DELAY_MS), **times)
        fired_ms = watermark_ms
        watermark_ms = max([watermark_ms, *((row.time_ms or 0) - DELAY_MS for row in some)])
    output += stage.epoch_of(
        [], watermark_ms=watermark_ms, firing_watermark_ms=watermark_ms, in_order=InOrder(fired_ms, DELAY_MS)
    )
    assert by_key(output) == {key: one.output for key, one in model(rows).items()}


class Told(StatefulProcessor):
    """Yields what it gets."""

    def init(self, handle: Any) -> None:
        pass

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.initial = initialState.kept

    def handleInputRows(
        self, key: Any, left: Iterator[Any], right: Iterator[Any], timerValues: Any
    ) -> Iterator[tuple[Any, ...]]:
        yield "call", key[0], getattr(self, "initial", None)
        for row in left:
            yield "left", key[0], row.order
        for row in right:
            yield "right", key[0], 1 // (row.n + 1)


@pytest.mark.parametrize("style", ["sorted", "random"])
def test_after_rows_a_call_has_all_rows_of_its_key(tmp_path: Path, style: str) -> None:
    """Each side's in the order of their event times, those without one first; the other's may be none."""
    stage = CogroupStage(tmp_path, Told())
    rows = [left("a", 9, 2), right("a", 1, 0), left("a", 5, 1), left("a", None, 0), right("b", 7, 0)]
    assert stage.epoch_of(rows, style) == [
        ("call", "a", None),
        ("left", "a", 0),
        ("left", "a", 1),
        ("left", "a", 2),
        ("right", "a", 1),
        ("call", "b", None),
        ("right", "b", 1),
    ]


def test_late_rows_of_both_sides_are_dropped(tmp_path: Path) -> None:
    """By one bound: what the stage has fired up to.  Rows without event time are never late."""
    stage = CogroupStage(tmp_path, Told())
    rows = [left("a", 4, 0), left("a", 5, 1), right("a", 4, 0), right("b", 3, 0), right("c", None, 0)]
    assert stage.epoch_of(rows, late_watermark_ms=5) == [
        ("call", "a", None),
        ("left", "a", 1),
        ("call", "c", None),
        ("right", "c", 1),
    ]
    assert (stage.counters.rows_in, stage.counters.rows_late, stage.counters.max_event_time_ms) == (5, 3, 5)
    assert stage.counters.rows_late_right == 2


@pytest.mark.parametrize("rows_each", [1, 100])
def test_initial_state_comes_before_both_sides(tmp_path: Path, rows_each: int) -> None:
    """A key with nothing but initial state gets no rows."""
    stage = CogroupStage(tmp_path, Told())
    stage.operator.initial = InitialState(StructType().add("k", StringType()).add("kept", LongType()))
    stage.operator.sort_columns = ("__row_kind", *stage.operator.sort_columns)
    initial = [kept("a", 4), kept("b", 5)]
    assert stage.epoch_of([right("a", 1, 0), left("a", 2, 7)], "sorted", rows_each=rows_each, initial=initial) == [
        ("call", "a", 4),
        ("left", "a", 7),
        ("right", "a", 1),
    ]
    assert stage.counters.rows_in == 2


class OnFrames(StatefulProcessor):
    """As many rows as there are, and their sums."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, left: Any, right: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        paid = sum(int(frame["n"].sum()) for frame in right)
        ordered = sum(int(frame["order"].sum()) for frame in left)
        yield pd.DataFrame({"what": ["ordered", "paid"], "key": [key[0]] * 2, "at": [ordered, paid]})


@pytest.mark.parametrize("rows_each", [1, 100])
def test_pandas_frames_come_by_side(tmp_path: Path, rows_each: int) -> None:
    """Two iterators of frames, each with its side's columns."""
    stage = CogroupStage(tmp_path, OnFrames(), form=FramesForm(FrameSettings("UTC")))
    rows = [left("a", n, n) for n in range(5)] + [right("a", n, 10 * n) for n in range(3)] + [left("b", 0, 7)]
    assert stage.epoch_of(rows, "sorted", rows_each=rows_each) == [
        ("ordered", "a", 10),
        ("paid", "a", 30),
        ("ordered", "b", 7),
        ("paid", "b", 0),
    ]


def test_an_error_names_the_time_of_the_row(tmp_path: Path) -> None:
    """Of whichever side it is."""
    with pytest.raises(UserCodeError, match=r"handleInputRows, key \('a',\), event time 1970-01-01T00:00:00.005"):
        CogroupStage(tmp_path, Told()).epoch_of([left("a", 3, 1), right("a", 5, -1), right("a", 6, 1)])


def test_what_it_says_of_itself(tmp_path: Path) -> None:
    """explain() says that there are two inputs; by its state it is the same stage as that of one."""
    described = CogroupStage(tmp_path, Told()).operator.describe()
    assert described["processor"] == "Told of two inputs"
    assert described["operator"] == "transformWithState"
    frames = CogroupStage(tmp_path, OnFrames(), form=FramesForm(FrameSettings("UTC"))).operator
    assert frames.describe()["processor"] == "OnFrames of two inputs on pandas frames"
