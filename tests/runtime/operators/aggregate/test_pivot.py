"""pivot over epochs is Spark's pivot over all rows: names, types, and what a value that never comes gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from aggregate_support import events, out_of_order, same, tuples
from mixedmode.errors import PlanError
from mixedmode.planner.stages.aggregates.aggregate import InputTraits, plan_aggregate
from mixedmode.planner.stages.aggregates.pivot import Pivot
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

BOUNDED = InputTraits(bounded=True)


def numbers() -> list[Column]:
    """Spark pivots these by two aggregations: a value without rows gives null."""
    return [
        F.count(F.lit(1)).alias("n"),
        F.sum("v").alias("s"),
        F.coalesce(F.sum("v"), F.lit(0)).alias("c"),
        F.approx_count_distinct("v"),
        (F.sum("v") / F.count("v")).alias("mean"),
        F.expr("count(v) FILTER (WHERE v > 0)").alias("positive"),
    ]


def others() -> list[Column]:
    """And these by one, in which count gives 0, since one of them is no number."""
    return [F.max("ts").alias("latest"), F.count("v").alias("n"), F.first("t"), F.coalesce(F.max("t"), F.lit("none"))]


def of_all(job: Any, operator: Any, frame: DataFrame, spark: SparkSession) -> list[tuple[Any, ...]]:
    """The result of three epochs, and of the end."""
    running = job(operator)
    for epoch in range(3):
        running.run(frame.where(F.col("e") == epoch), style="sorted" if epoch == 0 else "random")
    rows = running.run(None, firing_ms=MAX_WATERMARK, style="random")
    projection = operator.projection
    if projection is None:
        return rows
    schema = arrow_schema(projection.row_schema)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    given = spark.createDataFrame(pa.Table.from_arrays(columns, schema=schema))
    return tuples(given.select(*projection.columns).toArrow())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "values", "make"),
    [
        ("t", ["t0", "t1", "nothing", None], numbers),
        ("t", ["t0", "t1", "nothing", None], others),
        ("v", ["3", 4, 1000], lambda: numbers()[:1]),
        ("t", ["t3"], lambda: numbers()[1:2]),
    ],
)
def test_pivot_is_sparks(spark: SparkSession, job: Any, column: str, values: list[Any], make: Any) -> None:
    """Numbers and others, values that never come, and null among them."""
    exprs = make()
    frame = events(spark, out_of_order(epochs=3, seed=3)).withColumn("t", F.expr("nullif(t, 't2')"))
    operator = plan_aggregate(
        frame,
        ["k"],
        exprs,
        event_time=None,
        output_mode="append",
        uid="agg",
        traits=BOUNDED,
        pivot=Pivot(column, values),
    )
    expected = frame.groupBy("k").pivot(column, values).agg(*exprs)
    assert operator.output_schema.names == expected.columns
    assert [f.dataType for f in operator.output_schema] == [f.dataType for f in expected.schema]
    actual = of_all(job, operator, frame, spark)
    firsts = [place for place, name in enumerate(expected.columns) if "first" in name]  # any row's, without event time
    both = [
        [tuple(value for place, value in enumerate(row) if place not in firsts) for row in rows]
        for rows in (actual, tuples(expected.toArrow()))
    ]
    same(*both)
    for place in firsts:
        assert {row[place] for row in actual} <= {values[0], values[1], None}


def test_a_dict_of_aggregates_has_sparks_order(spark: SparkSession) -> None:
    """Spark orders and names what a dict means; what it does not take is refused in its words."""
    frame = events(spark, [(0, "a", 1.0, 1)])

    def plan(exprs: Any, pivot: Pivot) -> list[str]:
        operator = plan_aggregate(
            frame,
            ["k"],
            exprs,
            event_time=None,
            output_mode="update",
            uid="agg",
            traits=BOUNDED,
            pivot=pivot,
        )
        return operator.output_schema.names

    given = {"v": "sum", "ts": "max", "t": "count"}
    assert plan(given, Pivot("t", ("t1", "t2"))) == frame.groupBy("k").pivot("t", ["t1", "t2"]).agg(given).columns
    for exprs, pivot, said in (
        (numbers(), Pivot("v", ("zz",)), "zz"),
        (numbers(), Pivot("nope", ("zz",)), "nope"),
        ([F.count("*")], Pivot("t", ("t1",)), "Pivot"),
        ([F.udf(lambda v: v)("v")], Pivot("t", ("t1",)), "pivot"),
    ):
        with pytest.raises(PlanError, match=said):
            plan(exprs, pivot)
