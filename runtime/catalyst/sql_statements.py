"""Statements in SQL as Spark's analyzer has resolved them, read node by node.

Plans and expressions are handles, as in :mod:`.spark_expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..jvm.gateway import java_class, java_type, scala_option, scala_sequence
from .spark_expressions import (
    NO_SUCH_MEMBER,
    as_column,
    class_name,
    items,
    over_changed,
    parsed,
    replaced,
    tree,
    with_children,
    with_members,
)
from .spark_plans import analyzed, frame_of

_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
#: Stands for an argument of a call that is parsed.
PARAMETER = "__parameter"
#: What the rows are called whose columns a subquery reads.
OUTER = "__outer"
_SUBQUERIES = ("Exists", "ListQuery", "ScalarSubquery")
#: A leaf of a streaming source of the second kind.
_STREAM = "StreamingRelationV2"
_PYTHON_SOURCES = "org.apache.spark.sql.execution.datasources.v2.python"


def stream_option(leaf: Any, name: str) -> str | None:
    """An option that a streaming source was given; None: it has none of this name, or this is no such source."""
    if class_name(leaf) != _STREAM:
        return None
    found = leaf.extraOptions().get(name)
    return None if found is None else str(found)


def failing_stream(
    spark: SparkSession, schema: StructType, name: str, why: str, options: Mapping[str, str]
) -> DataFrame:
    """The rows of a streaming source that nobody can read: Spark's own query over it fails when it starts.

    It is Spark's node for a data source in Python, of which no source is registered: it is found only when it is read.
    To register one, or to have Spark load one, starts a Python worker, which takes a second or more.

    Args:
        spark: the session.
        schema: of the rows.
        name: of the source.
        why: what Spark says in the place of the name of the source that it does not find.
        options: of the source.
    """
    made = spark.readStream.format("rate").options(**options).load()  # for all that is the same of all sources
    leaf = analyzed(made)
    source = java_class(spark, f"{_PYTHON_SOURCES}.PythonDataSourceV2")()
    source.setShortName(why)
    java_schema = java_type(spark, schema)
    table = java_class(spark, f"{_PYTHON_SOURCES}.PythonTable")(source, why, java_schema)
    members = {
        "source": scala_option(spark, source),
        "sourceName": name,
        "table": table,
        "output": java_class(spark, "org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(java_schema),
    }
    return frame_of(spark, with_members(spark, leaf, members))


def hint_name(hint: Any) -> str | None:
    """A hint of joins as ``DataFrame.hint`` takes it; None: it says something else."""
    strategy = hint.hints().strategy()
    return str(strategy.get().hintAliases().head()) if strategy.isDefined() else None


def leaf_called(spark: SparkSession, leaf: Any, names: list[str]) -> DataFrame:
    """The rows of a streaming source, the same columns under other names.

    Args:
        spark: the session.
        leaf: the source.
        names: one for each column.
    """
    columns = [column.withName(name) for column, name in zip(items(leaf.output()), names, strict=True)]
    sequence = java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(columns)
    return frame_of(spark, with_members(spark, leaf, {"output": sequence}))


def ordering(spark: SparkSession, order: Any, expression: Any) -> Column:
    """A ``SortOrder`` as a column, over another expression.

    Args:
        spark: the session.
        order: the ``SortOrder``.
        expression: what it goes by.
    """
    children = [expression, *list(items(order.children()))[1:]]
    return as_column(spark, with_children(spark, order, children))


def outer_generator(spark: SparkSession, generator: Any) -> Any:
    """A generator that gives a row of nulls where it has none to give."""
    return java_class(spark, "org.apache.spark.sql.catalyst.expressions.GeneratorOuter")(generator)


def over(spark: SparkSession, node: Any, other: Callable[[Any], Any]) -> Any:
    """A resolved expression over others, to be resolved again.

    Spark cannot resolve all that it has written out: what names a value once for several places becomes the call that
    it was, and a field without a name gets it back.

    Args:
        spark: the session.
        node: the expression.
        other: gives what takes a node's place; None: the node stays, and its children are asked for.
    """

    def called(one: Any) -> Any:
        found = other(one)
        if found is not None:
            return found
        kind = class_name(one)
        if kind == "GetStructField" and not one.name().isDefined():
            value = java_class(spark, f"{_ANALYSIS}.UnresolvedExtractValue")
            return value(over(spark, one.child(), other), parsed(spark, literal(str(one.extractFieldName()))))
        if any(class_name(child) == "With" for child in items(one.children())):
            given = [over(spark, each, other) for each in arguments(one)]
            names = [f"`{PARAMETER}{at}`" for at in range(len(given))]
            places = {f"{PARAMETER}{at}": each for at, each in enumerate(given)}
            call = parsed(spark, f"{one.prettyName()}({', '.join(names)})")
            return replaced(spark, call, lambda each: places.get(name_of(each)))
        return None

    return replaced(spark, node, called)


def arguments(call: Any) -> list[Any]:
    """The arguments of a call that Spark has written out; those of BETWEEN as they are now, and not as they were."""
    kinds = ("GreaterThanOrEqual", "LessThanOrEqual")
    common = call.children().apply(0)
    whole, *values = items(common.children())
    bounds = list(items(whole.children())) if class_name(whole) == "And" else []
    if class_name(call) != "Between" or len(values) != 1 or tuple(map(class_name, bounds)) != kinds:
        return list(items(call.parameters()))
    return [values[0].child(), *[bound.children().apply(1) for bound in bounds]]


def name_of(node: Any) -> str:
    """The name that an unresolved column has; anything else has none."""
    return str(node.name()) if class_name(node) == "UnresolvedAttribute" else ""


def is_correlated(expression: Any) -> bool:
    """True if a subquery of an expression reads columns from outside of it."""
    return any(map(is_correlated_itself, tree(expression)))


def is_correlated_itself(expression: Any) -> bool:
    """True for a subquery that reads columns from outside of it."""
    return class_name(expression) in _SUBQUERIES and bool(expression.outerAttrs().size())


def correlated(spark: SparkSession, subquery: Any, other: Callable[[Any], str]) -> Any | None:
    """A subquery over the columns of another relation, to be resolved again.

    Args:
        spark: the session.
        subquery: an expression.
        other: gives the name of a column of the relation that takes a column's place.

    Returns:
        The expression; None: it reads columns from outside elsewhere than in its WHERE.
    """
    attribute = java_class(spark, f"{_ANALYSIS}.UnresolvedAttribute")

    def outer(one: Any) -> Any:
        if class_name(one) != "OuterReference":
            return None
        return attribute(scala_sequence(spark, [OUTER, other(one.e())]))

    def filtered(node: Any) -> Any:
        node = over_changed(spark, node, filtered)
        if class_name(node) != "Filter":
            return node
        condition = replaced(spark, node.condition(), outer)
        return node if condition is node.condition() else with_members(spark, node, {"condition": condition})

    plan = filtered(subquery.plan())
    if "outer(" in str(plan.toString()):
        return None
    return subquery.withNewPlan(plan).withNewOuterAttrs(scala_sequence(spark, []))


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def text_of(node: Any) -> str | None:
    """The part of the statement that a node was made of; None: Spark does not know."""
    try:
        origin = node.origin()
        start, stop, text = origin.startIndex(), origin.stopIndex(), origin.sqlText()
        if not (start.isDefined() and stop.isDefined() and text.isDefined()):
            return None
        return str(text.get())[int(start.get()) : int(stop.get()) + 1]
    except NO_SUCH_MEMBER:
        return None
