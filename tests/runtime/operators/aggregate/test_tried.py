"""Regressions, products and sums that may leave their type give what Spark's batch gives, however rows are cut."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from aggregate_support import Job, oracle, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from mixedmode.runtime.operators.aggregate.buffers import TrySumBuffer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

_LONG = 1 << 63
_AGGREGATES = (
    *[f"regr_{name}(y, x)" for name in ("count", "avgx", "avgy", "slope", "intercept", "r2", "sxx", "sxy", "syy")],
    "regr_slope(x, y) FILTER (WHERE x > 0)",
    "regr_r2(x, y)",
    "try_sum(n)",
    "try_sum(m)",
    "try_avg(m)",
    "try_avg(n)",
    "percentile_disc(0.3) WITHIN GROUP (ORDER BY x)",
    "percentile_disc(0.3) WITHIN GROUP (ORDER BY x DESC)",
    "percentile_disc(0.1) WITHIN GROUP (ORDER BY y DESC)",
)
_NUMBERS = st.sampled_from([None, 0.0, -0.0, 1.0, 2.0, -3.5, 0.1, float("nan"), float("inf")])
#: None below zero: in which order numbers that cancel each other out are added is up to Spark.
_LONGS = st.sampled_from([None, 0, 1, 5, _LONG // 2 + 1, _LONG - 1])
_DECIMALS = st.sampled_from([None, Decimal(1), Decimal("9" * 38), Decimal("5" * 38), Decimal(0)])
_ROWS = st.lists(st.tuples(st.sampled_from("ab"), _NUMBERS, _NUMBERS, _LONGS, _DECIMALS), min_size=1, max_size=12)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(rows=_ROWS)
def test_epochs_give_what_one_batch_gives(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Nulls, NaN, infinity, no spread, and sums that leave their type."""
    schema = "seq int, k string, x double, y double, n long, m decimal(38,0)"
    frame = spark.createDataFrame([(seq, *row) for seq, row in enumerate(rows)], schema).coalesce(1)
    exprs = [F.expr(text) for text in _AGGREGATES] + [F.product("x").alias("p")]
    operator = plan_aggregate(frame, ["k"], exprs, event_time=None, output_mode="update", uid="agg")
    job = Job(operator, tmp_path_factory.mktemp("tried"))
    latest: dict[Any, tuple[Any, ...]] = {}
    for part in range(2):
        latest.update({row[0]: row for row in job.run(frame.where(F.col("seq") % 2 == part), style="random")})
    same(list(latest.values()), oracle(frame, ["k"], exprs))


@given(
    parts=st.lists(
        st.tuples(st.one_of(st.none(), st.integers(0, _LONG - 1)), st.integers(0, 3)), min_size=1, max_size=6
    )
)
def test_a_sum_that_has_left_its_type_stays_null(parts: list[tuple[int | None, int]]) -> None:
    """A null with a count is a sum that is lost already; a null without one is no row."""
    buffer, total, rows, lost = TrySumBuffer((0, 1)), 0, 0, False
    held = [pa.array([None], pa.int64()), pa.array([None], pa.int64())]
    for value, number in parts:
        count = number if value is None else max(1, number)
        held = buffer.merge(held, [pa.array([value], pa.int64()), pa.array([count], pa.int64())])
        lost = lost or (value is None and count > 0) or total + (value or 0) >= _LONG
        total, rows = 0 if lost else total + (value or 0), rows + count
    assert held[0].to_pylist() == [None if lost or not rows else total]
    assert held[1].to_pylist() == [rows]
