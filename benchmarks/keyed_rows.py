"""Rows whose keys are scattered and whose texts differ in length, and the jobs that deduplicate and join them.

What is written is made anew for each seed (``MIXEDMODE_BENCH_SEED``; the default is another one each time), so that no
figure rests on rows that somebody has looked at before.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mixedmode
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dataset import data_folder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

#: The first event time, and the seconds over which all are scattered, from file to file.
_START_S, _SPAN_S = 1_700_000_000, 36_000
_FILES = 10
_MOST_TEXT = 40
PLAIN, OURS, OURS_BY_SPARK = "plain batch", "mixed", "mixed, rows read by Spark"
WAYS = (PLAIN, OURS, OURS_BY_SPARK)


@dataclass(frozen=True)
class Rows:
    """Rows in files: ``key``, ``ts``, ``value`` and ``text``."""

    rows: int
    #: How many rows have the same key, on average; below 2 most keys have one row.
    per_key: float
    is_uuid: bool = False
    seed: int = 0

    @property
    def ddl(self) -> str:
        """Spark's schema."""
        return f"key {'string' if self.is_uuid else 'long'}, ts timestamp, value double, text string"

    def files(self) -> list[str]:
        """The files; made if they are not there."""
        kind = "uuid" if self.is_uuid else "long"
        folder = data_folder() / f"keyed-{self.rows}-{self.per_key}-{kind}-{self.seed}-v1"
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
            unfinished.mkdir(parents=True)
            for number in range(_FILES):
                pq.write_table(self._table(number), unfinished / f"part-{number:05d}.parquet")
            unfinished.rename(folder)
        return sorted(str(path) for path in folder.glob("*.parquet"))

    def remove(self) -> None:
        """Remove the files."""
        shutil.rmtree(Path(self.files()[0]).parent)

    def _table(self, number: int) -> pa.Table:
        random = np.random.default_rng([self.seed, self.rows, number])
        count = self.rows * (number + 1) // _FILES - self.rows * number // _FILES
        keys = random.integers(0, max(1, round(self.rows / self.per_key)), count).astype(np.uint64)
        scattered = (keys + np.uint64(self.seed + 1)) * np.uint64(0x9E3779B97F4A7C15)
        scattered ^= scattered >> np.uint64(29)
        found: Any = pa.array(scattered.view(np.int64))
        if self.is_uuid:
            others = (scattered * np.uint64(0xBF58476D1CE4E5B9)).tolist()
            pairs = zip(scattered.tolist(), others, strict=True)
            found = pa.array([str(uuid.UUID(int=high << 64 | low)) for high, low in pairs])
        times = _START_S * 1_000_000 + ((number + random.random(count)) * _SPAN_S / _FILES * 1_000_000).astype(np.int64)
        letters = pa.array(["".join(random.choice(list("abcdefgh"), length)) for length in range(_MOST_TEXT)] * 20)
        return pa.table(
            {
                "key": found,
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "value": random.random(count) * 1000,
                "text": letters.take(pa.array(random.integers(0, len(letters), count))),
            }
        )


@dataclass(frozen=True)
class RowJob:
    """A job, and the rows that it reads."""

    sides: tuple[Rows, ...]
    #: Of frames of ours or of Spark's, one for each side.
    job: Callable[..., Any]
    #: What plain Spark does for the same rows; None: the same.
    plain: Callable[..., Any] | None = None
    #: Whether the result is written to Parquet files, or to nothing.
    writes_files: bool = False

    def run(self, spark: SparkSession, way: str, folder: Path) -> None:
        """Run it once, in one of :data:`WAYS`."""
        self.prepared(spark, way, folder)()

    def prepared(self, spark: SparkSession, way: str, folder: Path) -> Callable[[], Any]:
        """The job in one of :data:`WAYS`: it is described, and runs when it is called."""
        frames = [spark.read.schema(side.ddl).parquet(*side.files()) for side in self.sides]
        if way == PLAIN:
            result: DataFrame = (self.plain or self.job)(*frames)
            writer = result.write.mode("overwrite")
            if self.writes_files:
                return lambda: writer.parquet(str(folder / "out"))
            return writer.format("noop").save
        stream = self.job(*[mixedmode.read(history=frame) for frame in frames]).writeStream.outputMode("append")
        stream = (
            stream.format("parquet").option("path", str(folder / "out")) if self.writes_files else stream.format("noop")
        )
        stream = stream.option("execution.backlog.engine", "auto" if way == OURS else "spark")
        stream = stream.option("checkpointLocation", str(folder / "checkpoints")).trigger(availableNow=True)
        return lambda: stream.start().awaitTermination()


def _dedup(frame: Any) -> Any:
    return frame.dropDuplicates(["key"])


def _dedup_timed(frame: Any) -> Any:
    return frame.withWatermark("ts", "1 hour").dropDuplicates(["key"])


def _within(frame: Any) -> Any:
    return frame.withWatermark("ts", "30 days").dropDuplicatesWithinWatermark(["key"])


def _windows(frame: Any) -> Any:
    return _dedup_timed(frame).groupBy(F.window("ts", "1 hour")).agg(F.count("*").alias("rows"), F.max("value"))


def _joined(how: str) -> Callable[[Any, Any], Any]:
    def job(left: Any, right: Any) -> Any:
        left = left.withWatermark("ts", "10 minutes")
        right = right.selectExpr("key AS other", "ts AS later", "value AS price").withWatermark("later", "10 minutes")
        return left.join(right, F.expr("key = other AND later BETWEEN ts AND ts + INTERVAL 1 HOUR"), how)

    return job


def row_jobs(rows: int, seed: int) -> dict[str, RowJob]:
    """All jobs by name.

    Args:
        rows: so many are read by a deduplication; a join reads 2/5 of them on each side.
        seed: of the rows.
    """
    few, many = Rows(rows, 1.25, seed=seed), Rows(rows, 25, seed=seed)
    side = round(rows / 2.5)
    sides = Rows(side, 10, seed=seed), Rows(side, 10, seed=seed + 1)
    return {
        "dedup-long-few": RowJob((few,), _dedup),
        "dedup-long-many": RowJob((many,), _dedup),
        "dedup-uuid-few": RowJob((Rows(rows, 1.25, True, seed),), _dedup),
        "dedup-uuid-many": RowJob((Rows(rows, 25, True, seed),), _dedup),
        "dedup-timed": RowJob((few,), _dedup_timed),
        # Batch has no such method; no key goes before the end, so the number of rows is the same.
        "dedup-within": RowJob((few,), _within, _dedup),
        "dedup-windows": RowJob((many,), _windows),
        "join-inner": RowJob(sides, _joined("inner"), writes_files=True),
        "join-left": RowJob(sides, _joined("left_outer"), writes_files=True),
    }
