"""Jobs with state of their own in pandas: transformWithStateInPandas and applyInPandasWithState."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from ..inputs import inputs
from ..job import ROCKS, Job, Read, public_job
from ..parsing import from_kafka

JOBS: list[Job] = []
_DATABRICKS = "docs.databricks.com/aws/en/stateful-applications/examples"
_DMATRIX = "github.com/dmatrix/spark-misc: src/py/sc/ss"
_PLAYGROUND = "github.com/bartosz25/spark-playground"
_STEPS = {"unknown": "boarding", "boarding": "flying", "flying": "landed", "landed": "boarding"}


class Latest(StatefulProcessor):
    """The newest location of a user: a slowly changing dimension of type 1."""

    def init(self, handle: Any) -> None:
        self._latest = handle.getValueState("latestLocation", "user string, time long, location string")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        newest = self._latest.get()[1] if self._latest.exists() else None
        for pdf in rows:
            row = pdf.sort_values("time").iloc[-1]
            if newest is None or row["time"] > newest:
                newest = int(row["time"])
                self._latest.update((key[0], newest, row["location"]))
        user, time, location = self._latest.get()
        yield pd.DataFrame({"user": [user], "time": [time], "location": [location]})


class Steps(StatefulProcessor):
    """The state a flight or an order is in, and how many rows have said so."""

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("flight_state", "state string, count int")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        state, count = self._state.get() if self._state.exists() else ("unknown", 0)
        for pdf in rows:
            for said in pdf["state"]:
                state, count = (said if _STEPS[state] == said else state, count + 1)
        self._state.update((state, count))
        yield pd.DataFrame({"flight": [key[0]], "update_count": [str(count)]})


class Watched(StatefulProcessor):
    """An order's last event, with a timer of processing time for the next one."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._order = handle.getValueState("order_state", "event string, since timestamp")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        last = pd.concat(list(rows), ignore_index=True).iloc[-1]
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 24 * 3600000)
        self._order.update((last["event_type"], last["timestamp"].to_pydatetime()))
        yield pd.DataFrame({"order_id": [key[0]], "event_type": [last["event_type"]], "sla_breach": [False]})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"order_id": [key[0]], "event_type": ["SLA_BREACH"], "sla_breach": [True]})


class Baskets(StatefulProcessor):
    """Sessions of a shop, which a purchase closes."""

    def init(self, handle: Any) -> None:
        self._session = handle.getValueState("session_state", "event_count int, total_revenue double")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        for pdf in rows:
            closed = []
            for _, event in pdf.sort_values("event_timestamp").iterrows():
                count, revenue = self._session.get() or (0, 0.0)
                count, revenue = (count + 1, revenue + float(event["revenue"]))
                if event["event_type"] == "purchase":
                    closed.append((key[0], count, revenue))
                    self._session.clear()
                else:
                    self._session.update((count, revenue))
            yield pd.DataFrame(closed, columns=["session_id", "event_count", "total_revenue"])


@public_job(
    JOBS,
    f"{_DATABRICKS}: slowly changing dimension type 1",
    inputs=inputs("locations"),
    session=ROCKS,
    mode="update",
    sink="console",
    keys=("user",),
    replaced=("console sink: collected",),
)
def latest_locations(spark: SparkSession, read: Read) -> Any:
    """Key user; transformWithStateInPandas with ValueState; timeMode None."""
    return (
        read("locations")
        .groupBy("user")
        .transformWithStateInPandas(
            statefulProcessor=Latest(),
            outputStructType="user string, time long, location string",
            outputMode="Update",
            timeMode="None",
        )
        .writeStream.outputMode("update")
        .format("console")
    )


@public_job(
    JOBS,
    f"{_DMATRIX}/learn_tws.py",
    inputs=inputs("flights"),
    session=ROCKS,
    mode="update",
    sink="console",
    keys=("flight",),
    replaced=("console sink: collected",),
)
def flight_states(spark: SparkSession, read: Read) -> Any:
    """Key flight; transformWithStateInPandas with ValueState; timeMode None."""
    return (
        read("flights")
        .groupBy("flight")
        .transformWithStateInPandas(
            statefulProcessor=Steps(),
            outputStructType="flight string, update_count string",
            outputMode="Update",
            timeMode="None",
        )
        .writeStream.outputMode("update")
        .format("console")
    )


@public_job(
    JOBS,
    f"{_DMATRIX}/orders_tws.py",
    inputs=inputs("orders"),
    session=ROCKS,
    timeouts=3,
    mode="update",
    sink="console",
    keys=("order_id",),
    replaced=("console sink: collected",),
)
def orders_with_deadlines(spark: SparkSession, read: Read) -> Any:
    """Key order; transformWithStateInPandas with ValueState and processing-time timers of days; timeMode
    processingTime."""
    return (
        read("orders")
        .groupBy("order_id")
        .transformWithStateInPandas(
            statefulProcessor=Watched(),
            outputStructType="order_id string, event_type string, sla_breach boolean",
            outputMode="Update",
            timeMode="ProcessingTime",
        )
        .writeStream.outputMode("update")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/maksimk2/automated-call-processing: 2025-07-sessionization-transformWithStateInPandas",
    inputs=inputs("shop"),
    session=ROCKS,
    mode="append",
    sink="delta",
    replaced=("table: files", "delta sink: collected"),
)
def baskets(spark: SparkSession, read: Read) -> Any:
    """Delta table; key session; transformWithStateInPandas with ValueState that is cleared when a session ends; frames
    without rows are yielded too; timeMode None, outputMode Append."""
    return (
        read("shop")
        .groupBy("session_id")
        .transformWithStateInPandas(
            statefulProcessor=Baskets(),
            outputStructType="session_id string, event_count int, total_revenue double",
            outputMode="Append",
            timeMode="None",
        )
        .writeStream.outputMode("append")
        .format("delta")
    )


def _sessions(
    extended: bool,
) -> Callable[[tuple[str, ...], Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]:
    """Count, start and end of a key's rows; ``extended``: handed on with each batch, otherwise when it is over."""

    def sessions(key: tuple[str, ...], pdfs: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            count, start, end = state.get
            state.remove()
        else:
            count, start, end = state.get if state.exists else (0, 1 << 40, 0)
            for pdf in pdfs:
                count += len(pdf)
                start, end = (min(start, int(pdf["at"].min())), max(end, int(pdf["at"].max())))
            state.update((count, start, end))
            if extended:
                state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs(), end * 1000) + 16 * 60000)
            else:
                state.setTimeoutDuration(10000)
                return
        yield pd.DataFrame({"id": [key[0]], "count": [count], "start": [start], "end": [end]})

    return sessions


_SESSION = "count long, start long, end long"


@public_job(
    JOBS,
    "github.com/apache/spark: examples/src/main/python/sql/streaming/structured_network_wordcount_session_window.py",
    inputs=inputs("lines"),
    timeouts=4,
    mode="update",
    sink="console",
    keys=("id",),
    replaced=("socket: files", "console sink: collected"),
)
def word_sessions(spark: SparkSession, read: Read) -> Any:
    """Socket; explode(split); key word; applyInPandasWithState with a processing-time timeout; rows only when it times
    out."""
    lines = read("lines")
    words = lines.select(F.explode(F.split(lines.value, " ")).alias("id"), lines.timestamp.cast("long").alias("at"))
    return (
        words.groupBy(words["id"])
        .applyInPandasWithState(
            _sessions(extended=False),
            f"id string, {_SESSION}",
            _SESSION,
            "Update",
            GroupStateTimeout.ProcessingTimeTimeout,
        )
        .writeStream.outputMode("update")
        .format("console")
    )


@public_job(
    JOBS,
    f"{_PLAYGROUND}: pyspark-arbitrary-stateful-processing",
    inputs=inputs("rate"),
    mode="update",
    sink="console",
    keys=("id", "start"),
    replaced=("rate: files", "console sink: collected"),
)
def visit_sessions(spark: SparkSession, read: Read) -> Any:
    """Rate source; watermark 15 min; key by expression; applyInPandasWithState with an event-time timeout, a row with
    each batch and one at the end."""
    timed = read("rate").selectExpr("value % 6 AS id", "timestamp", "unix_timestamp(timestamp) AS at")
    return (
        timed.withWatermark("timestamp", "15 minutes")
        .groupBy(F.col("id"))
        .applyInPandasWithState(
            func=_sessions(extended=True),
            outputStructType=f"id long, {_SESSION}",
            stateStructType=_SESSION,
            outputMode="update",
            timeoutConf="EventTimeTimeout",
        )
        .writeStream.outputMode("update")
        .format("console")
    )


def _labels(key: tuple[str, ...], pdfs: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        (count,), said = (state.get, "timed_out")
        state.remove()
    else:
        count, said = ((state.get[0] if state.exists else 0) + sum(len(pdf.index) for pdf in pdfs), "active")
        state.update((count,))
        state.setTimeoutDuration(3600000)
    yield pd.DataFrame({"label": list(key), "count": [count], "state": [said]})


@public_job(
    JOBS,
    f"{_PLAYGROUND}: spark-3.4.0-features/pyspark/apply_in_pandas_with_state_example.py",
    inputs=inputs("rate"),
    timeouts=2,
    mode="update",
    sink="console",
    keys=("label",),
    replaced=("rate: files", "console sink: collected"),
)
def labels(spark: SparkSession, read: Read) -> Any:
    """Rate source; withColumn(when/otherwise); watermark 5 s; key label; applyInPandasWithState with a processing-time
    timeout; a row with each batch."""
    labelled = read("rate").withColumn("label", F.when(F.pmod(F.col("value"), F.lit(2)) == 0, "even").otherwise("odd"))
    return (
        labelled.withWatermark("timestamp", "5 seconds")
        .groupBy("label")
        .applyInPandasWithState(
            func=_labels,
            outputStructType="label string, count int, state string",
            stateStructType="count int",
            outputMode="update",
            timeoutConf="ProcessingTimeTimeout",
        )
        .writeStream.outputMode("update")
        .format("console")
    )


class Visited(StatefulProcessor):
    """How many pages a visit has had; an event-time timer ends it."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._pages = handle.getValueState("pages", "pages int")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        seen = list(rows)
        pages = (self._pages.get()[0] if self._pages.exists() else 0) + sum(len(pdf) for pdf in seen)
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        last_ms = max(int(pdf["event_time"].max().timestamp() * 1000) for pdf in seen)
        self._handle.registerTimer(last_ms + 20 * 60000)
        self._pages.update((pages,))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        (pages,) = self._pages.get()
        self._pages.clear()
        yield pd.DataFrame({"visit_id": [key[0]], "visited_pages": [pages], "is_finished": [True]})


@public_job(
    JOBS,
    "github.com/bartosz25/data-engineering-design-patterns-book: chapter-11: early writer with Structured Streaming",
    inputs=inputs("visits"),
    session=ROCKS,
    mode="update",
    sink="console",
    keys=("visit_id",),
    replaced=("kafka: files", "console sink: collected"),
)
def visit_durations(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; watermark 15 min; key visit; transformWithStateInPandas with ValueState and event-time timers;
    timeMode eventTime."""
    visits = from_kafka(read("visits"), "event_id string, visit_id int, event_time timestamp, page string")
    return (
        visits.withWatermark("event_time", "15 minutes")
        .groupBy(F.col("visit_id"))
        .transformWithStateInPandas(
            statefulProcessor=Visited(),
            outputStructType="visit_id int, visited_pages int, is_finished boolean",
            timeMode="eventTime",
            outputMode="update",
        )
        .writeStream.outputMode("update")
        .format("console")
    )
