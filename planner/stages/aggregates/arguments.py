"""Arguments of aggregates on their way into each epoch's query, where Spark resolves them anew.

Their SQL text is what state is recognised by, and what Spark gets wherever it reads the very same expression in it.
But Spark writes the text for people to read.  It leaves out what most readers do not miss: the names of a struct's
fields, casts to nested types, options of functions, the body of a lambda; and settings of the session change what a
literal in it means.  Such an argument goes to Spark as the expression that it is, with columns by name as its leaves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType, DecimalType, StructField

from ....errors import PlanError
from ....runtime.catalyst.spark_expressions import (
    as_column,
    attribute,
    attribute_id,
    class_name,
    is_attribute,
    is_same,
    items,
    of_unscaled_values,
    parsed,
    replaced,
    tree,
    with_attributes,
)
from ....runtime.catalyst.spark_plans import analyzed, output_of, whole_plans
from ....runtime.jvm.log_levels import unlogged
from ....runtime.jvm.spark_errors import error_text
from ....runtime.operators.aggregate.buffers import DecimalSumBuffer
from ....runtime.operators.arrival_order import ARRIVAL_COLUMNS
from .partials import Argument, PartialColumns

#: What Spark raises for what it cannot read; the second is for a name that would be a pattern.
_NOT_TAKEN = (AnalysisException, IllegalArgumentException)
#: What partial columns that are sums begin with.
_SUM, _ANY_SUM = re.compile(r"^sum\("), re.compile(r"^(try_)?sum\(")
#: Digits behind the point of decimals that are added as whole numbers.
_MOST_SCALE = 6
#: Columns have an id in Spark, and lambda variables also a number in their name.
_ID = re.compile(r"(?:lambda \w+)?#\d+L?")


@dataclass(frozen=True)
class PlannedColumns:
    """The partial columns of a job, and what Spark says about them."""

    #: What state is recognised by: the SQL of each, and after it what that SQL leaves out.
    labels: tuple[str, ...]
    #: The same for Spark.
    columns: tuple[Column, ...]
    #: The same where rows come in any order, with the columns that say their order; the same ones if it is the same.
    ordered: tuple[Column, ...]
    #: By their places, sums of decimals as whole numbers.
    unscaled: Mapping[int, Column]
    key_fields: tuple[StructField, ...]
    fields: tuple[StructField, ...]


class ArgumentPlanner:
    """Makes Spark's columns of the partial aggregates.

    Args:
        template: the frame that the arguments were resolved against.
        groups: what it is grouped by.
        names: the columns' names.
        partials: the partial aggregates.
        analyzed: Spark's node of the aggregation that the arguments are from.
    """

    def __init__(
        self,
        template: DataFrame,
        groups: Sequence[Column],
        names: Sequence[str],
        partials: PartialColumns,
        analyzed: Any,
    ) -> None:
        spark = template.sparkSession
        self._template = template
        self._keys = len(groups)
        self._grouped = template.groupBy(*[column.alias(f"__k{place}") for place, column in enumerate(groups)])
        self._names = names
        self._partials = partials
        self._aggregation = analyzed
        self._spark = spark

    def planned(self) -> PlannedColumns:
        """The columns.

        Raises:
            PlanError: Spark takes one of them neither as text nor as an expression.
        """
        arguments = self._partials.arguments
        doubtful = [place for place in self._partials.used() if not arguments[place].is_certain]
        #: Arguments that go to Spark as expressions, by place.
        expressions: dict[int, Any] = {}
        while True:
            try:
                with unlogged():
                    columns = self._columns(expressions)
                    fields, said = self._analyzed(columns, [self._probe(place, expressions) for place in doubtful])
                wrong = [place for place, one in zip(doubtful, said, strict=True) if not self._is(place, one)]
            except _NOT_TAKEN as error:
                why = error_text(error)
                wrong = [place for place in doubtful if not self._is(place, self._alone(place, expressions))]
                if not wrong:
                    raise self._refusal(expressions) from error
            else:
                why = "Spark reads another expression in it"
            if not wrong:
                labels = self._partials.written(self._texts_with(expressions))
                keys, values = fields[: self._keys], fields[self._keys :]
                ordered = self._ordered(columns, expressions)
                unscaled = self._unscaled(values, expressions)
                return PlannedColumns(
                    tuple(labels), tuple(columns), tuple(ordered), unscaled, tuple(keys), tuple(values)
                )
            for place in wrong:
                if place in expressions:
                    raise _refusal(arguments[place].text, why)
                expressions[place] = self._unbound(arguments[place])

    # -- to Spark ------------------------------------------------------------------------------------------------------

    def _columns(self, expressions: Mapping[int, Any]) -> list[Column]:
        """The partial columns; arguments that are not given as expressions are text."""
        return self._made(dict(enumerate(self._partials.written(self._texts_for_spark(expressions)))), expressions)

    def _ordered(self, columns: Sequence[Column], expressions: Mapping[int, Any]) -> list[Column]:
        """The partial columns for rows in any order, of which columns say where they belong."""
        event_time = self._partials.event_time
        order = ", ".join([*([] if event_time is None else [event_time]), *ARRIVAL_COLUMNS])
        sql = self._partials.written_in_order(self._texts_for_spark(expressions), order)
        made = dict(zip(sql, self._made(sql, expressions), strict=True))
        return [made.get(place, column) for place, column in enumerate(columns)]

    def _unscaled(self, fields: Sequence[StructField], expressions: Mapping[int, Any]) -> dict[int, Column]:
        """The sums of decimals that fit 64 bits, as sums of their unscaled values; null where these do not fit."""
        texts = self._partials.written(self._texts_for_spark(expressions))
        sums = [one.columns[0] for one in self._partials.buffers if isinstance(one, DecimalSumBuffer)]
        sql = {
            place: _SUM.sub("try_sum(", texts[place])
            for place in sums
            if _fits_64_bits(fields[place].dataType) and _ANY_SUM.match(texts[place])
        }
        return dict(zip(sql, self._made(sql, expressions, unscaled=True), strict=True))

    def _texts_for_spark(self, expressions: Mapping[int, Any]) -> list[str]:
        arguments = enumerate(self._partials.arguments)
        return [f"__a{place}" if place in expressions else argument.sql for place, argument in arguments]

    def _made(
        self, columns: Mapping[int, str], expressions: Mapping[int, Any], *, unscaled: bool = False
    ) -> list[Column]:
        """Columns of SQL by their places, with expressions for those arguments that are no text.

        Args:
            columns: the SQL.
            expressions: the expressions by the arguments' places.
            unscaled: of the unscaled values of each function's first argument, which are decimals.
        """
        holes = {f"__a{place}": expression for place, expression in expressions.items()}
        unresolved = [parsed(self._spark, f"{sql} AS {self._names[place]}") for place, sql in columns.items()]
        if holes:

            def filled(node: Any) -> Any:
                return holes.get(str(node.name())) if class_name(node) == "UnresolvedAttribute" else None

            unresolved = [replaced(self._spark, one, filled) for one in unresolved]
        if unscaled:
            unresolved = [of_unscaled_values(self._spark, one) for one in unresolved]
        return [as_column(self._spark, one) for one in unresolved]

    def _probe(self, place: int, expressions: Mapping[int, Any]) -> Column:
        """A column from which an argument can be read back as Spark takes it."""
        given = expressions.get(place)
        if given is None:
            return as_column(
                self._spark, parsed(self._spark, f"first({self._partials.arguments[place].text}) AS __a{place}")
            )
        hole = parsed(self._spark, f"first(__a) AS __a{place}")
        probe = replaced(self._spark, hole, lambda one: given if class_name(one) == "UnresolvedAttribute" else None)
        return as_column(self._spark, probe)

    def _unbound(self, argument: Argument) -> Any:
        """The expression over columns by name: each epoch's frame has other ids for them."""
        output = output_of(self._template)
        known = {
            attribute_id(one): attribute(self._spark, name)
            for one, name in zip(output, self._template.columns, strict=True)
        }
        unbound = with_attributes(self._spark, self._over_input(argument.expression), known)
        for node in tree(unbound):
            if is_attribute(node):
                raise _refusal(argument.text, f"{node.name()} is no column of the input")
        return unbound

    def _over_input(self, expression: Any) -> Any:
        """The expression without columns that Spark computes below the aggregation, as for functions in SQL."""
        node, expressions = self._aggregation.child(), [expression]
        while class_name(node) == "Project":
            aliases = (item for item in items(node.projectList()) if class_name(item) == "Alias")
            known = {attribute_id(alias): alias.child() for alias in aliases}
            expressions.append(with_attributes(self._spark, expressions[-1], known))
            node = node.child()
        # Anything else changes the rows as well, such as a window.
        return expressions[0 if node.children().size() else -1]

    def _texts_with(self, expressions: Mapping[int, Any]) -> list[str]:
        """The arguments' texts, completed by what Spark shows of the expressions."""
        with whole_plans(self._template.sparkSession):
            shown = {place: str(expression.toString()) for place, expression in expressions.items()}
        return [
            f"{argument.text} /* {with_plain_ids(shown[place])} */" if place in shown else argument.text
            for place, argument in enumerate(self._partials.arguments)
        ]

    # -- from Spark ----------------------------------------------------------------------------------------------------

    def _analyzed(self, columns: Sequence[Column], probes: Sequence[Column]) -> tuple[list[StructField], list[Any]]:
        """Fields of keys and columns, and the probes' expressions."""
        result = self._grouped.agg(*columns, *probes)
        fields: list[StructField] = result.schema.fields
        if not probes:
            return fields, []
        node = analyzed(result)
        while class_name(node) == "Project":
            node = node.child()
        outputs = node.aggregateExpressions()
        places = range(outputs.size() - len(probes), outputs.size())
        said = [outputs.apply(place).child().aggregateFunction().child() for place in places]
        return fields[: -len(probes)], said

    def _alone(self, place: int, expressions: Mapping[int, Any]) -> Any:
        """What Spark takes an argument for; None: it cannot tell."""
        try:
            with unlogged():
                _, [said] = self._analyzed([], [self._probe(place, expressions)])
        except _NOT_TAKEN:
            return None
        return said

    def _is(self, place: int, said: Any) -> bool:
        expression = self._partials.arguments[place].expression
        return said is not None and (
            is_same(self._spark, expression, said) or bool(self._over_input(expression).semanticEquals(said))
        )

    def _refusal(self, expressions: Mapping[int, Any]) -> PlanError:
        """The error for the column that Spark does not take, though it takes all arguments."""
        for label, column in zip(self._partials.written(self._texts_with({})), self._columns(expressions), strict=True):
            try:
                with unlogged():
                    self._grouped.agg(column)
            except _NOT_TAKEN as error:
                return _refusal(label, error_text(error))
        return _refusal(", ".join(self._names), "Spark does not compute them together")


def _fits_64_bits(sum_type: DataType) -> bool:
    """Whether the values of a sum of decimals have at most 18 digits, which 64 bits hold, and few behind the point.

    With six of these a sum that needs more than 64 bits is one of 9 * 10**12: then the whole pass was in vain.
    """
    # Spark's sum has ten digits more than its values, if it can.
    return isinstance(sum_type, DecimalType) and sum_type.precision <= 28 and sum_type.scale <= _MOST_SCALE


def _refusal(sql: str, why: str) -> PlanError:
    return PlanError(
        f"agg: the argument of {sql} cannot be taken over ({why}); compute it with withColumn before groupBy and"
        " aggregate the column"
    )


def with_plain_ids(text: str) -> str:
    """The text with ids counted from 0, as they differ between two runs of one job."""
    ids: dict[str, str] = {}
    return _ID.sub(lambda found: ids.setdefault(found[0], f"#{len(ids)}"), text)
