"""A query in SQL with GROUP BY, taken apart: what precedes the aggregation, the aggregation, and what follows it.

Spark's analyzer says what the query means.  Below its one Aggregate are stateless operations, which are one step on
the rows; the Aggregate becomes ``groupBy(…).agg(…)``; projections and HAVING above it are steps on what the stage
gives, and ORDER BY and LIMIT on top of all arrange the whole result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...errors import PlanError
from ...runtime.platform.columns import quoted
from ...runtime.platform.spark_expressions import (
    as_column,
    attribute,
    class_name,
    items,
    with_attributes,
    without_alias,
)
from ...runtime.platform.spark_plans import analyzed, frame_of
from .frame import MixedFrame

#: Nodes that may stand above the aggregation.
_ABOVE = ("GlobalLimit", "LocalLimit", "Sort", "Project", "Filter", "SubqueryAlias")


def grouped(frame: MixedFrame, answer: Callable[[DataFrame], DataFrame], result: DataFrame) -> MixedFrame | None:
    """What a query with GROUP BY gives; None: it has none.

    Args:
        frame: the rows that it is put to.
        answer: puts it to a frame of Spark's.
        result: the same of an empty frame with the rows' columns.

    Raises:
        PlanError: it is more than one aggregation with what is stateless before and behind it.
    """
    plan = analyzed(result)
    above, node = _taken_apart(plan)
    if node is None:
        return None
    spark, names = frame.sparkSession, _distinct(node.child())
    below = frame._map("sql", lambda rows: _rows_below(answer(rows)))
    known = {one.exprId().id(): name for one, name in zip(items(node.child().output()), names, strict=True)}

    def column(expression: Any, names: Mapping[int, str]) -> Column:
        by_name = {id: attribute(spark, name) for id, name in names.items()}
        return as_column(spark, with_attributes(spark, expression, by_name))

    keys = list(items(node.groupingExpressions()))
    if any("spark_grouping_id" in str(key.sql()) for key in keys):
        raise PlanError("sql() with grouping sets is not supported; use rollup(…), cube(…) or groupingSets(…)")
    labels = [
        known[key.exprId().id()] if class_name(key) == "AttributeReference" else f"key{place}"
        for place, key in enumerate(keys)
    ]
    given = [
        F.col(quoted(label)) if class_name(key) == "AttributeReference" else column(key, known).alias(label)
        for key, label in zip(keys, labels, strict=True)
    ]
    outputs: dict[int, str] = {}
    aggregates = []
    for place, output in enumerate(items(node.aggregateExpressions())):
        expression, name = without_alias(output), str(output.name())
        key = next((at for at, one in enumerate(keys) if expression.semanticEquals(one)), None)
        if key is None:
            label = f"value{place}" if name in (*labels, *outputs.values()) else name
            aggregates.append(column(expression, known).alias(label))
        outputs[output.exprId().id()] = label if key is None else labels[key]
    if not aggregates:
        raise PlanError("sql() with GROUP BY and no aggregate is not supported; use dropDuplicates behind it")
    shown = [(one.exprId().id(), str(one.name())) for one in items(plan.output())]
    return _behind(below.groupBy(*given).agg(*aggregates), above, outputs, shown, column)


def _taken_apart(plan: Any) -> tuple[list[Any], Any]:
    """The nodes above the aggregation from the top, and the aggregation; None: there is none on the straight way."""
    above = []
    while class_name(plan) in _ABOVE:
        above.append(plan)
        plan = plan.child()
    return above, plan if class_name(plan) == "Aggregate" else None


def _rows_below(result: DataFrame) -> DataFrame:
    """What the aggregation of a query reads."""
    _, node = _taken_apart(analyzed(result))
    rows, names = frame_of(result.sparkSession, node.child()), _distinct(node.child())
    return rows if rows.columns == names else rows.toDF(*names)


def _distinct(plan: Any) -> list[str]:
    """Names for the columns of a plan; of those with one name all but the first get a number."""
    names: list[str] = []
    for place, one in enumerate(items(plan.output())):
        name = str(one.name())
        names.append(f"{name}_{place}" if name.lower() in [other.lower() for other in names] else name)
    return names


def _behind(
    result: MixedFrame,
    above: Sequence[Any],
    outputs: Mapping[int, str],
    shown: Sequence[tuple[int, str]],
    column: Callable[[Any, Mapping[int, str]], Column],
) -> MixedFrame:
    """What follows the aggregation.

    Args:
        result: what it gives.
        above: the nodes above it, from the top.
        outputs: its columns by their ids.
        shown: ids and names of the query's columns.
        column: an expression over columns by their ids.
    """
    names = dict(outputs)
    arranging: list[Any] = []
    for depth, node in enumerate(reversed(above)):
        kind = class_name(node)
        if kind in ("Sort", "GlobalLimit"):
            arranging.append(node)
        elif arranging and kind in ("Project", "Filter"):
            raise PlanError(
                "sql() can order by, and limit, columns of its result alone, at the end of the query; select what it is"
                " ordered by, too"
            )
        elif kind == "Filter":
            result = result.where(column(node.condition(), names))
        elif kind == "Project":
            for place, one in enumerate(items(node.projectList())):
                expression = without_alias(one)
                if class_name(expression) == "AttributeReference":
                    names[one.exprId().id()] = names[expression.exprId().id()]
                else:
                    label = names[one.exprId().id()] = f"computed{depth}_{place}"
                    result = result.withColumn(label, column(expression, names))
    if [names[id] for id, _ in shown] != result.columns or any(names[id] != name for id, name in shown):
        result = result.select(*[F.col(quoted(names[id])).alias(name) for id, name in shown])
    final = dict(shown)
    for node in arranging:
        if class_name(node) == "Sort":
            result = result.orderBy(*[column(order, final) for order in items(node.order())])
        else:
            result = result.limit(int(str(node.limitExpr().sql())))
    return result
