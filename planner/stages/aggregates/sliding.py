"""Windows that overlap with their neighbours, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ....runtime.catalyst.spark_expressions import as_column, class_name, items, without_alias
from ....runtime.catalyst.types.spark_durations import window_us
from ....runtime.operators.aggregate.definition import SlidingWindow


def sliding_window(template: DataFrame, logical: Any, windows: tuple[int, ...]) -> SlidingWindow | None:
    """A window that overlaps with its neighbours, if there is one."""
    for place in windows:
        call = without_alias(logical.groupingExpressions().apply(place))
        if not is_call(call):
            continue  # a column of an earlier window: nothing is expanded here
        arguments = list(items(call.arguments()))
        if len(arguments) < 3 or any(class_name(argument) != "Literal" for argument in arguments[1:3]):
            continue
        length_us, slide_us = (window_us(template.sparkSession, str(argument.value())) for argument in arguments[1:3])
        if slide_us < length_us:
            time = _time(template, as_column(template.sparkSession, arguments[0]))
            return SlidingWindow(place, time, slide_us, length_us, _pane(time, arguments, length_us, slide_us))
    return None


def _time(template: DataFrame, given: Column) -> Column:
    """The time whose windows they are; of an earlier window its last instant, as Spark takes it."""
    return F.window_time(given) if isinstance(template.select(given).schema[0].dataType, StructType) else given


def _pane(time: Column, arguments: Sequence[Any], length_us: int, slide_us: int) -> Column | None:
    """What windows that overlap are made of; None: of no whole number of panes."""
    others = arguments[3:]
    if length_us % slide_us or any(class_name(other) != "Literal" for other in others):
        return None
    slide = str(arguments[2].value())
    return F.window(time, slide, slide, *[str(other.value()) for other in others])


def is_call(expression: Any) -> bool:
    """True for ``F.window(…)`` and its like, which Spark computes in the grouping itself."""
    return class_name(without_alias(expression)) == "UnresolvedFunction"
