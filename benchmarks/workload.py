"""The jobs of all benchmarks: an aggregate, a deduplication, a join, Python processors, and two stages in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dataset import EXTRA_COLUMNS, Width
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "key long, rows long, total double"

#: Adds a keyed stage to a frame of ours or of Spark's.
Job = Callable[[Any], Any]


def aggregate(width: Width = "narrow", keys: Sequence[str] = ("key",)) -> Job:
    """Declarative: four aggregates by key, and one for each further column.

    Args:
        width: of the rows.
        keys: the columns that it groups by (``Shape.key_columns``).
    """
    further = [F.sum(name).alias(name) for name in EXTRA_COLUMNS] if width == "columns" else []
    if width == "text":
        further = [F.max("text").alias("text")]

    def job(frame: Any) -> Any:
        return frame.groupBy(*keys).agg(
            F.count("*").alias("rows"),
            F.sum("value").alias("total"),
            F.max("value").alias("most"),
            F.max("ts").alias("latest"),
            *further,
        )

    return job


def aggregate_numbers(frame: Any) -> Any:
    """Five aggregates by key, of whole numbers, decimals and times."""
    return frame.groupBy("key").agg(
        F.count("*").alias("rows"),
        F.sum("amount").alias("amount"),
        F.sum("price").alias("price"),
        F.max("amount").alias("most"),
        F.max("ts").alias("latest"),
    )


def dedup(frame: Any) -> Any:
    """One row of each key; of its other columns any row's, which plain Spark picks by chance."""
    return frame.dropDuplicates(["key"])


def dedup_by_hour(frame: Any) -> Any:
    """Two stages: one row of each key, counted by hour."""
    return by_hour(frame.withWatermark("ts", "1 hour").dropDuplicates(["key"]), "value")


def processor_by_hour(frame: Any) -> Any:
    """Two stages: what a processor tells of each key, counted by hour."""
    told = (
        frame.withWatermark("ts", "1 hour")
        .groupBy("key")
        .transformWithState(
            LatestTotals(),
            outputStructType="key long, ts timestamp, total double",
            outputMode="append",
            timeMode="eventTime",
            eventTimeColumnName="ts",
        )
    )
    return by_hour(told, "total")


def within(hours: int) -> Callable[[Any, Any], Any]:
    """Joins two frames of ours or of Spark's: right rows up to so many hours after the left ones of their key."""

    def job(left: Any, right: Any) -> Any:
        left = left.select("key", "ts", "value").withWatermark("ts", "10 minutes")
        right = right.selectExpr("key AS other", "ts AS later", "value AS price").withWatermark("later", "10 minutes")
        in_range = f"later BETWEEN ts AND ts + INTERVAL {hours} HOURS"
        return left.join(right, F.expr(f"key = other AND {in_range}"))

    return job


def by_hour(frame: Any, value: str) -> Any:
    """Rows, and the sum of a column, by hour of event time."""
    return frame.groupBy(F.window("ts", "1 hour")).agg(F.count("*").alias("rows"), F.sum(value).alias("sum"))


def processor(frame: Any) -> Any:
    """The same StatefulProcessor for us and for Spark."""
    return frame.groupBy("key").transformWithState(
        Totals(), outputStructType=OUTPUT, outputMode="update", timeMode="none"
    )


def processor_by(types: Mapping[str, str]) -> Job:
    """The same by other key columns; ``types``: their types in Spark's words."""
    keys = tuple(types)
    output = ", ".join(f"{name} {kind}" for name, kind in {**types, "rows": "long", "total": "double"}.items())

    def job(frame: Any) -> Any:
        return frame.groupBy(*keys).transformWithState(
            TotalsBy(keys), outputStructType=output, outputMode="update", timeMode="none"
        )

    return job


def processor_in_pandas(frame: Any) -> Any:
    """The same on pandas frames."""
    return frame.groupBy("key").transformWithStateInPandas(
        TotalsInPandas(), outputStructType=OUTPUT, outputMode="update", timeMode="none"
    )


class Totals(StatefulProcessor):
    """Rows and total of every key so far: one value state, one get, one update and one result per key and batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state: Any = handle.getValueState("totals", "rows long, total double")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        count, total = self._state.get() if self._state.exists() else (0, 0.0)
        for row in rows:
            count += 1
            total += row.value
        self._state.update((count, total))
        yield Row(key=key[0], rows=count, total=total)

    def close(self) -> None:
        pass


class TotalsBy(Totals):
    """The same by several key columns.

    Args:
        keys: their names.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in super().handleInputRows(key, rows, timerValues):
            yield Row(**dict(zip(self._keys, key, strict=True)), rows=row.rows, total=row.total)


class LatestTotals(Totals):
    """As :class:`Totals`, with the event time of the last row."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        count, total = self._state.get() if self._state.exists() else (0, 0.0)
        latest = None
        for row in rows:
            count += 1
            total += row.value
            latest = row.ts if latest is None else max(latest, row.ts)
        self._state.update((count, total))
        yield Row(key=key[0], ts=latest, total=total)


class TotalsInPandas(Totals):
    """As :class:`Totals`, as one writes it with pandas."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        count, total = self._state.get() if self._state.exists() else (0, 0.0)
        for frame in rows:
            count += len(frame)
            total += frame["value"].sum()
        self._state.update((count, float(total)))
        yield pd.DataFrame({"key": [key[0]], "rows": [count], "total": [total]})


def timed_processor(frame: Any) -> Any:
    """A processor with an event-time timer, the same for us and for Spark."""
    return (
        frame.withWatermark("ts", "1 minute")
        .groupBy("key")
        .transformWithState(TimedTotals(), outputStructType=OUTPUT, outputMode="update", timeMode="eventTime")
    )


def life(frame: Any) -> Any:
    """A processor as in life, the same for us and for Spark: a list, a map and a timer for each key."""
    return (
        frame.selectExpr("key", "ts", "value", "concat('category-', floor(value) % 5) AS category")
        .withWatermark("ts", "1 minute")
        .groupBy("key")
        .transformWithState(Recent(), outputStructType=OUTPUT, outputMode="update", timeMode="eventTime")
    )


class Recent(StatefulProcessor):
    """A key's events in a list, their number and latest time by category in a map, and a timer that lets the key go."""

    _KEPT_MS = 86_400_000

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._events: Any = handle.getListState("events", "ts timestamp, value double")
        self._seen: Any = handle.getMapState("seen", "category string", "rows long, latest timestamp")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        count, total, latest = 0, 0.0, 0
        for row in rows:
            self._events.appendValue((row.ts, row.value))
            category = (row.category,)
            before = self._seen.getValue(category)[0] if self._seen.containsKey(category) else 0
            self._seen.updateValue(category, (before + 1, row.ts))
            count, total, latest = count + 1, total + row.value, max(latest, int(row.ts.timestamp() * 1000))
        for timer in self._handle.listTimers():
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(latest + self._KEPT_MS)
        yield Row(key=key[0], rows=count, total=total)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        count = sum(1 for _ in self._events.get())
        self._events.clear()
        self._seen.clear()
        yield Row(key=key[0], rows=count, total=0.0)

    def close(self) -> None:
        pass


class TimedTotals(StatefulProcessor):
    """Rows and total of a key until half an hour without rows: one value state, and one timer that every call moves."""

    _GAP_MS = 1_800_000

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state: Any = handle.getValueState("totals", "rows long, total double, latest long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        count, total, latest = self._state.get() if self._state.exists() else (0, 0.0, 0)
        if latest:
            self._handle.deleteTimer(latest + self._GAP_MS)
        for row in rows:
            count += 1
            total += row.value
            latest = max(latest, int(row.ts.timestamp() * 1000))
        self._state.update((count, total, latest))
        self._handle.registerTimer(latest + self._GAP_MS)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        count, total, _ = self._state.get()
        self._state.clear()
        yield Row(key=key[0], rows=count, total=total)

    def close(self) -> None:
        pass
