"""Rows that the watermark has seen and that are dropped before the keyed stage: Spark counts them, and so do we.

Spark's optimizer puts a condition that does not read the event time in front of the watermark, so that what it drops
has not been seen.  What stays behind the watermark are conditions on the event time, also by the name of a column that
is computed of it, and generators without OUTER.
Rows that a static join drops are left out: to look at the rows before it would cost each live epoch one more Spark job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...errors import PlanError
from ...runtime.catalyst.spark_expressions import (
    attribute_id,
    class_name,
    is_attribute,
    items,
    resolved_with_attributes,
)
from ...runtime.catalyst.spark_plans import analyzed
from ...runtime.catalyst.spark_session import empty_frame
from ...runtime.connectors.sources.live_inputs import INPUT_COLUMN
from ...runtime.operators.frame_steps import done
from .event_time import EVENT_TIME_MARK
from .inputs import InputPart

#: Comparisons that drop early rows only, which move no watermark, by the side that the event time is on.
_LEAST = {"GreaterThan": 0, "GreaterThanOrEqual": 0, "LessThan": 1, "LessThanOrEqual": 1}


def drops_timed_rows(part: InputPart) -> bool:
    """True if rows that have moved the watermark are dropped behind it, and can be looked at before that."""
    if part.timed_by is None or part.timed_at == len(part.steps):
        return False
    return _drops(part.frame.sparkSession, analyzed(part.frame)) and _is_repeatable(part)


def _drops(spark: SparkSession, node: Any) -> bool:
    conditions: list[Any] = []
    while True:
        timed = [child for child in items(node.children()) if EVENT_TIME_MARK in str(child.schema().json())]
        if not timed:  # this is the call of withWatermark
            return not all(map(_keeps_latest, conditions))
        kind = class_name(node)
        if kind == "Generate" and not node.outer():
            return True
        if kind == "Filter":
            conditions += _parts_of(node.condition())
        if kind == "Project" and conditions:
            made = {attribute_id(one): one.child() for one in items(node.projectList()) if class_name(one) == "Alias"}
            conditions = [resolved_with_attributes(spark, one, made) for one in conditions]
        node = timed[0]


def _parts_of(condition: Any) -> Iterator[Any]:
    if class_name(condition) != "And":
        yield condition
        return
    for side in items(condition.children()):
        yield from _parts_of(side)


def _keeps_latest(condition: Any) -> bool:
    """True if no row with a later event time than those that stay is dropped, or Spark's watermark does not see it."""
    if not any(map(_is_time, items(condition.references().toSeq()))):
        return True
    sides, kind = list(items(condition.children())), class_name(condition)
    if kind == "IsNotNull":
        return _is_time(sides[0])
    at = _LEAST.get(kind)
    return at is not None and _is_time(sides[at]) and bool(sides[1 - at].foldable())


def _is_time(expression: Any) -> bool:
    return is_attribute(expression) and bool(expression.metadata().contains(EVENT_TIME_MARK))


def _is_repeatable(part: InputPart) -> bool:
    """True if what precedes the stage can be done to other rows than those of the frame that it was written for."""
    before = part.behind(part.timed_at).frame
    rows = empty_frame(before.sparkSession, before.schema).withColumn(INPUT_COLUMN, F.lit(0))
    try:
        done(rows, part.steps[part.timed_at :], INPUT_COLUMN)
    except (AnalysisException, PlanError):
        return False
    return True
