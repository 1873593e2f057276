"""Asks Spark's analyzer about a frame: which grouping expressions are plain columns, what is stateful in it.

Reads the analyzed logical plan: class names, and stable members such as ``children``, ``output``,
``exprId``, ``projectList`` and ``joinType``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from ...errors import PlanError, not_supported
from ...runtime.catalyst.spark_expressions import (
    attribute_id,
    attributes_in,
    class_name,
    is_attribute,
    items,
    with_attributes,
    without_alias,
)
from ...runtime.catalyst.spark_plans import analyzed, check_streaming, explained, leaves, output_of
from ...runtime.catalyst.spark_session import is_on
from ...runtime.jvm.spark_errors import error_text
from ...runtime.spark_io.spark_sources import check_file_options
from ...runtime.support.redaction import redacted
from .inputs import InputPart, Inputs

#: Nodes that keep state of their own when their input is a stream.
STATEFUL_NODES = {
    "Aggregate": "an aggregation",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "Distinct": "distinct",
    "Except": "exceptAll or subtract",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "GlobalLimit": "limit",
    "Intersect": "intersect",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState",
    "Window": "a window function",
}
#: Nodes that hand columns on as they are.
_SAME_COLUMNS = {
    "CollectMetrics",
    "Filter",
    "Generate",
    "Join",
    "Repartition",
    "RepartitionByExpression",
    "ResolvedHint",
    "SubqueryAlias",
}
#: Joins that may put nulls into the columns of either side.
_OUTER_JOINS = {"RIGHT OUTER", "FULL OUTER"}
#: Whether Spark looks, when a stream starts, for operations that it supports on none.
_STREAMS_ARE_CHECKED = "spark.sql.streaming.unsupportedOperationCheck"
#: Ids of expressions (``k#12``, ``v#13L``) and of exchanges in Spark's plans.
_IDS = re.compile(r"#\d+L?|, \[plan_id=\d+\]")


def refuse_state_of_spark(inputs: Inputs, before: str) -> None:
    """Raise PlanError if a stream or a stage's output holds state of Spark's own; ``before``: what comes next."""
    for part in (*inputs.lives, *inputs.outputs):
        check_stateless(
            f"{part.name} (after the operations before {before})",
            part.frame,
            None if part.origin is None else part.origin.template,
        )


def check_stateless(name: str, frame: DataFrame, template: DataFrame | None = None) -> None:
    """Raise if a frame of a stream holds state or a watermark of Spark's own: a rewind could not bring it back.

    Args:
        name: what the frame is, for the error.
        frame: a streaming frame, or one that is made of a template.
        template: stands for the rows of a stage, which are a stream's.

    Raises:
        PlanError: it holds state.
    """
    instead = "only stateless operations may come before groupBy, and the state belongs into the keyed stage after it"
    if template is None:
        of_stream: Callable[[Any], bool] = _is_streaming
    else:
        instead = (
            "behind a keyed stage it would see the rows of one epoch only; group what the stage gives (groupBy,"
            " dropDuplicates…) for another keyed stage, or do it in foreachBatch"
        )
        columns = [attribute.name() for attribute in output_of(template)]
        of_stream = partial(reads_template, columns)
    for node in _nodes(analyzed(frame), of_stream):
        kind = class_name(node)
        if kind == "EventTimeWatermark":
            raise PlanError(
                f"{name} has a watermark of its own, which the job would not follow; call withWatermark on what"
                " mixedmode.read() returns",
                code="MIXEDMODE_STATE_IN_INPUT",
            )
        if kind in STATEFUL_NODES:
            raise PlanError(
                f"{name} contains {STATEFUL_NODES[kind]}, which keeps state in Spark; {instead}",
                code="MIXEDMODE_STATE_IN_INPUT",
            )
        if kind == "Join" and all(of_stream(child) for child in items(node.children())):
            raise PlanError(
                f"{name} joins two streams, which keeps state in Spark; join what mixedmode.read() gives for each",
                code="MIXEDMODE_STATE_IN_INPUT",
            )


def refuse_unsupported_on_streams(parts: Sequence[InputPart]) -> None:
    """Raise PlanError or OptionError if Spark would refuse a live input when its query starts, behind the job's start.

    Args:
        parts: the sources of a job.
    """
    for part in parts:
        spark = part.frame.sparkSession
        if part.is_live:
            check_file_options(part.frame)
        if not part.is_live or not is_on(spark, _STREAMS_ARE_CHECKED, default=True):
            continue
        try:
            check_streaming(spark, analyzed(part.frame), "append")
        except AnalysisException as error:
            raise not_supported(
                f"{part.name} has an operation that Spark supports on no stream: {error_text(error)} (as Spark says);"
                " leave it out of the live input, and of what follows read()"
            ) from error


def is_aggregate(frame: DataFrame, columns: Sequence[Column | str]) -> bool:
    """True if Spark takes a select of these for an aggregation of all rows; what it refuses is none."""
    if not any(isinstance(column, Column) and "(" in str(column) for column in columns):  # no call of any function
        return False
    try:
        return bool(class_name(analyzed(frame.select(*columns))) == "Aggregate")
    except PySparkException:
        return False


def plain_columns(frame: DataFrame, columns: Sequence[Column], grouped: DataFrame | None = None) -> list[str | None]:
    """For each expression the column of ``frame`` that it is, as the frame writes it; None: it is computed.

    Args:
        frame: has the columns.
        columns: the expressions.
        grouped: a count of the frame's rows by them, if there is one.
    """
    plan = analyzed(frame.groupBy(*columns).count() if grouped is None else grouped)
    if class_name(plan) != "Aggregate":  # such as for a function that is written in SQL
        raise PlanError(
            f"groupBy: Spark does not plan {', '.join(map(str, columns))} as plain keys; compute it with withColumn"
            " before groupBy and group by the column"
        )
    names = {attribute_id(attribute): name for attribute, name in zip(output_of(frame), frame.columns, strict=True)}
    return [
        names.get(attribute_id(expression)) if is_attribute(expression) else None
        for expression in items(plan.groupingExpressions())
    ]


def over_template(spark: SparkSession, node: Any, below: Sequence[int]) -> dict[int, Any]:
    """The columns of a plan by their ids, as expressions over those of a template at its bottom; others are left out.

    Args:
        spark: the session.
        node: the plan.
        below: ids of the template's columns.
    """
    kind = class_name(node)
    if kind == "LocalRelation":
        return {attribute_id(one): one for one in items(node.output()) if attribute_id(one) in below}
    children = [over_template(spark, child, below) for child in items(node.children())]
    known = {id: expression for child in children for id, expression in child.items()}
    if kind == "Project":
        found = {}
        for named in items(node.projectList()):
            expression = without_alias(named)
            reads = attributes_in(expression)
            if reads <= set(known):
                found[attribute_id(named)] = with_attributes(spark, expression, known)
        return found
    if kind == "Join" and str(node.joinType().sql()) in _OUTER_JOINS:
        return {}
    return known if kind in _SAME_COLUMNS else {}


def columns_below(frame: DataFrame, names: Sequence[str]) -> list[str | None]:
    """For each column of a frame the column that it is at the bottom of its plan, unchanged; None: it is computed.

    Args:
        frame: is made of one without rows.
        names: the columns of that one.
    """
    plan = analyzed(frame)
    found = [list(items(leaf.output())) for leaf in leaves(plan) if class_name(leaf) == "LocalRelation"]
    below = [columns for columns in found if [one.name() for one in columns] == list(names)]
    ids = [attribute_id(one) for one in below[0]] if below else []
    known = over_template(frame.sparkSession, plan, ids)
    expressions = [known.get(attribute_id(attribute)) for attribute in items(plan.output())]
    return [
        names[ids.index(attribute_id(one))] if one is not None and is_attribute(one) else None for one in expressions
    ]


def spark_plan(frame: DataFrame) -> str:
    """Spark's explain text of a frame, without credentials in locations, and without its ids: they differ each time,
    and two plans of one job must not."""
    return redacted(_IDS.sub("", explained(frame)))


def _is_streaming(node: Any) -> bool:
    return bool(node.isStreaming())


def reads_template(columns: Sequence[str], node: Any) -> bool:
    """True if a template with these columns is at the bottom; Spark gives its columns other ids in self-joins."""
    return any(
        class_name(leaf) == "LocalRelation" and [attribute.name() for attribute in items(leaf.output())] == columns
        for leaf in leaves(node)
    )


def _nodes(node: Any, of_stream: Callable[[Any], bool]) -> Iterator[Any]:
    """The nodes of a plan through which rows of a stream come."""
    if of_stream(node):
        yield node
        for child in items(node.children()):
            yield from _nodes(child, of_stream)
