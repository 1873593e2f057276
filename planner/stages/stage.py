"""A keyed stage as it is described, before its operator is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from ...errors import PlanError
from ...runtime.catalyst.columns import column_fold
from ...runtime.catalyst.spark_session import empty_frame
from ...runtime.catalyst.struct_fields import recast, with_own_fields
from ...runtime.operators.contract import EpochSpec, KeyedOperator
from ...runtime.protocols.event_time import MIN_WATERMARK
from ...runtime.protocols.operator_events.coordinator import OperatorCoordinator
from ...runtime.spec import Settings
from ...runtime.support.ids import EpochNumber
from ..inputs.event_time import CARRIER, EVENT_TIME_MARK, Watermark
from ..inputs.inputs import InputPart, Inputs

#: Id under which the state of a job's only keyed stage is stored; part of the on-disk contract.
STAGE_UID = "keyed-0"
#: For questions about Spark's plans: an epoch in which nothing is late and nothing fires.
ANY_EPOCH = EpochSpec(EpochNumber(1), "sorted", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)
#: The step that is a part of the stage: its rows under the names that users know.
PRESENTED = "columns of the join"
#: The steps that make of the last rows what is written.
WRITTEN = "writeStream"
OUTPUT_MODES = ("append", "update", "complete")


@dataclass(frozen=True)
class StageInput:
    """The rows that a keyed stage gets."""

    inputs: Inputs
    watermark: Watermark | None
    #: Their columns, as the user knows them.
    schema: StructType


class SideColumns(Protocol):
    """The columns of a stage's rows that are those of the frames which were joined."""

    def find(self, number: int, name: str) -> Any: ...


@dataclass(frozen=True, eq=False)
class KeyedStage:
    """A described keyed stage; its operator is built when the output mode and the settings are known.

    A stage is itself: two of one description are two.
    """

    #: With a real column for each key that the operator asks for by name.
    inputs: Inputs
    watermark: Watermark | None
    #: Columns that a row of the job has, as the user knows them.
    input_schema: StructType
    output_schema: StructType
    #: The output mode that the stage itself was given; None: it takes the writer's.
    output_mode: str | None
    #: Makes the operator, given its uid and the output mode.
    build: Callable[[str, str, Settings], KeyedOperator]
    #: True if each row is that of a group, which a later one may replace.
    is_aggregate: bool = False
    #: Output columns that are the key of the group that a row is of; None: nothing in the output says it.
    output_key: tuple[str, ...] | None = None
    #: For each column of the operator's key the input's column that it is; None: it is computed.
    key_inputs: tuple[str | None, ...] = ()
    #: Exchanges events with the stage's shards; None: nobody does.
    coordinator: OperatorCoordinator | None = None
    #: Id under which its state is stored.
    uid: str = STAGE_UID
    #: Why MAX_WATERMARK may not come at its switch; None: it may.
    why_observed: str | None = None
    #: Whether its event-time timers cannot fire between the rows of a key.
    needs_after_rows: bool = False
    #: Where outputMode complete stands that makes it impossible; None: see the operator.
    refuses_complete: str | None = None
    #: The method that makes outputMode update impossible, here or behind it; None: none does.
    refuses_update: str | None = None
    #: What ``start()`` has to say of it; None: nothing.
    warning: str | None = None
    #: What ``start()`` has to say of groups that outputMode append writes only at the end; None: there are none.
    waits_for_end: str | None = None
    #: Output column that is event time of which nothing older comes any more; None: there is none.
    output_event_time: str | None = None
    #: What users call that, if the stage's rows have it under another name; None: the same.
    output_event_time_label: str | None = None
    #: How far behind what it has fired that may be.
    output_delay_ms: int = 0
    #: Rows come out when they have come in, not when the watermark has reached them.
    hands_on_at_once: bool = False
    #: What it is, for errors about its final watermark.
    kind: str | None = None
    #: Makes of its rows what users see, with more columns behind those; None: they are that.
    presented: Callable[..., DataFrame] | None = None
    #: The same columns, if ``presented`` does nothing but give fields of structs their names; None: it does more.
    known: StructType | None = None
    #: Which of these are columns of the frames that it joins; None: it joins none.
    side_columns: SideColumns | None = None
    #: The same without columns that only ``presented`` makes something of; None: it has none of these.
    bare: KeyedStage | None = None

    @cached_property
    def template(self) -> DataFrame:
        """An empty frame with the output's columns, and with Spark's marks and ours of event time and windows."""
        return empty_frame(self.inputs.spark, StructType([self._marked(field) for field in self.output_schema.fields]))

    def _marked(self, field: StructField) -> StructField:
        if field.name != self.output_event_time:
            return field
        marks = {**(field.metadata or {}), EVENT_TIME_MARK: True}
        return StructField(field.name, field.dataType, field.nullable, marks)

    @property
    def output(self) -> Inputs:
        """What comes out of it, as input of whatever follows."""
        bare = self.bare_output
        return bare if self.presented is None else bare.map(PRESENTED, self.presented, self.presented)

    @property
    def bare_output(self) -> Inputs:
        """The same, by the names that the stage itself gives to columns."""
        return Inputs((InputPart(self.uid, self.template, self.inputs.is_streaming, origin=self),))

    @property
    def output_watermark(self) -> Watermark | None:
        """The watermark of what comes out: the stage hands on nothing older than what it has fired."""
        name = self.output_event_time
        declared_ms = None if self.watermark is None else self.watermark.remembered_ms
        behind_ms = None
        if self.hands_on_at_once and self.watermark is not None:
            behind_ms = self.watermark.delay_ms + self.watermark.lag_ms
        if name is None or name in self.output.template.columns:
            return None if name is None else Watermark(name, 0, declared_ms=declared_ms, behind_ms=behind_ms)
        is_window_end = isinstance(self.output_schema[name].dataType, StructType)
        label = self.output_event_time_label
        return Watermark(
            CARRIER, 0, called=label, is_window_end=is_window_end, declared_ms=declared_ms, behind_ms=behind_ms
        )


def with_fields_of_their_own(rows: StageInput, what: str) -> StageInput:
    """Rows for a keyed stage, with a name of its own for each field of a struct; the same object if all have one.

    Args:
        rows: as users know them.
        what: the method that was called.
    """
    fold = column_fold(rows.inputs.spark)
    schema, own = with_own_fields(rows.schema, fold), with_own_fields(rows.inputs.schema, fold).fields
    if schema is rows.schema:
        return rows
    renamed = presented_as(own)
    return StageInput(rows.inputs.map(what, renamed, renamed), rows.watermark, schema)


def presented_as(fields: Sequence[StructField]) -> Callable[..., DataFrame]:
    """What gives a frame's columns, and the fields of their structs, other names: :attr:`KeyedStage.presented`.

    Args:
        fields: the columns with these names.
    """

    def presented(frame: DataFrame, *more: Column) -> DataFrame:
        return recast(frame.select("*", *more) if more else frame, fields)

    return presented


def side_columns_of(inputs: Inputs) -> SideColumns | None:
    """Which columns are those of frames that were joined, of rows that one join gives; None: they are no such rows."""
    [*parts] = inputs.parts
    if len(parts) > 1 or parts[0].origin is None:
        return None
    return cast(KeyedStage, parts[0].origin).side_columns


def stages_of(inputs: Inputs) -> tuple[KeyedStage, ...]:
    """All stages that rows come through, each once, and after those that its own rows come through."""
    found: dict[KeyedStage, None] = {}
    for part in inputs.outputs:
        stage = cast(KeyedStage, part.origin)
        for one in (*stages_of(stage.inputs), stage):
            found.setdefault(one)
    return tuple(found)


def check_output_mode(value: Any, what: str, usable: str) -> str:
    """The output mode in lower case; ``usable`` says which a job can have: not all that are known can be used."""
    mode = value.strip().lower() if isinstance(value, str) else value
    if mode not in OUTPUT_MODES:
        raise PlanError(f"{what} is {value!r}; use {usable}")
    return str(mode)
