"""``applyInPandasWithState``: FlatMapGroupsInPandasWithStateSuite, test_pandas_grouped_map_with_state.py."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

from ..case import CASES, RESTART, Read, case

#: With timeouts of processing time Spark runs micro-batches without rows for ever.
QUIET = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
SUITE, PYTHON = "FlatMapGroupsInPandasWithStateSuite", "test_pandas_grouped_map_with_state.py"
#: The same in Scala.
SCALA = "FlatMapGroupsWithStateSuite"
KEYS = {"in": "key string"}
COUNTS = "key string, n string"
RUNNING = [{"in": ["a"]}, {"in": ["a", "b"]}, RESTART, {"in": ["a", "b"]}, RESTART, {"in": ["a", "c"]}]


def three_times(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Counts rows; at three it forgets the key, and gives an empty frame.  There is no watermark to ask for."""
    with pytest.raises(Exception, match="watermark"):
        state.getCurrentWatermarkMs()
    (n,) = state.getOption or (0,)
    n += sum(map(len, frames))
    if n >= 3:
        if state.exists:
            state.remove()
        yield pd.DataFrame()
    else:
        state.update((n,))
        yield pd.DataFrame({"key": [key[0]], "n": [str(n)]})


@case(
    SUITE,
    "applyInPandasWithState - streaming",
    also=[(SCALA, "flatMapGroupsWithState - streaming")],
    inputs=KEYS,
    mode="update",
    steps=RUNNING,
)
def group_state_count(read: Read) -> Any:
    return read("in").groupBy("key").applyInPandasWithState(three_times, COUNTS, "n long", "update", "NoTimeout")


def numbered(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    (before,) = state.getOption or (0,)
    n = before
    for frame in frames:
        n += len(frame)
        yield frame.assign(text=frame["value"].map(str), before=str(before))
    state.update((n,))


@case(
    SUITE,
    "applyInPandasWithState - streaming, multiple groups in partition, multiple outputs per grouping key",
    inputs={"in": "key string, value int"},
    mode="update",
    steps=[
        {"in": [("a", 1)]},
        {"in": [("a", 2), ("a", 3), ("b", 1)]},
        RESTART,
        {"in": [("b", 2), ("c", 1), ("d", 1), ("e", 1)]},
        {"in": [("a", 4)]},
    ],
)
def several_outputs(read: Read) -> Any:
    schema = "key string, value int, text string, before string"
    keyed = read("in").groupBy("key")
    return keyed.applyInPandasWithState(numbered, schema, "n long", "update", "NoTimeout")


def counted_or_gone(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    n = (state.getOption or (0,))[0] + sum(map(len, frames))
    state.update((n,))
    if n >= 3:
        state.remove()
    yield pd.DataFrame({"key": [key[0]], "n": [str(-1 if n >= 3 else n)]})


@case(
    SUITE,
    "applyInPandasWithState - streaming + aggregation",
    also=[(SCALA, "flatMapGroupsWithState - streaming + aggregation")],
    inputs=KEYS,
    mode="complete",
    steps=RUNNING,
)
def group_state_then_count(read: Read) -> Any:
    keyed = read("in").groupBy("key")
    return keyed.applyInPandasWithState(counted_or_gone, COUNTS, "n long", "append", "NoTimeout").groupBy("key").count()


def last_time(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """The greatest event time so far; five seconds behind it the key ends."""
    assert state.getCurrentProcessingTimeMs() >= 0
    assert state.getCurrentWatermarkMs() >= -1
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"key": [key[0]], "last": [-1]})
        return
    (last,) = state.getOption or (0,)
    for frame in frames:
        last = max([last, *frame["seconds"].tolist()])
    state.update((last,))
    state.setTimeoutTimestamp((last + 5) * 1000)
    yield pd.DataFrame({"key": [key[0]], "last": [last]})


def last_time_by_datetime(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    set_timestamp = state.setTimeoutTimestamp
    state.setTimeoutTimestamp = lambda ms: set_timestamp(datetime.datetime.fromtimestamp(ms // 1000))
    return last_time(key, frames, state)


def _timed_out(name: str, function: Any, is_datetime: str) -> None:
    @case(
        SUITE,
        f"applyInPandasWithState - streaming w/ event time timeout + watermark ifUseDateTimeType={is_datetime}",
        also=[(SCALA, "flatMapGroupsWithState - streaming w/ event time timeout + watermark")],
        inputs={"in": "key string, seconds long"},
        mode="update",
        keys=("key",),
        steps=[{"in": [("a", 11), ("a", 13), ("a", 15)]}, {"in": [("a", 4)]}, {"in": [("a", 10)]}, {"in": [("b", 31)]}],
    )
    def query(read: Read) -> Any:
        rows = read("in").withColumn("time", F.timestamp_seconds("seconds")).withWatermark("time", "10 seconds")
        keyed = rows.groupBy("key")
        return keyed.applyInPandasWithState(function, "key string, last long", "s long", "update", "EventTimeTimeout")

    CASES[-1] = replace(CASES[-1], name=name)


_timed_out("event_timeout", last_time, "false")
_timed_out("event_timeout_by_datetime", last_time_by_datetime, "true")


def with_watermark(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    n = (state.getOption or (0,))[0] + sum(map(len, frames))
    state.update((n,))
    yield pd.DataFrame({"key": [key[0]], "n": [str(n)]})


for _timeout in ("NoTimeout", "ProcessingTimeTimeout"):

    @case(
        SUITE,
        f"SPARK-20714: watermark does not fail query when timeout = {_timeout}",
        also=[(SCALA, f"SPARK-20714: watermark does not fail query when timeout = {_timeout}")],
        inputs={"in": "key string, seconds long"},
        mode="update",
        session=QUIET,
        steps=[{"in": [("a", 1)]}, {"in": [("a", 30), ("b", 2)]}, {"in": [("b", 3)]}],
    )
    def watermark_is_no_matter(read: Read, timeout: str = _timeout) -> Any:
        rows = read("in").withColumn("time", F.timestamp_seconds("seconds")).withWatermark("time", "10 seconds")
        return rows.groupBy("key").applyInPandasWithState(with_watermark, COUNTS, "n long", "update", timeout)

    CASES[-1] = replace(CASES[-1], name=CASES[-1].name + f"_{_timeout}")


def frames_counted(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"key": [key[0]], "n": [str(sum(1 for _ in frames))]})


for _size in (1, 2, 4, 8):

    @case(
        SUITE,
        "applyInPandasWithState - streaming - arrow RecordBatch size with chunking",
        inputs=KEYS,
        mode="update",
        session={"spark.sql.execution.arrow.maxRecordsPerBatch": str(_size)},
        steps=[{"in": ["a"] * 3 + ["b"] * 5}],
    )
    def frames_of_a_call(read: Read) -> Any:
        return read("in").groupBy("key").applyInPandasWithState(frames_counted, COUNTS, "n int", "update", "NoTimeout")

    CASES[-1] = replace(CASES[-1], name=CASES[-1].name + f"_{_size}")


def first_frame(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    n = (state.getOption or (0,))[0] + 1
    next(frames)
    state.update((n,))
    yield pd.DataFrame({"key": [key[0]], "n": [str(n)]})


for _size in (1, 2, 3):

    @case(
        SUITE,
        "applyInPandasWithState - streaming - partial consume of iterator in user function",
        inputs=KEYS,
        mode="update",
        session={"spark.sql.execution.arrow.maxRecordsPerBatch": str(_size)},
        steps=[{"in": ["a"] * 4 + ["b"] * 7 + ["c"]}, {"in": ["a"] * 4 + ["b"] * 7 + ["c"]}],
    )
    def unread_frames(read: Read) -> Any:
        return read("in").groupBy("key").applyInPandasWithState(first_frame, COUNTS, "n int", "update", "NoTimeout")

    CASES[-1] = replace(CASES[-1], name=CASES[-1].name + f"_{_size}")


def by_two_keys(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    n = (state.getOption or (0,))[0] + sum(map(len, frames))
    state.update((n,))
    state.setTimeoutDuration(3_600_000)
    yield pd.DataFrame({"one": [key[0]], "other": [key[1]], "n": [str(n)]})


@case(
    SUITE,
    "SPARK-40670: applyInPandasWithState - streaming having non-null columns",
    inputs={"in": "one string"},
    mode="update",
    session=QUIET,
    steps=[{"in": ["a"]}, {"in": ["b"]}, {"in": ["b"]}],
)
def columns_without_null(read: Read) -> Any:
    rows = read("in")
    for name in ("other", "more", "last"):
        rows = rows.withColumn(name, F.lit("constant"))
    schema = "one string, other string, n string"
    keyed = rows.groupBy("one", "other")
    return keyed.applyInPandasWithState(by_two_keys, schema, "n long", "update", "ProcessingTimeTimeout")


def at_timeout(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"one": [key[0]], "other": [key[1]], "n": ["-1"]})
        return
    last = max(int(frame["seconds"].max()) for frame in frames)
    state.update((last,))
    state.setTimeoutTimestamp((last + 5) * 1000)
    yield pd.DataFrame({"one": [key[0]], "other": [key[1]], "n": [str(last)]})


@case(
    SUITE,
    "SPARK-41261: applyInPandasWithState - key in user function should be correct for timed out state despite of"
    " place for key columns",
    inputs={"in": "first string, seconds long"},
    mode="update",
    keys=("one", "other"),
    steps=[{"in": [("a", 11)]}, {"in": [("b", 40)]}],
)
def keys_elsewhere_at_a_timeout(read: Read) -> Any:
    rows = read("in").withColumn("time", F.timestamp_seconds("seconds")).withWatermark("time", "10 seconds")
    rows = rows.select("first", F.col("first").alias("other"), F.lit("c").alias("one"), "seconds", "time")
    schema = "one string, other string, n string"
    keyed = rows.groupBy("one", "other")
    return keyed.applyInPandasWithState(at_timeout, schema, "n long", "update", "EventTimeTimeout")


def of_numpy(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    when, span = datetime.datetime(1990, 1, 1), datetime.timedelta(1)
    values = (np.int32(1), np.int64(1), np.float32(1), np.float64(1), True, when, span)
    state.update(tuple(pd.DataFrame([values]).iloc[0]))
    assert tuple(state.get) == (1, 1, 1.0, 1.0, True, when, span), state.get
    yield pd.DataFrame({"key": [key[0]], "n": ["1"]})


@case(
    SUITE,
    "SPARK-41260: applyInPandasWithState - NumPy instances to JVM rows in state",
    inputs=KEYS,
    mode="update",
    steps=[{"in": ["a"]}],
)
def numpy_in_the_state(read: Read) -> Any:
    state = "i int, l long, f float, d double, b boolean, t date, s interval day to second"
    return read("in").groupBy("key").applyInPandasWithState(of_numpy, COUNTS, state, "update", "NoTimeout")


@case(
    PYTHON,
    "test_apply_in_pandas_with_state_basic",
    inputs=KEYS,
    mode="update",
    steps=[{"in": ["hello", "this"]}, {"in": ["this", "this"]}],
)
def group_state_basic(read: Read) -> Any:
    return read("in").groupBy("key").applyInPandasWithState(with_watermark, COUNTS, "n long", "update", "NoTimeout")
