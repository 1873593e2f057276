"""Describes a stream-stream join as data: its keys and sides, its pairs, and how long rows wait.

A row of one side and a row of the other are a pair if their keys are equal (a key with a null equals none), if the
difference of their event times is within bounds, and if what else the condition says is true of them.  A row is
kept until the watermark says that no partner can come any more: rows strictly before the watermark are late.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from ....state.keys.registry import StateRegistry
from ...catalyst.types.arrow_types import arrow_schema
from ..contract import KeyedOperator
from .columns import LEFT, RIGHT, SIDE_NAMES, TIME_COLUMN, join_key_column, side_column

#: The variables of the state, in the order of their slots: see :mod:`.state.chunks`.
CHUNKS, MARKS, HEADS = "chunks", "partnered", "rows"

How = Literal["inner", "left", "right", "full", "leftsemi"]


@dataclass(frozen=True)
class JoinSide:
    """One side of a join."""

    #: Its columns, as users know them.
    schema: StructType
    #: What users call its event time; None: it has no watermark.
    event_time: str | None
    #: How long after its event time a row waits for partners, in microseconds, may be negative: it goes when the
    #: watermark is past both.  None: for ever.
    keep_us: int | None

    def columns(self, side: int) -> tuple[str, ...]:
        """Its columns in the frame of both sides."""
        return tuple(side_column(side, place) for place in range(len(self.schema.fields)))


@dataclass(frozen=True)
class TimeBounds:
    """Bounds of left event time minus right event time, in microseconds and inclusive; None: there is none.

    No pair is outside of them, and none has a row without event time if there is a bound.  Whether a pair within them
    is one may depend on the rest of the condition.
    """

    least_us: int | None = None
    greatest_us: int | None = None


@dataclass(frozen=True)
class JoinKey:
    """The key of a join: what must be equal."""

    #: The key columns, ``__k0`` and so on, in Arrow's types; their hash is the key group.
    schema: pa.Schema
    #: What users call them.
    labels: tuple[str, ...]


@dataclass(frozen=True)
class ResidualCondition:
    """What must be true of a pair besides its key and its bounds: Spark is asked."""

    #: A Column over the columns of both sides (see :mod:`.columns`); only the driver has it.
    column: Any
    #: The same for people, and for the fingerprint of finished shards.
    text: str
    #: Columns of the frame of both sides that it reads.
    reads: tuple[str, ...]


@dataclass(frozen=True)
class JoinedColumns:
    """The columns of what goes out."""

    schema: StructType
    #: For each the columns of the frame of both sides that it is taken from: the first that is not null (a USING key of
    #: a full join is that of either side).
    sources: tuple[tuple[str, ...], ...]
    #: For each key column the output column that has it; empty: not all are there.
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sizes:
    """What is held at a time, and how rows of a key are cut up in the state."""

    #: A key with so many new rows comes in parts; and bytes, about.
    piece_rows: int = 65_536
    piece_bytes: int = 1 << 23
    #: Rows in a chunk; and bytes, about.
    chunk_rows: int = 1_000
    chunk_bytes: int = 1 << 18
    #: Rows of one side that a key has beside its chunks at most, if it has few; and bytes.
    inline_rows: int = 128
    inline_bytes: int = 1 << 16
    #: Rows of chunks that are read at a time; and chunks.
    read_rows: int = 65_536
    read_chunks: int = 32
    #: Pairs that are made at a time; and bytes, about.
    pair_rows: int = 32_768
    pair_bytes: int = 1 << 23


class StreamJoin(KeyedOperator):
    """The keyed stage of a join of two streams, without what it does.

    Args:
        uid: id under which the state is stored.
        how: which rows go out besides pairs, or in their place.
        key: what must be equal.
        sides: left and right.
        bounds: of the event times of a pair.
        residual: what else must be true of a pair; None: nothing.
        output: the columns of what goes out.
        input_times: the column by which the watermark goes, which may be another than that by which rows wait.
    """

    kind = "join"
    state_values = "joined"
    sort_columns = (TIME_COLUMN,)
    sizes = Sizes()

    def __init__(
        self,
        *,
        uid: str,
        how: How,
        key: JoinKey,
        sides: tuple[JoinSide, JoinSide],
        bounds: TimeBounds,
        residual: ResidualCondition | None,
        output: JoinedColumns,
        input_times: str = TIME_COLUMN,
    ) -> None:
        self.uid = uid
        self.input_times = input_times
        self.how: How = how
        self.key_schema = key.schema
        self.key_columns = tuple(join_key_column(place) for place in range(len(key.schema)))
        self._key_labels = key.labels
        self.sides = sides
        self.bounds = bounds
        self.residual = residual
        self.output = output
        self.output_schema = output.schema
        self.output_arrow_schema = arrow_schema(output.schema)
        self.uses_event_time = any(side.event_time is not None for side in self.sides)
        self.emits_out_of_order = bool(self.outer_sides)
        self.registry = StateRegistry()
        for name in (CHUNKS, MARKS, HEADS):
            self.registry.declare(name, "value", self.state_schema())

    def __getstate__(self) -> dict[str, Any]:
        """Without what only the driver has."""
        return {**self.__dict__, "residual": self.residual and replace(self.residual, column=None)}

    def state_schema(self) -> pa.Schema:
        """What is kept of a row: the columns of its side."""
        return pa.schema(
            [
                field.with_name(f"{SIDE_NAMES[side]} {place + 1}: {field.name}")
                for side, one in enumerate(self.sides)
                for place, field in enumerate(arrow_schema(one.schema))
            ]
        )

    @property
    def key_labels(self) -> tuple[str, ...]:
        """The equal columns as users call them."""
        return self._key_labels

    @property
    def output_key_columns(self) -> tuple[str, ...]:
        """The output columns that have the key, if all of it goes out with each row."""
        return self.output.keys

    @property
    def condition_text(self) -> str | None:
        """What Spark is asked about pairs within the bounds; None: nothing."""
        return None if self.residual is None else self.residual.text

    @property
    def outer_sides(self) -> tuple[int, ...]:
        """The sides whose rows without a partner go out, with nulls."""
        return {"left": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}.get(self.how, ())

    def describe(self) -> dict[str, Any]:
        """Identity and facts of the stage for explain() and for the check of a checkpoint against the job."""
        return {
            "operator": self.kind,
            "uid": self.uid,
            "how": self.how,
            "key": [f"{label} {field.type}" for label, field in zip(self.key_labels, self.key_schema, strict=True)],
            **{name: text for name, text in self._described().items() if text},
        }

    def _described(self) -> dict[str, str | None]:
        """What it asks of pairs, and how long rows wait."""
        least_us, greatest_us = self.bounds.least_us, self.bounds.greatest_us
        times = [one.event_time or "none" for one in self.sides]
        between = [
            f"left {times[LEFT]} - right {times[RIGHT]} {sign} {_seconds(bound_us)}"
            for sign, bound_us in ((">=", least_us), ("<=", greatest_us))
            if bound_us is not None
        ]
        waits = [
            f"{name} for ever"
            if one.keep_us is None
            else f"{name} until the watermark is past {one.event_time}"
            + (f" {'+' if one.keep_us > 0 else '-'} {_seconds(abs(one.keep_us))}" if one.keep_us else "")
            for name, one in zip(SIDE_NAMES, self.sides, strict=True)
        ]
        return {
            "event times": " and ".join(between),
            "condition": self.condition_text,
            "rows wait": ", ".join(waits),
        }


def _seconds(duration_us: int) -> str:
    return f"{duration_us / 1_000_000:.6f}".rstrip("0").rstrip(".") + " s"
