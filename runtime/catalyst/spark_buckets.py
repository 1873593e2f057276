"""Files of which Spark knows in which partition of a hash partitioning their rows are, so that it need not move them.

Spark has this for tables in buckets: a file's name ends with ``_<partition>``, a scan has one task for each partition,
and an aggregation by the columns (and others) that the hash is of takes the rows as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ..jvm.gateway import java_class, java_session, query_execution, scala_option, scala_sequence
from .spark_expressions import class_name, items
from .spark_plans import analyzed

#: What a session must be told, for scans and aggregations to be planned so.
SETTINGS = {
    "spark.sql.sources.bucketing.enabled": "true",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    "spark.sql.requireAllClusterKeysForDistribution": "false",
    # Adaptive execution would hide the plan, and has nothing to do where there is no exchange.
    "spark.sql.adaptive.enabled": "false",
}
#: Nodes of a physical plan with one child, whose rows they leave in their tasks.
_IN_PLACE = {
    "CollectMetricsExec",
    "ColumnarToRowExec",
    "ExpandExec",
    "FilterExec",
    "GenerateExec",
    "HashAggregateExec",
    "InputAdapter",
    "MapInArrowExec",
    "MergingSessionsExec",
    "ObjectHashAggregateExec",
    "ProjectExec",
    "SortAggregateExec",
    "SortExec",
    "WholeStageCodegenExec",
}
#: Joins that leave one side's rows in their tasks, and what brings the other side to all of them.
_JOINS = {"BroadcastHashJoinExec", "BroadcastNestedLoopJoinExec"}
_BROADCASTS = {"BroadcastExchangeExec", "ReusedExchangeExec"}


def hash_partitioned(files: DataFrame, columns: Sequence[str], partitions: int) -> DataFrame:
    """The rows of files, of which Spark knows where they are.

    Args:
        files: reads them, and does nothing else; their names end with ``_<partition>`` before the type.
        columns: rows are in the partition ``pmod(hash(columns), partitions)``.
        partitions: how many there are.

    Returns:
        The same rows; without that knowledge where this version of Spark, or the session, does not have it.
    """
    spark = files.sparkSession
    try:
        relation = analyzed(files).relation()
        names = scala_sequence(spark, columns)
        bucket = java_class(spark, "org.apache.spark.sql.catalyst.catalog.BucketSpec")
        spread = relation.copy(
            relation.location(),
            relation.partitionSchema(),
            relation.dataSchema(),
            scala_option(spark, bucket(partitions, names, scala_sequence(spark, []))),
            relation.fileFormat(),
            relation.options(),
            relation.sparkSession(),
        )
        return DataFrame(java_session(spark).baseRelationToDataFrame(spread), spark)
    except (Py4JError, PySparkException):  # a table of another interface of Spark's
        return files


def partitions_in_place(frame: DataFrame) -> int:
    """How many partitions of such files a frame's tasks take their rows from, each from one and in their order.

    Returns:
        0 if Spark's plan moves rows, reads something else, or has a step that is not known to leave rows in place.
    """
    node = query_execution(frame).executedPlan()
    while True:
        kind = class_name(node)
        if kind == "FileSourceScanExec":
            return int(node.outputPartitioning().numPartitions()) if node.bucketedScan() else 0
        following = _taken_from(node, kind)
        if following is None:
            return 0
        node = following


def _taken_from(node: Any, kind: str) -> Any:
    """The child whose rows a node takes where they are; None: it is not known to have one."""
    children = list(items(node.children()))
    if kind in _IN_PLACE and len(children) == 1:
        return children[0]
    if kind in _JOINS:
        stay = [child for child in children if not _is_broadcast(child)]
        return stay[0] if len(stay) == 1 else None
    return None


def _is_broadcast(node: Any) -> bool:
    while class_name(node) == "InputAdapter":
        node = node.child()
    return class_name(node) in _BROADCASTS
