"""GROUP BY as calls: ``groupBy`` the keys, ``agg`` the results, and ``select`` what the statement makes of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from ...runtime.catalyst.spark_expressions import (
    as_column,
    attribute,
    attribute_id,
    attribute_name,
    class_name,
    is_attribute,
    items,
    parsed,
    tree,
    without_alias,
)
from ...runtime.catalyst.sql_statements import over
from .rows import NotTranslatable, StatementRows, unique

#: Counts the rows of groups of which nothing else is asked, as of DISTINCT.
_ROWS = "rows_of_group"
#: Spark's column that tells the grouping sets apart.
_GROUPING_ID = "spark_grouping_id"


@dataclass(frozen=True)
class WrittenSets:
    """Grouping sets as Spark's analyzer writes them: each row once for every set, with nulls for the other keys."""

    #: Below the nodes that make these rows.
    below: Any
    #: By the id of each key's column what it is over the columns of ``below``, in order.
    keys: Mapping[int, Any]
    #: The places of the keys of each set.
    sets: tuple[tuple[int, ...], ...]


def written_sets(node: Any) -> WrittenSets | None:
    """The grouping sets of an ``Aggregate``; None: it has none."""
    expand = node.child()
    if class_name(expand) != "Expand" or class_name(expand.child()) != "Project":
        return None
    groups, outputs = list(items(node.groupingExpressions())), list(items(expand.output()))
    count = len(groups) - 1
    if count < 1 or str(outputs[-1].name()) != _GROUPING_ID or not groups[-1].semanticEquals(outputs[-1]):
        return None
    computed = list(items(expand.child().projectList()))[-count:]
    if any(class_name(one) != "Alias" for one in computed):
        return None
    sets = [
        tuple(place for place, one in enumerate(list(items(row))[-count - 1 : -1]) if class_name(one) != "Literal")
        for row in items(expand.projections())
    ]
    keys = {attribute_id(group): one.child() for group, one in zip(groups, computed, strict=False)}
    return WrittenSets(expand.child().child(), keys, tuple(sets))


class Aggregation:
    """One GROUP BY.

    Args:
        node: the ``Aggregate``.
        rows: what is aggregated.
        taken: names that none of its columns may have.
        written: its grouping sets; None: it has none.
    """

    def __init__(self, node: Any, rows: StatementRows, taken: frozenset[str], written: WrittenSets | None) -> None:
        self._rows, self._spark, self._written = rows, rows.spark, written
        self._groups = list(items(node.groupingExpressions()))[: None if written is None else -1]
        self._outputs = list(items(node.aggregateExpressions()))
        self._taken = set(taken)
        self._keys: list[Any] = []
        self._key_names: list[str] = []
        #: By a name of a result what is aggregated.
        self._results: dict[str, Any] = {}
        self._grouping_id = None if written is None else parsed(self._spark, "grouping_id()")

    def result(self) -> StatementRows:
        """What it gives.

        Raises:
            NotTranslatable: there are no calls for it.
        """
        for group in self._groups:
            self._add_key(group)
        wanted = [self._output(one) for one in self._outputs]
        results = [as_column(self._spark, one).alias(name) for name, one in self._results.items()]
        if all(one is self._grouping_id for one in self._results.values()):
            results += [F.count(F.lit(1)).alias(unique(_ROWS, {*self._taken, *self._key_names}))]
        made = self._rows.aggregated(self._keys, results, None if self._written is None else self._written.sets)
        names = [name for name, _ in wanted]
        if any(expression is not None for _, expression in wanted) or names != made.names:
            made = made.call("select", *[self._column(*one) for one in wanted])
        known = made.named([attribute_id(one) for one in self._outputs], names)
        return StatementRows(made.frame, made.stock, known)

    def _column(self, name: str, expression: Any) -> Column:
        if expression is None:
            return as_column(self._spark, attribute(self._spark, name))
        return as_column(self._spark, expression).alias(name)

    def _add_key(self, group: Any) -> None:
        written = None if self._written is None else self._written.keys[attribute_id(group)]
        expression = self._rows.expression(group if written is None else written)
        kind = class_name(expression)
        if kind == "UnresolvedAttribute":
            name = attribute_name(expression)
            if name in self._key_names:
                raise NotTranslatable(f"has the key {name} twice")
            self._keys.append(as_column(self._spark, expression))
        elif written is not None:  # by its own name: with an alias Spark 4.1 takes it for a key beside that of the sets
            self._keys.append(as_column(self._spark, expression))
            name = self._rows.stock.select(self._keys[-1]).columns[0]
        else:
            name = unique(self._wished(group), {*self._taken, *self._key_names, *self._rows.names})
            self._keys.append(as_column(self._spark, expression).alias(name))
        self._key_names.append(name)

    def _wished(self, group: Any) -> str:
        """What the statement calls a key that is computed."""
        found = [one for one in self._outputs if class_name(one) == "Alias" and one.child().semanticEquals(group)]
        if found:
            return str(found[0].name())
        return str(group.name()) if is_attribute(group) else str(group.sql())

    def _output(self, named: Any) -> tuple[str, Any]:
        """Name of a column of the result, and what it is over keys and results; None: it is one of these."""
        expression = without_alias(named)
        others = {*self._taken, *self._key_names, *self._results}
        if is_attribute(named) and not self._is_grouping_id(named):
            return self._key_name(named), None
        if class_name(expression) == "AggregateExpression":
            name = unique(str(named.name()), others)
            self._results[name] = self._rows.expression(expression)
            return name, None
        found = self._over_results(expression)
        if class_name(found) == "UnresolvedAttribute" and attribute_name(found).lower() == str(named.name()).lower():
            return attribute_name(found), None
        return unique(str(named.name()), others), found

    def _key_name(self, named: Any) -> str:
        for place, group in enumerate(self._groups):
            if named.semanticEquals(group):
                return self._key_names[place]
        raise NotTranslatable(f"reads the column {named.name()}, which is no key")

    def _is_grouping_id(self, column: Any) -> bool:
        return self._grouping_id is not None and str(column.name()) == _GROUPING_ID

    def _over_results(self, expression: Any) -> Any:
        """An expression over the names of keys and results; each aggregate in it becomes a result."""

        def other(node: Any) -> Any:
            for place, group in enumerate(self._groups):
                if node.semanticEquals(group):
                    return attribute(self._spark, self._key_names[place])
            if is_attribute(node) and self._is_grouping_id(node):
                name = unique(_GROUPING_ID, {*self._taken, *self._key_names})
                self._results[name] = self._grouping_id
                return attribute(self._spark, name)
            if class_name(node) == "AggregateExpression":
                name = unique(str(node.sql()), {*self._taken, *self._key_names, *self._results})
                self._results[name] = self._rows.expression(node)
                return attribute(self._spark, name)
            return None

        found = over(self._spark, expression, other)
        for one in tree(found):
            if is_attribute(one):
                raise NotTranslatable(f"reads the column {one.name()}, which is no key")
        return found
