"""What Spark's analyzer knows about a frame: which grouping expressions are plain columns, what is stateful in it.

Reads the analyzed logical plan.  Only class names and the stable members ``children``, ``output``, ``isStreaming`` and
``exprId`` are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from ...errors import PlanError
from ...runtime.platform.spark_expressions import class_name, items
from ...runtime.platform.spark_plans import analyzed, explained

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


def check_stateless(name: str, frame: DataFrame) -> None:
    """Raise if a streaming frame holds state or a watermark of Spark's own: a rewind could not bring it back."""
    for node in _streaming_nodes(analyzed(frame)):
        kind = class_name(node)
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
        if kind == "Join" and all(child.isStreaming() for child in items(node.children())):
            raise PlanError(f"{name} joins two streams, which keeps state in Spark; join a stream with a static frame")


def plain_columns(frame: DataFrame, columns: Sequence[Column]) -> list[str | None]:
    """For each expression the column of ``frame`` that it is, as the frame writes it; None: it is computed."""
    plan = analyzed(frame.groupBy(*columns).count())
    if class_name(plan) != "Aggregate":  # such as for a function that is written in SQL
        raise PlanError(
            f"groupBy: Spark does not plan {', '.join(map(str, columns))} as plain keys; compute it with withColumn"
            " before groupBy and group by the column"
        )
    names = {
        attribute.exprId().id(): name
        for attribute, name in zip(items(analyzed(frame).output()), frame.columns, strict=True)
    }
    return [
        names.get(expression.exprId().id()) if class_name(expression) == "AttributeReference" else None
        for expression in items(plan.groupingExpressions())
    ]


def spark_plan(frame: DataFrame) -> str:
    """Spark's explain text of a frame, without its ids: they differ each time, and two plans of one job must not."""
    return _IDS.sub("", explained(frame))


def _streaming_nodes(node: Any) -> Iterator[Any]:
    if node.isStreaming():
        yield node
        for child in items(node.children()):
            yield from _streaming_nodes(child)
