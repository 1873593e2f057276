"""The two jobs of all benchmarks: an aggregate, and a Python processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dataset import EXTRA_COLUMNS, Width
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "key long, rows long, total double"

#: Adds a keyed stage to a frame of ours or of Spark's.
Job = Callable[[Any], Any]


def aggregate(width: Width = "narrow") -> Job:
    """Declarative: four aggregates by key, and one for each further column."""
    further = [F.sum(name).alias(name) for name in EXTRA_COLUMNS] if width == "columns" else []
    if width == "text":
        further = [F.max("text").alias("text")]

    def job(frame: Any) -> Any:
        return frame.groupBy("key").agg(
            F.count("*").alias("rows"),
            F.sum("value").alias("total"),
            F.max("value").alias("most"),
            F.max("ts").alias("latest"),
            *further,
        )

    return job


def processor(frame: Any) -> Any:
    """The same StatefulProcessor for us and for Spark."""
    return frame.groupBy("key").transformWithState(
        Totals(), outputStructType=OUTPUT, outputMode="update", timeMode="none"
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
