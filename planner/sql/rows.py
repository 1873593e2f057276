"""The rows of a SQL statement while it is translated: a job's frame, and a stock frame that gets the same calls.

The stock frame is over the stand-ins.  Its plan, and not what we believe to have called, is compared with the plan of
the statement in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame

from ...runtime.catalyst.spark_expressions import (
    as_column,
    attribute,
    attribute_id,
    attribute_name,
    class_name,
    is_attribute,
    tree,
)
from ...runtime.catalyst.sql_statements import OUTER, correlated, is_correlated, is_correlated_itself, over


class NotTranslatable(Exception):
    """A part of a statement that there are no calls for; the reason is its text."""


@dataclass(frozen=True)
class StatementRows:
    """What a node of a statement gives."""

    #: Of the job.
    frame: Any
    #: The same calls on a stock frame over the stand-ins.
    stock: DataFrame
    #: By the id of each column of the node what says it: a name, or a function of columns such as a window.
    known: Mapping[int, Any]
    #: True if they are called as subqueries call the rows outside of them.
    is_outer: bool = False

    @property
    def spark(self) -> Any:
        return self.stock.sparkSession

    @property
    def names(self) -> list[str]:
        return list(self.stock.columns)

    def call(self, method: str, *args: Any, known: Mapping[int, Any] | None = None) -> StatementRows:
        """Both frames through a method.

        Args:
            method: its name.
            args: what it is given.
            known: the columns afterwards; None: they stay.
        """
        made = [getattr(one, method)(*args) for one in (self.frame, self.stock)]
        return StatementRows(made[0], made[1], self.known if known is None else known)

    def with_other(self, method: str, other: StatementRows, *args: Any, known: Mapping[int, Any]) -> StatementRows:
        """Both frames through a method that takes other rows, too.

        Args:
            method: its name.
            other: these rows.
            args: what else it is given.
            known: the columns afterwards.
        """
        frame = getattr(self.frame, method)(other.frame, *args)
        return StatementRows(frame, getattr(self.stock, method)(other.stock, *args), known)

    def aggregated(
        self, keys: Sequence[Column], results: Sequence[Column], sets: Sequence[Sequence[int]] | None = None
    ) -> StatementRows:
        """Both frames through ``groupBy`` and ``agg``.

        Args:
            keys: columns.
            results: aggregates.
            sets: places of the keys of each grouping set; None: there is one of all keys.
        """
        if sets is None:
            groups = [one.groupBy(*keys) for one in (self.frame, self.stock)]
        else:
            chosen = [[keys[place] for place in each] for each in sets]
            groups = [one.groupingSets(chosen, *keys) for one in (self.frame, self.stock)]
        made = [one.agg(*results) for one in groups]
        return StatementRows(made[0], made[1], {})

    def expression(self, node: Any, more: Mapping[int, Any] | None = None) -> Any:
        """A resolved expression over the names of these columns.

        Args:
            node: the expression.
            more: by their ids columns that are known beside these.

        Raises:
            NotTranslatable: it reads a column that is not there.
        """
        known = {**self.known, **(more or {})}
        for one in tree(node):
            if is_attribute(one) and attribute_id(one) not in known:
                raise NotTranslatable(f"reads the column {one.name()} of another relation")

        def named(outer: Any) -> str:
            found = known.get(attribute_id(outer)) if is_attribute(outer) else None
            if found is None or class_name(found) != "UnresolvedAttribute":
                raise NotTranslatable(f"has a subquery that reads {outer.sql()}, which is no column of the rows before")
            return attribute_name(found)

        def other(one: Any) -> Any:
            if is_correlated_itself(one):
                if not self.is_outer:
                    raise NotTranslatable("has a subquery that reads columns from outside of it")
                return self._correlated(one, named)
            if not is_attribute(one):
                return None
            if attribute_id(one) not in known:  # in a call as it was written
                raise NotTranslatable(f"reads the column {one.name()}, which is gone")
            return known[attribute_id(one)]

        return over(self.spark, node, other)

    def _correlated(self, subquery: Any, named: Callable[[Any], str]) -> Any:
        made = correlated(self.spark, subquery, named)
        if made is None:
            raise NotTranslatable("has a subquery that reads columns from outside elsewhere than in its WHERE")
        return made

    def for_subqueries(self, expressions: Iterable[Any]) -> StatementRows:
        """The same, for expressions over their columns that may have subqueries which read these."""
        if not any(map(is_correlated, expressions)):
            return self
        return replace(self.call("alias", OUTER), is_outer=True)

    def column(self, node: Any) -> Column:
        """The same as a column."""
        return as_column(self.spark, self.expression(node))

    def named(self, ids: Iterable[int], names: Iterable[str]) -> dict[int, Any]:
        """What says columns that are called by names."""
        return {id: attribute(self.spark, name) for id, name in zip(ids, names, strict=True)}


def unique(name: str, taken: Iterable[str]) -> str:
    """A name that no other column has, whether or not upper case counts."""
    others, found, number = {one.lower() for one in taken}, name, 1
    while found.lower() in others:
        number += 1
        found = f"{name}_{number}"
    return found
