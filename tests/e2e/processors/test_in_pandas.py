"""The same processor and micro-batches in stock ``transformWithStateInPandas``, and in our own variant with rows.

As in :mod:`test_stock`, no row is exactly at the watermark and no timer is due at exactly a watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mixedmode
import numpy as np
import pandas as pd
import pytest
import support
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from session_options import session_options
from support import World

support.by_value(__name__)

DELAY = "100 seconds"
ZONE = "America/St_Johns"
STATE = "start timestamp, count long, total long, tags array<string>"
OUTPUT = f"key string, what string, {STATE}, day date, place struct<x: int, at: timestamp>"


def rich(frame: DataFrame) -> DataFrame:
    """Rows of the tests with a column of every difficult kind."""
    value = F.col("value")
    return frame.select(
        "key",
        "ts",
        value,
        F.when(value % 3 != 0, value.cast("int")).alias("n"),
        F.when(value % 4 != 0, value % 2 == 0).alias("flag"),
        F.array(F.concat(F.lit("t"), value.cast("string")), F.lit(None)).alias("tags"),
        F.to_date("ts").alias("day"),
        F.when(value % 5 != 0, F.struct(value.cast("int").alias("x"), F.col("ts").alias("at"))).alias("place"),
        (value / 4).cast("decimal(10, 2)").alias("amount"),
    )


class FrameSessions(StatefulProcessor):
    """Sums up each key until it has been quiet for five minutes; every call says what it saw."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._open = handle.getValueState("open", STATE)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        start, count, total, tags = self._open.get() or (None, 0, 0, [])
        self._open.update((start, count, total + int(initialState["total"].sum()), tags))

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        frame = pd.concat(list(rows)).sort_values("ts", ignore_index=True)
        start, count, total, tags = self._open.get() or (None, 0, 0, [])
        start = frame["ts"].min().to_pydatetime() if start is None else start
        total += int(frame["n"].sum()) + sum(flag is True or flag is np.True_ for flag in frame["flag"])
        total += int(frame["amount"].sum() * 100)
        tags = [*tags, *(tag for some in frame["tags"] for tag in some)]
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        local = frame["ts"].max().tz_localize(ZONE)
        self._handle.registerTimer(local.value // 1_000_000 + 300_000)
        self._open.update((start, count + len(frame), total, tags))
        last = frame.iloc[-1]
        yield self._frame(key, "rows", last["day"], last["place"])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        yield self._frame(key, "closed", None, None)
        self._open.clear()

    def _frame(self, key: Any, what: str, day: Any, place: Any) -> pd.DataFrame:
        start, count, total, tags = self._open.get()
        return pd.DataFrame(
            {
                "place": [place],
                "day": [day],
                "tags": [list(tags)],
                "total": [float(total)],
                "count": [count],
                "start": pd.Series([start], dtype="datetime64[ns]"),
                "what": [what],
                "key": [key[0]],
            }
        )


@pytest.fixture(autouse=True, scope="module")
def _zone(spark: SparkSession) -> Iterator[None]:
    """A session whose zone is not the machine's, with frames of at most two rows."""
    confs = {"spark.sql.session.timeZone": ZONE, "spark.sql.execution.arrow.maxRecordsPerBatch": "2"}
    with session_options(spark, confs):
        yield


def in_stock(world: World, job: Callable[[DataFrame], DataFrame]) -> list[tuple[Any, ...]]:
    """What stock Spark makes of the micro-batches."""
    found: list[tuple[Any, ...]] = []
    with support.rocksdb_state_store(world.spark):
        query = (
            job(world.live())
            .writeStream.foreachBatch(lambda frame, number: found.extend(plain(frame)))
            .option("checkpointLocation", str(world.folder / "stock"))
            .start()
        )
        world.feed(query, *support.OUT_OF_ORDER)
        query.stop()
    return sorted(support.without_flush(found), key=repr)


def plain(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows whose times are text, in the session's zone."""
    texts = [F.col(name).cast("string").alias(name) for name in frame.columns]
    return [tuple(row) for row in frame.select(*texts).collect()]


def job_of(read: Any, initial: Any) -> Any:
    return (
        read.withWatermark("ts", DELAY)
        .groupBy("key")
        .transformWithStateInPandas(FrameSessions(), OUTPUT, "append", "eventTime", initial)
    )


@pytest.mark.slow
def test_a_stream_agrees_with_stock(worlds: Any, spark: SparkSession) -> None:
    """Values of all kinds, with nulls and in the session's zone; timers, late rows, initial state, null keys."""
    initial = spark.createDataFrame([("a", 100), ("z", 7), ("a", 200)], "key string, total long").groupBy("key")
    stock, world = worlds(), worlds()
    expected = in_stock(stock, lambda live: job_of(rich(live), initial))
    options = {"execution.runtime-mode": "streaming", "pipeline.timers": "after-rows"}  # timers behind rows, as stock
    query = support.live(world.start(job_of(mixedmode.read(live=rich(world.live())), initial), options))
    world.feed(query, *support.OUT_OF_ORDER)
    query.stop()
    found = plain(spark.read.schema(expected_schema(spark)).parquet(str(world.out)))
    assert sorted(support.without_flush(found), key=repr) == expected
    assert {row[1] for row in expected} == {"rows", "closed"}


def expected_schema(spark: SparkSession) -> Any:
    return spark.createDataFrame([], OUTPUT).schema


class SessionsInPandas(support.Sessions):
    """The sessions of the other tests, row by row of its frames."""

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        frames = (frame.assign(ts=utc(frame["ts"]).dt.tz_localize(None)) for frame in rows)
        rows_of = (row for frame in frames for row in frame.itertuples())
        yield from map(self._frame, super().handleInputRows(key, rows_of, timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        yield from map(self._frame, super().handleExpiredTimer(key, timerValues, expiredTimerInfo))

    def _frame(self, row: tuple[Any, ...]) -> pd.DataFrame:
        key, start, count, total = row
        return pd.DataFrame([[total, count, pd.Timestamp(start).tz_localize("UTC"), key]], columns=self.COLUMNS)

    COLUMNS = ("total", "count", "start", "key")


def utc(times: pd.Series) -> pd.Series:
    return times.dt.tz_localize(ZONE).dt.tz_convert("UTC")


@pytest.mark.smoke
def test_a_job_moves_between_rows_and_frames_with_its_state(world: World) -> None:
    """A backlog and a stream on frames, a stream on rows, then on frames again: the sessions of one batch job."""
    events = support.flush_after(support.stream_of(160))
    history, *parts = events[:60], events[60:90], events[90:120], events[120:]
    frame = world.history(history)

    def on(processor: StatefulProcessor, method: str) -> Any:
        keyed = mixedmode.read(history=frame, live=world.live()).withWatermark("ts", "0 seconds").groupBy("key")
        return getattr(keyed, method)(processor, support.SESSION_SCHEMA, "append", "eventTime")

    for part, in_pandas in zip(parts, (True, False, True), strict=True):
        method = "transformWithStateInPandas" if in_pandas else "transformWithState"
        world.land(part)
        query = world.start(
            on(SessionsInPandas() if in_pandas else support.Sessions(), method),
            {"execution.backlog.final-watermark": "observed"},
        )
        support.live(query)
        support.finish(query)
    assert world.results() == world.expected(events)
