"""Which row of a key stays: Spark's answer against a model in Python, over rows of every type.

Where nobody knows in which order rows have arrived it is the least one, else the first.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from typing import Any

import mixedmode
import pytest
from aggregate_support import START, Job, tuples
from mixedmode.planner.stages.stage import ANY_EPOCH
from mixedmode.runtime.operators.arrival_order import in_one_order
from mixedmode.runtime.operators.dedup.operator import DedupOperator
from mixedmode.runtime.spec import Settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = (
    "k string, d double, ts timestamp, v int, t string, m map<string,double>, st struct<p:float,q:string>,"
    " a array<double>"
)


def bits(value: Any) -> Any:
    """A value in which different bits are different, all NaNs being one."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, dict):
        return tuple(sorted((key, bits(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(map(bits, value))
    return value


def order(value: Any) -> Any:
    """Spark's order, nulls first, refined: -0.0 before 0.0, and maps by their sorted entries."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value, math.copysign(1, value))
    if isinstance(value, dict):
        return (1, sorted((order(key), order(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (1, list(map(order, value)))
    return (1, value)


def random_rows(count: int, seed: int) -> list[tuple[Any, ...]]:
    """Rows of a few values each, so that they tie in every column; a fifth of the values null."""
    chance = random.Random(seed)
    number = [0.0, -0.0, math.nan, 1.5]

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return [
        (
            maybe(chance.choice("ab")),
            maybe(chance.choice(number)),
            maybe(START.replace(second=chance.randrange(2))),
            maybe(chance.randrange(2)),
            maybe(chance.choice(["x", "y"])),
            maybe({name: maybe(chance.choice(number)) for name in chance.sample("pq", chance.randrange(3))}),
            maybe((maybe(chance.choice(number)), maybe(chance.choice(["x", "y"])))),
            maybe([maybe(chance.choice(number)) for _ in range(chance.randrange(3))]),
        )
        for _ in range(count)
    ]


def operator(frame: DataFrame, event_time: bool, method: str, *keys: str) -> DedupOperator:
    described = mixedmode.read(history=frame)
    described = described.withWatermark("ts", "1 hour") if event_time else described
    stage = getattr(described, method)(list(keys) or None)._stage
    assert stage is not None
    made = stage.build("d", "append", Settings())
    assert isinstance(made, DedupOperator)
    return made


def unordered(frame: DataFrame) -> DataFrame:
    """The rows as those of a history that was shuffled."""
    return in_one_order(None, [frame])[0]


@pytest.mark.parametrize("event_time", [True, False])
def test_the_first_row_of_a_micro_batch_stays(spark: SparkSession, job: Callable[..., Job], event_time: bool) -> None:
    """By event time, then as partitions come one after the other."""
    rows = random_rows(400, seed=4)
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(2)
    by_time = sorted(rows, key=lambda row: order(row[2])) if event_time else rows
    expected: dict[Any, tuple[Any, ...]] = {}
    for row in by_time:
        expected.setdefault(row[0], row)
    found = [_as_given(row) for row in job(operator(frame, event_time, "dropDuplicates", "k")).run(frame)]
    assert sorted(repr(bits(row)) for row in found) == sorted(repr(bits(row)) for row in expected.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "event_time"), [(("k",), True), (("k", "d"), False), (("d", "st"), True), (("a",), False)]
)
def test_the_least_row_of_unknown_order_stays_however_the_rows_are_cut(
    spark: SparkSession, job: Callable[..., Job], keys: tuple[str, ...], event_time: bool
) -> None:
    """By event time, then column by column; floats that are equal are one key, and keep their own bits."""
    rows = random_rows(400, seed=3)
    names = spark.createDataFrame([], SCHEMA).columns
    places = [names.index(name) for name in keys]

    def is_before(row: tuple[Any, ...]) -> Any:
        first = [order(row[names.index("ts")])] if event_time else []
        return [*first, *map(order, row)]

    def key(row: tuple[Any, ...]) -> Any:
        return bits([_equal(row[place]) for place in places])

    expected: dict[Any, tuple[Any, ...]] = {}
    for row in sorted(rows, key=is_before):
        expected.setdefault(key(row), row)
    wanted = sorted(repr(bits(row)) for row in expected.values())
    for partitions in (1, 3):
        random.Random(partitions).shuffle(rows)
        frame = spark.createDataFrame(rows, SCHEMA).repartition(partitions)
        made = operator(frame, event_time, "dropDuplicates", *keys)
        found = [_as_given(row) for row in job(made).run(unordered(frame))]
        got = sorted(repr(bits(row)) for row in found)
        assert got == wanted
        assert len(found) == frame.dropDuplicates(list(keys)).count()


@pytest.mark.parametrize("is_known", [True, False], ids=["known order", "unknown order"])
def test_rows_that_are_shuffled_first_have_the_order_of_before(spark: SparkSession, is_known: bool) -> None:
    """The same row of each key stays, and no row is numbered by the task that it was shuffled to."""
    names = ["k", "d", "ts", "v", "t", "st", "a"]
    frame = spark.createDataFrame(random_rows(400, seed=5), SCHEMA).select(*names).repartition(3)
    frame = frame if is_known else unordered(frame)
    for event_time in (True, False):
        made = operator(frame.select(*names), event_time, "dropDuplicates", "k", "v")
        both = [one(frame, ANY_EPOCH) for one in (made.prepare, made.prepare_rows)]
        rows, wanted = (sorted(repr(bits(tuple(row))) for row in one.collect()) for one in both)
        assert rows == wanted
        shuffled = both[1]._jdf.queryExecution().executedPlan().toString()
        above, _, below = shuffled.partition("REPARTITION_BY_COL")
        assert ("monotonically" in below) == is_known
        assert "monotonically" not in above


def _equal(value: Any) -> Any:
    """With one zero."""
    if isinstance(value, float):
        return value + 0.0
    return type(value)(map(_equal, value)) if isinstance(value, (list, tuple)) else value


def _as_given(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row of Arrow's values as the test gave it to Spark."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return tuple(value.values())
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            return dict(value)
        return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value

    given = list(map(plain, row))
    given[5] = {} if given[5] == [] else given[5]
    return tuple(given)


def test_rows_of_columns_that_all_are_keys_need_no_order(spark: SparkSession, job: Callable[..., Job]) -> None:
    """distinct(): one aggregation by hash, and the rows of Spark's own; a key without columns is one key."""
    rows = [(i % 3, None if i % 4 else "x") for i in range(40)]
    frame = spark.createDataFrame(rows, "i int, t string").repartition(3)
    made = operator(frame, False, "dropDuplicates")
    assert sorted(job(made).run(frame), key=repr) == sorted(tuples(frame.distinct().toArrow()), key=repr)
    plan = made.prepare(frame, ANY_EPOCH)._jdf.queryExecution().executedPlan().toString()
    assert "SortAggregate" not in plan
    assert job(operator(frame, False, "dropDuplicates", *[])).run(frame.limit(0)) == []


def test_types_without_an_order_have_one_here(spark: SparkSession, job: Callable[..., Job]) -> None:
    """Variants by their JSON, strings with a collation by their bytes."""
    values = ["b", "A", "a", "B"]
    frame = spark.createDataFrame([("k", value) for value in values], "k string, t string").select(
        "k", F.expr("parse_json(concat('\"', t, '\"'))").alias("j"), F.expr("collate(t, 'UTF8_LCASE')").alias("c")
    )
    least = frame.drop("j")
    assert job(operator(least, False, "dropDuplicates", "k")).run(unordered(least)) == [("k", "A")]
    variants = frame.drop("c")
    made = operator(variants, False, "dropDuplicates", "k")
    found = made.prepare(unordered(variants), ANY_EPOCH).selectExpr("to_json(__b0) AS j").collect()
    assert [row.j for row in found] == ['"A"']
