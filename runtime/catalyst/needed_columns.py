"""Finds out which columns of its input a plan looks at.

Spark itself knows it, and reads no others, where it plans a query from its source on.  What ``foreachBatch`` hands over
is cut off from its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from ..jvm.gateway import java_type, logical_plan, query_execution
from .spark_expressions import class_name, is_attribute, items, tree
from .spark_plans import analyzed, contains

#: Nodes that look at nothing but what their expressions name.  Of all others it is taken that they look at all that
#: their children give: a union goes by places, Python code gets whole rows.
_BY_EXPRESSIONS = frozenset(
    {
        "Aggregate",
        "ArrowEvalPython",
        "BatchEvalPython",
        "CollectMetrics",
        "EventTimeWatermark",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Join",
        "LocalLimit",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "Sort",
        "Window",
    }
)


def needed_columns(read: DataFrame, made: Iterable[DataFrame]) -> set[str]:
    """The columns that are looked at.

    Args:
        read: of :func:`.spark_session.frame_without_rows`; no two of its columns have one name.
        made: frames that were made of it, and of others.

    Raises:
        AnalysisException, Py4JError: Spark does not plan one of them, or is of another version.
    """
    rdd = logical_plan(read).rdd()
    needed: set[str] = set()
    for frame in made:
        plan, is_optimized = _lasting_plan(frame)
        found, leaves = plan.outputSet(), []
        for columns in _looked_at(plan, is_optimized=is_optimized):
            found = getattr(found, "$plus$plus")(columns)
        for node in _nodes(plan):
            if class_name(node) == "LogicalRDD" and node.rdd().equals(rdd):
                leaves.append(node)
        for leaf in leaves:
            if leaf.outputSet().subsetOf(found):
                return set(read.columns)
            # Spark gives a column the name that an expression spells, in upper or lower case.
            own = zip(read.columns, items(leaf.output()), strict=True)
            needed.update(name for name, column in own if found.contains(column))
    return needed


def sql_types(spark: SparkSession, types: Iterable[DataType]) -> dict[DataType, str]:
    """What SQL calls some types.

    Args:
        spark: a session.
        types: they; each is asked for once: a call for each column of a wide frame takes longer than a micro-batch.
    """
    return {kind: str(java_type(spark, kind).sql()) for kind in set(types)}


def _lasting_plan(frame: DataFrame) -> tuple[Any, bool]:
    """The plan of a frame as it holds for every micro-batch, and whether it is an optimized one.

    Spark's optimizer puts the time of now in, and with it leaves out what is of no use before or after some moment.
    """
    plan = analyzed(frame)
    if contains(frame.sparkSession, plan, "CURRENT_LIKE"):
        return plan, False
    return query_execution(frame).optimizedPlan(), True


def _looked_at(plan: Any, *, is_optimized: bool) -> Iterator[Any]:
    """Sets of columns that some part of a plan looks at."""
    for query in items(plan.subqueriesAll()):
        yield query.outputSet()
    for node in _nodes(plan):
        kind = class_name(node)
        if kind == "Project" and not is_optimized:  # an optimized one hands on what is looked at above it
            made = (one for one in items(node.projectList()) if not is_attribute(one))
            yield from (one.references() for one in made)
        elif kind not in ("LogicalRDD", "SubqueryAlias"):
            yield node.references() if kind in _BY_EXPRESSIONS else node.inputSet()


def _nodes(plan: Any) -> Iterator[Any]:
    yield from tree(plan)
    for query in items(plan.subqueriesAll()):
        yield from tree(query)
