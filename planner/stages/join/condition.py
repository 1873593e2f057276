"""The condition of a join as Spark resolves it on both sides, taken apart for the keyed stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from ....errors import PlanError
from ....runtime.operators.join.columns import LEFT, RIGHT
from ....runtime.platform.frame_columns import with_frames
from ....runtime.platform.spark_errors import error_text
from ....runtime.platform.spark_expressions import class_name, items, tree
from ....runtime.platform.spark_joins import SparkJoin, is_same_value, renewed, share_attributes
from ....runtime.platform.spark_plans import analyzed
from ...inputs.event_time import CARRIER, EVENT_TIME_MARK, WINDOW_MARK
from ..own_names import OwnNames
from .bounds import EQUAL, Bounded, EventTimeBounds
from .side_columns import JoinedRows

if TYPE_CHECKING:
    from ..stage import StageInput

#: Parts of the names of Spark's classes of expressions that a condition cannot have, and what they are.
_OUTSIDE = {"PythonUDF": "a Python function", "Subquery": "a subquery"}
#: The other subqueries, by their whole names: ``ArrayExists`` is none.
_SUBQUERIES = {"Exists", "ListQuery"}

_WATERMARKS_AND_RANGES = (
    "Watermarks are declared by withWatermark on each side, and ranges by a condition such as b.ts BETWEEN a.ts AND"
    " a.ts + INTERVAL 1 HOUR"
)
_INSTEAD_OF_ANTI = "Use how='left', and keep the rows whose right key is null"


@dataclass(frozen=True)
class Frames:
    """Both sides as Spark's analyzer gets them: with the columns that users know, and the names of their frames."""

    #: With a name of its own for each column.
    rows: tuple[StageInput, StageInput]
    #: The same by the names that users know.
    known: JoinedRows
    frames: tuple[DataFrame, DataFrame]

    @classmethod
    def of(cls, left: StageInput, right: StageInput) -> Frames:
        """The sides of a join.

        Raises:
            PlanError: a side has two columns of the event time's name.
        """
        here, there = (rows.inputs.template.drop(CARRIER) for rows in (left, right))
        own = OwnNames.of(left, "join").rows, OwnNames.of(right, "join").rows
        known = JoinedRows((left, right))
        return cls(own, known, (here, renewed(there) if share_attributes(here, there) else there))

    def joined(self, on: Any, how: str | None) -> DataFrame:
        """What Spark makes of it; the arguments are those of ``DataFrame.join``.

        Raises:
            PlanError: a column is ambiguous.
        """
        if isinstance(on, Column):
            on = self._with_frames(on)
        elif isinstance(on, (list, tuple)):
            on = [self._with_frames(one) if isinstance(one, Column) else one for one in on]
        left, right = self.frames
        try:
            return left.join(right, on, how)
        except AnalysisException as error:
            if error.getCondition() != "AMBIGUOUS_REFERENCE":
                raise
            raise _ambiguous(error_text(error)) from error

    def _with_frames(self, column: Column) -> Column:
        return with_frames(self.rows[LEFT].inputs.spark, column, self._find)

    def _find(self, number: int, name: str) -> Any:
        """The column of a side that was taken from a frame which the side is, or is made of."""
        at = self.known.place(number, name)
        return None if at is None else list(items(analyzed(self.frames[at[0]]).output()))[at[1]]


@dataclass(frozen=True)
class JoinCondition:
    """What a join asks of its pairs.

    Args:
        frames: both sides.
        join: as Spark has analyzed it.
    """

    frames: Frames
    join: SparkJoin

    def check(self) -> None:
        """Raise PlanError for what Spark refuses where both sides are streams, and what cannot be asked of pairs."""
        self.check_output_mode("append")
        if self.join.kind == "CROSS" or not self.join.keys:
            raise PlanError(
                "join: stream-stream join without equality predicate is not supported, as in Spark: every row would"
                " have to wait for all that come; have a column of one side equal to one of the other in the condition",
                code="MIXEDMODE_NOT_SUPPORTED",
            )
        for expression in [one for pair in self.join.keys for one in pair] + list(self.join.others):
            for node in tree(expression):
                if (what := _outside(class_name(node))) is not None:
                    raise PlanError(
                        f"join: the condition has {what} ({node.sql()}), which cannot be asked about pairs; compute"
                        " it with withColumn before, or filter behind the join"
                    )
            if not expression.deterministic():
                raise PlanError(
                    f"join: the condition {expression.sql()} gives another answer each time; compute it with withColumn"
                    " before"
                )

    def check_output_mode(self, output_mode: str) -> None:
        """Raise PlanError for an output mode that such a join of two streams cannot have in Spark."""
        try:
            self.join.check_streaming(self.event_time_ids, output_mode)
        except AnalysisException as error:
            said = error_text(error)
            hint = _INSTEAD_OF_ANTI if "anti" in said.lower() else _WATERMARKS_AND_RANGES
            raise PlanError(f"join: {said} (as Spark says it). {hint}") from error

    # -- columns -------------------------------------------------------------------------------------------------------

    @cached_property
    def attributes(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Both sides' attributes, in the order of their columns."""
        return self.join.left, self.join.right

    @cached_property
    def places(self) -> Mapping[int, tuple[int, int]]:
        """For the id of each attribute its side and its place there."""
        return {
            one.exprId().id(): (side, place)
            for side, attributes in enumerate(self.attributes)
            for place, one in enumerate(attributes)
        }

    @property
    def event_time_ids(self) -> frozenset[int]:
        """Ids of all that Spark takes for event time of a watermark."""
        return frozenset(
            one.exprId().id()
            for side, rows in zip(self.attributes, self.frames.rows, strict=True)
            for one in side
            if rows.watermark is not None and one.metadata().contains(EVENT_TIME_MARK)
        )

    @cached_property
    def time_places(self) -> tuple[frozenset[int], frozenset[int]]:
        """For each side the places of the columns that are its event time itself."""
        left, right = map(_time_places, self.frames.rows)
        return left, right

    @cached_property
    def window_places(self) -> tuple[frozenset[int], frozenset[int]]:
        """For each side the places of the windows whose last instants are its event time."""
        left, right = map(_window_places, self.frames.rows)
        return left, right

    def ids(self, side: int, places: frozenset[int]) -> frozenset[int]:
        """Ids of the columns at some places."""
        return frozenset(self.attributes[side][place].exprId().id() for place in places)

    # -- event times ---------------------------------------------------------------------------------------------------

    @cached_property
    def time_key(self) -> tuple[int, int] | None:
        """The key that is the event time of the only side with a watermark, and so of the other: place, other side."""
        without = [side for side, rows in enumerate(self.frames.rows) if rows.watermark is None]
        if len(without) != 1:
            return None
        [other] = without
        known = self.ids(1 - other, self.time_places[1 - other])
        for place, pair in enumerate(self.join.keys):
            mine, theirs = pair[1 - other], pair[other]
            is_time = class_name(mine) == "AttributeReference" and mine.exprId().id() in known
            if is_time and str(theirs.dataType().simpleString()) == "timestamp":
                return place, other
        return None

    @cached_property
    def key_bounds(self) -> list[Bounded]:
        """What equal keys say of event times."""
        reader, found = self._reader, list[Bounded]()
        for place, (left, right) in enumerate(self.join.keys):
            if self._are_windows(left, right) or (self.time_key is not None and self.time_key[0] == place):
                found.append(Bounded(EQUAL, True))
            elif (bounded := reader.of_equal(left, right)) is not None:
                found.append(bounded)
        return found

    @cached_property
    def other_bounds(self) -> list[Bounded | None]:
        """The same of each of the other conditions."""
        return [self._reader.of(one) for one in self.join.others]

    @property
    def _reader(self) -> EventTimeBounds:
        left, right = (self.ids(side, self.time_places[side]) for side in (LEFT, RIGHT))
        return EventTimeBounds(self.join.spark, left, right)

    def _are_windows(self, *pair: Any) -> bool:
        return all(
            class_name(one) == "AttributeReference" and one.exprId().id() in self.ids(side, self.window_places[side])
            for side, one in enumerate(pair)
        )


def _time_places(rows: StageInput) -> frozenset[int]:
    if rows.watermark is None:
        return frozenset()
    plan, names = analyzed(rows.inputs.template), rows.inputs.template.columns
    attributes = dict(zip(names, items(plan.output()), strict=True))
    time = attributes[rows.watermark.event_time].exprId().id()
    return frozenset(
        place
        for place, name in enumerate(rows.schema.fieldNames())
        if name == rows.watermark.event_time
        or (
            attributes[name].metadata().contains(EVENT_TIME_MARK)
            and is_same_value(plan, attributes[name].exprId().id(), time)
        )
    )


def _window_places(rows: StageInput) -> frozenset[int]:
    if rows.watermark is None or rows.watermark.event_time != CARRIER:
        return frozenset()
    return frozenset(
        place
        for place, field in enumerate(rows.schema.fields)
        if field.name == rows.watermark.label and {WINDOW_MARK, EVENT_TIME_MARK} <= set(field.metadata or {})
    )


def _outside(kind: str) -> str | None:
    """What an expression of a class is that a condition cannot have; None: it can have it."""
    if kind in _SUBQUERIES:
        return "a subquery"
    return next((what for mark, what in _OUTSIDE.items() if mark in kind), None)


def _ambiguous(what: str) -> PlanError:
    return PlanError(
        f"join: {what}; give the sides names, a.alias('a') and b.alias('b'), and write the condition with them:"
        " F.expr('a.k = b.k'); or join on='<name>', or rename a column before"
    )
