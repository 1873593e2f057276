"""Aggregates over epochs give what stock Spark's batch ``groupBy().agg()`` gives over all rows at once."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from mixedmode.planner.aggregates import plan_aggregate
from mixedmode.runtime.shuffle import key_group
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


def tuples(rows: pa.RecordBatch | pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples; by position, since results may share a name."""
    return list(zip(*[column.to_pylist() for column in rows.columns], strict=True))


class Collected:
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
        self.cache = ReplicaCache()
        self.batch_rows = batch_rows
        self.lineages = [ShardLineage(groups, ()) for groups in shard_ranges(SHARDS, MAX_PARALLELISM)]
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
        table = self.table or (None if frame is None else self._prepared(frame, spec))
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


@pytest.mark.spark
@pytest.mark.parametrize("style", ["sorted", "random"])
@pytest.mark.parametrize("slide", ["10 minutes", "4 minutes"])
def test_windows_fire_once_with_all_rows_that_were_not_late(
    spark: SparkSession, job: Any, style: Any, slide: str
) -> None:
    """Tumbling and sliding windows over out-of-order epochs, under a watermark that moves after each of them."""
    window = F.window("ts", "10 minutes", slide)
    frame = events(spark, out_of_order(epochs=4, seed=7))
    operator = plan_aggregate(frame, ["k", window], measures(), event_time="ts", output_mode="append", uid="agg")
    running = job(operator)
    watermarks = [ms(-120), ms(10), ms(40), ms(70)]
    windows = frame.select("*", window.alias("window"))
    late_at = F.element_at(F.array(*[F.lit(w) for w in watermarks]), F.col("e") + 1)
    on_time = windows.where(F.unix_millis(F.col("window.end")) > late_at)
    out: list[tuple[Any, ...]] = []
    late = 0
    for epoch, watermark in enumerate(watermarks):
        fired = running.run(frame.where(F.col("e") == epoch), late_ms=watermark, firing_ms=watermark, style=style)
        assert all(row[1]["end"].timestamp() * 1000 <= watermark for row in fired)
        if style == "random":
            ends = [row[1]["end"] for row in fired]
            assert sum(left > right for left, right in pairwise(ends)) <= SHARDS - 1
        out += fired
        late += running.total("rows_late")
        seen = on_time.where(F.col("e") <= epoch)
        still_open = seen.where(F.unix_millis(F.col("window.end")) > watermark).select("k", "window").distinct()
        assert running.stored_entries() == 2 * still_open.count(), "a cell and a timer for each open window"
        earliest = min(
            (c.next_event_timer_ms for c in running.counters if c.next_event_timer_ms is not None), default=None
        )
        assert earliest == still_open.agg(F.min(F.unix_millis("window.end"))).first()[0]  # type: ignore[index]
    # A row is late if even the latest of its windows is.
    latest = windows.groupBy("e", "k", "ts", "v", "t").agg(F.max("window.end").alias("end"))
    counted = frame.where("ts IS NOT NULL").join(latest.drop("k", "t"), ["e", "ts", "v"])
    assert late == counted.where(F.unix_millis("end") <= late_at).count() > 0
    out += running.run(None, firing_ms=MAX_WATERMARK, style=style)
    assert running.stored_entries() == 0
    assert running.counters[0].next_event_timer_ms is None
    same(out, oracle(on_time, ["k", "window"], measures()))


@pytest.mark.spark
@pytest.mark.parametrize("style", ["sorted", "random"])
def test_sessions_merge_across_epochs(spark: SparkSession, job: Any, style: Any) -> None:
    """Rows of later epochs extend, bridge and precede sessions that wait in the state; each fires once."""
    window = F.session_window("ts", "5 minutes")
    rng = random.Random(3)
    rows = [(rng.randrange(3), rng.choice(["a", "b", None]), rng.uniform(0, 200), v) for v in range(90)]
    # Exactly touching sessions are one, as in Spark; 0.1 ms further they are two.
    rows += [(0, "touch", 0.0, 1), (1, "touch", 5.0, 2), (2, "touch", 10.0 + 1e-5, 3), (1, "c", 100.0, 1)]
    frame = events(spark, rows)
    operator = plan_aggregate(frame, [window, "k"], measures(), event_time="ts", output_mode="append", uid="agg")
    running = job(operator, batch_rows=3)
    for epoch in range(3):
        assert running.run(frame.where(F.col("e") == epoch), style=style) == []
        assert running.total("rows_late") == 0
    out = running.run(None, firing_ms=ms(100), style=style)
    expected = oracle(frame, [window, "k"], measures())
    due = [row for row in expected if row[0]["end"].timestamp() * 1000 <= ms(100)]
    assert 0 < len(due) < len(expected)
    same(out, due)
    assert running.total("timers_fired") == len(due)
    open_ends = [row[0]["end"].timestamp() * 1000 for row in expected if row not in due]
    assert min(c.next_event_timer_ms for c in running.counters if c.next_event_timer_ms) == int(min(open_ends))
    out += running.run(None, firing_ms=MAX_WATERMARK, style=style)
    same(out, expected)
    assert running.stored_entries() == 0


@pytest.mark.spark
def test_a_late_session_row_is_dropped_unless_it_joins_an_open_session(spark: SparkSession, job: Any) -> None:
    """A session that ends at or before the watermark is late; one that ends after it merges with what is open."""
    frame = events(spark, [(0, "a", 10, 1), (1, "a", 3, 2), (1, "a", 6, 4), (2, "a", 1, 8)])
    window = F.session_window("ts", "5 minutes")
    operator = plan_aggregate(frame, ["k", window], measures()[:2], event_time="ts", output_mode="append", uid="agg")
    running = job(operator)
    running.run(frame.where("e = 0"))
    assert running.run(frame.where("e = 1"), late_ms=ms(9), firing_ms=ms(9)) == []
    assert running.total("rows_late") == 0
    assert running.run(frame.where("e = 2"), late_ms=ms(9), firing_ms=ms(9), style="random") == []
    assert running.total("rows_late") == 1
    [row] = running.run(None, firing_ms=ms(15), style="random")
    assert row[0] == "a"
    assert row[2:] == (3, 7)
    assert [row[1][end].replace(tzinfo=None) for end in ("start", "end")] == [at(3), at(15)]


@pytest.mark.spark
def test_a_fired_window_opens_again_for_later_rows(spark: SparkSession, job: Any) -> None:
    """Under a final watermark of MAX at the switch, a straddling window fires, and fires again with the rest."""
    frame = events(spark, [(0, "a", 1, 1), (1, "a", 2, 2)])
    groups = ["k", F.window("ts", "10 minutes")]
    operator = plan_aggregate(frame, groups, [F.sum("v")], event_time="ts", output_mode="append", uid="agg")
    running = job(operator)
    assert [row[2] for row in running.run(frame.where("e = 0"), firing_ms=MAX_WATERMARK)] == [1]
    assert running.run(frame.where("e = 1"), style="random") == []
    assert [row[2] for row in running.run(None, firing_ms=ms(10), style="random")] == [2]


@pytest.mark.spark
@pytest.mark.parametrize("style", ["sorted", "random"])
def test_update_mode_emits_touched_windows_and_forgets_past_ones(spark: SparkSession, job: Any, style: Any) -> None:
    """Each touched window comes out once per epoch with all its rows; behind the watermark its state is gone."""
    frame = events(spark, [(0, "a", 1, 1), (0, "b", 1, 10), (0, "a", 11, 100), (1, "a", 2, 2), (1, "a", 12, 200)])
    groups = ["k", F.window("ts", "10 minutes")]
    operator = plan_aggregate(frame, groups, [F.sum("v")], event_time="ts", output_mode="update", uid="agg")
    running = job(operator)
    assert sorted(row[2] for row in running.run(frame.where("e = 0"), style=style)) == [1, 10, 100]
    assert sorted(row[2] for row in running.run(frame.where("e = 1"), firing_ms=ms(10), style=style)) == [3, 300]
    assert running.stored_entries() == 2, "one open window: its cell and its timer"
    assert running.run(None, firing_ms=ms(20), style=style) == []
    assert running.stored_entries() == 0


@pytest.mark.spark
def test_batch_mode_emits_every_key_at_its_end_and_writes_no_state(spark: SparkSession, job: Any) -> None:
    """Without watermark or window, append has its moment at the end of input."""
    frame = events(spark, out_of_order(epochs=2, seed=1))
    operator = plan_aggregate(frame, ["k"], measures(), event_time=None, output_mode="append", uid="agg", bounded=True)
    running = job(operator)
    out = running.run(frame, firing_ms=MAX_WATERMARK, keep_state=False)
    same(out, oracle(frame, ["k"], measures()))
    assert all(not lineage.files for lineage in running.lineages)


@pytest.mark.spark
def test_bounded_append_over_several_chunks_emits_all_keys_at_the_end(spark: SparkSession, job: Any) -> None:
    """Keys without event time wait in the state until MAX_WATERMARK, those of early chunks too."""
    frame = events(spark, out_of_order(epochs=3, seed=2))
    operator = plan_aggregate(frame, ["k"], measures(), event_time="ts", output_mode="append", uid="agg", bounded=True)
    running = job(operator)
    for epoch in range(2):
        assert running.run(frame.where(F.col("e") == epoch)) == []
        assert running.counters[0].next_event_timer_ms == MAX_WATERMARK  # so that the end of input visits them
    out = running.run(frame.where("e = 2 AND k = 'a'"), firing_ms=MAX_WATERMARK)
    same(out, oracle(frame.where("e < 2 OR k = 'a'"), ["k"], measures()))
    assert running.stored_entries() == 0


@pytest.mark.spark
def test_first_and_last_follow_event_time_however_the_input_is_cut(spark: SparkSession, job: Any) -> None:
    """With a watermark declared, first is the earliest row and last the latest, whatever epoch they came in."""
    rows = [(v % 3, "a", float((v * 37) % 60), v if v % 4 else -v) for v in range(1, 40)]
    frame = events(spark, rows).withColumn("x", F.when(F.col("v") % 5 != 0, F.col("v")))
    exprs = [F.first("x"), F.last("x"), F.first("x", ignorenulls=True), F.last("x", ignorenulls=True)]
    operator = plan_aggregate(frame, ["k"], exprs, event_time="ts", output_mode="update", uid="agg")
    running = job(operator)
    outs = [running.run(frame.where(F.col("e") == epoch)) for epoch in (2, 0, 1)]
    ordered = [row["x"] for row in frame.orderBy("ts").collect()]
    known = [value for value in ordered if value is not None]
    assert outs[-1] == [("a", ordered[0], ordered[-1], known[0], known[-1])]


@pytest.mark.spark
def test_sums_of_intervals_and_rows_without_event_time(spark: SparkSession, job: Any) -> None:
    """Day-time intervals add up; a row whose event time is null comes before all others, wall-clock times included."""
    rows = [(0, "a", 5, 1), (1, "a", None, 2), (1, "a", 7, 4)]
    frame = events(spark, rows).withColumn("n", F.col("ts").cast("timestamp_ntz"))
    exprs = [F.sum(F.expr("make_dt_interval(0, 0, v)")).alias("time"), F.first("v"), F.last("v").alias("latest")]
    for event_time in ("ts", "n"):
        operator = plan_aggregate(frame, ["k"], exprs, event_time=event_time, output_mode="update", uid="agg")
        running = job(operator)
        assert running.run(frame.where("e = 0")) == [("a", timedelta(minutes=1), 1, 1)]
        assert running.run(frame.where("e = 1"), style="random") == [("a", timedelta(minutes=7), 2, 4)]


@pytest.mark.spark
def test_first_and_last_follow_arrival_without_event_time(spark: SparkSession, job: Any) -> None:
    """Across epochs the earlier epoch comes first; a null counts as a value unless nulls are ignored."""
    frame = spark.createDataFrame([(0, "a", None), (1, "a", 1), (2, "a", 2), (3, "a", None)], "e int, k string, v int")
    exprs = [F.first("v"), F.last("v"), F.first("v", ignorenulls=True), F.last("v", ignorenulls=True)]
    operator = plan_aggregate(frame, ["k"], exprs, event_time=None, output_mode="update", uid="agg")
    running = job(operator)
    outs = [running.run(frame.where(F.col("e") == epoch))[0] for epoch in range(4)]
    assert outs == [
        ("a", None, None, None, None),
        ("a", None, 1, 1, 1),
        ("a", None, 2, 1, 2),
        ("a", None, None, 1, 2),
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "value", "legacy"),
    [("long", 2**62, -(2**63)), ("decimal(38,0)", Decimal(6 * 10**37), None)],
)
def test_overflow_across_epochs_is_what_spark_makes_of_it(
    spark: SparkSession, job: Any, kind: str, value: Any, legacy: Any
) -> None:
    """Under ANSI mode the sum raises; without it a long wraps around and a decimal is null from then on."""
    frame = spark.createDataFrame([("a", value)], f"k string, v {kind}")

    def planned() -> Job:
        made: Job = job(plan_aggregate(frame, ["k"], [F.sum("v")], event_time=None, output_mode="update", uid="agg"))
        assert made.run(frame) == [("a", value)]
        return made

    with pytest.raises(AggregateOverflowError, match=r"sum\(v\) overflows"):
        planned().run(frame)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        running = planned()
        assert running.run(frame) == [("a", legacy)]
        expected = -(2**63) + 2**62 if legacy is not None else None
        assert running.run(frame) == [("a", expected)]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.spark
def test_partial_rows_of_one_key_are_merged_wherever_batches_are_cut(spark: SparkSession, job: Any) -> None:
    """A key may come in several partial rows, and its rows may straddle any number of batches."""
    frame = events(spark, out_of_order(epochs=5, seed=4))
    operator = plan_aggregate(frame, ["k"], measures(), event_time="ts", output_mode="update", uid="agg")
    expected = oracle(frame, ["k"], measures())
    for batch_rows in (1, 2, 3, 100):
        running = job(operator, batch_rows=batch_rows)
        spec = EpochSpec(1, "sorted", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)
        parts = pa.concat_tables([running._prepared(frame.where(F.col("e") == epoch), spec) for epoch in range(5)])
        order = pc.sort_indices(parts, [("__kg", "ascending"), ("k", "ascending")], null_placement="at_start")
        running.table = parts.take(order)
        same(running.run(frame), expected)


@pytest.mark.spark
def test_composite_and_odd_keys_come_out_as_spark_has_them(spark: SparkSession, job: Any) -> None:
    """Nulls, NaN, both zeros, expressions and names that are no identifiers."""
    rows = [(math.nan, 1, None), (-0.0, 2, "x"), (0.0, 4, "x"), (None, 8, None), (math.nan, 16, None), (1.5, 32, "")]
    frame = spark.createDataFrame(rows * 2, "`a b.c` double, v int, t string").coalesce(1)
    groups = ["`a b.c`", F.upper("t"), F.col("v") % 4, F.struct(F.col("t"), F.lit(1).alias("one")).alias("s")]
    operator = plan_aggregate(frame, groups, [F.count("*"), F.sum("v")], event_time=None, output_mode="update", uid="u")
    running = job(operator)
    running.run(frame)
    same(running.run(frame, style="random"), oracle(frame.union(frame), groups, [F.count("*"), F.sum("v")]))


@pytest.mark.spark
def test_event_time_as_a_key_of_its_own_is_complete_at_the_watermark(spark: SparkSession, job: Any) -> None:
    """Grouping by the watermark's column itself: each instant fires when the watermark reaches it."""
    frame = events(spark, [(0, "a", 1, 1), (0, "a", 2, 2), (0, "a", 2, 4), (1, "a", 1, 8)])
    operator = plan_aggregate(frame, ["ts"], [F.sum("v")], event_time="ts", output_mode="append", uid="agg")
    running = job(operator)
    assert [row[1] for row in running.run(frame.where("e = 0"), firing_ms=ms(1))] == [1]
    assert max(c.max_event_time_ms for c in running.counters if c.max_event_time_ms is not None) == ms(2)
    assert running.run(frame.where("e = 1"), late_ms=ms(1), firing_ms=ms(1)) == []
    assert running.total("rows_late") == 1
    assert {c.max_event_time_ms for c in running.counters} == {None}
    assert [row[1] for row in running.run(None, firing_ms=ms(2))] == [6]


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/St_Johns"])
def test_session_time_zone_makes_no_difference_to_instants(spark: SparkSession, job: Any, zone: str) -> None:
    """Windows on timestamp and timestamp_ntz columns under a session time zone other than the process's."""
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = events(spark, out_of_order(epochs=2, seed=9)).withColumn("n", F.col("ts").cast("timestamp_ntz"))
        for column in ("ts", "n"):
            groups = ["k", F.window(column, "1 hour", "30 minutes")]
            exprs = [F.count("*"), F.max("ts"), F.min("n")]
            operator = plan_aggregate(frame, groups, exprs, event_time=column, output_mode="append", uid="agg")
            running = job(operator)
            out = running.run(frame.where("e = 0"), firing_ms=ms(0) - 86_400_000)
            out += running.run(frame.where("e = 1"), firing_ms=MAX_WATERMARK)
            expected = oracle(frame, groups, exprs)
            same(out, expected)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.spark
def test_empty_epochs_write_and_emit_nothing(spark: SparkSession, job: Any) -> None:
    """No rows, no base, no due timers: nothing comes of it."""
    frame = events(spark, [(0, "a", 1, 1)])
    groups = ["k", F.window("ts", "10 minutes")]
    running = job(plan_aggregate(frame, groups, measures(), event_time="ts", output_mode="append", uid="agg"))
    assert running.run(frame.where("false"), firing_ms=MAX_WATERMARK) == []
    assert running.run(None, firing_ms=MAX_WATERMARK, style="random") == []
    assert all(not lineage.files for lineage in running.lineages)
    assert running.counters[0] == replace(ShardCounters())
