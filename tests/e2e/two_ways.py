"""The same job by stock Structured Streaming and by us, over the same micro-batches.

A job takes what gives the frame of a source, stock's or ours, and says what is written.  Ours runs live over the same
files, or has the first of them as history.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import support
from pyspark.sql import DataFrame, SparkSession

SCHEMA = "key long, ts timestamp, value long"
_ARROW = pa.schema([("key", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("value", pa.int64())])
#: A row of a source: its key, its event time in seconds, its value.
Given = tuple[int | None, float | None, int]
#: By source the rows of a micro-batch.
Batch = Mapping[str, Sequence[Given]]
Frames = Callable[[str], Any]
Job = Callable[[Frames], Any]
#: A stream throughout, as stock runs it: each file an epoch.
STREAM = {"execution.runtime-mode": "streaming"}


class TwoWays:
    """The sources of jobs, each micro-batch a file of each.

    Args:
        spark: the session.
        folder: for all of it.
        batches: what comes.
    """

    def __init__(self, spark: SparkSession, folder: Path, batches: Sequence[Batch]) -> None:
        self.spark, self.folder, self._count, self._runs = spark, folder, len(batches), 0
        self._sources = sorted({name for batch in batches for name in batch})
        for name in self._sources:
            (folder / "all" / name).mkdir(parents=True)
            for number, batch in enumerate(batches):
                path = folder / "all" / name / f"{number:03d}.parquet"
                _write(path, batch.get(name, ()))
                os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def stock(self, job: Job, output_mode: str = "append") -> list[str]:
        """What Structured Streaming delivers, sorted; in complete mode the last table."""
        with support.rocksdb_state_store(self.spark):
            return self._delivered(job(self.live), output_mode, {})

    def ours(
        self, job: Job, output_mode: str = "append", *, history: int = 0, options: Mapping[str, Any] | None = None
    ) -> list[str]:
        """What we deliver of the same; ``history``: so many micro-batches are there before."""
        given = {"pipeline.parallelism": 2, **(options or {} if history else {**STREAM, **(options or {})})}
        return self._delivered(job(lambda name: self.read(name, history)), output_mode, given)

    def live(self, name: str, first: int = 0) -> DataFrame:
        """A source as Spark reads it, from a micro-batch on."""
        return (
            self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self._part(name, first)))
        )

    def read(self, name: str, history: int = 0) -> Any:
        """A source as we read it; ``history``: so many micro-batches are."""
        live = {name: self.live(name, history)}
        if not history:
            return mixedmode.read(live=live)
        files = [str(self.folder / "all" / name / f"{number:03d}.parquet") for number in range(history)]
        return mixedmode.read(history=self.spark.read.schema(SCHEMA).parquet(*files), live=live)

    def _part(self, name: str, first: int) -> Path:
        """The folder of a source's micro-batches from one on."""
        whole = self.folder / "all" / name
        if not first:
            return whole
        part = self.folder / f"from-{first}" / name
        if not part.exists():
            part.mkdir(parents=True)
            for number in range(first, self._count):
                os.link(whole / f"{number:03d}.parquet", part / f"{number:03d}.parquet")
        return part

    def _delivered(self, frame: Any, output_mode: str, options: Mapping[str, Any]) -> list[str]:
        found: list[list[str]] = []

        def take(rows: DataFrame, number: int) -> None:
            got = [repr(tuple(map(_plain, row))) for row in rows.collect()]
            if output_mode == "complete":
                found.clear()
            found.append(got)

        self._runs += 1
        checkpoints = str(self.folder / f"checkpoints-{self._runs}")
        writer = frame.writeStream.outputMode(output_mode).foreachBatch(take).options(**options)
        query = writer.option("checkpointLocation", checkpoints).trigger(availableNow=True).start()
        query.awaitTermination(300)
        assert query.exception() is None
        self.progress = query.recentProgress
        return sorted(row for rows in found for row in rows)


def _write(path: Path, rows: Sequence[Given]) -> None:
    start_us = round(support.START.timestamp() * 1_000_000)
    times = [None if at is None else start_us + round(at * 1_000_000) for _, at, _ in rows]
    columns = [[row[0] for row in rows], times, [row[2] for row in rows]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=_ARROW), path)


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if hasattr(value, "asDict") else value
