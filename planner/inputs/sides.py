"""Two streams as the one input of a keyed stage: the rows of both sides in one frame, and one watermark of them.

The frame is that of :mod:`...runtime.operators.join.columns`.  What each side is made of, sources and outputs of
stages, stays apart in it, so each part moves the watermark by its own event times and its own delay.  A side without
event time says nothing of the watermark, and neither does a history that no live input goes on from: it has an end.

Where the stage goes by another time of a side's rows than the watermark does, that of the watermark has its own column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType, TimestampNTZType

from ...runtime.catalyst.columns import event_time_us, normalise_floats
from ...runtime.operators.join.columns import LEFT, RIGHT, SIDE_COLUMN, TIME_COLUMN, join_key_column, side_column
from .event_time import CARRIER, Watermark
from .inputs import InputPart, Inputs
from .schemas import quoted_columns


@dataclass(frozen=True)
class Side:
    """One side of a keyed stage that takes two."""

    inputs: Inputs
    watermark: Watermark | None
    #: Its columns, as users know them.
    schema: StructType
    #: Its keys, over these columns by their names.
    keys: tuple[Column, ...]
    #: The time by which the stage goes, if that is not the watermark's column; None: that is it, if there is one.
    time: Column | None = None

    @property
    def is_timed_apart(self) -> bool:
        """Whether the watermark goes by another time than the stage."""
        return self.watermark is not None and self.time is not None


@dataclass(frozen=True)
class JoinSides:
    """Both sides as one input."""

    inputs: Inputs
    watermark: Watermark | None


def united_sides(left: Side, right: Side, key_types: Sequence[DataType], what: str) -> JoinSides:
    """The rows of both sides in one frame.

    Args:
        left: one side; its watermark's column is a time (see ``StageInput``).
        right: the other.
        key_types: what each key is cast to.
        what: the method that was called.

    Raises:
        AnalysisException: Spark's own, if a key does not fit a side.
        PlanError: the sides are of different sessions, or two of their live inputs have one name.
    """
    are_timed_apart = left.is_timed_apart or right.is_timed_apart
    observed = (CARRIER,) if are_timed_apart else ()
    mine = _in_one_frame(left, LEFT, right.schema, key_types, what, observed)
    theirs = _in_one_frame(right, RIGHT, left.schema, key_types, what, observed)
    given = (*left.inputs.parts, *right.inputs.parts)
    inputs = mine.union(_called_apart(theirs, mine))
    owners = [left.watermark] * len(mine.parts) + [right.watermark] * len(theirs.parts)
    schemas = [left.schema] * len(mine.parts) + [right.schema] * len(theirs.parts)
    parts = tuple(replace(part, columns=schema) for part, schema in zip(inputs.parts, schemas, strict=True))
    timed = [watermark for watermark in (left.watermark, right.watermark) if watermark is not None]
    if not timed:
        return JoinSides(replace(inputs, parts=parts), None)
    owned = list(zip(parts, given, owners, strict=True))
    watermark = Watermark(
        CARRIER if are_timed_apart else TIME_COLUMN,
        max(one.delay_ms for one in timed),
        tuple((part.name, owner.delay_of(own.name)) for part, own, owner in owned if owner is not None),
        called=" and ".join(dict.fromkeys(one.label for one in timed)),
        without=frozenset(part.name for part, _, owner in owned if owner is None),
        of_sides=True,
        declared_ms=max(one.remembered_ms for one in timed),
    )
    return JoinSides(replace(inputs, parts=parts), watermark)


def _in_one_frame(
    side: Side, place: int, other: StructType, key_types: Sequence[DataType], what: str, observed: Sequence[str]
) -> Inputs:
    """A side's rows with the columns of both; those of the other one are null, ``observed`` is the watermark's time."""
    keys = [
        normalise_floats(key.cast(data_type), data_type).alias(join_key_column(number))
        for number, (key, data_type) in enumerate(zip(side.keys, key_types, strict=True))
    ]
    own = [column.alias(side_column(place, at)) for at, column in enumerate(quoted_columns(side.schema.fieldNames()))]
    none = [F.lit(None).cast(field.dataType).alias(side_column(1 - place, at)) for at, field in enumerate(other.fields)]
    columns = [
        *keys,
        F.lit(place).alias(SIDE_COLUMN),
        (_watermark_time(side) if side.time is None else side.time).alias(TIME_COLUMN),
        *[_watermark_time(side).alias(name) for name in observed],
        *([*own, *none] if place == LEFT else [*none, *own]),
    ]

    def with_both(frame: DataFrame, *more: Column) -> DataFrame:
        return frame.select(*columns, *more)

    return side.inputs.map(what, with_both, with_both)


def _watermark_time(side: Side) -> Column:
    """The event time of a side's watermark as a timestamp of the same microseconds; null: it has none."""
    if side.watermark is None:
        return F.lit(None).cast("timestamp")
    name = side.watermark.event_time
    if isinstance(side.inputs.schema[name].dataType, TimestampNTZType):
        return F.timestamp_micros(event_time_us(side.inputs.template, name))
    return quoted_columns([name])[0]


def _called_apart(inputs: Inputs, others: Inputs) -> Inputs:
    """A side whose parts are called by other names than those of the other side, where both have the same parts."""
    taken = {part.name for part in others.parts}

    def apart(part: InputPart) -> InputPart:
        is_same = any(part.as_given.frame is one.as_given.frame for one in others.parts if one.name == part.name)
        if part.name not in taken or (part.origin is None and not (part.is_named and is_same)):
            return part  # of two that nobody has named, and of two different ones, others take care
        number = next(number for number in range(2, len(taken) + 3) if f"{part.name}-{number}" not in taken)
        taken.add(f"{part.name}-{number}")
        return replace(part, name=f"{part.name}-{number}")

    return replace(inputs, parts=tuple(map(apart, inputs.parts)))
