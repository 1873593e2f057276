"""Output columns that are expressions over aggregates, such as ``F.sum("a") / F.count("*")``.

The aggregates inside become columns of the rows that the operator writes, and Spark computes the expressions over them
(``operators.projection``).  It is Spark's own analyzed expression with other leaves, so types, nulls, ANSI errors
and time zones are Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StructField, StructType, _parse_datatype_json_string

from ....errors import PlanError
from ....runtime.catalyst.spark_expressions import (
    as_column,
    attribute,
    class_name,
    items,
    replaced,
    tree,
    with_children,
)
from ....runtime.catalyst.spark_plans import whole_plans
from ....runtime.jvm.spark_errors import error_text
from ....runtime.operators.aggregate.definition import OutputColumn
from ....runtime.operators.projection import Projection, Renamer
from ...inputs.schemas import same_type
from .arguments import with_plain_ids
from .functions import plan_function
from .partials import PartialColumns, PlannedResult

_UDF = re.compile(r"UDF|UDAF")


@dataclass(frozen=True)
class PlannedResults:
    """The aggregates that the operator computes, and what is made of them."""

    results: tuple[PlannedResult, ...]
    types: tuple[DataType, ...]
    #: The output columns behind the keys.
    outputs: tuple[OutputColumn, ...]
    #: None: the aggregates are the output as they are.
    projection: Projection | None


def plan_results(
    spark: SparkSession,
    expressions: Sequence[Any],
    output: StructType,
    leading: int,
    partials: PartialColumns,
    hidden_keys: Sequence[Any] = (),
) -> PlannedResults:
    """Plan all output columns behind the ``leading`` keys.

    Args:
        spark: the session.
        expressions: the output columns as Spark's analyzed expressions, without aliases.
        output: Spark's schema of them.
        leading: how many output columns are keys.
        partials: takes the partial columns.
        hidden_keys: keys that are no output columns, behind the others: the grouping id.

    Raises:
        PlanError: a function is not supported, or an expression cannot be computed apart from its aggregates.
    """
    fields = output.fields[leading:]
    given = expressions[leading:]
    if all(class_name(expression) == "AggregateExpression" for expression in given):
        named = zip(given, fields, strict=True)
        results = tuple(plan_function(expression, field.name, partials) for expression, field in named)
        outputs = tuple(
            OutputColumn(field.name, result.text, "", (place,))
            for place, (field, result) in enumerate(zip(fields, results, strict=True))
        )
        return PlannedResults(results, tuple(field.dataType for field in fields), outputs, None)
    hidden = _HiddenColumns(spark, [*expressions[:leading], *hidden_keys], partials)
    columns: list[Any] = [F.col(f"k{place}") for place in range(leading)]
    rebuilt = [hidden.rebuilt(expression) for expression in given]
    columns += [hidden.column(one) for one, _ in rebuilt]
    if not hidden.results:
        raise PlanError("agg needs at least one aggregate function, such as F.count('*')")
    key_types = [field.dataType for field in output.fields[:leading]] + [LongType() for _ in hidden_keys]
    keys = [StructField(f"k{place}", data_type) for place, data_type in enumerate(key_types)]
    aggregates = [StructField(f"a{place}", data_type) for place, data_type in enumerate(hidden.types)]
    projection = Projection(
        StructType(keys + aggregates), output, tuple(columns), (None,) * leading + hidden.renamers(rebuilt)
    )
    _check(spark, projection, given, fields)
    outputs = _outputs(spark, given, fields, [places for _, places in rebuilt])
    return PlannedResults(tuple(hidden.results), tuple(hidden.types), outputs, projection)


def _outputs(
    spark: SparkSession, given: Sequence[Any], fields: Sequence[StructField], places: Sequence[tuple[int, ...]]
) -> tuple[OutputColumn, ...]:
    """The output columns; Spark's text alone leaves out what two expressions may differ in."""
    with whole_plans(spark):
        whole = [str(expression.toString()) for expression in given]
    return tuple(
        OutputColumn(
            field.name,
            text := str(expression.sql()),
            "" if class_name(expression) == "AggregateExpression" else f"{text} /* {with_plain_ids(shown)} */",
            its,
        )
        for expression, field, its, shown in zip(given, fields, places, whole, strict=True)
    )


class _HiddenColumns:
    """Collects the aggregates inside expressions, and puts columns in their place and in that of keys."""

    def __init__(self, spark: SparkSession, keys: Sequence[Any], partials: PartialColumns) -> None:
        self._spark = spark
        self._keys = keys
        self._partials = partials
        self.results: list[PlannedResult] = []
        self.types: list[DataType] = []
        self._places: dict[Any, int] = {}

    def rebuilt(self, expression: Any) -> tuple[Any, tuple[int, ...]]:
        """The expression over keys and aggregates, and the places of its aggregates."""
        self._used: dict[int, None] = {}
        rebuilt = self._rebuilt(expression)
        self._check(rebuilt, expression)
        return rebuilt, tuple(self._used)

    def column(self, rebuilt: Any) -> Column:
        return as_column(self._spark, rebuilt)

    def renamers(self, rebuilt: Sequence[tuple[Any, tuple[int, ...]]]) -> tuple[Renamer, ...]:
        """For each expression the way to the same over other columns."""

        def renamer(expression: Any) -> Renamer:
            def renamed(names: Mapping[str, str]) -> Column:
                def other(node: Any) -> Any:
                    name = str(node.name()) if class_name(node) == "UnresolvedAttribute" else ""
                    return self._attribute(names[name]) if name in names else None

                return self.column(replaced(self._spark, expression, other))

            return renamed

        return tuple(renamer(expression) for expression, _ in rebuilt)

    def _rebuilt(self, node: Any) -> Any:
        for place, key in enumerate(self._keys):
            if node.semanticEquals(key):
                return self._attribute(f"k{place}")
        if class_name(node) == "AggregateExpression":
            return self._attribute(f"a{self._place(node)}")
        children = list(items(node.children()))
        rebuilt = [self._rebuilt(child) for child in children]
        if all(new is old for new, old in zip(rebuilt, children, strict=True)):
            return node
        return with_children(self._spark, node, rebuilt)

    def _attribute(self, name: str) -> Any:
        return attribute(self._spark, name)

    def _place(self, aggregate: Any) -> int:
        planned = plan_function(aggregate, str(aggregate.sql()), self._partials)
        data_type = _parse_datatype_json_string(str(aggregate.dataType().json()))
        identity = (planned.kind, planned.columns, planned.argument, data_type.simpleString())
        if identity not in self._places:
            self._places[identity] = len(self.results)
            self.results.append(planned)
            self.types.append(data_type)
        self._used[self._places[identity]] = None
        return self._places[identity]

    def _check(self, rebuilt: Any, expression: Any) -> None:
        """Raise for what cannot be computed over the aggregates alone."""
        for node in tree(rebuilt):
            kind = class_name(node)
            problem = None
            if _UDF.search(kind):
                problem = "calls a user-defined function"
            elif "Subquery" in kind:
                problem = "contains a subquery"
            elif kind == "AttributeReference":
                problem = f"reads the column {node.name()} outside an aggregate"
            if problem is not None:
                raise PlanError(f"agg: {expression.sql()} {problem}; compute that in whatever reads the output")
        if not bool(rebuilt.deterministic()):
            raise PlanError(
                f"agg: {expression.sql()} is not deterministic, so a task that runs again would give other rows;"
                " compute that in whatever reads the output"
            )


def _check(spark: SparkSession, projection: Projection, given: Sequence[Any], fields: Sequence[StructField]) -> None:
    """Raise unless Spark finds the same types over the aggregates as over the input."""
    template = spark.createDataFrame([], projection.row_schema)
    columns = projection.columns[len(projection.columns) - len(given) :]
    for expression, column, field in zip(given, columns, fields, strict=True):
        try:
            found = template.select(column.alias("value")).schema.fields[0].dataType
        except AnalysisException as error:
            raise _misfit(expression, error_text(error)) from error
        if not same_type(found, field.dataType):
            raise _misfit(expression, f"it is {field.dataType.simpleString()}, not {found.simpleString()}")


def _misfit(expression: Any, why: str) -> PlanError:
    return PlanError(
        f"agg: {expression.sql()} cannot be computed over its aggregates alone ({why}); give each aggregate its own"
        " column, and compute with them in whatever reads the output"
    )
