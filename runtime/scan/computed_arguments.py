"""Keys and arguments of aggregates that Spark computes before its rows go to a task, which then aggregates columns.

A task that aggregates rows which cannot go back to Spark needs values of each of them, whatever expression they are of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, _parse_datatype_json_string

from ..catalyst.spark_expressions import (
    as_column,
    attribute_id,
    class_name,
    is_attribute,
    is_same,
    items,
    replaced,
    tree,
    with_attributes,
    with_children,
    without_alias,
)
from ..catalyst.spark_plans import analyzed, frame_of, output_of
from ..catalyst.spark_session import empty_frame
from ..jvm.gateway import scala_sequence
from .parquet_scan import NotTakenError
from .scan_plans import reading_plan

_NAME = "__argument"
#: Expressions that a task has as they are.
_PLAIN = ("AttributeReference", "Literal")


@dataclass(frozen=True)
class ComputedArguments:
    """What of an aggregation Spark computes row by row; it cannot leave the driver."""

    #: The input.
    leaf: DataFrame
    #: Spark's expressions over it.
    expressions: tuple[Any, ...]
    #: The input's columns, and one for each expression.
    schema: StructType
    #: The same aggregation over these.
    prepared: DataFrame

    def of(self, frame: DataFrame) -> DataFrame:
        """A frame with the columns of the input, and those that are computed."""
        if not self.expressions:
            return frame
        spark = frame.sparkSession
        places = zip(output_of(self.leaf), output_of(frame), strict=True)
        known = {attribute_id(its): column for its, column in places}
        columns = [as_column(spark, with_attributes(spark, one, known)) for one in self.expressions]
        return frame.select("*", *[column.alias(f"{_NAME}{place}") for place, column in enumerate(columns)])


@reading_plan()
def computed_arguments(prepared: DataFrame, leaf: DataFrame) -> ComputedArguments:
    """What Spark computes of an aggregation.

    Args:
        prepared: selects columns of one aggregation, on top of it.
        leaf: its input: a frame without rows.

    Raises:
        NotTakenError: Spark does something else besides to the input.
    """
    spark, plan = prepared.sparkSession, analyzed(prepared)
    above = []
    while class_name(plan) == "Project":
        above.append(plan)
        plan = plan.child()
    if class_name(plan) != "Aggregate" or not plan.child().equals(analyzed(leaf)):
        raise NotTakenError(f"the rows go through {class_name(plan)}, or are prepared before they are aggregated")
    expressions: list[Any] = []
    for one in _arguments(plan):
        if class_name(one) not in _PLAIN and not one.foldable() and _known(spark, expressions, one) is None:
            expressions.append(one)
    if not expressions:
        return ComputedArguments(leaf, (), leaf.schema, prepared)
    fields = [
        StructField(f"{_NAME}{place}", _parse_datatype_json_string(str(one.dataType().json())))
        for place, one in enumerate(expressions)
    ]
    schema = StructType([*leaf.schema.fields, *fields])
    wide = empty_frame(spark, schema)
    columns = list(output_of(wide))
    known = dict(zip((attribute_id(one) for one in output_of(leaf)), columns, strict=False))
    computed = columns[len(leaf.schema.fields) :]

    def other(expression: Any) -> Any:
        if is_attribute(expression):
            return known.get(attribute_id(expression))
        place = _known(spark, expressions, expression)
        return None if place is None else computed[place]

    parts = [plan.productElement(place) for place in range(plan.productArity())]
    for place in range(2):  # what it groups by, and what it gives
        parts[place] = scala_sequence(spark, [replaced(spark, one, other) for one in items(parts[place])])
    parts[2] = analyzed(wide)
    found = plan.copy(*parts)
    for node in reversed(above):
        found = with_children(spark, node, [found])
    return ComputedArguments(leaf, tuple(expressions), schema, frame_of(spark, found))


def _arguments(aggregate: Any) -> list[Any]:
    """What an aggregation groups by, and what its aggregates are of."""
    found = [without_alias(one) for one in items(aggregate.groupingExpressions())]
    for one in items(aggregate.aggregateExpressions()):
        for part in tree(one):
            if class_name(part) == "AggregateExpression":
                found += items(part.aggregateFunction().children())
                found += [part.filter().get()] if part.filter().isDefined() else []
    return found


def _known(spark: SparkSession, expressions: list[Any], one: Any) -> int | None:
    kind = class_name(one)
    for place, known in enumerate(expressions):
        if class_name(known) == kind and is_same(spark, known, one):
            return place
    return None
