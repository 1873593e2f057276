"""``join`` of two streams planned as a keyed stage: what Spark's analyzer says of it, and how long rows wait."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from ....runtime.catalyst.spark_expressions import attribute_id, attributes_in, is_attribute
from ....runtime.catalyst.spark_joins import SparkJoin, over_columns, python_type, sql_over
from ....runtime.catalyst.spark_plans import whole_plans
from ....runtime.catalyst.types.arrow_types import arrow_schema
from ....runtime.operators.contract import KeyedOperator
from ....runtime.operators.join.columns import LEFT, RIGHT, SIDE_NAMES, TIME_COLUMN, join_key_column, side_column
from ....runtime.operators.join.definition import How, JoinedColumns, JoinKey, JoinSide, ResidualCondition, TimeBounds
from ....runtime.operators.join.late_rows import late_sides_schema
from ....runtime.operators.join.operator import JoinOperator
from ....runtime.spec import Settings
from ...inputs.event_time import CARRIER
from ...inputs.schemas import check_key_type, column_type
from ...inputs.sides import Side, united_sides
from ..stage import KeyedStage, StageInput
from .condition import AnalysedSides, JoinCondition
from .output import PlannedJoinOutput, join_output

_KINDS: dict[str, How] = {
    "INNER": "inner",
    "LEFT OUTER": "left",
    "RIGHT OUTER": "right",
    "FULL OUTER": "full",
    "LEFT SEMI": "leftsemi",
}
WHY_OBSERVED = (
    "at MAX_WATERMARK every row that waits for a partner would go, and its partner in the stream would find none"
)


def plan_join(left: StageInput, right: StageInput, on: Any, how: str | None) -> KeyedStage:
    """The keyed stage of a join of two streams.

    Args:
        left: one side.
        right: the other.
        on: as ``DataFrame.join`` takes it.
        how: the same; None: inner.

    Raises:
        AnalysisException: Spark's own, if it cannot resolve the join.
        PlanError: Spark does not support such a join of two streams, or a column cannot be kept.
    """
    frames = AnalysedSides.of(left, right)
    for rows in frames.rows:
        for field in rows.schema.fields:
            column_type(field, "the input of join")
    joined = frames.joined(on, how)
    condition = JoinCondition(frames, SparkJoin.of(joined))
    condition.check()
    plan = _Plan(condition, _KINDS[condition.join.kind])
    output = join_output(condition, joined, plan.how, keeps_time=plan.output_delay_us is not None)
    key_types = plan.key_types
    sides = united_sides(plan.side(LEFT), plan.side(RIGHT), key_types, "join")
    key_schema = arrow_schema(StructType([StructField(join_key_column(at), one) for at, one in enumerate(key_types)]))

    delay_us = plan.output_delay_us

    def stage_of(output: PlannedJoinOutput, bare: KeyedStage | None) -> KeyedStage:
        def build(uid: str, output_mode: str, settings: Settings) -> KeyedOperator:
            condition.check_output_mode(output_mode)
            return JoinOperator(
                uid=uid,
                how=plan.how,
                key=JoinKey(key_schema, plan.key_labels),
                sides=(plan.join_side(LEFT), plan.join_side(RIGHT)),
                bounds=plan.bounds,
                residual=plan.residual,
                output=JoinedColumns(output.schema, output.sources, output.keys),
                input_times=CARRIER if plan.is_timed_apart else TIME_COLUMN,
            )

        return KeyedStage(
            inputs=sides.inputs,
            watermark=sides.watermark,
            input_schema=late_sides_schema(*(rows.schema for rows in frames.rows)),
            output_schema=output.schema,
            output_mode=None,
            build=build,
            why_observed=WHY_OBSERVED,
            kind="a join of two streams",
            refuses_complete="after a join, as in Spark: only an aggregation has a complete result",
            warning=plan.warning,
            output_event_time=output.event_time,
            output_event_time_label=output.event_time_label,
            output_delay_ms=0 if delay_us is None else -(-delay_us // 1000),
            presented=output.presented,
            side_columns=output.side_columns,
            bare=bare,
        )

    return stage_of(output, stage_of(output.bare, None) if output.hidden else None)


class _Plan:
    """What follows from a condition.

    Args:
        condition: the condition.
        how: the kind of join.
    """

    def __init__(self, condition: JoinCondition, how: How) -> None:
        self.condition, self.how = condition, how
        self._join, self._rows = condition.join, condition.frames.rows
        self._times = condition.event_times
        #: Of the event times of a pair.
        self.bounds: TimeBounds = self._times.bounds
        rest = [
            expression
            for expression, bounded in zip(self._join.others, self._times.other_bounds, strict=True)
            if bounded is None or not bounded.is_all
        ]
        names = {id: side_column(*at) for id, at in condition.places.items()}
        spark = self._join.spark
        #: What Spark is asked about a pair; None: nothing.
        self.residual: ResidualCondition | None = None
        if not rest:
            return
        column = reduce(and_, (over_columns(spark, one, names) for one in rest))
        read = set().union(*map(attributes_in, rest))
        labels = {
            id: (SIDE_NAMES[side], self._rows[side].schema[place].name)
            for id, (side, place) in condition.places.items()
        }
        with whole_plans(spark):
            text = " AND ".join(sql_over(spark, one, labels) for one in rest)
        self.residual = ResidualCondition(column, text, tuple(name for id, name in names.items() if id in read))

    @property
    def key_types(self) -> list[DataType]:
        """What keys are compared as."""
        types = [python_type(left) for left, _ in self._join.keys]
        for label, data_type in zip(self.key_labels, types, strict=True):
            check_key_type(label, data_type)
        return types

    @property
    def key_labels(self) -> tuple[str, ...]:
        """What users call the keys."""
        names = {id: (self._rows[side].schema[place].name,) for id, (side, place) in self.condition.places.items()}
        found = []
        for pair in self._join.keys:
            left, right = (sql_over(self._join.spark, one, names) for one in pair)
            plain = all(is_attribute(one) for one in pair)
            found.append(left if plain and left == right else f"{left} = {right}")
        return tuple(found)

    def side(self, side: int) -> Side:
        """A side for the frame of both."""
        rows, spark = self._rows[side], self._join.spark
        names = {
            attribute_id(one): name
            for one, name in zip(self.condition.attributes[side], rows.schema.fieldNames(), strict=True)
        }
        keys = tuple(over_columns(spark, pair[side], names) for pair in self._join.keys)
        return Side(rows.inputs, rows.watermark, rows.schema, keys, self._time(side))

    def _time(self, side: int) -> Column | None:
        """The time by which the join goes, if it is not that of the watermark."""
        time = self._times.sides[side]
        if time is None:
            return None if self._rows[side].watermark is None else F.lit(None).cast("timestamp")
        return time.column

    @property
    def is_timed_apart(self) -> bool:
        """Whether the watermark of a side goes by another time than the join."""
        return any(rows.watermark is not None and self._time(side) is not None for side, rows in enumerate(self._rows))

    def join_side(self, side: int) -> JoinSide:
        """A side of the operator."""
        return JoinSide(self._rows[side].schema, self._event_time(side), self.keep_us(side))

    def keep_us(self, side: int) -> int | None:
        """How long after its event time a row waits for partners; None: for ever."""
        if self._event_time(1 - side) is None or self._event_time(side) is None:
            return None
        bounds = self.bounds
        if side == RIGHT:
            return bounds.greatest_us
        return None if bounds.least_us is None else -bounds.least_us

    def _event_time(self, side: int) -> str | None:
        time = self._times.sides[side]
        if time is None or self._rows[side].watermark is not None or self._times.key is None:
            return None if time is None else time.label
        return self.key_labels[self._times.key]

    @property
    def output_delay_us(self) -> int | None:
        """How far behind the watermark event times are that go out; None: nothing is known of them."""
        sides = (LEFT,) if self.how == "leftsemi" else (LEFT, RIGHT)
        keeps = [self.keep_us(side) for side in sides]
        known = [keep for keep in keeps if keep is not None]
        return max(0, *known) if len(known) == len(keeps) else None

    @property
    def warning(self) -> str | None:
        """What becomes of rows that no watermark lets go."""
        for_ever = [SIDE_NAMES[side] for side in (LEFT, RIGHT) if self.keep_us(side) is None]
        if not for_ever:
            return None
        what = " and ".join(for_ever)
        return (
            f"join by {', '.join(self.key_labels)} keeps every row of the {what} side{'s' * (len(for_ever) - 1)} for"
            " ever, as no watermark says when its last partner has come, so the state grows without end: call"
            " withWatermark on both sides, and bound their event times in the condition, as in b.ts BETWEEN a.ts AND"
            " a.ts + INTERVAL 1 HOUR; of a window take F.window_time(window), since window.end has no watermark"
        )
