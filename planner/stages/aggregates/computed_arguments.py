"""Calls of user-defined functions in arguments of aggregates: they become columns of the rows that are aggregated.

State is recognised by the texts of partial aggregates, and each epoch computes these anew, from their text.  A function
of the user's has a name and no text, so it is called before, as if ``withColumn`` had been.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ....runtime.catalyst.spark_expressions import (
    as_column,
    attribute,
    class_name,
    is_attribute,
    items,
    replaced,
    tree,
    without_alias,
)
from ....runtime.catalyst.spark_plans import analyzed
from ..keys import Keys
from ..stage import StageInput
from .functions import text_of_call

#: Calls for each row; those for all rows of a group are aggregates by themselves.
_CALLS = ("PythonUDF", "ScalaUDF")
_PREFIX = "__udf "


def with_computed_arguments(rows: StageInput, keys: Keys, given: Sequence[Column]) -> tuple[StageInput, Any] | None:
    """The rows with a column for each call, and the aggregates over these columns.

    Args:
        rows: what is aggregated.
        keys: the grouping.
        given: the expressions, of which some call a function.

    Returns:
        Both; None: two calls that differ cannot be told apart, or calls are of another kind or elsewhere in the plan.
    """
    template = rows.inputs.template
    spark = template.sparkSession
    columns = [F.col(key) if isinstance(key, str) else key for key in keys.given]
    plan = analyzed(template.groupBy(*columns).agg(*given))
    if class_name(plan) != "Aggregate":
        return None
    outputs = list(items(plan.aggregateExpressions()))[-len(given) :]
    calls = _calls(outputs)
    if not calls:
        return None

    def called(node: Any) -> Any:
        return next((attribute(spark, name) for name, call in calls.items() if node.semanticEquals(call)), None)

    def by_name(node: Any) -> Any:
        return attribute(spark, str(node.name())) if is_attribute(node) else None

    def computed(frame: DataFrame) -> DataFrame:
        made = [as_column(spark, replaced(spark, call, by_name)).alias(name) for name, call in calls.items()]
        return frame.select("*", *made)

    def over(output: Any) -> Column:
        found = replaced(
            spark, without_alias(output), lambda node: called(node) if class_name(node) in _CALLS else None
        )
        return as_column(spark, replaced(spark, found, by_name)).alias(str(output.name()))

    return replace(rows, inputs=rows.inputs.map("agg", computed)), [over(output) for output in outputs]


def _calls(outputs: Sequence[Any]) -> dict[str, Any] | None:
    """The calls within aggregates, by the names of their columns; None: two that differ are called the same."""
    found: dict[str, Any] = {}
    for output in outputs:
        for aggregate in tree(output):
            for call in _outermost(aggregate) if class_name(aggregate) == "AggregateExpression" else ():
                name = _PREFIX + text_of_call(call)
                if not found.setdefault(name, call).semanticEquals(call):
                    return None
    return found


def _outermost(node: Any) -> list[Any]:
    if class_name(node) in _CALLS:
        return [node]
    return [call for child in items(node.children()) for call in _outermost(child)]
