"""Few rows of an aggregate whose one task aggregates them: to the bit what Spark makes of them, or Spark does it."""

from __future__ import annotations

import math
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from aggregate_support import MAX_PARALLELISM
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from mixedmode.runtime.jobs.few_partials import FewPartials
from mixedmode.runtime.jobs.shuffle import with_key_group
from mixedmode.runtime.operators.aggregate.operator import AggregateOperator
from mixedmode.runtime.operators.columnar.few_partials import FewPartialRows
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from mixedmode.runtime.tasks.shard.task_meter import TaskMeter
from mixedmode.runtime.tasks.shard.task_sorter import SortPlan, sorted_here
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SPEC = EpochSpec(1, "random", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)
#: As tasks get them of Spark.
COLUMNS = pa.schema(
    [
        ("k", pa.int64()),
        ("t", pa.string()),
        ("b", pa.bool_()),
        ("n", pa.int32()),
        ("big", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(9, 2)),
        ("ts", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
    ]
)
DDL = "k bigint, t string, b boolean, n int, big bigint, x double, f float, d decimal(9, 2), ts timestamp, day date"
_TIMES = st.integers(-3, 40).map(lambda minutes: datetime(2024, 3, 1, tzinfo=UTC) + timedelta(minutes=minutes))
_DOUBLES = st.one_of(
    st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 0.1, 1e16, -1e16, 5e-324, 1.7976931348623157e308]),
    st.floats(),
)
_ROW = st.tuples(
    st.none() | st.integers(-2, 2),
    st.none() | st.sampled_from(["", "a", "A", "ab", "grün", "\U0001f600", "a\0b"]),
    st.none() | st.booleans(),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.integers(-(2**40), 2**40) | st.sampled_from([2**63 - 1, -(2**63)]),
    st.none() | _DOUBLES,
    st.none() | st.floats(width=32),
    st.none() | st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
    st.none() | _TIMES,
    st.none() | _TIMES.map(datetime.date),
)

#: Keys, and aggregates, as users write them.
JOBS = {
    "all sorts": (
        "k",
        "count(1); count(x); sum(x); avg(x); sum(f); avg(n); sum(n); sum(d); avg(d); min(d); max(t); min(b); max(ts);"
        " min(day); sum(IF(b, x, 0)); count(IF(n > 5, 1, NULL)); count(DISTINCT t)",
    ),
    "extremes of fractions": ("t", "min(x); max(x); min(f); max(f)"),
    "large numbers": ("b", "sum(big); max(big); avg(big)"),
    "several keys": ("k; t; b; day", "sum(x); max(n)"),
    "computed keys": ("coalesce(t, 'none'); k + 1", "sum(x * 2); sum(n + 1L)"),
    "windows": ("window(ts, '7 minutes'); k", "count(1); sum(x); max(n)"),
    "windows that begin later": ("window(ts, '7 minutes', '7 minutes', '90 seconds')", "sum(x); min(t)"),
}
#: Those of which a task leaves some rows to Spark.
_SOME_LEFT = {"extremes of fractions": "negative zero", "large numbers": "sum of big may leave"}


def _is_left(name: str, rows: list[Any]) -> bool:
    """Whether a task leaves the rows of a job to Spark."""
    if name == "large numbers":
        return max((abs(row[4]) for row in rows if row[4] is not None), default=0) * len(rows) >= 2**63
    numbers = [one for row in rows for one in row[5:7]] if name in _SOME_LEFT else []
    return any(one == 0 and math.copysign(1, one) < 0 for one in numbers if one is not None)


@pytest.fixture(scope="module", params=[True, False], ids=["ansi", "not ansi"])
def session(request: Any, spark: SparkSession) -> SparkSession:
    """A session in which what does not fit is an error, or not."""
    made = spark.newSession()
    made.conf.set("spark.sql.ansi.enabled", str(request.param).lower())
    made.conf.set("spark.sql.adaptive.enabled", "false")
    made.conf.set("spark.sql.shuffle.partitions", "1")
    return made


def planned(session: SparkSession, keys: str, aggregates: str, **options: Any) -> AggregateOperator:
    """The operator of a job over rows of ``COLUMNS``."""
    empty = session.createDataFrame([], DDL)
    columns = [F.expr(key) for key in keys.split("; ")]
    given = {"event_time": "ts", "output_mode": "update", "uid": "agg", **options}
    return plan_aggregate(empty, columns, [F.expr(one) for one in aggregates.split("; ")], **given)


def few_of(session: SparkSession, operator: AggregateOperator) -> FewPartialRows | None:
    """What aggregates few rows of an operator in the task."""
    return FewPartials(operator, MAX_PARALLELISM).of(session.createDataFrame([], DDL), SPEC, lambda: session)


def by_task(few: FewPartialRows, operator: AggregateOperator, rows: pa.Table, size: int = 5) -> pa.Table:
    """The prepared rows, in order."""
    plan = SortPlan((KEY_GROUP_COLUMN, *operator.key_columns), few.order, 1 << 24, None)
    batches = iter(rows.select(list(few.input_columns or ())).to_batches(max_chunksize=size))
    with sorted_here(plan, None, TaskMeter(), few.of(batches)) as (found, _):
        batches_found = list(found)
    return pa.Table.from_batches(batches_found) if batches_found else pa.table({})


def by_spark(operator: AggregateOperator, frame: DataFrame) -> pa.Table:
    """The prepared rows that the task gets from Spark, in order."""
    prepared = with_key_group(operator.prepare(frame, SPEC), operator, MAX_PARALLELISM)
    order = [F.col(f"`{name}`") for name in (KEY_GROUP_COLUMN, *operator.key_columns)]
    return prepared.coalesce(1).sortWithinPartitions(*order).toArrow()


def bits(column: pa.ChunkedArray) -> list[Any]:
    """Values that are the same only to the last bit; in no order, if there is none."""
    if pa.types.is_floating(column.type):
        # Which of the NaNs depends on the processor's instructions.
        return [None if one is None else "NaN" if math.isnan(one) else one.hex() for one in column.to_pylist()]
    if pa.types.is_list(column.type):
        return [sorted(one) for one in column.to_pylist()]
    return list(column.to_pylist())


@pytest.fixture(scope="module")
def oracles(session: SparkSession) -> dict[str, tuple[AggregateOperator, FewPartialRows]]:
    """By job its operator, and what aggregates in its task."""
    found = {}
    for name, (keys, aggregates) in JOBS.items():
        operator = planned(session, keys, aggregates)
        few = few_of(session, operator)
        assert few is not None, name
        found[name] = (operator, few)
    return found


#: Expressions that no task knows, or not for all values; one of them twice.
COMPUTED = (
    "upper(t); hex(k)",
    "count(1); sum(length(reverse(t)) * 2L); avg(length(reverse(t)) + k); max(initcap(t)); count(DISTINCT upper(t));"
    " sum(n % 7) FILTER (WHERE t RLIKE 'a|b'); sum(IF(upper(t) = 'A', d, 0)); min(x IS NULL); max(n)",
)


@settings(max_examples=8)
@given(rows=st.lists(_ROW, min_size=1, max_size=40))
def test_values_that_spark_computes_are_aggregated_as_by_spark(session: SparkSession, rows: list[Any]) -> None:
    """Keys, arguments and conditions of any expression are columns for the task."""
    operator, frame = planned(session, *COMPUTED), session.createDataFrame(rows, DDL).coalesce(1)
    assert FewPartials(operator, MAX_PARALLELISM).of(frame, SPEC, lambda: session) is None
    computed, few = FewPartials(operator, MAX_PARALLELISM).of_computed(frame, SPEC, lambda: session)
    found, expected = by_task(few, operator, computed.toArrow()), by_spark(operator, frame)
    assert [(field.name, field.type) for field in found.schema] == [(one.name, one.type) for one in expected.schema]
    for at, field in enumerate(found.schema):
        assert bits(found.column(at)) == bits(expected.column(at)), field.name


@pytest.mark.parametrize("name", JOBS)
@settings(max_examples=8)
@given(rows=st.lists(_ROW, max_size=60), size=st.sampled_from([1, 7, 1000]))
def test_few_rows_are_aggregated_as_by_spark(
    session: SparkSession, oracles: Any, name: str, rows: list[Any], size: int
) -> None:
    """The same rows, columns, types, key groups and order, whatever batches they come in; or the task says why not."""
    operator, few = oracles[name]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in COLUMNS]
    table = pa.table([pa.array(*one) for one in zip(columns, COLUMNS.types, strict=True)], schema=COLUMNS)
    with pytest.raises(NotTakenError, match=_SOME_LEFT[name]) if _is_left(name, rows) else nullcontext():
        found = by_task(few, operator, table, size)
    if _is_left(name, rows):
        return
    frame = session.createDataFrame(rows, DDL).coalesce(1)
    expected = by_spark(operator, frame)
    assert found.num_rows == expected.num_rows
    if found.num_rows:
        assert [(field.name, field.type) for field in found.schema] == [(one.name, one.type) for one in expected.schema]
        for at, field in enumerate(found.schema):
            assert bits(found.column(at)) == bits(expected.column(at)), field.name
