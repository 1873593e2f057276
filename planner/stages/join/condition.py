"""The condition of a join as Spark resolves it on both sides, taken apart for the keyed stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from ....errors import PlanError, not_supported
from ....runtime.catalyst.frame_columns import with_frames
from ....runtime.catalyst.spark_expressions import attribute_id, class_name, is_attribute, tree
from ....runtime.catalyst.spark_joins import SparkJoin, renewed, share_attributes
from ....runtime.catalyst.spark_plans import output_of
from ....runtime.jvm.spark_errors import error_text
from ....runtime.operators.join.columns import LEFT
from ....runtime.operators.join.definition import TimeBounds
from ...inputs.event_time import CARRIER, EVENT_TIME_MARK
from ..qualified_names import QualifiedNames
from ..stage import StageInput
from .bounds import EQUAL, Bounded, EventTimeBounds, narrowed
from .side_columns import JoinedColumns
from .side_times import SideTime, SideTimes, times_of_columns

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
class AnalysedSides:
    """Both sides as Spark's analyzer gets them: with the columns that users know, and the names of their frames."""

    #: With a name of its own for each column.
    rows: tuple[StageInput, StageInput]
    #: The same by the names that users know.
    known: JoinedColumns
    frames: tuple[DataFrame, DataFrame]

    @classmethod
    def of(cls, left: StageInput, right: StageInput) -> AnalysedSides:
        """The sides of a join.

        Raises:
            PlanError: a side has two columns of the event time's name.
        """
        here, there = (rows.inputs.template.drop(CARRIER) for rows in (left, right))
        own = QualifiedNames.of(left, "join").rows, QualifiedNames.of(right, "join").rows
        known = JoinedColumns((left, right))
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
        return None if at is None else list(output_of(self.frames[at[0]]))[at[1]]


@dataclass(frozen=True)
class JoinCondition:
    """What a join asks of its pairs.

    Args:
        frames: both sides.
        join: as Spark has analyzed it.
    """

    frames: AnalysedSides
    join: SparkJoin

    def check(self) -> None:
        """Raise PlanError for what Spark refuses where both sides are streams, and what cannot be asked of pairs."""
        self.check_output_mode("append")
        if self.join.kind == "CROSS" or not self.join.keys:
            raise not_supported(
                "join: stream-stream join without equality predicate is not supported, as in Spark: every row would"
                " have to wait for all that come; have a column of one side equal to one of the other in the condition"
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
            attribute_id(one): (side, place)
            for side, attributes in enumerate(self.attributes)
            for place, one in enumerate(attributes)
        }

    @property
    def event_time_ids(self) -> frozenset[int]:
        """Ids of all that Spark takes for event time of a watermark."""
        return frozenset(
            attribute_id(one)
            for side, rows in zip(self.attributes, self.frames.rows, strict=True)
            for one in side
            if rows.watermark is not None and one.metadata().contains(EVENT_TIME_MARK)
        )

    # -- event times ---------------------------------------------------------------------------------------------------

    @cached_property
    def event_times(self) -> PairTimes:
        """By which times pairs are told, and rows wait."""
        sides = SideTimes(self.frames.rows, self.join)
        own, by_key = self._pair_times(sides.own), sides.by_key
        if by_key is None or own.is_bounded_by_watermarks:
            return own
        key, times = by_key
        return self._pair_times(times, key)

    def _pair_times(self, times: tuple[SideTime | None, SideTime | None], key: int | None = None) -> PairTimes:
        """What the condition says of some times; ``key``: the key that is these on both sides."""
        left, right = (self._ids(side, one, only_times=True) for side, one in enumerate(times))
        reader = EventTimeBounds(self.join.spark, left, right)
        keys = [
            Bounded(EQUAL, True) if place == key or self._are_windows(pair, times) else reader.of_equal(*pair)
            for place, pair in enumerate(self.join.keys)
        ]
        return PairTimes(times, key, keys, [reader.of(one) for one in self.join.others])

    def _are_windows(self, pair: Sequence[Any], times: tuple[SideTime | None, SideTime | None]) -> bool:
        """Whether two keys are windows whose last instants are the times of their sides."""
        return all(
            is_attribute(one)
            and attribute_id(one) in self._ids(side, times[side], only_times=False)
            and class_name(one.dataType()) == "StructType"
            for side, one in enumerate(pair)
        )

    def _ids(self, side: int, time: SideTime | None, *, only_times: bool) -> frozenset[int]:
        """Ids of the columns that are a side's time; ``only_times``: without windows."""
        if time is None:
            return frozenset()
        places = times_of_columns(time.places, self.frames.rows[side]) if only_times else time.places
        return frozenset(attribute_id(self.attributes[side][place]) for place in places)


@dataclass(frozen=True)
class PairTimes:
    """By which times pairs are told, and what the condition says of them."""

    #: Of each side; None: its rows have none.
    sides: tuple[SideTime | None, SideTime | None]
    #: The place of the key that is the time of both; None: there is none, or the condition says more of others.
    key: int | None
    #: What equal keys say of the times, key by key; None: nothing.
    key_bounds: Sequence[Bounded | None]
    #: The same of each of the other conditions.
    other_bounds: Sequence[Bounded | None]

    @property
    def bounds(self) -> TimeBounds:
        """Of the times of a pair."""
        return narrowed([one.bounds for one in (*self.key_bounds, *self.other_bounds) if one is not None])

    @property
    def is_bounded_by_watermarks(self) -> bool:
        """Whether the watermarks' own columns alone say when the last partner of a row of either side has come."""
        bounds = self.bounds
        are_own = all(one is not None and one.is_own for one in self.sides)
        return are_own and bounds.least_us is not None and bounds.greatest_us is not None


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
