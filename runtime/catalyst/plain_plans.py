"""Plans of statements with fewer kinds of nodes, by Spark's own rules, and compared with the plans of calls.

Plans and expressions are handles, as in :mod:`.spark_expressions`.
"""

from __future__ import annotations

from functools import partial
from operator import is_
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ..jvm.gateway import java_class, scala_option, scala_sequence
from .spark_expressions import (
    NO_SUCH_MEMBER,
    class_name,
    is_attribute,
    items,
    over_changed,
    parsed,
    replaced,
    with_children,
    with_members,
)
from .spark_plans import analyzed
from .sql_statements import PARAMETER, arguments, name_of

_ANALYSIS, _OPTIMIZER = "org.apache.spark.sql.catalyst.analysis", "org.apache.spark.sql.catalyst.optimizer"
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
#: Spark's rules by which a plan is written with fewer kinds of nodes: every one gives the same rows.
_PLAIN = (
    f"{_ANALYSIS}.EliminateSubqueryAliases",
    f"{_ANALYSIS}.EliminateView",
    "org.apache.spark.sql.catalyst.expressions.EliminatePipeOperators",
    f"{_OPTIMIZER}.OptimizeOneRowRelationSubquery",
    f"{_OPTIMIZER}.ReplaceDistinctWithAggregate",
    f"{_OPTIMIZER}.SimplifyCasts",  # a view of a text casts each column to its type, which would end its event time
)
#: Spark's rule that puts a condition into the join below it, or below that.
_INTO_JOINS = f"{_OPTIMIZER}.PushPredicateThroughJoin"
#: Spark's mark of a column that is a window.
_WINDOW = "spark.timeWindow"
#: Spark's names of the joins that are the same with their sides swapped, as ``JoinType`` takes them then.
_SWAPPED = {"INNER": "inner", "CROSS": "cross", "RIGHT OUTER": "leftouter"}
#: Spark's rules by which two ways to write the same projections become one.
_COLLAPSING = ("RemoveRedundantAliases", "RemoveNoopOperators", "CombineUnions")
#: Nodes that give columns names, and their members that hold these columns.
_RENAMING = {"Project": "projectList", "Aggregate": "aggregateExpressions"}
#: So many levels of projections become one.
_ROUNDS = 8
#: Beside the first; each is false by default.
_INLINING_ARGUMENTS = 3


def plain_plan(frame: DataFrame) -> Any:
    """The analyzed plan of a frame without views, names of relations and common table expressions."""
    spark = frame.sparkSession
    plan = _inlining(spark).apply(analyzed(frame))
    for rule in _PLAIN:
        try:
            plan = java_class(spark, rule).apply(plan)
        except (NO_SUCH_MEMBER, TypeError):  # this version of Spark does not have it
            continue
    plan = _conditions_in_joins(java_class(spark, _INTO_JOINS).applyLocally(), spark, plan)
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


def _conditions_in_joins(rule: Any, spark: SparkSession, node: Any) -> Any:
    """A plan by Spark's rule, but for the conditions that belong to windows: these are known by them."""
    if rule.isDefinedAt(node):
        if _is_filter(node):
            # Spark puts no BETWEEN into a join before it has written it out, which its optimizer does first of all.
            condition = replaced(spark, node.condition(), partial(_written_out, spark))
            node = with_members(spark, node, {"condition": condition})
        node = rule.apply(node)
    below = partial(_conditions_in_joins, rule, spark)
    if _makes_a_window(node) and _is_filter(node.child()):
        return with_children(spark, node, [over_changed(spark, node.child(), below)])
    return over_changed(spark, node, below)


def _is_filter(node: Any) -> bool:
    return class_name(node) == "Filter"


def _written_out(spark: SparkSession, expression: Any) -> Any | None:
    """The two comparisons that a BETWEEN is; None: it is none, or has to be computed once for both."""
    if class_name(expression) != "Between" or not expression.deterministic():
        return None
    value, *bounds = arguments(expression)
    names = [f"{PARAMETER}{at}" for at in range(3)]
    places = dict(zip(names, (value, *bounds), strict=True))
    both = parsed(spark, "`{0}` >= `{1}` AND `{0}` <= `{2}`".format(*names))
    return replaced(spark, both, lambda one: places.get(name_of(one)))


def _makes_a_window(node: Any) -> bool:
    first = node.projectList().headOption() if class_name(node) == "Project" else None
    return first is not None and first.isDefined() and bool(first.get().metadata().contains(_WINDOW))


def _without_new_names(spark: SparkSession, node: Any) -> Any:
    """A plan that gives no column a new name, so that Spark's rule takes such aliases for redundant.

    Calls of frames rename a column of a join's right side for a while if the left side has one of its name.
    """
    node = over_changed(spark, node, partial(_without_new_names, spark))
    member = _RENAMING.get(class_name(node))
    if member is None:
        return node
    given = list(items(getattr(node, member)()))
    named = [_under_its_own_name(spark, column) for column in given]
    if all(map(is_, named, given)):
        return node
    return with_members(spark, node, {member: scala_sequence(spark, named)})


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
    node = over_changed(spark, node, partial(_without_qualifiers, spark))
    if class_name(node) == "Generate" and node.qualifier().isDefined():
        node = with_members(spark, node, {"qualifier": scala_option(spark)})
    return node


def _stream_first(spark: SparkSession, node: Any) -> Any:
    """A plan whose joins of a table and a stream have the stream on the left, with the columns as they were."""
    node = over_changed(spark, node, partial(_stream_first, spark))
    swapped = _SWAPPED.get(str(node.joinType().sql())) if class_name(node) == "Join" else None
    if swapped is None or node.left().isStreaming() or not node.right().isStreaming():
        return node
    kind = java_class(spark, "org.apache.spark.sql.catalyst.plans.JoinType").apply(swapped)
    join = with_children(spark, with_members(spark, node, {"joinType": kind}), [node.right(), node.left()])
    return java_class(spark, f"{_LOGICAL}.Project")(node.output(), join)
