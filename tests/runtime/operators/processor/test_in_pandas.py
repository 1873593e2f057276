"""A processor on pandas frames does what the same processor does on rows: only the form differs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.errors import OutputSchemaError, UserCodeError
from mixedmode.runtime.operators.contract import InOrder
from mixedmode.runtime.operators.processor.frames.frame_form import FramesForm
from mixedmode.runtime.operators.processor.frames.frame_settings import FrameSettings
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from stage_support import OUTPUT, Input, Scripted, Stage

FRAMES = FramesForm(FrameSettings("UTC", max_rows=2))


class InPandas(StatefulProcessor):
    """A processor of rows as one of frames."""

    def __init__(self, processor: StatefulProcessor) -> None:
        self._processor = processor

    def init(self, handle: Any) -> None:
        self._processor.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        rows_of = (row for frame in rows for row in frame.itertuples(index=False))
        yield from self._frames(self._processor.handleInputRows(key, rows_of, timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        yield from self._frames(
            self._processor.handleExpiredTimer(key=key, timerValues=timerValues, expiredTimerInfo=expiredTimerInfo)
        )

    def _frames(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[pd.DataFrame]:
        for row in rows:
            yield pd.DataFrame([row], columns=OUTPUT.fieldNames())


commands = st.sampled_from(["count", "timers", "watermark", "time", "x", "+12", "+25", "-12", "+40"])
inputs = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 40), st.lists(commands, max_size=3).map(" ".join)
    ),
    max_size=12,
    unique_by=lambda row: row[:2],
)


@pytest.mark.slow
def test_rows_and_frames_give_the_same_and_take_over_from_each_other(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A backlog and micro-batches, each in either form over the state of the one before, timers in order or after."""

    @settings(max_examples=60, deadline=None)
    @given(history=inputs, live=inputs, forms=st.lists(st.booleans(), min_size=3, max_size=3), in_order=st.booleans())
    def check(history: list[Input], live: list[Input], forms: list[bool], in_order: bool) -> None:
        order = InOrder(-5, 3) if in_order else None
        found = []
        for in_pandas in ([False] * 3, forms):
            folder = tmp_path_factory.mktemp("stage")
            rows, frames = Stage(folder), Stage(folder, processor=InPandas(Scripted()), form=FRAMES)
            output, previous = [], rows
            for step, pandas in enumerate(in_pandas):
                stage = frames if pandas else rows
                stage.take_over(previous)
                if step == 0:
                    output += stage.backlog(history, 20, reached_watermark_ms=20, in_order=order)
                elif step == 1:
                    output += stage.stream(live, 20, in_order=order, late_watermark_ms=-5)
                else:
                    output += stage.stream([], MAX_WATERMARK, ending=True)
                previous = stage
            found.append(output)
        assert found[0] == found[1]

    check()


class Wrong(InPandas):
    """Yields something for its rows."""

    def __init__(self, what: Any) -> None:
        super().__init__(Scripted())
        self._what = what

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Any:
        return self._what(rows)


def _raises(rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in rows:
        yield frame["nothing"]


def _misses(rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"what": ["x"], "key": ["k"]})


def _mistypes(rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"what": ["x"], "key": ["k"], "at": ["soon"]})


def _frame(rows: Iterator[pd.DataFrame]) -> pd.DataFrame:
    return pd.DataFrame({"what": ["x"]})


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        (_raises, UserCodeError, [r"in _raises: yield frame\[\"nothing\"\]", "KeyError: 'nothing'", r"key \('a',\)"]),
        (lambda rows: None, UserCodeError, ["handleInputRows returned None", r"key \('a',\)"]),
        (
            _misses,
            OutputSchemaError,
            [r"no column 'at' for key \('a',\)", r"in _misses: yield pd", "struct<what:string"],
        ),
        (
            _mistypes,
            OutputSchemaError,
            ["field 'at' of the output schema is bigint", "'soon'", "in _mistypes: yield pd"],
        ),
        (_frame, OutputSchemaError, ["returned a pandas DataFrame for key", "yield it"]),
    ],
)
def test_what_goes_wrong_is_told_with_the_users_line_and_the_key(
    tmp_path: Path, what: Any, error: type[Exception], said: list[str]
) -> None:
    """Raised, not iterable, wrong columns, wrong types, a frame instead of an iterator of frames."""
    stage = Stage(tmp_path, processor=Wrong(what), form=FRAMES)
    for pattern in said:
        with pytest.raises(error, match=pattern):
            stage.stream([("a", 5, "x")], 5)


def test_the_form_is_no_part_of_the_identity(tmp_path: Path) -> None:
    """It is told beside the processor's name, which may change."""
    rows, frames = Stage(tmp_path).operator.describe(), Stage(tmp_path, form=FRAMES).operator.describe()
    assert frames == {**rows, "processor": "Scripted on pandas frames"}


def test_what_frames_look_like_is_part_of_what_is_computed(tmp_path: Path) -> None:
    """Finished shards of a backlog are not reused for a session that shows other values."""
    forms = [
        None,
        FRAMES,
        FramesForm(FrameSettings("UTC", max_rows=2)),
        FramesForm(FrameSettings("Asia/Tokyo", max_rows=2)),
    ]
    one, two, same, other = (Stage(tmp_path, form=form).operator.fingerprint() for form in forms)
    assert two == same and len({one, two, other}) == 3
