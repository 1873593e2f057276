"""Scans whose tasks have about as much to read as each other.

Spark gives a task 128 MB of files, or each core its share where that is less.  So three tasks may be left for two
cores, and one core idles.  And the fewer tasks there are, the fewer partial aggregates they make of a key.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ..jvm.gateway import is_instance, java_array, java_session, scala_sequence
from .spark_expressions import class_name, items
from .spark_plans import analyzed, frame_of, leaves

_PLAN = "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan"
_PART_BYTES = "spark.sql.files.maxPartitionBytes"
#: With one of these the user says how files are dealt to tasks.
_DECIDES = (_PART_BYTES, "spark.sql.files.openCostInBytes", "spark.sql.files.minPartitionNum")
#: What a task reads at most, and what opening a file counts for, unless Spark is told otherwise.
_SPARKS_BYTES, _OPEN_BYTES = 128 << 20, 4 << 20
#: What a task reads at most here.
_MOST_BYTES = 256 << 20


def are_even_scans_wanted(spark: SparkSession) -> bool:
    """Whether the user leaves it to Spark how files are dealt to tasks."""
    return all(spark.conf.get(name, None) is None for name in _DECIDES)


def evenly_scanned(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The rows of a frame in another session, in which each task reads about as much of files.

    Args:
        frame: the rows.
        session: a session of ours, in which nothing else is planned.
    """
    plan = analyzed(frame)
    try:
        files = [leaf for leaf in leaves(plan) if _lists_files(leaf)]
        places = [leaf.relation().location() for leaf in files]
        size_bytes = sum(int(place.sizeInBytes()) + _OPEN_BYTES * len(place.inputFiles()) for place in places)
        cores = session.sparkContext.defaultParallelism
        if size_bytes > cores * _SPARKS_BYTES:  # else each core has one task
            tasks = cores * -(-size_bytes // (cores * _MOST_BYTES))
            session.conf.set(_PART_BYTES, str(-(-size_bytes // tasks)))
            return frame_of(session, _read_in(session, plan))
    except (Py4JError, PySparkException, TypeError, ValueError):  # another version of Spark has other relations
        pass
    return frame_of(session, plan)


def _lists_files(leaf: Any) -> bool:
    if class_name(leaf) != "LogicalRelation" or class_name(leaf.relation()) != "HadoopFsRelation":
        return False
    return class_name(leaf.relation().location()) == "InMemoryFileIndex"


def _read_in(session: SparkSession, node: Any) -> Any:
    """A plan whose files are read in a session: Spark asks the one in which the frame was made how they are dealt."""
    is_of_files = _lists_files(node)
    if not is_of_files and not node.children().size():
        return node
    parts = [node.productElement(at) for at in range(node.productArity())]
    if is_of_files:
        relation = parts[0]
        fields = [relation.productElement(at) for at in range(relation.productArity())]
        return node.copy(relation.copy(*fields, java_session(session)), *parts[1:])
    children = [_read_in(session, child) for child in items(node.children())]
    if class_name(node) == "Union":
        parts[0] = scala_sequence(session, children)
    else:
        below = [at for at, part in enumerate(parts) if is_instance(session, part, _PLAN)]
        for at, child in zip(below, children, strict=True):
            parts[at] = child
    # Files of another session are the same files to Spark, so it would not put them into the place of others.
    return node.makeCopy(java_array(session, parts))
