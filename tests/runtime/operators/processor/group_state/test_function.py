"""applyInPandasWithState over one shard: PySpark's rules of state and timeouts, in micro-batches and in a backlog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.errors import OutputSchemaError, StateSchemaError, UserCodeError
from mixedmode.runtime.operators.contract import InOrder
from mixedmode.runtime.operators.keyed.keyed_input import KeyedInput
from mixedmode.runtime.operators.processor.frames.frame_settings import FrameSettings
from mixedmode.runtime.operators.processor.group_state.function import GroupFunction
from mixedmode.runtime.operators.processor.group_state.operator import GroupStateFrames, GroupStateOperator
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from stage_support import COUNT, INPUT, KEY, OUTPUT, Stage, by_key

NONE, PROCESSING, EVENT = (
    GroupStateTimeout.NoTimeout,
    GroupStateTimeout.ProcessingTimeTimeout,
    GroupStateTimeout.EventTimeTimeout,
)


def stage_of(folder: Path, function: GroupFunction, timeout: str = EVENT, event_time: str | None = "ts") -> Stage:
    operator = GroupStateOperator(
        function,
        uid="stage",
        rows=KeyedInput(INPUT, ("key",), KEY, event_time),
        output_schema=OUTPUT,
        state_schema=COUNT,
        timeout=timeout,
        settings=FrameSettings("UTC", exact_columns=True),
    )
    return Stage(folder, operator=operator)


def frame(what: str, key: Any, at: Any) -> pd.DataFrame:
    return pd.DataFrame({"what": [what], "key": [key], "at": [at]})


def scripted(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Does what its rows say: ``up5``, ``rm``, ``set9`` (a timeout at 9 ms), ``in9``; tells what it was called with.

    A timeout does what the state's number says: even ones remove the state, others count one up and set a timeout.
    """
    rows = pd.concat(list(frames))
    called = "timeout" if state.hasTimedOut else "rows"
    assert list(rows.columns) == ["key", "ts", "does"]
    assert state.hasTimedOut == rows.empty
    yield frame(called, key[0], state.get[0] if state.exists else None)
    watermark = state.getCurrentWatermarkMs()
    yield frame("watermark", key[0], watermark)
    if state.hasTimedOut and state.exists:
        (n,) = state.get
        if n % 2:
            state.update((np.int64(n + 1),))
            state.setTimeoutTimestamp(watermark + 4)
        else:
            state.remove()
    for command in " ".join(rows["does"]).split():
        if command.startswith("up"):
            state.update((int(command[2:]),))
        elif command == "rm":
            state.remove()
        elif command.startswith("set"):
            state.setTimeoutTimestamp(max(int(command[3:]), watermark, 1))


class Model:
    """One key by PySpark's rules."""

    def __init__(self, key: Any) -> None:
        self.key = key
        self.value: int | None = None
        self.timeout_ms: int | None = None
        self.output: list[tuple[Any, ...]] = []

    def call(self, commands: list[str], watermark_ms: int, *, timed_out: bool = False) -> None:
        self.output += [
            ("timeout" if timed_out else "rows", self.key, self.value),
            ("watermark", self.key, watermark_ms),
        ]
        self.timeout_ms = None
        if timed_out and self.value is not None:
            if self.value % 2:
                self.value, self.timeout_ms = self.value + 1, watermark_ms + 4
            else:
                self.value = None
        for command in commands:
            if command.startswith("up"):
                self.value = int(command[2:])
            elif command == "rm":
                self.value = None
            else:
                self.timeout_ms = max(int(command[3:]), watermark_ms, 1)


commands = st.sampled_from(["up1", "up2", "rm", "set3", "set12", "set20", "set33"])
batches = st.lists(
    st.dictionaries(st.sampled_from("ab"), st.lists(commands, max_size=3), max_size=2), min_size=1, max_size=5
)


@pytest.mark.slow
def test_micro_batches_follow_pysparks_rules(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A key's rows first, which put its timeout off; then those that have timed out, each once; state and timeouts
    of any order of updates, removals and timeouts.  The first batch may be a backlog."""

    @settings(max_examples=80)
    @given(batches=batches, backlog=st.booleans())
    def check(batches: list[dict[str, list[str]]], backlog: bool) -> None:
        stage, keys = stage_of(tmp_path_factory.mktemp("stage"), scripted), {key: Model(key) for key in "ab"}
        output: list[tuple[Any, ...]] = []
        for number, batch in enumerate(batches):
            watermark_ms = 10 * number
            rows = [(key, 100 + number, " ".join(its)) for key, its in batch.items()]
            spec: dict[str, Any] = {"watermark_ms": watermark_ms}
            if backlog and number == 0:
                output += stage.backlog(rows, watermark_ms, **spec)
            else:
                output += stage.stream(rows, watermark_ms)
            for key, its in batch.items():
                keys[key].call(its, watermark_ms)
            for one in keys.values():
                for _ in range(2):  # a timeout may set one that is due at once
                    if one.timeout_ms is not None and one.timeout_ms <= watermark_ms:
                        one.call([], max(watermark_ms, one.timeout_ms + 1), timed_out=True)
        assert by_key(output) == {key: one.output for key, one in keys.items() if one.output}

    check()


def sessions(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Counts a key's rows until it has been quiet for 5 ms."""
    if state.hasTimedOut:
        yield frame("session", key[0], state.get[0])
        state.remove()
        return
    count, last_ms = (state.getOption or (0,))[0], 0
    for rows in frames:
        count += len(rows)
        last_ms = max(last_ms, int(rows["ts"].max().value // 1_000_000))
    state.update((count,))
    state.setTimeoutTimestamp(last_ms + 5)


@pytest.mark.parametrize(("in_order", "expected"), [(True, [2, 1]), (False, [3])])
def test_timeouts_in_a_backlog_follow_the_timer_order(tmp_path: Path, in_order: bool, expected: list[int]) -> None:
    """In order they come between the rows, as in the orderly stream; else after all rows, as in one micro-batch."""
    stage = stage_of(tmp_path, sessions)
    rows = [("a", 10, ""), ("a", 12, ""), ("a", 30, "")]
    order = InOrder(0, 0, 50) if in_order else None
    output = stage.backlog(rows, 50, reached_watermark_ms=50, in_order=order)
    assert [at for what, _, at in output if what == "session"] == expected


def test_the_end_of_event_time_times_everybody_out(tmp_path: Path) -> None:
    """MAX_WATERMARK, as a switch under max and the end of input have it; a timeout that is set then is carried."""
    stage = stage_of(tmp_path, scripted)
    output = stage.backlog([("a", 10, "up1 set900")], MAX_WATERMARK)
    assert [row[0] for row in output] == ["rows", "watermark", "timeout", "watermark"]
    assert stage.counters.next_event_timer_ms is not None


def test_processing_time_timeouts(tmp_path: Path) -> None:
    """From now on, in ms; the watermark can be asked for where there is one."""

    def function(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        assert state.getCurrentWatermarkMs() == 7
        yield frame("timeout" if state.hasTimedOut else "rows", key[0], state.getCurrentProcessingTimeMs())
        if not state.hasTimedOut:
            state.setTimeoutDuration(10)

    stage = stage_of(tmp_path, function, PROCESSING)
    times = [(100, [("a", 10, "")]), (105, []), (110, []), (120, [])]
    output = [
        stage.stream(rows, 7, processing_time_ms=now, processing_timers_upto_ms=now)  # type: ignore[arg-type]
        for now, rows in times
    ]
    assert output == [[("rows", "a", 100)], [], [("timeout", "a", 110)], []]


def calling(function: Callable[[GroupState], Any]) -> GroupFunction:
    def called(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Any:
        yield frame("x", key[0], function(state))

    return called


@pytest.mark.parametrize(
    ("timeout", "event_time", "call", "said"),
    [
        (
            EVENT,
            "ts",
            lambda state: state.setTimeoutTimestamp(5),
            "INVALID_TIMEOUT_TIMESTAMP",
        ),
        (EVENT, "ts", lambda state: state.setTimeoutTimestamp(0), "VALUE_NOT_POSITIVE"),
        (EVENT, "ts", lambda state: state.setTimeoutDuration(5), "CANNOT_WITHOUT"),
        (PROCESSING, "ts", lambda state: state.setTimeoutTimestamp(50), "CANNOT_WITHOUT"),
        (PROCESSING, "ts", lambda state: state.setTimeoutDuration("5 s"), "NOT_EXPECTED_TYPE"),
        (NONE, None, lambda state: state.getCurrentWatermarkMs(), "CANNOT_WITHOUT.*watermark"),
        (NONE, "ts", lambda state: state.get, "STATE_NOT_EXISTS"),
        (NONE, "ts", lambda state: state.update(None), "CANNOT_BE_NONE"),
    ],
)
def test_misuse_is_pysparks_error_with_line_and_key(
    tmp_path: Path, timeout: str, event_time: str | None, call: Any, said: str
) -> None:
    stage = stage_of(tmp_path, calling(call), timeout, event_time)
    with pytest.raises(UserCodeError, match=rf"(?s){said}.*function called of stage 'stage'.*key \('a',\)") as caught:
        stage.stream([("a", 20, "")], 10)
    assert f'File "{__file__}"' in str(caught.value)


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (lambda key, frames, state: None, UserCodeError, r"NoneType.*returned None.*key \('a',\)"),
        (
            lambda key, frames, state: frame("x", "a", 1),
            OutputSchemaError,
            r"returned a pandas DataFrame for key",
        ),
        (lambda key, frames, state: [pd.DataFrame({"what": ["x"]})], OutputSchemaError, "no column 'key', 'at'"),
        (
            lambda key, frames, state: [frame("x", "a", 1).assign(more=1)],
            OutputSchemaError,
            r"another column 'more' for key \('a',\)",
        ),
        (lambda key, frames, state: state.update(("x",)) or [], StateSchemaError, r"state.update\(\) for key \('a',\)"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, function: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=f"(?s){said}"):
        stage_of(tmp_path, function).stream([("a", 20, "")], 10)


def test_keys_are_numpys_as_pyspark_promises() -> None:
    """Nulls as pandas has them; times in the session's zone."""
    schema = pa.schema(
        [
            pa.field("n", pa.int32()),
            pa.field("x", pa.float64()),
            pa.field("b", pa.bool_()),
            pa.field("s", pa.string()),
            pa.field("at", pa.timestamp("us", "UTC")),
        ]
    )
    shown = GroupStateFrames(FrameSettings("Asia/Tokyo")).key(schema)
    assert shown is not None
    from datetime import datetime

    key = shown((5, 0.5, True, "x", datetime(2024, 1, 1)))
    assert [type(value) for value in key] == [np.int32, np.float64, np.bool_, str, pd.Timestamp]
    assert key == (5, 0.5, True, "x", pd.Timestamp("2024-01-01 09:00"))
    n, x, b, s, at = shown((None, None, None, None, None))
    assert (np.isnan(n), np.isnan(x), b, s, at) == (True, True, None, None, pd.NaT)


def test_the_stage_is_known_by_its_function_and_timeout(tmp_path: Path) -> None:
    described = stage_of(tmp_path, scripted).operator.describe()
    assert described == {
        "operator": "applyInPandasWithState",
        "uid": "stage",
        "processor": "scripted",
        "key": ["key string"],
        "timeout": EVENT,
    }
    prints = {stage_of(tmp_path, one).operator.fingerprint() for one in (scripted, sessions, calling(len))}
    assert len(prints) >= 2
    assert stage_of(tmp_path, scripted).operator.fingerprint() == stage_of(tmp_path, scripted).operator.fingerprint()
