"""``pivot``: one aggregate for each of some values of a column, over the rows that have it.

What Spark makes of it depends on the aggregates' types.  Where all are numbers or booleans it aggregates by the column,
too, and then puts the groups beside each other, so that a value that no row of a group has gives null, even for
``count``.  Otherwise it aggregates what is null in all other rows, so that ``count`` gives 0 there, and ``first`` and
``last`` pass over nulls.  Here it is one aggregation, of aggregates with a filter, that gives the same in both cases;
names, order and types of the columns are Spark's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ....errors import PlanError
from ....runtime.catalyst.spark_expressions import (
    as_column,
    class_name,
    filtered_aggregate,
    ignoring_nulls,
    items,
    replaced,
    tree,
    without_alias,
)
from ....runtime.catalyst.spark_plans import analyzed
from ....runtime.jvm.spark_errors import error_text


@dataclass(frozen=True)
class Pivot:
    """What ``pivot(column, values)`` was given."""

    #: The column, as Spark reads its name.
    column: str
    values: tuple[Any, ...]

    def over(self, template: DataFrame, keys: Sequence[Column], exprs: Any) -> list[Column]:
        """The aggregates of all values, under Spark's names.

        Args:
            template: an empty frame with the input's columns.
            keys: what ``groupBy`` was given.
            exprs: what ``agg`` was given: columns, or a dict.

        Raises:
            PlanError: Spark does not take it.
        """
        given_exprs = (exprs,) if isinstance(exprs, dict) else tuple(exprs)
        try:
            pivoted = template.groupBy(*keys).pivot(self.column, list(self.values)).agg(*given_exprs)
            names = pivoted.schema.names
            plain = analyzed(template.groupBy(*keys).agg(*given_exprs))
            column = F.col(self.column)
            data_type = template.select(column).schema.fields[0].dataType
            is_value = [column.eqNullSafe(F.lit(value).cast(data_type)) for value in self.values]
            conditions = [without_alias(one) for one in items(analyzed(template.select(*is_value)).projectList())]
        except PySparkException as error:
            raise PlanError(f"pivot: {error_text(error)}") from error
        if class_name(plain) != "Aggregate":
            raise PlanError(
                f"pivot: Spark plans its aggregates as {class_name(plain)}, not as one aggregation; give each aggregate"
                " its own column"
            )
        aggregates = [without_alias(one) for one in list(items(plain.aggregateExpressions()))[-len(exprs) :]]
        leading = len(names) - len(self.values) * len(aggregates)
        in_two_steps = sum(class_name(node) == "Aggregate" for node in tree(analyzed(pivoted))) > 1
        columns = []
        for condition, value in zip(conditions, is_value, strict=True):
            for aggregate in aggregates:
                columns.append(self._column(template, aggregate, condition, value, in_two_steps=in_two_steps))
        return [column.alias(name) for column, name in zip(columns, names[leading:], strict=True)]

    def _column(
        self, template: DataFrame, aggregate: Any, condition: Any, is_value: Column, *, in_two_steps: bool
    ) -> Column:
        spark = template.sparkSession

        def of_value(node: Any) -> Any:
            if class_name(node) != "AggregateExpression":
                return None
            return filtered_aggregate(spark, node if in_two_steps else ignoring_nulls(node), condition)

        column = as_column(spark, replaced(spark, aggregate, of_value))
        is_null_of_nothing = class_name(aggregate) == "AggregateExpression" and bool(
            aggregate.aggregateFunction().nullable()
        )
        if not in_two_steps or is_null_of_nothing:
            return column
        return F.when(F.count(F.when(is_value, F.lit(1))) > 0, column)
