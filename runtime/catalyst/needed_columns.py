"""Finds out which columns of its input a plan looks at.

Spark itself knows it, and reads no others, where it plans a query from its source on.  What ``foreachBatch`` hands over
is cut off from its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..jvm.gateway import java_class, java_session, java_type, logical_plan, query_execution
from .spark_expressions import class_name, items, tree

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


def frame_without_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame of one partition without rows, of which Spark's optimizer does not know that it has none.

    Args:
        spark: its session.
        schema: its columns.
    """
    context: Any = spark.sparkContext._jsc
    rdd = context.parallelize(java_class(spark, "java.util.ArrayList")(), 1).rdd()
    return DataFrame(java_session(spark).internalCreateDataFrame(rdd, java_type(spark, schema), False), spark)


def needed_columns(read: DataFrame, made: Iterable[DataFrame]) -> set[str]:
    """The columns that are looked at.

    Args:
        read: of :func:`frame_without_rows`; no two of its columns have one name.
        made: frames that were made of it, and of others.

    Raises:
        AnalysisException, Py4JError: Spark does not plan one of them, or is of another version.
    """
    rdd = logical_plan(read).rdd()
    needed: set[str] = set()
    for frame in made:
        plan = query_execution(frame).optimizedPlan()
        found, leaves = plan.outputSet(), []
        for node in _nodes(plan):
            kind = class_name(node)
            if kind == "LogicalRDD":
                leaves += [node.outputSet()] if node.rdd().equals(rdd) else []
            else:
                looks_at = node.references() if kind in _BY_EXPRESSIONS else node.inputSet()
                found = getattr(found, "$plus$plus")(looks_at)
        for columns in leaves:
            common = columns.intersect(found)
            if common.size() == columns.size():
                return set(read.columns)
            needed.update(str(column.name()) for column in items(common.toSeq()))
    return needed


def _nodes(plan: Any) -> Iterator[Any]:
    yield from tree(plan)
    for query in items(plan.subqueriesAll()):
        yield from tree(query)
