"""Joins as Spark's analyzer sees them: taken apart, and asked whether two streams may be joined so.

Expressions and attributes are handles, as in :mod:`.spark_expressions`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from ..jvm.gateway import java_class, scala_option, scala_sequence
from .spark_expressions import (
    as_column,
    attribute,
    attribute_id,
    class_name,
    is_attribute,
    items,
    replaced,
    tree,
    with_attributes,
)
from .spark_plans import analyzed, check_streaming, output_of

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
#: How Spark's streams mark an event-time column.
_DELAY = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class SparkJoin:
    """An analyzed join of two frames."""

    spark: SparkSession
    #: Spark's node, without what only stands for other expressions.
    node: Any
    #: What each column of the result is: an attribute of a side, or an expression over them.
    outputs: tuple[Any, ...]

    @classmethod
    def of(cls, frame: DataFrame) -> SparkJoin:
        """The join that a frame is, or is a projection of."""
        spark, plan = frame.sparkSession, analyzed(frame)
        projected = class_name(plan) == "Project"
        node = plan.child() if projected else plan
        outputs = items(plan.projectList()) if projected else items(plan.output())
        rule = java_class(spark, "org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions")
        node = rule.apply(node)
        if node.condition().isDefined():
            condition = _without_common(spark, node.condition().get())
            node = node.copy(node.left(), node.right(), node.joinType(), scala_option(spark, condition), node.hint())
        return cls(spark, node, tuple(outputs))

    @property
    def kind(self) -> str:
        """``INNER``, ``LEFT OUTER`` and so on."""
        return str(self.node.joinType().sql())

    @property
    def left(self) -> tuple[Any, ...]:
        """The left side's attributes."""
        return tuple(items(self.node.left().output()))

    @property
    def right(self) -> tuple[Any, ...]:
        """The right side's attributes."""
        return tuple(items(self.node.right().output()))

    @cached_property
    def _parts(self) -> Any:
        extractor = java_class(self.spark, "org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys")
        found = extractor.unapply(self.node)
        return found.get() if found.isDefined() else None

    @property
    def keys(self) -> tuple[tuple[Any, Any], ...]:
        """What must be equal, left and right; empty: nothing must be."""
        if self._parts is None:
            return ()
        return tuple(zip(items(self._parts._2()), items(self._parts._3()), strict=True))

    @property
    def others(self) -> tuple[Any, ...]:
        """What else must be true, one by one."""
        condition = self.node.condition() if self._parts is None else self._parts._4()
        return tuple(_conjuncts(self.spark, condition.get())) if condition.isDefined() else ()

    def check_streaming(self, event_times: Collection[int], output_mode: str) -> None:
        """Have Spark check the join as one of two streams.

        Args:
            event_times: ids of the attributes that are event time of a watermark.
            output_mode: ``append``, ``update`` or ``complete``.

        Raises:
            AnalysisException: Spark does not support it.
        """
        spark = self.spark
        sides = [[_marked(spark, one, event_times) for one in side] for side in (self.left, self.right)]
        known = {attribute_id(one): one for side in sides for one in side}
        relation = java_class(spark, "org.apache.spark.sql.catalyst.plans.logical.LocalRelation")
        left, right = (
            relation(scala_sequence(spark, side), scala_sequence(spark, []), True, scala_option(spark))
            for side in sides
        )
        condition = self.node.condition()
        if condition.isDefined():
            condition = scala_option(spark, with_attributes(spark, condition.get(), known))
        streams = self.node.copy(left, right, self.node.joinType(), condition, self.node.hint())
        check_streaming(spark, streams, output_mode)


def python_type(expression: Any) -> DataType:
    """The type of a resolved expression."""
    field = {"name": "", "type": json.loads(expression.dataType().json()), "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [field]}).fields[0].dataType


def over_columns(spark: SparkSession, expression: Any, names: Mapping[int, str]) -> Column:
    """A resolved expression as a column over any frame with columns of these names.

    Args:
        spark: the session.
        expression: the expression.
        names: by the id of each attribute that it reads.
    """
    return as_column(spark, with_attributes(spark, expression, _named(spark, names)))


def sql_over(spark: SparkSession, expression: Any, names: Mapping[int, Sequence[str]]) -> str:
    """The same as text.

    Args:
        spark: the session.
        expression: the expression.
        names: by the id of each attribute the parts of its name.
    """
    unresolved = java_class(spark, "org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute")
    known = {id: unresolved(scala_sequence(spark, parts)) for id, parts in names.items()}
    return str(with_attributes(spark, expression, known).sql())


def _named(spark: SparkSession, names: Mapping[int, str]) -> dict[int, Any]:
    return {id: attribute(spark, name) for id, name in names.items()}


def qualified(spark: SparkSession, source: str, name: str, qualifier: Sequence[str], metadata: Any = None) -> Column:
    """A column under a name, and under that of a frame, as if ``alias`` had given it.

    Args:
        spark: the session.
        source: the column that it is.
        name: what it is called.
        qualifier: what the frame is called; nothing: it has no name.
        metadata: Spark's object of its metadata; None: that of the source.
    """
    return _alias(spark, attribute(spark, source), name, qualifier, metadata)


def qualifier_of(attribute: Any) -> tuple[str, ...]:
    """What the frame of an attribute is called."""
    return tuple(map(str, items(attribute.qualifier())))


def with_metadata(frame: DataFrame, column: str, metadata: Mapping[str, Any]) -> DataFrame | None:
    """The frame with other metadata of a column that goes on to be called by its frame's name, too.

    None: it is called by its own name alone, and what ``withColumns`` gives is the same.

    Args:
        frame: the frame.
        column: whose metadata they are.
        metadata: all of it, as a mapping that JSON can hold.
    """
    spark, attributes = frame.sparkSession, analyzed(frame).output()
    places = [place for place, name in enumerate(frame.columns) if name == column]
    if not any(qualifier_of(attributes.apply(place)) for place in places):
        return None
    output = list(items(attributes))
    given = java_class(spark, "org.apache.spark.sql.types.Metadata").fromJson(json.dumps(dict(metadata)))
    columns = [
        _alias(spark, one, column, qualifier_of(one), given) if str(one.name()) == column else as_column(spark, one)
        for one in output
    ]
    return frame.select(*columns)


def renewed(frame: DataFrame) -> DataFrame:
    """The same rows, in columns of the same names that Spark takes for others: a frame that is joined with itself."""
    spark = frame.sparkSession
    columns = [_alias(spark, one, one.name(), qualifier_of(one)) for one in output_of(frame)]
    return frame.select(*columns)


def share_attributes(one: DataFrame, other: DataFrame) -> bool:
    """Whether Spark takes columns of two frames for the same."""
    ids = {attribute_id(attribute) for attribute in output_of(one)}
    return any(attribute_id(attribute) in ids for attribute in output_of(other))


def is_same_value(plan: Any, one: int, other: int) -> bool:
    """Whether two columns of a plan are one value under two names.

    Args:
        plan: a resolved plan.
        one: the id of a column.
        other: that of another.
    """
    while one != other:
        if class_name(plan) == "Project":
            found = {}
            for named in items(plan.projectList()):
                below = named
                while class_name(below) == "Alias":
                    below = below.child()
                found[attribute_id(named)] = below
            if one not in found or other not in found:
                return False
            mine, theirs = found[one], found[other]
            if not is_attribute(mine) or not is_attribute(theirs):
                return bool(mine.semanticEquals(theirs))
            one, other = attribute_id(mine), attribute_id(theirs)
        elif plan.children().size() != 1:
            return False
        plan = plan.children().apply(0) if one != other else plan
    return True


# -- inside ------------------------------------------------------------------------------------------------------------


def _alias(spark: SparkSession, expression: Any, name: str, qualifier: Sequence[str], metadata: Any = None) -> Column:
    alias = java_class(spark, f"{_EXPRESSIONS}.Alias")
    id = java_class(spark, f"{_EXPRESSIONS}.NamedExpression").newExprId()
    given = scala_option(spark, metadata)
    return as_column(
        spark, alias(expression, name, id, scala_sequence(spark, qualifier), given, scala_sequence(spark, []))
    )


def _marked(spark: SparkSession, attribute: Any, event_times: Collection[int]) -> Any:
    if attribute_id(attribute) not in event_times:
        return attribute
    builder = java_class(spark, "org.apache.spark.sql.types.MetadataBuilder")()
    return attribute.withMetadata(builder.withMetadata(attribute.metadata()).putLong(_DELAY, 0).build())


def _without_common(spark: SparkSession, expression: Any) -> Any:
    """The expression with what it names once and uses several times in each of these places."""
    found = {str(one.id()): one.child() for one in tree(expression) if class_name(one) == "CommonExpressionDef"}

    def other(node: Any) -> Any:
        if class_name(node) == "With":
            return replaced(spark, node.child(), other)
        if class_name(node) == "CommonExpressionRef":
            return replaced(spark, found[str(node.id())], other)
        return None

    return replaced(spark, expression, other) if found else expression


def _conjuncts(spark: SparkSession, expression: Any) -> list[Any]:
    """What must be true, one by one: of ``NOT (x OR y)`` it is that neither is."""
    kind = class_name(expression)
    below = expression.child() if kind == "Not" else None
    if kind == "And":
        return [one for child in items(expression.children()) for one in _conjuncts(spark, child)]
    if below is not None and class_name(below) == "Not":
        return _conjuncts(spark, below.child())
    if below is not None and class_name(below) == "Or":
        opposite = java_class(spark, f"{_EXPRESSIONS}.Not")
        return [one for child in items(below.children()) for one in _conjuncts(spark, opposite(child))]
    return [expression]
