"""What a function does with its group state: FlatMapGroupsWithStateSuite and GroupStateSuite, as
``applyInPandasWithState`` has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from ..case import CASES, RESTART, Case, Read, case
from .group_states import COUNTS, KEYS, QUIET, RUNNING, SCALA, counted_or_gone, with_watermark

STATE = "GroupStateSuite"
TIMED = {"in": "key string, seconds long"}
#: What a call gives, by its name.
Calls = Callable[[Any], Sequence[tuple[str, Callable[[], Any]]]]


def one_by_one(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Changes the state while its result is read: a frame for each row but the third."""
    for frame in frames:
        for _ in range(len(frame)):
            (n,) = state.getOption or (0,)
            if n == 2:
                state.remove()
                yield pd.DataFrame()
            else:
                state.update((n + 1,))
                yield pd.DataFrame({"key": [key[0]], "n": [str(n + 1)]})


@case(
    SCALA,
    "flatMapGroupsWithState - streaming + func returns iterator that updates state lazily",
    inputs=KEYS,
    mode="update",
    steps=[{"in": ["a", "a", "b"]}, RESTART, {"in": ["a", "b"]}, RESTART, {"in": ["a", "c"]}],
)
def state_that_changes_between_frames(read: Read) -> Any:
    return read("in").groupBy("key").applyInPandasWithState(one_by_one, COUNTS, "n long", "update", "NoTimeout")


@case(SCALA, "mapGroupsWithState - streaming", inputs=KEYS, mode="update", steps=RUNNING)
def one_row_of_each_call(read: Read) -> Any:
    return read("in").groupBy("key").applyInPandasWithState(counted_or_gone, COUNTS, "n long", "update", "NoTimeout")


UNION = "SPARK-29438: ensure UNION doesn't lead (flat)MapGroupsWithState to use shifted partition IDs"


@case(
    SCALA,
    UNION,
    inputs={"one": "key string", "two": "key string"},
    mode="update",
    steps=[
        {"one": ["input1-a"], "two": ["input2-a"]},
        RESTART,
        {"one": ["input1-a"], "two": ["input2-a", "input2-b"]},
    ],
    session={"spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "false"},
)
def union_with_rows_without_state(read: Read) -> Any:
    plain = read("one").select("key", F.col("key").alias("n"))
    keyed = read("two").groupBy("key")
    return plain.union(keyed.applyInPandasWithState(with_watermark, COUNTS, "n long", "update", "NoTimeout"))


@case(SCALA, "disallow complete mode", inputs=KEYS, steps=[{"in": ["a"]}], refused="append or update")
def function_in_complete_mode(read: Read) -> Any:
    return read("in").groupBy("key").applyInPandasWithState(with_watermark, COUNTS, "n long", "complete", "NoTimeout")


def never_timed_out(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """A state that times out half a second after 1970, told of each call."""
    timed_out = state.hasTimedOut
    if not state.exists:
        state.update((0,))
        state.setTimeoutTimestamp(500)
    yield pd.DataFrame({"key": [key[0]], "n": [str(timed_out)]})


@case(
    SCALA,
    "SPARK-38320 - flatMapGroupsWithState state with data should not timeout",
    inputs=TIMED,
    mode="update",
    session=QUIET,
    steps=[{"in": [("0", 1)]}, {"in": [("0", 2)]}],
    why="Rows of event time t see a watermark of t minus the delay, where stock shows that of the micro-batch before.",
)
def timeout_of_a_key_with_rows(read: Read) -> Any:
    rows = read("in").withColumn("time", F.timestamp_seconds("seconds")).withWatermark("time", "0 seconds")
    return rows.groupBy("key").applyInPandasWithState(never_timed_out, COUNTS, "n int", "update", "EventTimeTimeout")


def calling(calls: Calls) -> Callable[..., Iterator[pd.DataFrame]]:
    """A function that tells what its calls have given, or the kind of their errors."""

    def function(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        found = []
        for name, call in calls(state):
            try:
                found.append(f"{name}: {call()}")
            except Exception as error:
                found.append(f"{name}: {type(error).__name__}")
        yield pd.DataFrame({"key": [key[0]], "n": [" ".join(found)]})

    return function


def state_test(test: str, *timeouts: str, twice: bool = False, watermark: bool = False) -> Callable[[Calls], Calls]:
    """Add a test of GroupStateSuite: calls of a state's methods, with each of some timeouts.

    Args:
        test: of Spark.
        timeouts: of the function.
        twice: the key comes again in a second micro-batch.
        watermark: the rows have one.
    """

    def keep(calls: Calls) -> Calls:
        for timeout in timeouts:

            def query(read: Read, timeout: str = timeout) -> Any:
                rows = read("in").withColumn("time", F.timestamp_seconds("seconds"))
                rows = rows.withWatermark("time", "10 seconds") if watermark else rows
                keyed = rows.groupBy("key")
                return keyed.applyInPandasWithState(calling(calls), COUNTS, "n int", "update", timeout)

            name = f"{calls.__name__}_{timeout}"
            steps = [{"in": [("a", 20)]}] * (2 if twice else 1)
            CASES.append(Case(name, ((STATE, test),), query, TIMED, steps, "update", session=QUIET))
        return calls

    return keep


ALL = ("NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout")


@state_test("GroupState - get, exists, update, remove", "NoTimeout", twice=True)
def calls_of_a_state(state: Any) -> Any:
    def seen() -> Any:
        return state.exists, state.getOption

    return [
        ("before", seen),
        ("get", lambda: state.get),
        ("update", lambda: state.update((2,))),
        ("updated", seen),
        ("again", lambda: state.update((3,))),
        ("updated", seen),
        ("remove", state.remove),
        ("removed", seen),
        ("get", lambda: state.get),
        ("last", lambda: state.update((4,))),
        ("updated", seen),
        ("nothing", lambda: state.update(None)),
    ]


@state_test("GroupState - primitive type", "NoTimeout")
def calls_of_a_number(state: Any) -> Any:
    return [
        ("get", lambda: state.get),
        ("option", lambda: state.getOption),
        ("ten", lambda: state.update((10,))),
        ("get", lambda: state.get),
        ("zero", lambda: state.update((0,))),
        ("get", lambda: state.get),
        ("remove", state.remove),
        ("get", lambda: state.get),
    ]


def _timeouts(state: Any, *given: Any) -> Any:
    """Calls that set a timeout: of each kind, before there is a state, with one, and without it again."""
    calls: list[Any] = []
    for doing in (None, lambda: state.update((5,)), state.remove):
        calls += [] if doing is None else [("change", doing)]
        calls += [(f"{method}({value!r})", lambda m=method, v=value: getattr(state, m)(v)) for method, value in given]
    return calls


@state_test("GroupState - setTimeout - with NoTimeout", "NoTimeout", twice=True)
def timeouts_without_any(state: Any) -> Any:
    return _timeouts(
        state, ("setTimeoutDuration", 1000), ("setTimeoutDuration", "2 second"), ("setTimeoutTimestamp", 2_000_000)
    )


@state_test("GroupState - setTimeout - with ProcessingTimeTimeout", "ProcessingTimeTimeout")
def timeouts_of_the_clock(state: Any) -> Any:
    return _timeouts(
        state, ("setTimeoutDuration", 5_000_000), ("setTimeoutDuration", "1 hour"), ("setTimeoutTimestamp", 2_000_000)
    )


@state_test("GroupState - setTimeout - with EventTimeTimeout", "EventTimeTimeout", watermark=True)
def timeouts_of_event_time(state: Any) -> Any:
    return _timeouts(
        state,
        ("setTimeoutTimestamp", 5_000_000),
        ("setTimeoutDuration", 1000),
        ("setTimeoutDuration", "2 second"),
        ("setTimeoutTimestamp", 10_000_000),
    )


@state_test("GroupState - illegal params to setTimeout", "ProcessingTimeTimeout", "EventTimeTimeout", watermark=True)
def illegal_timeouts(state: Any) -> Any:
    durations = (-1000, 0, "-2 second", "-1 month", "1 month -31 day")
    calls = [("setTimeoutDuration", value) for value in durations]
    return _timeouts(state, *calls, ("setTimeoutTimestamp", -10_000))[: len(calls) + 1]


@state_test("GroupState - hasTimedOut", *ALL, watermark=True)
def timed_out_with_rows(state: Any) -> Any:
    return [("hasTimedOut", lambda: state.hasTimedOut)]


@state_test("GroupState - getCurrentWatermarkMs", "NoTimeout", "ProcessingTimeTimeout")
def no_watermark(state: Any) -> Any:
    return [("watermark", state.getCurrentWatermarkMs)]


@state_test("GroupState - getCurrentWatermarkMs", *ALL, watermark=True)
def some_watermark(state: Any) -> Any:
    return [("watermark", lambda: state.getCurrentWatermarkMs() >= -1)]


@state_test("GroupState - getCurrentProcessingTimeMs", *ALL, watermark=True)
def time_of_the_clock(state: Any) -> Any:
    return [("now", lambda: abs(state.getCurrentProcessingTimeMs() / 1000 - time.time()) < 600)]
