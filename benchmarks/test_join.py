"""A range join of two inputs: over a backlog of both, and in small micro-batches on many rows that wait."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

from dataset import Shape, dataset
from in_turn import OURS, STOCK
from micro_batches import parts, trigger_s
from pyspark.sql import SparkSession
from race import Race, ratio
from two_sides import MIXED_FILES, JoinWays, feed_sides
from ways import PLAIN_FILES, STOCK_TEN
from workload import within

#: With ten rows of a key on each side and a range of one hour, each row has about one partner.
_SPAN_S = 36_000


def _sides(shape: Shape) -> tuple[Any, Any]:
    return dataset(shape), dataset(replace(shape, seed=shape.seed + 1))


def test_join(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """All ways in turn, round by round; stock only in the first ones."""
    sizes = bench.sizes
    shape = Shape(sizes.join_rows, sizes.join_keys, span_s=_SPAN_S, seed=1)
    title = f"Backlog, inner join within an hour: {shape} a side, to Parquet"
    begun = bench.begin("backlog-join", title, shape=shape.name, rounds=sizes.rounds)
    limit_s = sizes.join_stock_limit_s
    ways = JoinWays(spark, within(1), *_sides(shape), limit_s).all()
    warm_up = JoinWays(spark, within(1), *_sides(Shape(1_000, 100, span_s=_SPAN_S, seed=1)), limit_s).all()
    for way in warm_up.values():
        with bench.scratch() as folder:
            way(folder)
    rounds = {way: sizes.slow_rounds if way == STOCK_TEN else sizes.rounds for way in ways}
    seconds = Race(ways, rounds, bench.scratch).run(benchmark)
    stopped = f"stock was stopped after {limit_s} s: its figure, and so the ratio to it, is a lower bound"
    bench.record(
        begun,
        rows=2 * shape.rows,
        seconds=seconds,
        baselines=(PLAIN_FILES, STOCK_TEN),
        findings={
            "join-plain": ratio(seconds, MIXED_FILES, PLAIN_FILES),
            "join-stock": ratio(seconds, MIXED_FILES, STOCK_TEN),
        },
        notes=(stopped,) if max(seconds[STOCK_TEN]) >= limit_s else (),
    )


def test_join_latency(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """Both queries hold the same rows and get the same small micro-batches in turn; each right row finds one."""
    sizes, job = bench.sizes, within(24)
    rows, buffered = sizes.join_batch_rows, sizes.join_buffered_rows
    batches = sizes.latency_batches + 1
    history = Shape(buffered, buffered, files=1, each_key_once=True, span_s=_SPAN_S)
    small = Shape(rows * batches, buffered, files=batches, later_s=_SPAN_S, span_s=batches * 60, seed=1)
    title = f"Stream, inner join within a day: micro-batches of {rows:,} rows a side on {buffered:,} rows that wait"
    begun = bench.begin("join-latency", title, history=history.name, small=small.name)
    tiny = Shape(100, 100, files=1, each_key_once=True, span_s=_SPAN_S)
    tiny_batches = Shape(60, 100, files=3, later_s=_SPAN_S, span_s=60, seed=1)
    feed_sides(spark, job, dataset(tiny), *_sides(tiny_batches), bench)
    found = benchmark.pedantic(feed_sides, args=(spark, job, dataset(history), *_sides(small), bench), rounds=1)
    seconds = {way: [sum(map(trigger_s, pair)) for pair in pairs] for way, pairs in found.items()}
    notes = tuple(f"{way}: {parts([batch for pair in pairs for batch in pair])}" for way, pairs in found.items())
    findings = {"latency-join-stock": median(seconds[OURS]) / median(seconds[STOCK])}
    bench.record(begun, rows=2 * rows, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)
