"""Statements in SQL as Spark's analyzer has resolved them: made plain, read node by node, and compared.

Plans and expressions are handles, as in :mod:`.spark_expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import is_
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..jvm.gateway import java_array, java_class, java_type, scala_option, scala_sequence
from .spark_expressions import (
    NO_SUCH_MEMBER,
    as_column,
    class_name,
    is_attribute,
    items,
    parsed,
    replaced,
    tree,
    with_children,
)
from .spark_plans import analyzed, frame_of

_ANALYSIS, _OPTIMIZER = "org.apache.spark.sql.catalyst.analysis", "org.apache.spark.sql.catalyst.optimizer"
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
#: Spark's rules by which a plan is written with fewer kinds of nodes: every one gives the same rows.
_PLAIN = (
    f"{_ANALYSIS}.EliminateSubqueryAliases",
    f"{_ANALYSIS}.EliminateView",
    "org.apache.spark.sql.catalyst.expressions.EliminatePipeOperators",
    f"{_OPTIMIZER}.OptimizeOneRowRelationSubquery",
    f"{_OPTIMIZER}.ReplaceDistinctWithAggregate",
    f"{_OPTIMIZER}.PushPredicateThroughJoin",
    f"{_OPTIMIZER}.SimplifyCasts",  # a view of a text casts each column to its type, which would end its event time
)
#: Spark's names of the joins that are the same with their sides swapped, as ``JoinType`` takes them then.
_SWAPPED = {"INNER": "inner", "CROSS": "cross", "RIGHT OUTER": "leftouter"}
#: Spark's rules by which two ways to write the same projections become one.
_COLLAPSING = ("RemoveRedundantAliases", "RemoveNoopOperators", "CombineUnions")
#: Nodes that give columns names, and their members that hold these columns.
_RENAMING = {"Project": "projectList", "Aggregate": "aggregateExpressions"}
#: Stands for an argument of a call that is parsed.
_PARAMETER = "__parameter"
#: What the rows are called whose columns a subquery reads.
OUTER = "__outer"
_SUBQUERIES = ("Exists", "ListQuery", "ScalarSubquery")
#: So many levels of projections become one.
_ROUNDS = 8
#: Beside the first; each is false by default.
_INLINING_ARGUMENTS = 3
#: A leaf of a streaming source of the second kind.
_STREAM = "StreamingRelationV2"
_PYTHON_SOURCES = "org.apache.spark.sql.execution.datasources.v2.python"


def plain_plan(frame: DataFrame) -> Any:
    """The analyzed plan of a frame without views, names of relations and common table expressions."""
    spark = frame.sparkSession
    plan = _inlining(spark).apply(analyzed(frame))
    for rule in _PLAIN:
        try:
            plan = java_class(spark, rule).apply(plan)
        except (NO_SUCH_MEMBER, TypeError):  # this version of Spark does not have it
            continue
    return _stream_first(spark, _without_qualifiers(spark, plan))


def difference(one: DataFrame, plan: Any) -> Any:
    """The lowest node of a plan that a frame's plan differs from, both collapsed and canonicalised by Spark.

    Args:
        one: the frame.
        plan: the other one's :func:`plain_plan`.

    Returns:
        A node; None: the plans are the same.
    """
    spark = one.sparkSession
    mine, other = (_collapsed(spark, each) for each in (plain_plan(one), plan))
    if _is_same(mine, other):
        return None
    while True:
        pairs = list(zip(items(mine.children()), items(other.children()), strict=False))
        below = next(((here, there) for here, there in pairs if not _is_same(here, there)), None)
        if below is None or class_name(mine) != class_name(other):
            return other
        mine, other = below


def _is_same(one: Any, other: Any) -> bool:
    return bool(one.canonicalized().equals(other.canonicalized()))


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
    return frame_of(spark, _with_members(spark, leaf, members))


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
    return frame_of(spark, _with_members(spark, leaf, {"output": sequence}))


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
            given = [over(spark, each, other) for each in _arguments(one)]
            names = [f"`{_PARAMETER}{at}`" for at in range(len(given))]
            places = {f"{_PARAMETER}{at}": each for at, each in enumerate(given)}
            call = parsed(spark, f"{one.prettyName()}({', '.join(names)})")
            return replaced(spark, call, lambda each: places.get(_name_of(each)))
        return None

    return replaced(spark, node, called)


def _arguments(call: Any) -> list[Any]:
    """The arguments of a call that Spark has written out; those of BETWEEN as they are now, and not as they were."""
    kinds = ("GreaterThanOrEqual", "LessThanOrEqual")
    common = call.children().apply(0)
    whole, *values = items(common.children())
    bounds = list(items(whole.children())) if class_name(whole) == "And" else []
    if class_name(call) != "Between" or len(values) != 1 or tuple(map(class_name, bounds)) != kinds:
        return list(items(call.parameters()))
    return [values[0].child(), *[bound.children().apply(1) for bound in bounds]]


def _name_of(node: Any) -> str:
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
        node = _over_changed(spark, node, filtered)
        if class_name(node) != "Filter":
            return node
        condition = replaced(spark, node.condition(), outer)
        return node if condition is node.condition() else _with_members(spark, node, {"condition": condition})

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


# -- inside ------------------------------------------------------------------------------------------------------------


def _inlining(spark: SparkSession) -> Any:
    """Spark's rule that puts each common table expression where it is read; newer versions take more arguments."""
    rule = java_class(spark, f"{_OPTIMIZER}.InlineCTE")
    for others in range(_INLINING_ARGUMENTS):
        try:
            return rule(True, *[False] * others)
        except NO_SUCH_MEMBER:
            continue
    return rule(True, *[False] * _INLINING_ARGUMENTS)


def _collapsed(spark: SparkSession, plan: Any) -> Any:
    collapse = java_class(spark, f"{_OPTIMIZER}.CollapseProject")
    rules = [java_class(spark, f"{_OPTIMIZER}.{rule}") for rule in _COLLAPSING]
    for _ in range(_ROUNDS):
        before, plan = plan, collapse.apply(plan, True)  # whatever it costs: this plan never runs
        plan = _without_new_names(spark, plan)
        for rule in rules:
            plan = rule.apply(plan)
        if plan.fastEquals(before):
            break
    return plan


def _over_changed(spark: SparkSession, node: Any, change: Callable[[Any], Any]) -> Any:
    """A node of a plan over its children as they are after a change; the same node if none has changed."""
    children = list(items(node.children()))
    others = list(map(change, children))
    return node if all(map(is_, others, children)) else with_children(spark, node, others)


def _without_new_names(spark: SparkSession, node: Any) -> Any:
    """A plan that gives no column a new name, so that Spark's rule takes such aliases for redundant.

    Calls of frames rename a column of a join's right side for a while if the left side has one of its name.
    """
    node = _over_changed(spark, node, partial(_without_new_names, spark))
    member = _RENAMING.get(class_name(node))
    if member is None:
        return node
    given = list(items(getattr(node, member)()))
    named = [_under_its_own_name(spark, column) for column in given]
    if all(map(is_, named, given)):
        return node
    return _with_members(spark, node, {member: scala_sequence(spark, named)})


def _under_its_own_name(spark: SparkSession, column: Any) -> Any:
    """A column; if it is another one under a new name, that one under its own."""
    if class_name(column) != "Alias" or not is_attribute(column.child()):
        return column
    child = column.child()
    alias = java_class(spark, "org.apache.spark.sql.catalyst.expressions.Alias")
    metadata = scala_option(spark, child.metadata())  # an alias with other metadata stays
    members = (column.qualifier(), metadata, column.nonInheritableMetadataKeys())
    return alias(child, child.name(), column.exprId(), *members)


def _without_qualifiers(spark: SparkSession, node: Any) -> Any:
    """A plan whose generators' columns are called by no name of a relation; it says nothing of resolved columns."""
    node = _over_changed(spark, node, partial(_without_qualifiers, spark))
    if class_name(node) == "Generate" and node.qualifier().isDefined():
        node = _with_members(spark, node, {"qualifier": scala_option(spark)})
    return node


def _stream_first(spark: SparkSession, node: Any) -> Any:
    """A plan whose joins of a table and a stream have the stream on the left, with the columns as they were."""
    node = _over_changed(spark, node, partial(_stream_first, spark))
    swapped = _SWAPPED.get(str(node.joinType().sql())) if class_name(node) == "Join" else None
    if swapped is None or node.left().isStreaming() or not node.right().isStreaming():
        return node
    kind = java_class(spark, "org.apache.spark.sql.catalyst.plans.JoinType").apply(swapped)
    join = with_children(spark, _with_members(spark, node, {"joinType": kind}), [node.right(), node.left()])
    return java_class(spark, f"{_LOGICAL}.Project")(node.output(), join)


def _with_members(spark: SparkSession, node: Any, members: Mapping[str, Any]) -> Any:
    """A copy of a node with other values of some of its members, by their names."""
    values = [
        members[name] if (name := str(node.productElementName(at))) in members else node.productElement(at)
        for at in range(node.productArity())
    ]
    return node.makeCopy(java_array(spark, values))
