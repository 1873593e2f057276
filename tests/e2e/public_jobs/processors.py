"""Jobs with a StatefulProcessor that takes rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from .shape import Frames, Shape, public_job

SHAPES: list[Shape] = []
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
    SHAPES,
    f"{_SUITE}: RowSimpleStatefulProcessor",
    "update",
    "foreachBatch",
    oracle=lambda frames: (
        frames.stream("temperatures")
        .groupBy("id")
        .agg(
            F.count("temperature").cast("string").alias("countAsString"),
            F.count(F.when(F.col("temperature") > _HOT, 1)).cast("int").alias("above"),
        )
    ),
)
def counts_and_violations(frames: Frames) -> Any:
    """Files; key id; ValueState; timeMode None, outputMode Update."""
    return _hot(frames, Hot())


def _hot(frames: Frames, processor: Hot) -> Any:
    return (
        frames.stream("temperatures")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=processor,
            outputStructType="id string, countAsString string, above int",
            outputMode="Update",
            timeMode="None",
        )
    )


@public_job(
    SHAPES, f"{_SUITE}: RowSimpleTTLStatefulProcessor", "update", "foreachBatch", runs_as="counts_and_violations"
)
def counts_with_ttl(frames: Frames) -> Any:
    """The same with a TTL on the state, timeMode processingTime."""
    return (
        frames.stream("temperatures")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=Hot(30_000),
            outputStructType="id string, countAsString string, above int",
            outputMode="Update",
            timeMode="processingTime",
        )
    )


@public_job(
    SHAPES,
    f"{_SUITE}: RowListStateProcessor, RowMapStateProcessor",
    "update",
    "foreachBatch",
    runs_as="from_initial_state",
)
def lists_and_maps(frames: Frames) -> Any:
    """Files; key id; ListState and MapState; timeMode None."""
    return (
        frames.stream("temperatures")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=Kept(),
            outputStructType="id string, countAsString string",
            outputMode="Update",
            timeMode="None",
        )
    )


@public_job(
    SHAPES,
    f"{_SUITE}: RowSimpleStatefulProcessorWithInitialState",
    "update",
    "foreachBatch",
    oracle=lambda frames: (
        frames.stream("temperatures")
        .groupBy("id")
        .agg(F.count("*").alias("n"))
        .join(frames.table("temperatures before"), "id", "left")
        .select("id", (F.col("n") + F.coalesce("initVal", F.lit(0))).cast("string").alias("value"))
    ),
)
def from_initial_state(frames: Frames) -> Any:
    """Files; key id; ValueState that begins with a static table grouped by the same key."""
    return (
        frames.stream("temperatures")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=Since(),
            outputStructType="id string, value string",
            outputMode="Update",
            timeMode="None",
            initialState=frames.table("temperatures before").groupBy("id"),
        )
    )


@public_job(
    SHAPES,
    "github.com/apache/spark: docs/streaming/structured-streaming-transform-with-state.md: DownTimeDetector",
    "update",
    "console",
)
def downtime(frames: Frames) -> Any:
    """Key; ValueState of the last time seen; a processing-time timer, registered anew by each batch; timeMode
    processingTime."""
    beats = frames.stream("heartbeats").select("id", F.unix_timestamp("timestamp").alias("at"))
    return beats.groupBy("id").transformWithState(
        statefulProcessor=Quiet(10_000),
        outputStructType="id string, last long",
        outputMode="update",
        timeMode="processingTime",
    )


@public_job(
    SHAPES,
    f"{_SUITE}: RowEventTimeStatefulProcessor",
    "update",
    "foreachBatch",
    closes=True,
    oracle=lambda frames: (
        frames.stream("heartbeats").groupBy("id").agg(F.max(F.unix_timestamp("timestamp")).alias("last"))
    ),
)
def late_timers(frames: Frames) -> Any:
    """Files; withColumn; watermark 10 s; key id; ValueState and an event-time timer; timeMode eventTime."""
    beats = frames.stream("heartbeats").withColumn("at", F.unix_timestamp("timestamp"))
    return (
        beats.withWatermark("timestamp", "10 seconds")
        .groupBy("id")
        .transformWithState(
            statefulProcessor=Quiet(3_600_000),
            outputStructType="id string, last long",
            outputMode="update",
            timeMode="eventTime",
        )
    )
