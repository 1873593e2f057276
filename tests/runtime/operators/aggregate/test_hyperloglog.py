"""approx_count_distinct gives Spark's own number, whatever the cardinality and however the input is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_support import oracle
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from mixedmode.runtime.operators.aggregate.hyperloglog import Estimator, RegisterBuffer, _search
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

#: Different values of a key: none, few (linear counting), about the tables of biases, and beyond them.
COUNTS = [0, 1, 2, 7, 20, 45, 60, 90, 150, 300, 420, 500, 800, 1300, 2000, 2700, 6000, 25_000]
#: 4, 5, 9 and 12 bits.
DEVIATIONS = [0.39, 0.2, 0.05, 0.02]
REGISTERS = st.lists(st.lists(st.integers(0, 2**15 - 1).filter(lambda code: code & 63)), max_size=5)


@pytest.mark.slow
def test_estimates_equal_those_of_stock_spark(spark: SparkSession, job: Any) -> None:
    """All ranges of the estimator, with repeated values and nulls, cut into epochs, and these into batches."""
    counts = spark.createDataFrame(list(enumerate(COUNTS)), "k int, n int")
    values = counts.select("k", F.explode(F.sequence(F.lit(-1), F.col("n") * 2)).alias("i"), "n")
    frame = values.select(
        "k", "i", F.when((F.col("i") >= 0) & (F.col("n") > 0), F.col("i") % F.col("n") * 7919).alias("v")
    ).cache()
    exprs = [F.approx_count_distinct("v", deviation) for deviation in DEVIATIONS]
    exprs.append(F.approx_count_distinct(F.concat(F.lit("x"), F.col("v").cast("string"))))
    operator = plan_aggregate(frame, ["k"], exprs, event_time=None, output_mode="update", uid="agg")
    running = job(operator, batch_rows=1000)
    latest: dict[Any, tuple[Any, ...]] = {}
    for epoch in range(3):
        part = frame.where(F.pmod(F.hash("i"), F.lit(3)) == epoch)
        latest.update({row[0]: row for row in running.run(part, style="random")})
    assert sorted(latest.values()) == sorted(oracle(frame, ["k"], exprs))


@given(REGISTERS, REGISTERS)
def test_a_register_keeps_its_greatest_rank(left: list[list[int]], right: list[list[int]]) -> None:
    """One number per register is left of each side alone and of both."""
    rows = max(len(left), len(right))
    sides = [pa.array(side + [None] * (rows - len(side)), pa.list_(pa.int16())) for side in (left, right)]
    buffer = RegisterBuffer((0,))
    old, new = (buffer.arrive([side])[0] for side in sides)
    merged = buffer.merge([old], [new])[0].to_pylist()
    for row in range(rows):
        codes = (left[row] if row < len(left) else []) + (right[row] if row < len(right) else [])
        greatest: dict[int, int] = {}
        for code in codes:
            greatest[code >> 6] = max(greatest.get(code >> 6, 0), code & 63)
        assert merged[row] == [index << 6 | rank for index, rank in sorted(greatest.items())]


def test_no_registers_are_no_values() -> None:
    """Null and empty lists count 0."""
    lists = pa.array([None, [], [65]], pa.list_(pa.int16()))
    assert Estimator(4, 10.0, (11.0, 12.0), (10.0, 9.0)).counts(lists).tolist() == [0, 0, 1]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.lists(st.integers(-1, 31), min_size=1))
def test_places_are_found_as_java_finds_them(table: list[int], values: list[int]) -> None:
    """Also in a table that is not sorted, where the way to a place decides about it."""

    def java(value: int) -> int:
        low, high = 0, len(table) - 1
        while low <= high:
            middle = (low + high) >> 1
            if table[middle] < value:
                low = middle + 1
            elif table[middle] > value:
                high = middle - 1
            else:
                return middle
        return low

    found = _search(np.array(table, dtype=float), np.array(values, dtype=float))
    assert found.tolist() == [java(value) for value in values]
