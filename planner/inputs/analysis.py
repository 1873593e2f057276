"""What Spark's analyzer knows about a frame: which grouping expressions are plain columns, what is stateful in it.

Reads the analyzed logical plan of a classic DataFrame through the gateway.  Only class names and the stable members
``children``, ``output``, ``isStreaming`` and ``exprId`` are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession

from ...errors import PlanError

#: Nodes that keep state of their own when their input is a stream.
_STATEFUL_NODES = {
    "Aggregate": "an aggregation",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "Distinct": "distinct",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "GlobalLimit": "limit",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState",
    "Window": "a window function",
}
#: Ids of expressions (``k#12``, ``v#13L``) and of exchanges in Spark's plans.
_IDS = re.compile(r"#\d+L?|, \[plan_id=\d+\]")
#: Days that Spark takes a month for in a duration.
_DAYS_PER_MONTH = 31


def session_settings(spark: SparkSession) -> dict[str, str]:
    """``spark.conf.getAll``, in two calls to the JVM instead of two for each entry."""
    jvm: Any = spark._jvm
    entries: Any = spark._jsparkSession.conf().getAllAsJava()
    found: dict[str, str] = json.loads(jvm.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(entries))
    return found


def error_text(error: Exception) -> str:
    """Spark's message without the plan that it prints below, and without its advice in general terms."""
    return str(error).split("\n", 1)[0].split(" SQLSTATE:", 1)[0].split(" Please ensure ", 1)[0].rstrip("; ")


def duration_ms(spark: SparkSession, text: str) -> int:
    """A duration as Spark reads it (``"1 hour 30 minutes"``), in milliseconds.

    Raises:
        ValueError: it is not one.
    """
    jvm: Any = spark._jvm
    intervals = jvm.org.apache.spark.sql.catalyst.util.IntervalUtils
    try:
        interval = intervals.fromIntervalString(text)
    except AnalysisException as error:
        raise ValueError(error_text(error)) from error
    milliseconds = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
    return int(intervals.getDuration(interval, milliseconds, _DAYS_PER_MONTH))


def check_stateless(name: str, frame: DataFrame) -> None:
    """Raise if a streaming frame holds state or a watermark of Spark's own: a rewind could not bring it back."""
    for node in _streaming_nodes(_analyzed(frame)):
        kind = str(node.getClass().getSimpleName())
        if kind == "EventTimeWatermark":
            raise PlanError(
                f"{name} has a watermark of its own, which the job would not follow; call withWatermark on what"
                " mixedmode.read() returns"
            )
        if kind in _STATEFUL_NODES:
            raise PlanError(
                f"{name} contains {_STATEFUL_NODES[kind]}, which keeps state in Spark; only stateless operations may"
                " come before groupBy, and the state belongs into the keyed stage after it"
            )
        if kind == "Join" and all(child.isStreaming() for child in _sequence(node.children())):
            raise PlanError(f"{name} joins two streams, which keeps state in Spark; join a stream with a static frame")


def plain_columns(frame: DataFrame, columns: Sequence[Column]) -> list[str | None]:
    """For each expression the column of ``frame`` that it is, as the frame writes it; None: it is computed."""
    analyzed = _analyzed(frame.groupBy(*columns).count())
    if str(analyzed.getClass().getSimpleName()) != "Aggregate":  # such as for a function that is written in SQL
        raise PlanError(
            f"groupBy: Spark does not plan {', '.join(map(str, columns))} as plain keys; compute it with withColumn"
            " before groupBy and group by the column"
        )
    names = {
        attribute.exprId().id(): name
        for attribute, name in zip(_sequence(_analyzed(frame).output()), frame.columns, strict=True)
    }
    return [
        names.get(expression.exprId().id())
        if str(expression.getClass().getSimpleName()) == "AttributeReference"
        else None
        for expression in _sequence(analyzed.groupingExpressions())
    ]


def spark_plan(frame: DataFrame) -> str:
    """Spark's explain text of a frame, without its ids: they differ each time, and two plans of one job must not."""
    jvm: Any = frame.sparkSession._jvm
    return _IDS.sub("", str(jvm.PythonSQLUtils.explainString(_java(frame).queryExecution(), "simple")))


def _analyzed(frame: DataFrame) -> Any:
    return _java(frame).queryExecution().analyzed()


def _java(frame: DataFrame) -> Any:
    return frame._jdf


def _streaming_nodes(node: Any) -> Iterator[Any]:
    if node.isStreaming():
        yield node
        for child in _sequence(node.children()):
            yield from _streaming_nodes(child)


def _sequence(scala_sequence: Any) -> Iterator[Any]:
    for index in range(scala_sequence.size()):
        yield scala_sequence.apply(index)
