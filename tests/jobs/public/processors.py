"""Jobs with a StatefulProcessor that takes rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from ..inputs import TABLES, inputs
from ..job import ROCKS, Job, Read, public_job

JOBS: list[Job] = []
_SUITE = "github.com/apache/spark: python/pyspark/sql/tests/pandas/test_pandas_transform_with_state.py"
_HOT = 100


class Echo(StatefulProcessor):
    """Hands every row on; what it yields has the row's time."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield Row(id=key[0], outputTimestamp=row.eventTime)


class Hot(StatefulProcessor):
    """Counts the temperatures of its key, and keeps how many were above the limit, with a TTL or without."""

    def __init__(self, ttl_ms: int | None = None) -> None:
        self._ttl_ms = ttl_ms

    def init(self, handle: Any) -> None:
        self._above = handle.getValueState("numViolations", "value int", self._ttl_ms)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        above = self._above.get()[0] if self._above.exists() else 0
        count = 0
        for row in rows:
            if row.temperature is not None:
                count += 1
                above += row.temperature > _HOT
        self._above.update((above,))
        yield Row(id=key[0], countAsString=str(count), above=above)


class Kept(StatefulProcessor):
    """Keeps its key's temperatures as a list and by name."""

    def init(self, handle: Any) -> None:
        self._list = handle.getListState("listState1", "temperature int")
        self._map = handle.getMapState("mapState", "name string", "count int")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self._list.appendValue((row.temperature,))
            seen = self._map.getValue((key[0],))[0] if self._map.containsKey((key[0],)) else 0
            self._map.updateValue((key[0],), (seen + 1,))
        kept = sum(value or 0 for (value,) in self._list.get())
        yield Row(id=key[0], countAsString=f"{self._map.getValue((key[0],))[0]} {kept}")


class Since(StatefulProcessor):
    """Adds the number of its rows to what its key begins with."""

    def init(self, handle: Any) -> None:
        self._value = handle.getValueState("value_state", "value int")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        begun = self._value.get()[0] if self._value.exists() else 0
        value = begun + sum(1 for _ in rows)
        self._value.update((value,))
        yield Row(id=key[0], value=str(value))

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self._value.update((initialState["initVal"],))


class Quiet(StatefulProcessor):
    """Says when nothing has come from its key for a while."""

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._last = handle.getValueState("lastSeen", "last long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        last = max([row.at for row in rows] + ([self._last.get()[0]] if self._last.exists() else []))
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._last.update((last,))
        self._handle.registerTimer(last * 1000 + self._gap_ms)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(id=key[0], last=self._last.get()[0])


@public_job(
    JOBS,
    f"{_SUITE}: RowSimpleStatefulProcessor",
    inputs=inputs("temperatures"),
    session=ROCKS,
    mode="update",
    sink="foreachBatch",
    keys=("id",),
    replaced=("checks of a test: a table in memory",),
)
def counts_and_violations(spark: SparkSession, read: Read) -> Any:
    """Files; key id; ValueState; timeMode None, outputMode Update."""

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch)

    return _hot(read, Hot()).writeStream.foreachBatch(write).outputMode("update")


def _hot(read: Read, processor: Hot) -> Any:
    return (
        read("temperatures")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=processor,
            outputStructType="id string, countAsString string, above int",
            outputMode="Update",
            timeMode="None",
        )
    )


@public_job(
    JOBS,
    f"{_SUITE}: RowSimpleTTLStatefulProcessor",
    inputs=inputs("temperatures"),
    session=ROCKS,
    timeouts=2,
    mode="update",
    sink="foreachBatch",
    keys=("id",),
    replaced=("checks of a test: a table in memory",),
)
def counts_with_ttl(spark: SparkSession, read: Read) -> Any:
    """The same with a TTL on the state, timeMode processingTime."""

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch)

    return (
        read("temperatures")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=Hot(30000),
            outputStructType="id string, countAsString string, above int",
            outputMode="Update",
            timeMode="processingTime",
        )
        .writeStream.foreachBatch(write)
        .outputMode("update")
    )


@public_job(
    JOBS,
    f"{_SUITE}: RowListStateProcessor, RowMapStateProcessor",
    inputs=inputs("temperatures"),
    session=ROCKS,
    mode="update",
    sink="foreachBatch",
    keys=("id",),
    replaced=("checks of a test: a table in memory",),
)
def lists_and_maps(spark: SparkSession, read: Read) -> Any:
    """Files; key id; ListState and MapState; timeMode None."""

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch)

    return (
        read("temperatures")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=Kept(),
            outputStructType="id string, countAsString string",
            outputMode="Update",
            timeMode="None",
        )
        .writeStream.foreachBatch(write)
        .outputMode("update")
    )


@public_job(
    JOBS,
    f"{_SUITE}: RowSimpleStatefulProcessorWithInitialState",
    inputs=inputs("temperatures"),
    tables={"temperatures before": TABLES["temperatures before"]},
    session=ROCKS,
    mode="update",
    sink="foreachBatch",
    keys=("id",),
    replaced=("checks of a test: a table in memory",),
)
def from_initial_state(spark: SparkSession, read: Read) -> Any:
    """Files; key id; ValueState that begins with a static table grouped by the same key."""

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch)

    return (
        read("temperatures")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=Since(),
            outputStructType="id string, value string",
            outputMode="Update",
            timeMode="None",
            initialState=read.static("temperatures before").groupBy("id"),
        )
        .writeStream.foreachBatch(write)
        .outputMode("update")
    )


@public_job(
    JOBS,
    "github.com/apache/spark: docs/streaming/structured-streaming-transform-with-state.md: DownTimeDetector",
    inputs=inputs("heartbeats"),
    session=ROCKS,
    timeouts=16,
    mode="update",
    sink="console",
    keys=("id",),
    replaced=("console sink: collected",),
)
def downtime(spark: SparkSession, read: Read) -> Any:
    """Key; ValueState of the last time seen; a processing-time timer, registered anew by each batch; timeMode
    processingTime."""
    beats = read("heartbeats").select("id", F.unix_timestamp("timestamp").alias("at"))
    return (
        beats.groupBy("id")
        .transformWithState(
            statefulProcessor=Quiet(10000),
            outputStructType="id string, last long",
            outputMode="update",
            timeMode="processingTime",
        )
        .writeStream.outputMode("update")
        .format("console")
    )


@public_job(
    JOBS,
    f"{_SUITE}: RowEventTimeStatefulProcessor",
    inputs=inputs("heartbeats"),
    session=ROCKS,
    mode="update",
    sink="foreachBatch",
    keys=("id", "last"),
    replaced=("checks of a test: a table in memory",),
)
def late_timers(spark: SparkSession, read: Read) -> Any:
    """Files; withColumn; watermark 10 s; key id; ValueState and an event-time timer; timeMode eventTime."""
    beats = read("heartbeats").withColumn("at", F.unix_timestamp("timestamp"))

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch)

    return (
        beats.withWatermark("timestamp", "10 seconds")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=Quiet(3600000),
            outputStructType="id string, last long",
            outputMode="update",
            timeMode="eventTime",
        )
        .writeStream.foreachBatch(write)
        .outputMode("update")
    )
