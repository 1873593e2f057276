"""``pipeline.timers = in-order`` over one shard: a key sees what the orderly stream shows, however it is cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mixedmode.runtime.operators.contract import InOrder
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from orderly_stream import OrderlyKey, orderly_stream
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from stage_support import COUNT, Input, Stage, by_key

DELAY_MS = 3
#: Commands of a row: what is done to a timer at the row's time + offset, and when in the call.
COMMANDS = [f"{when}{what}{offset}" for when in "<=>" for what in "+-" for offset in (-4, -1, 1, 2, 5, 9)]
#: For timers: what they do to the timer at their own time + offset.
WHIMS = [(what, offset) for what in "+-" for offset in (-3, -1, 1, 2, 6)]


class Whimsical(StatefulProcessor):
    """Registers, deletes and registers anew: before its rows are read (<), while they are (=), after them (>).

    Every call yields what it saw, and a count in state of the calls so far.

    Args:
        whims: what a timer of an odd count of calls does.
        limit: how many calls of a key may register timers by timers, so that none goes on for ever.
    """

    def __init__(self, whims: list[tuple[str, int]], limit: int = 12) -> None:
        self._whims, self._limit = whims, limit

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._calls = handle.getValueState("calls", COUNT)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        yield ("rows", key[0], timerValues.getCurrentWatermarkInMs())
        waiting = list(rows) if self._call() % 2 else rows  # ahead of the first command, or one by one
        todo: dict[str, list[tuple[str, int]]] = {"<": [], "=": [], ">": []}
        for row in waiting:
            at_ms, *commands = row.does.split()
            for command in commands:
                what, ts_ms = command[1], max(int(at_ms) + int(command[2:]), 0)
                if command[0] == ">":
                    todo[">"].append((what, ts_ms))
                else:
                    self._do(what, ts_ms)
            yield ("row", key[0], int(at_ms))
        for what, ts_ms in todo[">"]:
            self._do(what, ts_ms)
        yield from (("pending", key[0], ts_ms) for ts_ms in self._handle.listTimers())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        expiry_ms, calls = expiredTimerInfo.getExpiryTimeInMs(), self._call()
        yield ("fired", key[0], expiry_ms)
        yield ("watermark", key[0], timerValues.getCurrentWatermarkInMs())
        if calls <= self._limit:
            for what, offset in self._whims:
                self._do(what, max(expiry_ms + offset, 0))
        yield ("calls", key[0], calls)

    def _do(self, what: str, ts_ms: int) -> None:
        (self._handle.registerTimer if what == "+" else self._handle.deleteTimer)(ts_ms)

    def _call(self) -> int:
        (calls,) = self._calls.get() or (0,)
        self._calls.update((calls + 1,))
        return int(calls) + 1


Row = tuple[str, int, str]
#: Rows of one event time must not depend on their order: at most one a key and time.
rows_of_jobs = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(4, 40)), st.lists(st.sampled_from(COMMANDS), max_size=3), min_size=1
).map(lambda made: [(key, ms, " ".join([str(ms), *commands])) for (key, ms), commands in made.items()])
whims = st.lists(st.sampled_from(WHIMS), max_size=2)


class _Fields:
    def __init__(self, does: str) -> None:
        self.does = does


def model(rows: list[Row], whims: list[tuple[str, int]]) -> dict[str, OrderlyKey]:
    """What the orderly stream gives."""
    return orderly_stream(lambda: Whimsical(whims), [(key, ms, _Fields(does)) for key, ms, does in rows], DELAY_MS)


def in_order(fired_ms: int = MIN_WATERMARK, upto_ms: int = MAX_WATERMARK) -> InOrder:
    return InOrder(fired_ms, DELAY_MS, upto_ms)


def backlog(stage: Stage, rows: list[Input], reached_ms: int, final_ms: int | None = None, **spec: Any) -> list[Any]:
    """One sorted pass; its final watermark is the observed one unless another is given."""
    return stage.backlog(
        rows,
        reached_ms if final_ms is None else final_ms,
        reached_watermark_ms=reached_ms,
        in_order=in_order(upto_ms=reached_ms),
        **spec,
    )


def stream(stage: Stage, cuts: list[list[Input]], ticks: bool, watermark_ms: int = MIN_WATERMARK) -> list[Any]:
    """Micro-batches as the driver runs them, with a tick of the clock between them or only at the end."""
    output, fired_ms = [], watermark_ms
    for rows in [*cuts, []]:
        output += stage.run(
            rows,
            "random",
            watermark_ms=watermark_ms,
            firing_watermark_ms=watermark_ms,
            late_watermark_ms=fired_ms,
            in_order=in_order(fired_ms),
        )
        fired_ms = watermark_ms
        watermark_ms = max([watermark_ms, *(ms - DELAY_MS for _, ms, _ in rows if ms is not None)])
        if ticks or not rows:
            output += stage.run(
                [], "random", watermark_ms=watermark_ms, firing_watermark_ms=watermark_ms, in_order=in_order(fired_ms)
            )
            fired_ms = watermark_ms
    return output


@pytest.mark.slow
def test_a_backlog_is_the_orderly_stream(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A sorted pass gives, for any processor, what the orderly stream gives, and leaves the same timers (P1-P7)."""

    @settings(max_examples=80)
    @given(rows=rows_of_jobs, whims=whims)
    def check(rows: list[Row], whims: list[tuple[str, int]]) -> None:
        keys = model(rows, whims)
        stage = Stage(tmp_path_factory.mktemp("stage"), processor=Whimsical(whims))
        output = backlog(stage, list(rows), max(ms for _, ms, _ in rows) - DELAY_MS)
        assert by_key(output) == {key: one.output for key, one in keys.items()}
        pending = [ts_ms for one in keys.values() for ts_ms in one.pending]
        assert stage.counters.next_event_timer_ms == min(pending, default=None)

    check()


def test_the_end_of_input_is_the_orderly_streams(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Under MAX at the end of input, timers see their own times, and those registered then never fire (P7, X13)."""

    @settings(max_examples=30)
    @given(rows=rows_of_jobs, whims=whims)
    @example(rows=[("a", 4, "4 <+-4 <+-1")], whims=[("-", 1), ("+", 1)])  # under MAX, deleted and registered again
    def check(rows: list[Row], whims: list[tuple[str, int]]) -> None:
        keys = model(rows, whims)
        for one in keys.values():
            one.end()
        stage = Stage(tmp_path_factory.mktemp("stage"), processor=Whimsical(whims))
        reached_ms = max(ms for _, ms, _ in rows) - DELAY_MS
        output = backlog(stage, list(rows), reached_ms, MAX_WATERMARK, timers_at_max="ignore")
        assert by_key(output) == {key: one.output for key, one in keys.items()}
        assert stage.counters.next_event_timer_ms is None

    check()


@pytest.mark.slow
def test_however_it_is_cut_it_is_the_orderly_stream(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A history as a backlog, then the rest in micro-batches, with or without ticks: the same per key (P5, P11)."""

    @settings(max_examples=60)
    @given(
        rows=rows_of_jobs,
        whims=whims,
        cuts=st.lists(st.integers(0, 42), max_size=4).map(sorted),
        ticks=st.booleans(),
        with_history=st.booleans(),
    )
    def check(rows: list[Row], whims: list[tuple[str, int]], cuts: list[int], ticks: bool, with_history: bool) -> None:
        keys = model(rows, whims)
        bounds = [0, *cuts, 100]
        parts = [[row for row in rows if low <= row[1] < high] for low, high in pairwise(bounds)]
        stage = Stage(tmp_path_factory.mktemp("stage"), processor=Whimsical(whims))
        output, watermark_ms = [], MIN_WATERMARK
        if with_history and parts[0]:
            watermark_ms = max(ms for _, ms, _ in parts[0]) - DELAY_MS
            output += backlog(stage, list(parts.pop(0)), watermark_ms)
        output += stream(stage, [list(part) for part in parts], ticks, watermark_ms)
        assert by_key(output) == {key: one.output for key, one in keys.items()}

    check()


def test_a_stream_back_in_backlog_goes_on_from_its_watermark(tmp_path: Path) -> None:
    """Rows behind what has fired are late; timers from before fire in order, each at its time (P17)."""
    stage = Stage(tmp_path, processor=Whimsical([]))
    stage.stream([("a", 20, "20 =+9 =+12"), ("b", 20, "20 =+11"), ("c", 20, "20 =+-8")])
    output = stage.backlog(
        [("a", 16, "16"), ("a", 18, "18"), ("a", 34, "34")],
        33,
        watermark_ms=17,
        late_watermark_ms=17,
        reached_watermark_ms=33,
        in_order=in_order(17, 33),
    )
    assert stage.counters.rows_late == 1
    assert [row for row in by_key(output)["a"] if row[0] in ("rows", "row", "fired", "watermark")] == [
        ("rows", "a", 17),
        ("row", "a", 18),
        ("fired", "a", 29),
        ("watermark", "a", 29),
        ("rows", "a", 31),
        ("row", "a", 34),
        ("fired", "a", 32),
        ("watermark", "a", 32),
    ]
    assert by_key(output)["b"] == [("fired", "b", 31), ("watermark", "b", 31), ("calls", "b", 2)]
    # Left over from a switch under max: the watermark is past it.
    assert by_key(output)["c"] == [("fired", "c", 12), ("watermark", "c", 17), ("calls", "c", 2)]


def test_no_watermark_runs_ahead_of_a_slower_input(tmp_path: Path) -> None:
    """Rows of an input that is ahead of the others fire no more than the job's watermark allows, in either style."""
    rows: list[Input] = [("a", 10, "10 =+5"), ("a", 30, "30")]
    for style in ("sorted", "random"):
        stage = Stage(tmp_path / style, processor=Whimsical([]))
        output = stage.run(
            rows, style, firing_watermark_ms=12 if style == "sorted" else MIN_WATERMARK, in_order=in_order(upto_ms=12)
        )
        assert [row for row in output if row[0] == "rows"] == [("rows", "a", 7), ("rows", "a", 12)]
        assert not [row for row in output if row[0] == "fired"]


def test_rows_without_event_time_come_first(tmp_path: Path) -> None:
    """They move no watermark, and are handed over together."""
    stage = Stage(tmp_path, processor=Whimsical([]))
    output = backlog(stage, [("a", 9, "9"), ("a", None, "0"), ("a", None, "0")], 6)
    assert [row for row in output if row[0] in ("rows", "row")] == [
        ("rows", "a", 0),
        ("row", "a", 0),
        ("row", "a", 0),
        ("rows", "a", 6),
        ("row", "a", 9),
    ]
