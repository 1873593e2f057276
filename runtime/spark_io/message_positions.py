"""Adds to each row of a stream of Kafka the partition and the offset of its message, whatever columns the user keeps.

Real-Time Mode gives no proof that a task has had all rows of a batch but their number: rows are counted by partition
and compared with the offsets of the batch.  So a row must be a message, and a message a row, with a known position:
only projections may lie between the source and the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..catalyst.spark_expressions import class_name, items, tree, with_children
from ..catalyst.spark_plans import analyzed, contains, frame_of
from ..jvm.gateway import is_instance, java_class, scala_sequence
from .spark_sources import PlannedSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Columns of the position of a row's message.
PARTITION_COLUMN, OFFSET_COLUMN = "__partition", "__offset"
_POSITION = (PARTITION_COLUMN, OFFSET_COLUMN)
_SOURCE = "StreamingRelationV2"
_OPTIONS = "org.apache.spark.sql.util.CaseInsensitiveStringMap"
#: Nodes that give a row for each row of their child.
_ROW_BY_ROW = {"Project": "select", "SubqueryAlias": "alias", "EventTimeWatermark": "withWatermark"}
#: Expressions of a projection that Real-Time Mode cannot have here, and what they are to users.
_NOT_IN_ROWS = {"PYTHON_UDF": "a Python function in a column", "PLAN_EXPRESSION": "a subquery in a column"}
#: The option by which the source reads one topic.
_SUBSCRIBE = "subscribe"


def refusal(frame: DataFrame) -> str | None:
    """Why positions cannot be added to a stream; None: they can."""
    plan, spark = analyzed(frame), frame.sparkSession
    for node in tree(plan):
        kind = class_name(node)
        if kind == _SOURCE:
            return _refused_source(PlannedSource(node))
        if kind not in _ROW_BY_ROW:
            return f"its rows go through {kind}, and only {', '.join(_ROW_BY_ROW.values())} keep a row for each message"
        if kind == "Project":
            for pattern, what in _NOT_IN_ROWS.items():
                if any(contains(spark, one, pattern) for one in items(node.projectList())):
                    return f"its rows have {what}"
    return "it reads no stream"


def _refused_source(source: PlannedSource) -> str | None:
    if source.name != "kafka":
        return f"its live source is {source.name}, and Real-Time Mode reads Kafka"
    topics = [topic for topic in source.options.get(_SUBSCRIBE, "").split(",") if topic.strip()]
    return None if len(topics) == 1 else "its live source does not read exactly one topic by the option subscribe"


def with_positions(frame: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """The rows with the position of their messages, behind all other columns; there is no :func:`refusal`.

    Args:
        frame: a stream of Kafka.
        options: those of the source that the user may have left open.
    """
    spark = frame.sparkSession
    return frame_of(spark, _with_positions(spark, analyzed(frame), options))


def _with_positions(spark: SparkSession, node: Any, options: Mapping[str, str]) -> Any:
    if class_name(node) == _SOURCE:
        source = frame_of(spark, _with_options(spark, node, options))
        position = zip(("partition", "offset"), _POSITION, strict=True)
        return analyzed(source.selectExpr("*", *[f"{column} AS {name}" for column, name in position]))
    child = _with_positions(spark, node.child(), options)
    node = with_children(spark, node, [child])
    if class_name(node) != "Project":
        return node
    added = [one for one in items(child.output()) if one.name() in _POSITION]
    return node.copy(scala_sequence(spark, [*items(node.projectList()), *added]), child)


def _with_options(spark: SparkSession, source: Any, options: Mapping[str, str]) -> Any:
    """The source with more options, where it has not been given others."""
    given = source.extraOptions().asCaseSensitiveMap()
    known = {str(name).lower() for name in given}
    merged = java_class(spark, "java.util.HashMap")(given)
    for name, text in options.items():
        if name.lower() not in known:
            merged.put(name, text)
    parts = [source.productElement(place) for place in range(source.productArity())]
    place = next(place for place, part in enumerate(parts) if is_instance(spark, part, _OPTIONS))
    parts[place] = java_class(spark, _OPTIONS)(merged)
    return source.copy(*parts)
