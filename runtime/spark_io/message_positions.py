"""Adds to each row of a stream of Kafka partition, offset and time of its message, whatever columns the user keeps.

Real-Time Mode gives no proof that a task has had all rows of a batch but their number: rows are counted by partition
and compared with the offsets of the batch.  So a row must be a message, and a message a row, with a known position:
only projections and filters may lie between the source and the rows.  A filter lets all rows through and says in a
column of its own which of them it keeps: they are dropped when they have been counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..catalyst.spark_expressions import as_column, class_name, items, tree, with_children
from ..catalyst.spark_plans import analyzed, contains, frame_of
from ..jvm.gateway import is_instance, java_class, scala_sequence
from .spark_sources import PlannedSource

#: Columns of the position of a row's message.
PARTITION_COLUMN, OFFSET_COLUMN = "__partition", "__offset"
#: When the message was made or appended, as the topic has it: ms since 1970.
TIME_COLUMN = "__time_ms"
#: Whether the user's filters keep a row; only there if there are filters.
KEPT_COLUMN = "__kept"
_POSITION = {PARTITION_COLUMN: "partition", OFFSET_COLUMN: "offset", TIME_COLUMN: "unix_millis(timestamp)"}
_ADDED = (*_POSITION, KEPT_COLUMN)
_SOURCE = "StreamingRelationV2"
_OPTIONS = "org.apache.spark.sql.util.CaseInsensitiveStringMap"
#: Nodes that give a row for each row of their child, or would without their condition.
_ROW_BY_ROW = {
    "Project": "select",
    "Filter": "filter",
    "SubqueryAlias": "alias",
    "EventTimeWatermark": "withWatermark",
}
#: Expressions that cost nothing and cannot fail.
_PLAIN = ("AttributeReference", "Literal")
#: Expressions that Real-Time Mode cannot have here, and what they are to users.
_NOT_IN_ROWS = {"PYTHON_UDF": "a Python function", "PLAN_EXPRESSION": "a subquery"}
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
            return f"its rows go through {kind}, and only {', '.join(_ROW_BY_ROW.values())} can be counted"
        for pattern, what in _NOT_IN_ROWS.items():
            if any(contains(spark, one, pattern) for one in items(node.expressions())):
                return f"its rows go through {what} in {_ROW_BY_ROW[kind]}"
    return "it reads no stream"


def _refused_source(source: PlannedSource) -> str | None:
    if source.name != "kafka":
        return f"its live source is {source.name}, and Real-Time Mode reads Kafka"
    topics = [topic for topic in source.options.get(_SUBSCRIBE, "").split(",") if topic.strip()]
    return None if len(topics) == 1 else "its live source does not read exactly one topic by the option subscribe"


def with_positions(frame: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """The rows with the position of their messages, behind all other columns; there is no :func:`refusal`.

    Rows that filters drop are among them, and :data:`KEPT_COLUMN` says so.  What is computed of rows behind a filter is
    null in those: it might fail.

    Args:
        frame: a stream of Kafka.
        options: those of the source that the user may have left open.
    """
    spark = frame.sparkSession
    return frame_of(spark, _with_positions(spark, analyzed(frame), options))


def _with_positions(spark: SparkSession, node: Any, options: Mapping[str, str]) -> Any:
    if class_name(node) == _SOURCE:
        source = frame_of(spark, _with_options(spark, node, options))
        return analyzed(source.selectExpr("*", *[f"{value} AS {name}" for name, value in _POSITION.items()]))
    child = _with_positions(spark, node.child(), options)
    added = {str(one.name()): one for one in items(child.output()) if one.name() in _ADDED}
    kept = added.get(KEPT_COLUMN)
    if class_name(node) == "Filter":
        return _marked(spark, child, kept, node.condition())
    node = with_children(spark, node, [child])
    if class_name(node) != "Project":
        return node
    columns = [one if kept is None else _guarded(spark, one, kept) for one in items(node.projectList())]
    return node.copy(scala_sequence(spark, [*columns, *added.values()]), child)


def _marked(spark: SparkSession, child: Any, kept: Any, condition: Any) -> Any:
    """The rows of a filter's child, with what the filter says of them.

    Args:
        spark: the session that they are of.
        child: the plan.
        kept: what filters below say; None: there are none.
        condition: the filter's; it is not asked of rows that others have dropped.
    """
    holds = F.coalesce(as_column(spark, condition), F.lit(False))
    if kept is not None:
        holds = F.when(as_column(spark, kept), holds).otherwise(F.lit(False))
    others = [as_column(spark, one) for one in items(child.output()) if one.name() != KEPT_COLUMN]
    return analyzed(frame_of(spark, child).select(*others, holds.alias(KEPT_COLUMN)))


def _guarded(spark: SparkSession, column: Any, kept: Any) -> Any:
    """A column of a projection that is not computed for rows that are dropped."""
    if class_name(column) != "Alias" or class_name(column.child()) in _PLAIN:
        return column
    expressions = "org.apache.spark.sql.catalyst.expressions"
    nothing = java_class(spark, f"{expressions}.Literal").create(None, column.child().dataType())
    guarded = java_class(spark, f"{expressions}.If")(kept, column.child(), nothing)
    return with_children(spark, column, [guarded])


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
