"""Keys, modes and batches of an aggregate over epochs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from aggregate_support import events, measures, oracle, out_of_order, same
from mixedmode.planner.stages.aggregates.aggregate import InputTraits, plan_aggregate
from mixedmode.runtime.operators.contract import EpochSpec, ShardCounters
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.sorter.order import Ordering
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

BOUNDED = InputTraits(bounded=True)


def test_batch_mode_emits_every_key_at_its_end_and_writes_no_state(spark: SparkSession, job: Any) -> None:
    """Without watermark or window, append has its moment at the end of input."""
    frame = events(spark, out_of_order(epochs=2, seed=1))
    operator = plan_aggregate(
        frame, ["k"], measures(), event_time=None, output_mode="append", uid="agg", traits=BOUNDED
    )
    running = job(operator)
    out = running.run(frame, firing_ms=MAX_WATERMARK, keep_state=False)
    same(out, oracle(frame, ["k"], measures()))
    assert all(not manifest.files for manifest in running.manifests)


def test_bounded_append_over_several_chunks_emits_all_keys_at_the_end(spark: SparkSession, job: Any) -> None:
    """Keys without event time wait in the state until MAX_WATERMARK, those of early chunks too."""
    frame = events(spark, out_of_order(epochs=3, seed=2))
    operator = plan_aggregate(
        frame, ["k"], measures(), event_time="ts", output_mode="append", uid="agg", traits=BOUNDED
    )
    running = job(operator)
    for epoch in range(2):
        assert running.run(frame.where(F.col("e") == epoch)) == []
        assert running.counters[0].next_event_timer_ms == MAX_WATERMARK  # so that the end of input visits them
    out = running.run(frame.where("e = 2 AND k = 'a'"), firing_ms=MAX_WATERMARK)
    same(out, oracle(frame.where("e < 2 OR k = 'a'"), ["k"], measures()))
    assert running.stored_entries() == 0


@pytest.mark.slow
def test_partial_rows_of_one_key_are_merged_wherever_batches_are_cut(spark: SparkSession, job: Any) -> None:
    """A key may come in several partial rows, and its rows may straddle any number of batches."""
    frame = events(spark, out_of_order(epochs=5, seed=4))
    operator = plan_aggregate(frame, ["k"], measures(), event_time="ts", output_mode="update", uid="agg")
    expected = oracle(frame, ["k"], measures())
    for batch_rows in (1, 2, 3, 100):
        running = job(operator, batch_rows=batch_rows)
        spec = EpochSpec(1, "sorted", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)
        parts = pa.concat_tables([running._prepared(frame.where(F.col("e") == epoch), spec) for epoch in range(5)])
        ordering, batch = Ordering(parts.schema, ("__kg", "k")), parts.combine_chunks().to_batches()[0]
        running.table = parts.take(ordering.sort_indices(ordering.extend(batch)))
        same(running.run(frame), expected)


def test_composite_and_odd_keys_come_out_as_spark_has_them(spark: SparkSession, job: Any) -> None:
    """Nulls, NaN, both zeros, expressions and names that are no identifiers."""
    rows = [(math.nan, 1, None), (-0.0, 2, "x"), (0.0, 4, "x"), (None, 8, None), (math.nan, 16, None), (1.5, 32, "")]
    frame = spark.createDataFrame(rows * 2, "`a b.c` double, v int, t string").coalesce(1)
    groups = ["`a b.c`", F.upper("t"), F.col("v") % 4, F.struct(F.col("t"), F.lit(1).alias("one")).alias("s")]
    operator = plan_aggregate(frame, groups, [F.count("*"), F.sum("v")], event_time=None, output_mode="update", uid="u")
    running = job(operator)
    running.run(frame)
    same(running.run(frame, style="random"), oracle(frame.union(frame), groups, [F.count("*"), F.sum("v")]))


def test_empty_epochs_write_and_emit_nothing(spark: SparkSession, job: Any) -> None:
    """No rows, no base, no due timers: nothing comes of it."""
    frame = events(spark, [(0, "a", 1, 1)])
    groups = ["k", F.window("ts", "10 minutes")]
    running = job(plan_aggregate(frame, groups, measures(), event_time="ts", output_mode="append", uid="agg"))
    assert running.run(frame.where("false"), firing_ms=MAX_WATERMARK) == []
    assert running.run(None, firing_ms=MAX_WATERMARK, style="random") == []
    assert all(not manifest.files for manifest in running.manifests)
    assert running.counters[0] == replace(ShardCounters())


@pytest.mark.parametrize("style", ["sorted", "random"])
def test_without_keys_all_rows_are_one_group(spark: SparkSession, job: Any, style: Any) -> None:
    """It begins with what sources give; then an epoch without rows gives the result again, as in stock Spark."""
    frame = spark.createDataFrame([(0, 1, "a"), (1, 2, "b"), (1, 4, "c")], "e int, v long, t string")
    exprs = [F.count("*"), F.sum("v"), F.max("t"), F.collect_list("v")]
    operator = plan_aggregate(frame, [], exprs, event_time=None, output_mode="update", uid="agg")
    running = job(operator)
    for _ in range(2):
        assert running.run(frame.where("false"), style=style) == []
        assert running.total("rows_in") == running.stored_entries() == 0
    begun = job(operator)
    assert begun.run(frame.where("false"), style=style, has_input=True) == [(0, None, None, [])]
    assert (begun.total("rows_in"), begun.stored_entries()) == (0, 1)
    assert running.run(frame.where("e = 0"), style=style) == [(1, 1, "a", [1])]
    if style == "random":
        assert running.run(frame.where("false"), style=style) == [(1, 1, "a", [1])]
    assert running.run(None, style=style) == []
    [(count, total, greatest, values)] = running.run(frame.where("e = 1"), style=style)
    assert (count, total, greatest, sorted(values)) == (3, 7, "c", [1, 2, 4])
    assert running.stored_entries() == 1


def test_without_keys_the_end_of_input_gives_one_row_even_of_nothing(spark: SparkSession, job: Any) -> None:
    """As stock Spark's batch aggregate."""
    frame = spark.createDataFrame([], "v long")
    operator = plan_aggregate(
        frame,
        [],
        [F.count("*"), F.sum("v")],
        event_time=None,
        output_mode="append",
        uid="agg",
        traits=BOUNDED,
    )
    assert job(operator).run(frame, firing_ms=MAX_WATERMARK, keep_state=False) == [(0, None)]
    running = job(operator)
    assert running.run(frame) == []
    assert running.run(None, firing_ms=MAX_WATERMARK) == [(0, None)]
