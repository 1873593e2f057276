"""Inputs that one task reads in less time than Spark needs for a second stage of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from .prepared.micro_batch import plan_behind
from .spark_expressions import class_name
from .spark_plans import analyzed, contains, leaves

#: Of all files together, as they are on the disk.
_MOST_BYTES = 1 << 20
#: Each of them is opened by itself.
_MOST_FILES = 8


def is_small(frame: DataFrame) -> bool:
    """True if a frame is known to have few rows, in few files: no more rows than the files have come of them.

    Args:
        frame: rows of files, of micro-batches of files that are handed over now, or of values in the program.
    """
    spark, size, files = frame.sparkSession, 0, 0
    for leaf in _leaves(spark, analyzed(frame)):
        kind = None if leaf is None else class_name(leaf)
        if kind == "LocalRelation":
            size += int(str(leaf.stats().sizeInBytes()))
        elif kind == "LogicalRelation" and class_name(relation := leaf.relation()) == "HadoopFsRelation":
            size += int(str(relation.sizeInBytes()))
            files += len(relation.inputFiles())
        else:
            return False
        if size > _MOST_BYTES or files > _MOST_FILES:
            return False
    return True


def _leaves(spark: SparkSession, plan: Any) -> Iterator[Any]:
    """What a plan reads, and None for what may become more rows than it is."""
    if contains(spark, plan, "GENERATE", "JOIN"):
        yield None
        return
    for leaf in leaves(plan):
        behind = plan_behind(leaf)
        if behind is None:
            yield leaf
        else:
            yield from _leaves(spark, behind)
