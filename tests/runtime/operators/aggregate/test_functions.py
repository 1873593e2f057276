"""Every function over epochs gives what stock Spark's batch ``groupBy().agg()`` gives over all rows at once."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from aggregate_support import START, Job, events, oracle, same
from mixedmode.errors import AggregateOverflowError
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from session_options import session_options

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
        *[F.expr(f"{f}(make_dt_interval(0, 0, i, s / 1000000))").alias(f"{f}_span") for f in ("sum", "avg")],
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


def further_aggregates() -> list[Column]:
    """Sums of sets, bits, texts, statistics and ranks."""
    return [
        *[F.sum_distinct(c).alias(f"sum_distinct_{c}") for c in ("i", "s", "d", "m", "w")],
        *[F.expr(f"avg(DISTINCT {c})").alias(f"avg_distinct_{c}") for c in ("i", "l", "d", "m")],
        F.expr("sum(DISTINCT i) FILTER (WHERE i > 10000)").alias("sum_nothing"),
        *[F.expr(f"bit_{f}({c})").alias(f"bit_{f}_{c}") for f in ("and", "or", "xor") for c in ("i", "l", "s")],
        *[F.skewness(c).alias(f"skew_{c}") for c in ("i", "m", "d")],
        *[F.kurtosis(c).alias(f"kurt_{c}") for c in ("i", "m", "d")],
        F.covar_pop("i", "s"),
        F.covar_samp("i", "m"),
        F.corr("i", "l"),
        F.corr("i", "d").alias("corr_awkward"),
        F.expr("regr_count(i, s)"),
        F.expr("regr_avgx(i, s)"),
        *[F.expr(f"regr_{f}(i, s)") for f in ("slope", "intercept", "r2", "sxx", "sxy", "syy")],
        *[F.expr(f"regr_{f}(s, d)").alias(f"awkward_{f}") for f in ("slope", "intercept", "r2", "sxx", "sxy", "syy")],
        *[F.expr(f"try_sum({c})").alias(f"try_sum_{c}") for c in ("i", "l", "f", "d", "m", "w")],
        *[F.expr(f"try_avg({c})").alias(f"try_avg_{c}") for c in ("i", "l", "d", "m", "w")],
        *[F.expr(f"percentile_disc({p}) WITHIN GROUP (ORDER BY i)").alias(f"disc_{p}") for p in ("0", "0.25", "1")],
        *[F.expr(f"percentile_disc({p}) WITHIN GROUP (ORDER BY d DESC)").alias(f"down_{p}") for p in ("0.1", "0.5")],
        *[F.median(c).alias(f"median_{c}") for c in ("i", "l", "f", "d", "m")],
        *[F.percentile_approx(c, 0.4).alias(f"ranked_{c}") for c in ("i", "l", "s", "f", "d", "m", "da", "ts", "n")],
        F.percentile_approx("d", [0.0, 0.25, 0.5, 0.99, 1.0]).alias("ranked_d_at"),
        F.percentile_approx("m", [0.9, 0.1]).alias("ranked_m_at"),
        F.expr("approx_percentile(i, array(0.5, 0.7)) FILTER (WHERE i > 10000)").alias("ranked_nothing"),
        F.percentile("i", 0.3),
        F.percentile("d", [0.0, 0.25, 0.5, 0.99, 1.0]).alias("percentiles_d"),
        F.expr("percentile_cont(0.3) WITHIN GROUP (ORDER BY i DESC)").alias("from_above"),
        F.expr("percentile(i, 0.1) FILTER (WHERE i > 10000)").alias("percentile_of_nothing"),
        *[F.approx_count_distinct(c).alias(f"about_{c}") for c in ("i", "l", "f", "d", "m", "w", "t", "y", "b", "da")],
        *[F.approx_count_distinct(c, 0.01).alias(f"closely_{c}") for c in ("s", "ts", "n", "a", "st")],
        F.expr("approx_count_distinct(i) FILTER (WHERE i > 10000)").alias("about_nothing"),
        F.expr("array_sort(array_agg(i))").alias("all_i"),
    ]


def ordered_aggregates() -> list[Column]:
    """Values in the order of other columns; where these are equal, ``seq`` says which one comes first."""
    orders = ("seq", "seq DESC", "i DESC, seq", "d, seq DESC", "b, da DESC, seq", "t DESC, seq", "m, ts, n, f, seq")
    tops = [(which, c) for which in ("max", "min") for c in ("i", "t", "m", "a", "st", "ts", "y")]
    return [
        *[F.expr(f"{which}_by({c}, seq, 3)").alias(f"{which}_{c}") for which, c in tops],
        *[F.expr(f"max_by(seq, {c}, 1)").alias(f"greatest_{c}") for c in ("seq", "ts")],
        F.expr("max_by(t, seq, 2) FILTER (WHERE i > 10000)").alias("top_of_nothing"),
        *[F.expr(f"listagg(t, ', ') WITHIN GROUP (ORDER BY {by})").alias(f"by {by}") for by in orders],
        F.expr("listagg(t) WITHIN GROUP (ORDER BY t DESC)").alias("by itself"),
        F.expr("listagg(y, X'00') WITHIN GROUP (ORDER BY seq DESC)").alias("bytes"),
        F.expr("listagg(t) WITHIN GROUP (ORDER BY seq) FILTER (WHERE i > 10000)").alias("text_of_nothing"),
        *[F.expr(f"mode() WITHIN GROUP (ORDER BY {by})").alias(f"mode {by}") for by in ("i", "i DESC", "t", "t DESC")],
    ]


@pytest.mark.parametrize(
    ("epochs", "style", "make"),
    [
        (1, "sorted", aggregates),
        (3, "random", ordered_aggregates),
        (3, "random", aggregates),
        pytest.param(2, "random", further_aggregates, marks=pytest.mark.slow),
    ],
)
def test_every_function_and_type_equals_stock_spark_however_the_input_is_cut(
    spark: SparkSession, job: Any, epochs: int, style: Any, make: Callable[[], list[Column]]
) -> None:
    """Types, nulls, NaN, decimals: the last update of each key is what a batch groupBy over all rows gives."""
    exprs = make()
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

    with pytest.raises(AggregateOverflowError, match=r"^sum\(v\) overflows"):
        planned().run(frame)
    with session_options(spark, {"spark.sql.ansi.enabled": "false"}):
        running = planned()
        assert running.run(frame) == [("a", legacy)]
        expected = -(2**63) + 2**62 if legacy is not None else None
        assert running.run(frame) == [("a", expected)]


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        (["sum(v) as total"], "column total: "),
        (["max(v) as most", "sum(v) + 1 as more"], "column more: "),
        (["sum(v) as total", "sum(v) / 2 as half"], "column total and half: "),
        (["sum(v)", "sum(v) as total"], ""),
    ],
)
def test_an_overflow_names_the_columns_that_it_is_for(
    spark: SparkSession, job: Any, columns: list[str], named: str
) -> None:
    """By their aliases; without one the column is called as what it computes."""
    frame = spark.createDataFrame([("a", 2**62)], "k string, v long")
    made: Job = job(
        plan_aggregate(frame, ["k"], list(map(F.expr, columns)), event_time=None, output_mode="update", uid="agg")
    )
    made.run(frame)
    with pytest.raises(AggregateOverflowError, match=rf"^{named}sum\(v\) overflows int64; cast its argument"):
        made.run(frame)


def test_lists_in_text_follow_arrival(spark: SparkSession, job: Any) -> None:
    """listagg joins what earlier epochs left with what is new; nulls are left out, and nothing at all is null."""
    rows = [(0, "a", "x"), (1, "a", None), (2, "a", "y"), (3, "a", ""), (0, "b", None)]
    frame = spark.createDataFrame(rows, "e int, k string, t string")
    exprs = [F.listagg("t", F.lit(", ")), F.listagg("t"), F.expr("listagg(CAST(t AS BINARY), X'00')")]
    operator = plan_aggregate(frame, ["k"], exprs, event_time=None, output_mode="update", uid="agg")
    running = job(operator)
    assert running.run(frame.where("e = 0")) in (
        [("a", "x", "x", b"x"), ("b", None, None, None)],
        [("b", None, None, None), ("a", "x", "x", b"x")],
    )
    outs = [running.run(frame.where(F.col("e") == epoch))[0] for epoch in (1, 2, 3)]
    assert outs == [("a", "x", "x", b"x"), ("a", "x, y", "xy", b"x\0y"), ("a", "x, y, ", "xy", b"x\0y\0")]


def test_the_mode_is_the_most_frequent_value_and_of_several_the_least(spark: SparkSession, job: Any) -> None:
    """Where stock Spark takes any of several, the answer here does not depend on how the input is cut."""
    rows = [(0, 3), (0, 3), (0, 1), (1, 1), (1, None), (1, 2), (2, 2), (2, 2), (2, None), (2, None), (2, None)]
    frame = spark.createDataFrame(rows, "e int, v int").withColumn("t", F.col("v").cast("string"))
    operator = plan_aggregate(frame, [], [F.mode("v"), F.mode("t")], event_time=None, output_mode="update", uid="agg")
    running = job(operator)
    assert [running.run(frame.where(F.col("e") == epoch)) for epoch in range(3)] == [[(3, "3")], [(1, "1")], [(2, "2")]]
    assert running.run(frame.where("false"), style="random") == [(2, "2")]


@pytest.mark.parametrize("kind", ["double", "float"])
def test_both_zeros_are_one_value_of_a_mode(spark: SparkSession, job: Any, kind: str) -> None:
    """As in Spark's batch: together they are more frequent than a value that occurs more often than either."""
    rows = [(0, 0.0), (0, -0.0), (0, 1.5), (1, 1.5), (1, 1.5), (1, -0.0), (1, 0.0), (1, math.nan)]
    frame = spark.createDataFrame(rows, f"e int, v {kind}")
    operator = plan_aggregate(frame, [], [F.mode("v")], event_time=None, output_mode="update", uid="agg")
    running = job(operator)
    for epoch in range(2):
        found = running.run(frame.where(F.col("e") == epoch))
    assert found == [tuple(row) for row in frame.agg(F.mode("v")).collect()] == [(0.0,)]


def test_a_sum_of_different_values_overflows_as_a_sum_does(spark: SparkSession, job: Any) -> None:
    """Under ANSI mode it raises, although no epoch alone overflows."""
    frame = spark.createDataFrame([(0, 2**62), (1, 2**62), (1, 2**62 + 1)], "e int, v long")
    operator = plan_aggregate(frame, [], [F.sum_distinct("v")], event_time=None, output_mode="update", uid="agg")
    running = job(operator)
    assert running.run(frame.where("e = 0")) == [(2**62,)]
    with pytest.raises(AggregateOverflowError, match=r"sum\(DISTINCT v\) overflows"):
        running.run(frame.where("e = 1"))
