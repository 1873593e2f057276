"""Spark's expressions: walking them, comparing them, making others of them.

An expression is a handle that callers hand back to these functions; what they read of it themselves are the stable
members ``sql``, ``name``, ``exprId``, ``dataType`` and ``semanticEquals`` of Spark's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession

from ..jvm.gateway import (
    java_array,
    java_class,
    scala_object,
    scala_option,
    scala_sequence,
    session_state,
    simple_class_name,
)

_CATALYST = "org.apache.spark.sql.catalyst."
#: What a member of an expression raises that this version of Spark does not have.
NO_SUCH_MEMBER = Py4JError


def class_name(node: Any) -> str:
    """The simple name of a node's class."""
    return simple_class_name(node)


def items(sequence: Any) -> Iterator[Any]:
    """The members of a Scala sequence."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def tree(node: Any) -> Iterator[Any]:
    """A node and everything below it."""
    yield node
    for child in items(node.children()):
        yield from tree(child)


def is_attribute(node: Any) -> bool:
    """True for a column that a plan below has made."""
    return class_name(node) == "AttributeReference"


def attribute_id(named: Any) -> int:
    """The id of a column, which is that of the alias that has made it."""
    return int(named.exprId().id())


def attributes_in(expression: Any) -> set[int]:
    """The ids of the columns that an expression reads."""
    return {attribute_id(one) for one in tree(expression) if is_attribute(one)}


def without_alias(expression: Any) -> Any:
    """The expression below its names."""
    while class_name(expression) == "Alias":
        expression = expression.child()
    return expression


def with_children(spark: SparkSession, node: Any, children: Sequence[Any]) -> Any:
    """A copy of a node over other children.

    Args:
        spark: the session that it is of.
        node: an expression or a plan.
        children: as many as it has now.
    """
    return node.withNewChildren(scala_sequence(spark, children))


def with_attributes(spark: SparkSession, node: Any, known: Mapping[int, Any]) -> Any:
    """An expression with columns replaced.

    Args:
        spark: the session that it is of.
        node: the expression.
        known: by the id of a column what takes its place; all others stay.
    """
    if not known:
        return node
    return replaced(spark, node, lambda one: known.get(attribute_id(one)) if is_attribute(one) else None)


def resolved_with_attributes(spark: SparkSession, node: Any, known: Mapping[int, Any]) -> Any:
    """As :func:`with_attributes`, of a resolved expression, in a few round trips however large it is.

    Names within the expression are left out.

    Args:
        spark: the session that it is of.
        node: the expression.
        known: by the id of a column what takes its place; all others stay.
    """
    if not known:
        return node
    if is_attribute(node):
        return known.get(attribute_id(node), node)
    used = [(one, known[number]) for one in items(node.references().toSeq()) if (number := attribute_id(one)) in known]
    if not used:
        return node
    alias, none = java_class(spark, f"{_CATALYST}expressions.Alias"), scala_option(spark)
    nothing = scala_sequence(spark, [])
    named = [alias(its, one.name(), one.exprId(), nothing, none, nothing) for one, its in used]
    helper = scala_object(spark, f"{_CATALYST}optimizer.CollapseProject")
    return helper.replaceAlias(node, helper.getAliasMap(scala_sequence(spark, named)))


def replaced(spark: SparkSession, node: Any, other: Callable[[Any], Any]) -> Any:
    """An expression with nodes replaced, from the top downwards.

    Args:
        spark: the session that it is of.
        node: the expression.
        other: gives what takes a node's place; None: the node stays, and its children are asked for.
    """
    found = other(node)
    if found is not None:
        return found
    return over_changed(spark, node, lambda child: replaced(spark, child, other))


def over_changed(spark: SparkSession, node: Any, change: Callable[[Any], Any]) -> Any:
    """A node of an expression or a plan over its children as they are after a change; the same if none has changed.

    Args:
        spark: the session that it is of.
        node: the node.
        change: gives what takes a child's place.
    """
    children = list(items(node.children()))
    others = list(map(change, children))
    return node if all(map(is_, others, children)) else with_children(spark, node, others)


def parsed(spark: SparkSession, sql: str) -> Any:
    """The expression that a text says, not resolved; by the session's settings of now.

    Raises:
        ParseException: it is none.
    """
    return session_state(spark).sqlParser().parseExpression(sql)


def attribute(spark: SparkSession, name: str) -> Any:
    """The expression of a column by its name, not resolved."""
    return java_class(spark, "org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute").quoted(name)


def attribute_name(node: Any) -> str:
    """The name that :func:`attribute` was given; Spark's own ``name`` puts one with a dot into backticks."""
    return str(node.nameParts().head())


def called(spark: SparkSession, column: Any, name: str) -> Any:
    """A resolved column under another name, of the same type and of no frame.

    Args:
        spark: the session that it is of.
        column: an attribute.
        name: the name.
    """
    return column.withName(name).withQualifier(scala_sequence(spark, []))


def as_column(spark: SparkSession, expression: Any) -> Column:
    """The expression as a column of PySpark."""
    return Column(java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils").column(expression))


def of_unscaled_values(spark: SparkSession, call: Any) -> Any:
    """A call under a name, not resolved, over the unscaled values of its first argument, which is a decimal."""
    function = call.child()
    first, *others = items(function.children())
    unscaled = java_class(spark, "org.apache.spark.sql.catalyst.expressions.UnscaledValue")(first)
    return with_children(spark, call, [with_children(spark, function, [unscaled, *others])])


def is_orderable(spark: SparkSession, data_type: Any) -> bool:
    """True if Spark can compare values of one of its types."""
    # As an array of it: a struct's type is a sequence of fields, too, and there is a method for sequences.
    array = java_class(spark, "org.apache.spark.sql.types.DataTypes").createArrayType(data_type)
    return bool(java_class(spark, "org.apache.spark.sql.catalyst.expressions.RowOrdering").isOrderable(array))


def is_same(spark: SparkSession, one: Any, other: Any) -> bool:
    """True for one expression; constants may be written in two ways: a typed null or a float is a cast as text.

    Args:
        spark: the session that they are of.
        one: a resolved expression.
        other: another one, over the same columns.
    """
    if one.semanticEquals(other):
        return True
    if one.foldable() and other.foldable() and one.dataType().json() == other.dataType().json():
        try:
            return bool(one.eval(None) == other.eval(None))
        except (Py4JJavaError, PySparkException):
            pass  # a constant that is an error, or that only Spark's optimizer can compute
    children, others = list(items(one.children())), list(items(other.children()))
    if not children or len(children) != len(others) or class_name(one) != class_name(other):
        return False
    if not all(is_same(spark, child, its) for child, its in zip(children, others, strict=True)):
        return False
    return bool(with_children(spark, one, others).semanticEquals(other))


def constant(expression: Any) -> Any:
    """The value of a resolved expression over no columns; None: null, or only known when a query runs."""
    try:
        return expression.eval(None)
    except (Py4JError, PySparkException):
        return None


def calendar_interval(value: Any) -> tuple[int, int, int]:
    """Months, days and microseconds of a constant of type ``interval``."""
    period, duration = value.extractAsPeriod(), value.extractAsDuration()
    # Nanoseconds of some centuries do not fit into 64 bits.
    micros = int(duration.getSeconds()) * 1_000_000 + int(duration.getNano()) // 1000
    return int(period.toTotalMonths()), int(period.getDays()), micros


def filtered_aggregate(spark: SparkSession, aggregate: Any, condition: Any) -> Any:
    """An aggregate over those of its rows for which a condition is true.

    Args:
        spark: the session that it is of.
        aggregate: a resolved ``AggregateExpression``.
        condition: a resolved expression over the same columns.
    """
    whole = condition
    if aggregate.filter().isDefined():
        both = java_class(spark, "org.apache.spark.sql.catalyst.expressions.And")
        whole = both(aggregate.filter().get(), condition)
    # Not a copy: it has an id, by which Spark tells it from others.
    option = scala_option(spark, whole)
    return aggregate.aggregateFunction().toAggregateExpression(aggregate.isDistinct(), option)


def ignoring_nulls(aggregate: Any) -> Any:
    """An aggregate that passes over nulls; only that of ``first`` and ``last`` may not do so already."""
    function = aggregate.aggregateFunction()
    if class_name(function) not in ("First", "Last") or function.ignoreNulls():
        return aggregate
    other = function.copy(function.child(), True)
    return other.toAggregateExpression(aggregate.isDistinct(), aggregate.filter())


def with_members(spark: SparkSession, node: Any, members: Mapping[str, Any]) -> Any:
    """A copy of a node, of an expression or a plan, with other values of some of its members.

    Args:
        spark: the session that it is of.
        node: the node.
        members: the values, by the names of the members.
    """
    values = [
        members[name] if (name := str(node.productElementName(at))) in members else node.productElement(at)
        for at in range(node.productArity())
    ]
    return node.makeCopy(java_array(spark, values))
