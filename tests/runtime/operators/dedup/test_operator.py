"""Epochs of a deduplication as Spark prepares them: windows as keys, late rows, keys that are forgotten, other bits."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mixedmode
import pyarrow as pa
import pytest
from aggregate_support import MAX_PARALLELISM, Job, at, events, ms
from mixedmode.runtime.jobs.shuffle import HashExchange, with_key_group
from mixedmode.runtime.operators.arrival_order import ARRIVAL_PLACE_COLUMN, arrival_columns
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.operators.dedup.operator import DedupOperator
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.runtime.spec import Settings
from mixedmode.runtime.tasks.shard.task_meter import TaskMeter
from mixedmode.runtime.tasks.shard.task_sorter import SortPlan, sorted_here
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SPEC = EpochSpec(1, "random", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)


def operator(described: Any) -> DedupOperator:
    made = described._stage.build("d", "append", Settings())
    assert isinstance(made, DedupOperator)
    return made


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Two windows of ten minutes of key a, one of b, each more than once, and rows without event time."""
    return events(
        spark,
        [
            *[(1, "a", 1, 1), (1, "a", 2, 2), (1, "a", 11, 3), (1, "b", 12, 4), (1, "b", None, 5), (1, "b", None, 6)],
            *[(2, "a", 3, 1), (2, "a", 13, 2), (2, "b", 21, 3), (2, None, 22, 4), (2, None, 23, 4), (2, "b", None, 7)],
        ],
    )


def test_windows_among_the_columns_forget_keys_at_their_end(
    spark: SparkSession, rows: DataFrame, job: Callable[..., Job]
) -> None:
    """Late is what a window says that is over, if the rows have no other event time."""

    def distinct(frame: DataFrame) -> Any:
        described = mixedmode.read(history=frame).withWatermark("ts", "0 seconds")
        return described.select("k", F.window("ts", "10 minutes").alias("w")).distinct()

    made = operator(distinct(rows))
    epochs = [distinct(rows.where(F.col("e") == number))._stage.inputs.template for number in (1, 2)]
    running = job(made)

    def starts(found: list[tuple[Any, ...]]) -> list[Any]:
        return sorted(((k, w["start"].replace(tzinfo=None)) for k, w in found), key=repr)

    first = running.run(epochs[0], firing_ms=ms(10))
    assert starts(first) == sorted([("a", at(0)), ("a", at(10)), ("b", at(10))], key=repr)
    assert running.stored_entries() == 2 + 2, "two open windows with their timers"
    second = running.run(epochs[1], late_ms=ms(10), firing_ms=ms(20), style="random")
    assert starts(second) == sorted([("b", at(20)), (None, at(20))], key=repr)
    assert (running.total("rows_in"), running.total("rows_late")) == (5, 1)
    assert running.total("timers_fired") == 2
    late = made.late_rows(epochs[1], replace(SPEC, late_watermark_ms=ms(10)))
    assert late is not None and [row.k for row in late.collect()] == ["a"]
    assert late.columns == epochs[1].columns
    running.run(None, firing_ms=MAX_WATERMARK)
    assert running.stored_entries() == 0


@pytest.mark.parametrize("method", ["dropDuplicates", "dropDuplicatesWithinWatermark"])
def test_late_rows_are_those_that_are_counted(
    spark: SparkSession, rows: DataFrame, job: Callable[..., Job], method: str
) -> None:
    """By event time, also where it is no key, or is gone; a key of which some rows are late has the others."""
    frame = rows.select("k", "ts", "v")
    described = mixedmode.read(history=frame).withWatermark("ts", "1 minute")
    made = operator(getattr(described, method)(["k"]))
    running = job(made)
    found = running.run(frame, late_ms=ms(12))
    # Without event time a row is never late, and comes first.
    assert sorted(((row[0], row[2]) for row in found), key=repr) == sorted([("a", 2), ("b", 5), (None, 4)], key=repr)
    late = made.late_rows(frame, replace(SPEC, late_watermark_ms=ms(12)))
    assert late is not None
    assert running.total("rows_late") == late.count() == 4
    assert sorted(row.v for row in late.collect()) == [1, 1, 2, 3]
    assert max(one.max_event_time_ms or 0 for one in running.counters) == ms(23)


def test_a_carried_event_time_decides_within_the_watermark(
    spark: SparkSession, rows: DataFrame, job: Callable[..., Job]
) -> None:
    """The column that users have dropped is not in the output, but says what is late and when a key is forgotten."""
    described = mixedmode.read(history=rows).withWatermark("ts", "5 minutes").select("k", "v")
    within = described.dropDuplicatesWithinWatermark(["k"])
    made, frame = operator(within), within._stage.inputs.template  # type: ignore[union-attr]
    running = job(made)
    found = running.run(frame.where("k = 'a'"), late_ms=ms(2), firing_ms=ms(6))
    assert found == [("a", 2)]
    assert running.stored_entries() == 2
    running.run(None, firing_ms=ms(7))
    assert running.stored_entries() == 0, "the row of minute 2, and five more"
    assert made.output_schema.names == ["k", "v"]


def _whole(running: Job) -> Job:
    return running


def _few(running: Job) -> Job:
    """The same job, whose rows Spark does not aggregate."""
    made = running.driver_side

    def prepared(frame: DataFrame, spec: EpochSpec) -> pa.Table:
        few = made.prepare_few(frame.coalesce(1), spec)
        assert few is not None
        rows, order = few
        columns = ["__kg", *made.key_columns, *order, *arrival_columns(rows.columns)]
        keyed = with_key_group(rows, made, MAX_PARALLELISM).sortWithinPartitions(*columns)
        return keyed.drop(*arrival_columns(rows.columns)).toArrow()

    running._prepared = prepared  # type: ignore[method-assign]
    return running


def _in_task(running: Job) -> Job:
    """The same job, whose rows Spark does not prepare at all."""
    made = running.driver_side

    def prepared(frame: DataFrame, spec: EpochSpec) -> pa.Table:
        few = made.few_rows(frame.columns, spec, MAX_PARALLELISM)
        assert few is not None
        plan = SortPlan((KEY_GROUP_COLUMN, *made.key_columns), few.order, 1 << 24, None)
        batches = few.of(iter(frame.toArrow().to_batches(max_chunksize=7)))
        with sorted_here(plan, None, TaskMeter(), batches) as (rows, _):
            return pa.Table.from_batches(list(rows))

    running._prepared = prepared  # type: ignore[method-assign]
    return running


@pytest.mark.parametrize("kind", ["plain", "timed", "within", "time among the keys"])
def test_few_rows_give_what_aggregated_ones_give(spark: SparkSession, job: Callable[..., Job], kind: str) -> None:
    """The same rows, counts, event times and state: keys many times in an epoch, again in later ones, late rows, rows
    without event time."""
    numbers = random.Random(7)
    some = [
        (
            epoch,
            numbers.choice(["a", "b", "c", "d", None]),
            numbers.choice([None, *range(epoch * 5, epoch * 5 + 12)]),
            v,
        )
        for epoch in range(4)
        for v in range(40)
    ]
    rows = events(spark, some).coalesce(1)
    described = mixedmode.read(history=rows.select("k", "ts", "v"))
    timed = described if kind == "plain" else described.withWatermark("ts", "3 minutes")
    dedup = timed.dropDuplicatesWithinWatermark if kind == "within" else timed.dropDuplicates
    made = operator(dedup(["k", "ts"] if kind == "time among the keys" else ["k"]))
    all_ways = []
    for way in (_whole, _few, _in_task):
        running = way(job(made))
        found: list[Any] = []
        for epoch in range(4):
            late_ms = MIN_WATERMARK if kind == "plain" or not epoch else ms(epoch * 5 + 2)
            frame = rows.where(F.col("e") == epoch).select("k", "ts", "v")
            given = running.run(frame, late_ms=late_ms, firing_ms=late_ms, style="random")
            told = [running.total(name) for name in ("rows_in", "rows_late", "keys", "timers_fired")]
            times = [one.max_event_time_ms for one in running.counters]
            found.append((sorted(given, key=repr), told, times, running.stored_entries()))
        all_ways.append(found)
    assert all_ways[0] == all_ways[1] == all_ways[2]
    assert kind == "plain" or sum(one[1][1] for one in all_ways[0]) > 0, "some rows are late"


def test_few_rows_are_aggregated_where_their_keys_need_it(spark: SparkSession) -> None:
    """Fractions are equal whose bits are not; and without columns that differ none is first."""
    frame = spark.range(9).selectExpr("id / 4 AS d", "string(id) AS t", "id")
    described = mixedmode.read(history=frame)
    for keys in (["d"], ["t", "d"], None):
        made = operator(described.dropDuplicates(keys))
        assert made.prepare_few(frame, SPEC) is None, keys
        assert made.few_rows(frame.columns, SPEC, MAX_PARALLELISM) is None, keys
    made = operator(described.dropDuplicates(["t"]))
    assert made.prepare_few(frame, SPEC) is not None
    assert made.few_rows(frame.columns, SPEC, MAX_PARALLELISM) is not None


def test_few_rows_are_spark_s_where_only_spark_can_prepare_them(spark: SparkSession) -> None:
    """Keys that are not hashed here, and rows that bring an order of their own."""
    frame = spark.range(9).selectExpr("id", "CAST(id AS DECIMAL(30, 2)) AS d", "timestamp_seconds(id) AS ts")
    described = mixedmode.read(history=frame)
    made = operator(described.dropDuplicates(["d"]))
    assert made.prepare_few(frame, SPEC) is not None
    assert made.few_rows(frame.columns, SPEC, MAX_PARALLELISM) is None
    made = operator(described.dropDuplicates(["id"]))
    few = made.few_rows(["id", "else", "d", "ts"], SPEC, MAX_PARALLELISM)
    assert few is not None and few.input_columns == ("id", "d", "ts"), "nobody asks for the other one"
    assert made.few_rows([*frame.columns, ARRIVAL_PLACE_COLUMN], SPEC, MAX_PARALLELISM) is None
    assert made.few_rows([*frame.columns, "id"], SPEC, MAX_PARALLELISM) is None, "two columns of one name"


def test_what_decides_the_result_is_in_the_fingerprint(rows: DataFrame) -> None:
    """Other keys, retention or columns are another pass."""
    described = mixedmode.read(history=rows)
    timed = described.withWatermark("ts", "1 minute")
    jobs = [
        described.dropDuplicates(["k"]),
        described.dropDuplicates(["v"]),
        described.drop("t").dropDuplicates(["k"]),
        timed.dropDuplicates(["k"]),
        timed.dropDuplicatesWithinWatermark(["k"]),
        described.withWatermark("ts", "2 minutes").dropDuplicatesWithinWatermark(["k"]),
    ]
    assert len({operator(one).fingerprint() for one in jobs}) == len(jobs)
    assert operator(jobs[0]).fingerprint() == operator(described.dropDuplicates(["k", "k"])).fingerprint()


@pytest.mark.parametrize("keys", [["k"], ["d", "t"], None])
def test_the_backlog_needs_one_exchange_which_is_by_the_keys(spark: SparkSession, keys: list[str] | None) -> None:
    """So that Spark's own aggregation brings each key to its shard: for numbers, fractions, and all columns."""
    frame = spark.range(0, 100, 1, 3).selectExpr("id % 7 AS k", "id / 4 AS d", "string(id % 3) AS t")
    made = operator(mixedmode.read(history=frame).dropDuplicates(keys))
    exchange = HashExchange(spark, made, 2)
    rows = with_key_group(made.prepare(exchange.adopt(frame), SPEC), made, 16)
    job = rows.sortWithinPartitions("__kg", *made.key_columns).mapInArrow(lambda batches: batches, rows.schema)
    assert exchange.is_possible(made, 16, 2)
    assert exchange.holds(job)
