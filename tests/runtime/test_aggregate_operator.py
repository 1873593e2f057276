"""Aggregates over epochs give what stock Spark's batch ``groupBy().agg()`` gives over all rows at once."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from mixedmode.planner.aggregates import plan_aggregate
from mixedmode.runtime.epochs import key_group
from mixedmode.runtime.operators.aggregate import AggregateOperator
from mixedmode.runtime.operators.aggregate_buffers import AggregateOverflowError
from mixedmode.runtime.spec import MAX_WATERMARK, MIN_WATERMARK, EpochSpec, ShardContext, ShardCounters
from mixedmode.state.keygroups import KeyGroupRange, shard_ranges
from mixedmode.state.lineage import ShardLineage
from mixedmode.state.replica import ReplicaCache
from mixedmode.state.sst import LogWriter, SstWriter
from pyarrow import fs
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

MAX_PARALLELISM = 16
SHARDS = 2
START = datetime(2024, 1, 1)


class Collected:
    """An output writer that keeps the rows."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self.batches.append(rows)

    def rows(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for batch in self.batches for row in batch.to_pylist()]


class Job:
    """Runs an operator epoch by epoch over real state files, without the runtime around it."""

    def __init__(self, operator: AggregateOperator, folder: Path, batch_rows: int = 7) -> None:
        self.driver_side = operator
        # What tasks get.
        self.operator: AggregateOperator = cloudpickle.loads(cloudpickle.dumps(operator))
        self.folder = folder
        self.pool = f"{folder}/pool"
        (folder / "pool").mkdir(exist_ok=True)
        self.cache = ReplicaCache()
        self.batch_rows = batch_rows
        self.lineages = [ShardLineage(groups, ()) for groups in shard_ranges(SHARDS, MAX_PARALLELISM)]
        self.epoch = 0
        self.counters: list[ShardCounters] = []

    def run(
        self,
        frame: DataFrame | None,
        *,
        firing_ms: int = MIN_WATERMARK,
        late_ms: int = MIN_WATERMARK,
        style: Literal["sorted", "random"] = "sorted",
        keep_state: bool = True,
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
        )
        table = None if frame is None else self._prepared(frame, spec)
        output: list[tuple[Any, ...]] = []
        self.counters = []
        for shard, lineage in enumerate(self.lineages):
            base = None
            if lineage.files:
                base = self.cache.acquire(
                    "job", shard, lineage, fs.LocalFileSystem(), self.pool, str(self.folder / "local"), 1 << 20
                )
            writer_class = SstWriter if style == "sorted" else LogWriter
            writer = writer_class(
                fs.LocalFileSystem(), self.pool, str(self.folder), f"e{self.epoch}-s{shard}", self.epoch
            )
            collected, counters = Collected(), ShardCounters()
            context = ShardContext(shard, lineage.key_groups, spec, base, writer, collected, counters)
            self.operator.run(context, self._batches(table, lineage.key_groups))
            self.lineages[shard] = lineage.append(writer.finish())
            output += collected.rows()
            self.counters.append(counters)
        return output

    def _prepared(self, frame: DataFrame, spec: EpochSpec) -> pa.Table:
        rows = self.driver_side.prepare(frame, spec)
        keyed = rows.select(key_group(self.operator.key_columns, MAX_PARALLELISM).alias("__kg"), "*")
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
        for shard, lineage in enumerate(self.lineages):
            if lineage.files:
                replica = self.cache.acquire(
                    "job", shard, lineage, fs.LocalFileSystem(), self.pool, str(self.folder / "local"), 1 << 20
                )
                count += sum(1 for _ in replica.scan(b"", b"\xff\xff\xff"))
        return count


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Any]:
    """Makes a job out of an operator; closes its replicas at the end."""
    jobs: list[Job] = []

    def make(operator: AggregateOperator, **kwargs: Any) -> Job:
        folder = tmp_path / str(len(jobs))
        folder.mkdir()
        jobs.append(Job(operator, folder, **kwargs))
        return jobs[-1]

    yield make
    for made in jobs:
        made.cache.close()


def oracle(frame: DataFrame, groups: Sequence[str | Column], exprs: Sequence[Column]) -> list[tuple[Any, ...]]:
    """Stock Spark's answer, in the same Python types as a job's output."""
    return [tuple(row.values()) for row in frame.groupBy(*groups).agg(*exprs).toArrow().to_pylist()]


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


SCHEMA = (
    "seq long, k string, i int, l long, s short, f float, d double, m decimal(12,3), w decimal(30,6), t string,"
    " y binary, b boolean, da date, ts timestamp, n timestamp_ntz, a array<int>, st struct<p:int,q:string>"
)


def random_rows(count: int, seed: int, keys: int = 6) -> list[tuple[Any, ...]]:
    """Rows of every type, a fifth of the values null, with the awkward floats among them."""
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    rows = []
    for seq in range(count):
        number = rng.randint(-1000, 1000)
        awkward = rng.choice([0.0, -0.0, math.nan, math.inf, -math.inf] + [number / 7] * 20)
        stamp = START + timedelta(microseconds=rng.randint(0, 10**10))
        rows.append(
            (
                seq,
                maybe(f"key{rng.randrange(keys)}"),
                maybe(number),
                maybe(number * 10**12),
                maybe(rng.randint(-30000, 30000)),
                maybe(awkward),
                maybe(awkward * 3),
                maybe(Decimal(number * 17) / 1000),
                maybe(Decimal(number * 10**15) / 10**6),
                maybe(rng.choice(["", "a", "ab", "b", "ü", "zz"])),
                maybe(bytes([rng.randrange(256)] * rng.randrange(3))),
                maybe(rng.random() < 0.5),
                maybe((START + timedelta(days=number)).date()),
                maybe(stamp),
                maybe(stamp),
                maybe([number, None, 3][: rng.randrange(4)]),
                maybe((number, rng.choice(["x", None]))),
            )
        )
    return rows


def aggregates() -> list[Column]:
    """Every function, over every type that it takes."""
    return [
        F.count("*").alias("n"),
        F.expr("count(i, t)").alias("n_it"),
        *[F.sum(c).alias(f"sum_{c}") for c in ("i", "l", "s", "f", "d", "m", "w")],
        *[F.avg(c).alias(f"avg_{c}") for c in ("i", "l", "f", "d", "m", "w")],
        *[F.min(c).alias(f"min_{c}") for c in ("i", "s", "f", "d", "m", "t", "y", "b", "da", "ts", "n", "a", "st")],
        *[F.max(c).alias(f"max_{c}") for c in ("i", "s", "f", "d", "m", "t", "y", "b", "da", "ts", "n", "a", "st")],
        *[F.min_by(c, "seq").alias(f"min_by_{c}") for c in ("i", "t", "m", "a", "b", "st", "ts")],
        *[F.max_by(c, "seq").alias(f"max_by_{c}") for c in ("d", "y", "n", "da")],
        *[F.stddev(c).alias(f"sd_{c}") for c in ("i", "m")],
        F.stddev_pop("l"),
        F.variance("i"),
        F.var_pop("s"),
        F.var_samp("d").alias("var_awkward"),
        *[F.collect_list(c).alias(f"list_{c}") for c in ("i", "t", "m", "b", "st", "a", "ts")],
        *[F.collect_set(c).alias(f"set_{c}") for c in ("i", "t", "d", "m", "b", "da")],
        F.count_distinct("t").alias("distinct_t"),
        F.count_distinct("t", "b").alias("distinct_tb"),
        F.count_distinct("d").alias("distinct_d"),
        F.expr("sum(i) FILTER (WHERE b)").alias("sum_if"),
        F.expr("count(*) FILTER (WHERE i > 0 AND t <> 'it''s')").alias("count_if"),
        F.sum(F.when(F.col("b"), F.col("m")).otherwise(F.lit(1))).alias("sum_when"),
        F.expr("count_if(i > 0)").alias("positive"),
        F.expr("bool_and(b)").alias("all_b"),
        F.expr("bool_or(b)").alias("some_b"),
        F.max(F.struct("i", "t")).alias("max_struct"),
    ]


@pytest.mark.spark
@pytest.mark.parametrize(("epochs", "style"), [(1, "sorted"), (3, "sorted"), (3, "random")])
def test_every_function_and_type_equals_stock_spark_however_the_input_is_cut(
    spark: SparkSession, job: Any, epochs: int, style: Any
) -> None:
    """Types, nulls, NaN, decimals: the last update of each key is what a batch groupBy over all rows gives."""
    exprs = aggregates()
    frame = spark.createDataFrame(random_rows(240, seed=epochs), SCHEMA).coalesce(1).cache()
    operator = plan_aggregate(frame, ["k"], exprs, event_time=None, output_mode="update", uid="agg")
    assert operator.output_schema == frame.groupBy("k").agg(*exprs).schema
    running = job(operator)
    latest: dict[Any, tuple[Any, ...]] = {}
    for epoch in range(epochs):
        out = running.run(frame.where(F.col("seq") % epochs == epoch), style=style)
        assert running.total("rows_in") == 240 // epochs
        assert len({row[0] for row in out}) == len(out) == running.total("keys")
        latest.update({row[0]: row for row in out})
    same(list(latest.values()), oracle(frame, ["k"], exprs))
