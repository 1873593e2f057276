"""What the tests of aggregates share: a job without the runtime around it, the oracle, and rows."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from mixedmode.runtime.jobs.shuffle import key_group
from mixedmode.runtime.operators.aggregate.operator import AggregateOperator
from mixedmode.runtime.operators.contract import EpochSpec, ShardContext, ShardCounters
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from mixedmode.state.keys.keygroups import KeyGroupRange, shard_ranges
from mixedmode.state.store.local_copy import LocalStateCache
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.sst import SstWriter
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

MAX_PARALLELISM = 16
SHARDS = 2
START = datetime(2024, 1, 1)


def tuples(rows: pa.RecordBatch | pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples; by position, since results may share a name."""
    return list(zip(*[column.to_pylist() for column in rows.columns], strict=True))


class CollectedRows:
    """An output writer that keeps the rows."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self.batches.append(rows)

    def rows(self) -> list[tuple[Any, ...]]:
        return [row for batch in self.batches for row in tuples(batch)]


class Job:
    """Runs an operator epoch by epoch over real state files, without the runtime around it."""

    def __init__(self, operator: AggregateOperator, folder: Path, batch_rows: int = 7) -> None:
        self.driver_side = operator
        # What tasks get.
        self.operator: AggregateOperator = cloudpickle.loads(cloudpickle.dumps(operator))
        self.folder = folder
        self.pool = f"{folder}/pool"
        (folder / "pool").mkdir(exist_ok=True)
        self.cache = LocalStateCache()
        self.batch_rows = batch_rows
        self.manifests = [StateManifest(groups, ()) for groups in shard_ranges(SHARDS, MAX_PARALLELISM)]
        self.epoch = 0
        self.counters: list[ShardCounters] = []
        #: Rows to run on instead of what prepare() makes.
        self.table: pa.Table | None = None

    def run(
        self,
        frame: DataFrame | None,
        *,
        firing_ms: int = MIN_WATERMARK,
        late_ms: int = MIN_WATERMARK,
        style: Literal["sorted", "random"] = "sorted",
        keep_state: bool = True,
        has_input: bool = False,
    ) -> list[tuple[Any, ...]]:
        """One epoch; returns its output rows, shard after shard."""
        self.epoch += 1
        spec = EpochSpec(
            epoch=self.epoch,
            style=style,
            watermark_ms=MIN_WATERMARK,
            firing_watermark_ms=firing_ms,
            late_watermark_ms=late_ms,
            processing_time_ms=0,
            processing_timers_upto_ms=MIN_WATERMARK,
            keep_state=keep_state,
            has_input=has_input,
        )
        table = self.table or (None if frame is None else self._prepared(frame, spec))
        output: list[tuple[Any, ...]] = []
        self.counters = []
        for shard, manifest in enumerate(self.manifests):
            base = None
            if manifest.files:
                base = self.cache.acquire(
                    "job", shard, manifest, fs.LocalFileSystem(), self.pool, str(self.folder / "local"), 1 << 20
                )
            writer_class = SstWriter if style == "sorted" else LogWriter
            writer = writer_class(
                fs.LocalFileSystem(), self.pool, str(self.folder), f"e{self.epoch}-s{shard}", self.epoch
            )
            collected, counters = CollectedRows(), ShardCounters()
            context = ShardContext(shard, manifest.key_groups, spec, base, writer, collected, counters)
            self.operator.run(context, self._batches(table, manifest.key_groups))
            self.manifests[shard] = manifest.append(writer.finish())
            output += collected.rows()
            self.counters.append(counters)
        return output

    def _prepared(self, frame: DataFrame, spec: EpochSpec) -> pa.Table:
        rows = self.driver_side.prepare(frame, spec)
        keyed = rows.selectExpr(f"{key_group(self.operator.key_columns, MAX_PARALLELISM)} AS __kg", "*")
        order = ["__kg", *self.operator.key_columns, *self.operator.sort_columns]
        return keyed.coalesce(1).sortWithinPartitions(*[F.col(f"`{name}`") for name in order]).toArrow()

    def _batches(self, table: pa.Table | None, groups: KeyGroupRange) -> Iterator[pa.RecordBatch]:
        if table is None:
            return
        column = table.column("__kg").to_numpy()
        mine = table.filter(pa.array((column >= groups.first) & (column <= groups.last)))
        yield from mine.combine_chunks().to_batches(max_chunksize=self.batch_rows)

    def total(self, counter: str) -> int:
        return sum(getattr(counters, counter) for counters in self.counters)

    def stored_entries(self) -> int:
        """Entries (cells and timers) that the state holds now."""
        count = 0
        for shard, manifest in enumerate(self.manifests):
            if manifest.files:
                local_copy = self.cache.acquire(
                    "job", shard, manifest, fs.LocalFileSystem(), self.pool, str(self.folder / "local"), 1 << 20
                )
                count += sum(1 for _ in local_copy.scan(b"", b"\xff\xff\xff"))
        return count


def oracle(frame: DataFrame, groups: Sequence[str | Column], exprs: Sequence[Column]) -> list[tuple[Any, ...]]:
    """Stock Spark's answer, in the same Python types as a job's output."""
    return tuples(frame.groupBy(*groups).agg(*exprs).toArrow())


def canonical(value: Any) -> Any:
    """A value that compares equal up to the rounding of floats and the order of collected lists."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}") + 0.0
    if isinstance(value, list):
        return sorted((canonical(item) for item in value), key=repr)
    if isinstance(value, dict):
        return tuple((name, canonical(item)) for name, item in value.items())
    return value


def same(actual: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]) -> None:
    """Assert that both hold the same rows in any order."""
    left, right = (sorted(([canonical(v) for v in row] for row in rows), key=repr) for rows in (actual, expected))
    assert left == right


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def ms(minutes: float) -> int:
    return int((at(minutes) - datetime(1970, 1, 1)).total_seconds() * 1000)


def measures() -> list[Column]:
    """A few aggregates of each kind of buffer, enough where windows are what is tested."""
    return [
        F.count("*").alias("n"),
        F.sum("v").alias("total"),
        F.max("t").alias("greatest"),
        F.avg("v").alias("mean"),
        F.collect_list("v").alias("all"),
    ]


def events(spark: SparkSession, rows: Sequence[tuple[int, str | None, float | None, int]]) -> DataFrame:
    """Rows of ``(epoch, key, minute, value)``."""
    data = [(e, k, None if minute is None else at(minute), v, f"t{v % 7}") for e, k, minute, v in rows]
    return spark.createDataFrame(data, "e int, k string, ts timestamp, v int, t string").coalesce(1).cache()


def out_of_order(epochs: int, seed: int) -> list[tuple[int, str | None, float | None, int]]:
    """Rows whose time goes up by 30 minutes per epoch, with stragglers of up to an hour."""
    rng = random.Random(seed)
    rows: list[tuple[int, str | None, float | None, int]] = []
    for epoch in range(epochs):
        for _ in range(40):
            minute = epoch * 30 + rng.uniform(0, 30) - rng.choice([0, 0, 0, 20, 60])
            rows.append((epoch, rng.choice(["a", "b", "c", "", None]), minute, rng.randint(-50, 50)))
        rows.append((epoch, "a", None, 1))
    return rows
