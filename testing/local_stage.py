"""A processor's keyed stage without Spark: its operator, and what Spark would do to its rows."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegerType, StructField, StructType, TimestampType

from ..errors import PlanError
from ..planner.inputs.event_time import check_event_time
from ..planner.inputs.schemas import check_key_type, find_column, missing_column, same_type
from ..runtime.catalyst.types.arrow_types import arrow_schema
from ..runtime.connectors.sources.live_inputs import INPUT_COLUMN, LiveInput
from ..runtime.operators.contract import EpochSpec
from ..runtime.operators.join.columns import (
    LEFT,
    RIGHT,
    SIDE_COLUMN,
    SIDE_NAMES,
    TIME_COLUMN,
    join_key_column,
    side_column,
)
from ..runtime.operators.keyed.keyed_input import KeyedInput
from ..runtime.operators.keyed.keyed_rows import INITIAL_STATE_COLUMN, KEY_GROUP_COLUMN, KIND_COLUMN, NO_TIME, micros_of
from ..runtime.operators.processor.cogroup.cogroup_form import Cogrouped
from ..runtime.operators.processor.definition import CallingConvention, EventLimits, TimeMode
from ..runtime.operators.processor.frames.frame_form import FramesForm
from ..runtime.operators.processor.frames.frame_settings import FrameSettings
from ..runtime.operators.processor.initial_state import InitialState
from ..runtime.operators.processor.operator import ProcessorOperator
from ..runtime.operators.processor.rows.row_form import Form, RowsForm
from ..runtime.protocols.operator_events.coordinator import OperatorCoordinator
from ..runtime.spec import LaneRead, Settings, StageSpec
from ..state.keys.keys import KeyCodec
from .local_rows import LocalRows, in_order
from .row_tables import GivenRow, table_of

UID = "stage"


@dataclass(frozen=True)
class LocalInitialState:
    """The rows of an initial state."""

    schema: StructType
    rows: tuple[GivenRow, ...]


@dataclass(frozen=True)
class LocalSide:
    """One input: its columns, its key columns and its event time among them."""

    schema: StructType
    keys: tuple[str, ...]
    event_time: str | None

    @classmethod
    def of(cls, schema: StructType, keys: Sequence[str], event_time: str | None) -> LocalSide:
        """An input whose columns are found by name, in any case.

        Args:
            schema: its columns.
            keys: those of the key.
            event_time: that of event times; None: there is none.

        Raises:
            PlanError: one is missing, or is of a type that does not do.
        """
        found = []
        for key in keys:
            name = find_column(key, schema, case_sensitive=False)
            if name is None:
                raise missing_column("key column", key, schema)
            check_key_type(name, schema[name].dataType)
            found.append(name)
        time = None
        if event_time is not None:
            time = find_column(event_time, schema, case_sensitive=False)
            if time is None:
                raise missing_column("event_time column", event_time, schema)
            check_event_time(time, schema[time].dataType)
        return cls(schema, tuple(found), time)


@dataclass(frozen=True)
class LocalStage:
    """The keyed stage.

    Args:
        processor: the user's.
        sides: its input, or both.
        output: the columns of its rows.
        time_mode: its time mode.
        delay_ms: how far the watermark stays behind event times.
        in_pandas: its handlers get pandas frames.
        time_zone: in which those show timestamps.
        initial: its initial state.
        coordinator: talks to its shards.
        max_parallelism: number of key groups.
    """

    processor: Any
    sides: tuple[LocalSide, ...]
    output: StructType
    time_mode: TimeMode
    delay_ms: int
    in_pandas: bool
    time_zone: str | None
    initial: LocalInitialState | None
    coordinator: OperatorCoordinator | None
    max_parallelism: int

    @property
    def is_cogroup(self) -> bool:
        """Whether the processor gets two inputs."""
        return len(self.sides) > 1

    @property
    def key_schema(self) -> StructType:
        """The key columns, called as the first input's."""
        first = self.sides[0]
        return StructType([first.schema[name] for name in first.keys])

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that have the key where the operator gets the rows."""
        first = self.sides[0]
        return tuple(join_key_column(place) for place in range(len(first.keys))) if self.is_cogroup else first.keys

    @property
    def event_time(self) -> str | None:
        """The column of event times there."""
        if not self.is_cogroup:
            return self.sides[0].event_time
        return TIME_COLUMN if any(side.event_time for side in self.sides) else None

    @property
    def inputs(self) -> tuple[LiveInput, ...]:
        """The live inputs."""
        if not self.is_cogroup:
            return (LiveInput("live", (0,)),)
        return tuple(LiveInput(SIDE_NAMES[number], (number,)) for number in (LEFT, RIGHT))

    def spec(self, settings: Settings) -> StageSpec:
        """The stage as the runtime knows it; builds the operator, which runs the processor's ``init``."""
        form: Form = FramesForm(FrameSettings(self.time_zone or _local_zone())) if self.in_pandas else RowsForm()
        if self.is_cogroup:
            form = Cogrouped(form, self.sides[0].schema, self.sides[1].schema)
        operator = ProcessorOperator(
            self.processor,
            uid=UID,
            rows=KeyedInput(self._taken, self.key_columns, self.key_schema, self.event_time),
            output_schema=self.output,
            time_mode=self.time_mode,
            initial=None if self.initial is None else InitialState(self.initial.schema, self.sides[0].keys),
            events=EventLimits(self.coordinator is not None, settings.operator_event_max_bytes),
            calls=CallingConvention(form, settings.rows_per_call),
        )
        timed = [one.name for one, side in zip(self.inputs, self.sides, strict=True) if side.event_time is not None]
        return StageSpec(
            operator=operator,
            event_time=self.event_time,
            watermark_delay_ms=self.delay_ms,
            coordinator=self.coordinator,
            reads=(LaneRead(0),),
            delays_ms=dict.fromkeys(timed or [one.name for one in self.inputs[:1]], self.delay_ms),
            timeless=tuple(one.name for one in self.inputs if timed and one.name not in timed),
        )

    @property
    def _taken(self) -> StructType:
        """The columns of the rows that the operator gets."""
        if not self.is_cogroup:
            return self.sides[0].schema
        keys = [
            StructField(name, field.dataType)
            for name, field in zip(self.key_columns, self.key_schema.fields, strict=True)
        ]
        sides = [
            StructField(side_column(number, at), field.dataType)
            for number, side in enumerate(self.sides)
            for at, field in enumerate(side.schema.fields)
        ]
        side, time = StructField(SIDE_COLUMN, IntegerType()), StructField(TIME_COLUMN, TimestampType())
        return StructType([*keys, side, time, *sides])

    # -- rows ----------------------------------------------------------------------------------------------------------

    def frame(self, rows: Sequence[tuple[int, GivenRow]], what: str) -> LocalRows:
        """Rows, each with the number of its input, as the driver gets them.

        Args:
            rows: the rows.
            what: what they were given to, for errors.
        """
        if not self.is_cogroup:
            return LocalRows(table_of([row for _, row in rows], self.sides[0].schema, what))
        made = []
        for number, side in enumerate(self.sides):
            own = table_of([row for at, row in rows if at == number], side.schema, what)
            made.append(self._in_one_frame(number, side, own))
        return LocalRows(pa.concat_tables(made))

    def _in_one_frame(self, number: int, side: LocalSide, own: pa.Table) -> pa.Table:
        schema, count = arrow_schema(self._taken), own.num_rows
        columns: dict[str, Any] = {
            SIDE_COLUMN: pa.array([number] * count, pa.int32()),
            INPUT_COLUMN: pa.array([number] * count, pa.int32()),
        }
        for at, name in enumerate(side.schema.fieldNames()):
            columns[side_column(number, at)] = own.column(name)
        for place, name in enumerate(side.keys):
            columns[join_key_column(place)] = own.column(name).cast(schema.field(join_key_column(place)).type)
        if side.event_time is not None:
            columns[TIME_COLUMN] = own.column(side.event_time).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        for field in schema:
            columns.setdefault(field.name, pa.nulls(count, field.type))
        return pa.table({name: columns[name] for name in [*schema.names, INPUT_COLUMN]})

    def event_times(self, rows: Sequence[tuple[int, GivenRow]]) -> list[int | None]:
        """The event time (ms) of each row; None: it has none."""
        found: dict[int, list[int | None]] = {}
        for number, side in enumerate(self.sides):
            own = [row for at, row in rows if at == number]
            if side.event_time is None:
                found[number] = [None] * len(own)
                continue
            times_us = micros_of(table_of(own, side.schema, "rows").column(side.event_time).combine_chunks()).tolist()
            found[number] = [None if time_us == NO_TIME else time_us // 1000 for time_us in times_us]
        each = {number: iter(times) for number, times in found.items()}
        return [next(each[number]) for number, _ in rows]

    def prepared(self, frame: LocalRows, epoch: EpochSpec) -> pa.Table:
        """What Spark would make of rows: shuffled, with the initial state before them, and sorted."""
        table = frame.drop(INPUT_COLUMN).table
        if self.initial is not None:
            table = self._with_initial(table, self.initial, first=epoch.first)
        keys = [_one_zero(table.column(name).combine_chunks()) for name in self.key_columns]
        for name, key in zip(self.key_columns, keys, strict=True):
            table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), key)
        codec = self.codec
        encoded = codec.encode_columns(keys) if keys else pa.array([b""] * table.num_rows, pa.binary())
        groups = pa.array([self.key_group(key) for key in encoded.to_pylist()], pa.int32())
        order = [name for name in self._operator_order(epoch) if name in table.schema.names]
        return in_order(table.add_column(0, KEY_GROUP_COLUMN, groups), encoded, order)

    def _operator_order(self, epoch: EpochSpec) -> tuple[str, ...]:
        kind = (KIND_COLUMN,) if self.initial is not None else ()
        time = () if self.event_time is None else (self.event_time,)
        if not self.is_cogroup:
            return (*kind, *time)
        return (*kind, *time, SIDE_COLUMN) if epoch.in_order is not None else (*kind, SIDE_COLUMN, *time)

    def _with_initial(self, table: pa.Table, initial: LocalInitialState, *, first: bool) -> pa.Table:
        packed = pa.struct(list(arrow_schema(initial.schema)))
        rows = table.append_column(KIND_COLUMN, pa.array([1] * table.num_rows, pa.int32()))
        rows = rows.append_column(INITIAL_STATE_COLUMN, pa.nulls(table.num_rows, packed))
        if not first:
            return rows
        given = table_of(initial.rows, initial.schema, "initial_state")
        count = given.num_rows
        columns: dict[str, Any] = {
            KIND_COLUMN: pa.array([0] * count, pa.int32()),
            INITIAL_STATE_COLUMN: pa.array(given.to_pylist(), packed),
        }
        for place, name in enumerate(self.key_columns):
            column = given.column(self.sides[0].keys[place])
            columns[name] = column.cast(table.schema.field(name).type)
        for field in table.schema:
            columns.setdefault(field.name, pa.nulls(count, field.type))
        return pa.concat_tables([pa.table({name: columns[name] for name in rows.schema.names}), rows])

    # -- keys ----------------------------------------------------------------------------------------------------------

    @property
    def codec(self) -> KeyCodec:
        """The codec of the keys."""
        return KeyCodec(arrow_schema(self.key_schema))

    def key_group(self, key: bytes) -> int:
        """The key group of an encoded key; Spark's hash is another one, which nobody can see."""
        return zlib.crc32(key) % self.max_parallelism

    def identify(self, key: object) -> tuple[int, bytes]:
        """Key group and encoded form of a key: its value, or a tuple of several.

        Raises:
            PlanError: it does not fit the key columns.
        """
        names = self.key_schema.fieldNames()
        is_whole = isinstance(key, tuple) and (len(names) != 1 or len(key) == 1)
        values = cast("tuple[Any, ...]", key) if is_whole else (key,)
        if len(values) != len(names):
            raise PlanError(f"key {key!r} has {len(values)} values; the key columns are {', '.join(names)}")
        encoded = self.codec.encode(tuple(value + 0.0 if isinstance(value, float) else value for value in values))
        return self.key_group(encoded), encoded


def sides_of(
    schemas: Sequence[StructType], keys: Sequence[Sequence[str]], event_times: Sequence[str | None]
) -> tuple[LocalSide, ...]:
    """One input, or two that are grouped by keys of the same types.

    Args:
        schemas: of each its columns.
        keys: its key columns.
        event_times: its event time.

    Raises:
        PlanError: they do not fit together.
    """
    sides = tuple(map(LocalSide.of, schemas, keys, event_times))
    kinds = [[side.schema[name].dataType for name in side.keys] for side in sides]
    for others in kinds[1:]:
        if len(others) != len(kinds[0]) or not all(map(same_type, kinds[0], others)):
            raise PlanError(f"the inputs are grouped by {kinds[0]} and {others}; group both by keys of the same types")
    return sides


def with_initial(stage: LocalStage, schema: StructType, rows: Sequence[GivenRow]) -> LocalStage:
    """The stage with an initial state, whose key columns are called as the stage's.

    Args:
        stage: the stage.
        schema: the columns of the initial state.
        rows: its rows.

    Raises:
        PlanError: a key column is missing.
    """
    for name in stage.sides[0].keys:
        if name not in schema.fieldNames():
            raise missing_column("key column of initial_schema", name, schema)
    return replace(stage, initial=LocalInitialState(schema, tuple(rows)))


def _one_zero(key: pa.Array) -> pa.Array:
    return pc.add(key, pa.scalar(0.0, key.type)) if pa.types.is_floating(key.type) else key


def _local_zone() -> str:
    """The name of this process' time zone, as pandas takes it."""
    if os.environ.get("TZ"):
        return os.environ["TZ"].lstrip(":")
    path = os.path.realpath("/etc/localtime")
    return path.partition("zoneinfo/")[2] or "UTC"
