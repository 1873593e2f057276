"""The data and the processor that all ways of running a job share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "key long, ts timestamp, value double"
#: Files of the input, and micro-batches of every streaming run (one file each).
FILES = 10
OUTPUT = "key long, rows long, total double"


@dataclass(frozen=True)
class Size:
    """How much data a job gets: from ``<prefix>_ROWS`` and ``<prefix>_KEYS``, or the default."""

    rows: int
    keys: int

    @classmethod
    def of(cls, prefix: str, rows: int, keys: int) -> Size:
        return cls(int(os.environ.get(f"{prefix}_ROWS", rows)), int(os.environ.get(f"{prefix}_KEYS", keys)))

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.keys:,} keys"


def write_input(spark: SparkSession, size: Size, folder: Path) -> None:
    """FILES parquet files: keys in random order, each in every file; one row a second in file order."""
    seconds = F.col("id")
    rows = spark.range(0, size.rows, 1, FILES).select(
        F.pmod(F.xxhash64("id"), F.lit(size.keys)).alias("key"),
        F.timestamp_seconds(seconds + 1_700_000_000).alias("ts"),
        (F.pmod(F.col("id"), F.lit(1000)) / 8).alias("value"),
    )
    rows.write.parquet(str(folder))


class Totals(StatefulProcessor):
    """Rows and total of every key so far: one value state, one get, one update and one result per key and batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("totals", "rows long, total double")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        count, total = self._state.get() if self._state.exists() else (0, 0.0)
        for row in rows:
            count += 1
            total += row.value
        self._state.update((count, total))
        yield Row(key=key[0], rows=count, total=total)

    def close(self) -> None:
        pass
