"""Which column is the event time of each side of a join, by which its rows wait and are late.

As in Spark that is a column which still is event time where the sides are joined: the watermark's own column, a window
of it, whose last instant counts, or the last instant of a window.  If the join's keys have one, it is the time of both
sides: what is equal to an event time is one, whether or not its own side has a watermark.  The watermark follows the
event times that ``withWatermark`` was called on all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType, TimestampType

from ....runtime.catalyst.columns import quoted, time_us_sql
from ....runtime.catalyst.spark_expressions import attribute_id, is_attribute, items
from ....runtime.catalyst.spark_joins import SparkJoin, is_same_value, over_columns
from ....runtime.catalyst.spark_plans import analyzed
from ....runtime.operators.join.columns import LEFT, RIGHT
from ...inputs.event_time import CARRIER, EVENT_TIME_MARK, WINDOW_MARK, last_instant
from ..stage import StageInput

_TIMES = (TimestampType, TimestampNTZType)


@dataclass(frozen=True)
class SideTime:
    """The time of a side's rows."""

    #: What users call it.
    label: str
    #: Places of the columns that are it, and of windows whose last instant it is.
    places: frozenset[int]
    #: It is the column of the side's watermark.
    is_own: bool
    #: Over the side's columns, if it is not that of the watermark.
    column: Column | None = None


class SideTimes:
    """The times of both sides.

    Args:
        rows: both sides, with a name of its own for each column.
        join: as Spark has analyzed it.
    """

    def __init__(self, rows: tuple[StageInput, StageInput], join: SparkJoin) -> None:
        self._rows, self._join = rows, join
        self._ids = [[attribute_id(one) for one in side] for side in (join.left, join.right)]

    @cached_property
    def own(self) -> tuple[SideTime | None, SideTime | None]:
        """Of each side the time that it has without the other one."""
        return self._own(LEFT), self._own(RIGHT)

    @cached_property
    def by_key(self) -> tuple[int, tuple[SideTime, SideTime]] | None:
        """The first key that is event time, by its place, and what the sides have of it; None: there is none."""
        for place, pair in enumerate(self._join.keys):
            known = [self._is_event_time(side, one) for side, one in enumerate(pair)]
            if not any(known):
                continue
            left, right = self._of_key(LEFT, place), self._of_key(RIGHT, place)
            if left is not None and right is not None:
                return place, (left, right)
        return None

    # -- one side ------------------------------------------------------------------------------------------------------

    def _own(self, side: int) -> SideTime | None:
        rows = self._rows[side]
        if rows.watermark is None:
            return None
        places = _watermark_places(rows)
        if places:
            return SideTime(rows.watermark.label, places, True)
        marked = sorted(_marked(rows))
        return self._of_column(side, marked[0]) if marked else None

    def _is_event_time(self, side: int, expression: Any) -> bool:
        place = self._place(side, expression)
        return place is not None and place in _marked(self._rows[side])

    def _of_key(self, side: int, key: int) -> SideTime | None:
        """What a side has of a key that is event time; None: nothing that could be told."""
        expression = self._join.keys[key][side]
        place = self._place(side, expression)
        if place is not None:
            own = self.own[side]
            return own if own is not None and place in own.places else self._of_column(side, place)
        if str(expression.dataType().simpleString()) != "timestamp":
            return None
        names = dict(zip(self._ids[side], self._rows[side].schema.fieldNames(), strict=True))
        column = over_columns(self._join.spark, expression, names)
        return SideTime(str(expression.sql()), frozenset(), False, column)

    def _of_column(self, side: int, place: int) -> SideTime | None:
        """The time that a column is, or whose last instant it is; None: it is neither."""
        field = self._rows[side].schema.fields[place]
        if isinstance(field.dataType, _TIMES):
            time: Column | None = F.expr(f"timestamp_micros({time_us_sql(quoted(field.name), field.dataType)})")
        else:
            time = last_instant(field)
        return None if time is None else SideTime(field.name, frozenset([place]), False, time)

    def _place(self, side: int, expression: Any) -> int | None:
        """The place of the column that an expression is; None: it is computed."""
        if not is_attribute(expression):
            return None
        return self._ids[side].index(attribute_id(expression))


def _marked(rows: StageInput) -> frozenset[int]:
    """The places of the columns that Spark takes for event time: times, and windows."""
    if rows.watermark is None:
        return frozenset()
    return frozenset(
        place
        for place, field in enumerate(rows.schema.fields)
        if EVENT_TIME_MARK in (field.metadata or {})
        and (isinstance(field.dataType, _TIMES) or WINDOW_MARK in (field.metadata or {}))
    )


def _watermark_places(rows: StageInput) -> frozenset[int]:
    """The places of the columns that are the watermark's, and of windows whose last instants that has."""
    watermark = rows.watermark
    assert watermark is not None
    plan, names = analyzed(rows.inputs.template), rows.inputs.template.columns
    attributes = dict(zip(names, items(plan.output()), strict=True))
    time = attribute_id(attributes[watermark.event_time])
    found = {
        place
        for place, name in enumerate(rows.schema.fieldNames())
        if name == watermark.event_time
        or (
            attributes[name].metadata().contains(EVENT_TIME_MARK)
            and is_same_value(plan, attribute_id(attributes[name]), time)
        )
    }
    if watermark.event_time == CARRIER and watermark.is_window_end:
        found |= {
            place
            for place, field in enumerate(rows.schema.fields)
            if field.name == watermark.label and {WINDOW_MARK, EVENT_TIME_MARK} <= set(field.metadata or {})
        }
    return frozenset(found)


def times_of_columns(places: Iterable[int], rows: StageInput) -> frozenset[int]:
    """Of some places those of times: of a window they are none."""
    return frozenset(place for place in places if isinstance(rows.schema.fields[place].dataType, _TIMES))
