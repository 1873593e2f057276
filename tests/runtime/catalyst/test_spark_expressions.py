"""What columns of a plan stand for, put into expressions above it."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode.runtime.catalyst.spark_expressions import items, resolved_with_attributes, with_attributes
from mixedmode.runtime.catalyst.spark_plans import analyzed
from pyspark.sql import SparkSession

EXPRESSIONS = (
    "twice",
    "twice + v",
    "CASE WHEN later > ts THEN upper(concat(name, name)) ELSE name END",
    "filter(list, one -> one > twice).a",
    "named_struct('twice', twice, 'inner', struct(later AS at, v)).inner.at",
    "1 + 2",
    "v",
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_columns_are_what_they_are_made_of(spark: SparkSession, expression: str) -> None:
    """As node by node from Python; what is no such column stays, and the result has the same type."""
    below = spark.sql("SELECT 1 AS v, 'a' AS name, timestamp '2024-01-01' AS ts, array(named_struct('a', 1)) AS more")
    made = below.selectExpr("v", "name", "ts", "v * 2 AS twice", "ts + interval 1 hour AS later", "more AS list")
    plan = analyzed(made.selectExpr(f"{expression.replace('one > twice', 'one.a < twice')} AS x"))
    node = next(items(plan.projectList()))
    node = node.child() if str(node.getClass().getSimpleName()) == "Alias" else node
    known: dict[int, Any] = {
        one.exprId().id(): one.child()
        for one in items(plan.child().projectList())
        if str(one.getClass().getSimpleName()) == "Alias"
    }
    found, wanted = (of(spark, node, known) for of in (resolved_with_attributes, with_attributes))
    assert found.sql() == wanted.sql()
    assert found.dataType().json() == wanted.dataType().json()
    assert not {one.exprId().id() for one in items(found.references().toSeq())} & known.keys()
