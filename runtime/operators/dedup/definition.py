"""Describes a deduplication as data: its keys, the row that stays of each, and how long a key is remembered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from ....state.keys.key_hash import is_hashable
from ....state.keys.registry import StateRegistry
from ...catalyst.types.arrow_types import arrow_schema
from ...catalyst.types.value_sizes import are_of_one_size, have_lists
from ..contract import KeyedOperator
from .columns import ROWS_COLUMN, TIME_COLUMN

#: Name of the one state variable.
STATE_NAME = "seen"


@dataclass(frozen=True)
class Retention:
    """How long a key is remembered.

    ``for-ever``   without an event time that could end it
    ``key-time``   until the watermark is past the event time, or has reached the end of the window, that is a key
    ``delay``      until the watermark has reached the event time of the key's first row, and the delay

    Never shorter than rows with the key may come without being late: what is handed on does not depend on the cut.
    """

    kind: Literal["for-ever", "key-time", "delay"]
    #: The event time that decides, as users call it; None: none does.
    label: str | None = None
    #: The key that it is; None: it is no key.
    key: int | None = None
    is_window: bool = False
    delay_ms: int = 0
    #: How much further than its delay the watermark is behind the rows that come: those of another deduplication come
    #: when it has not reached them.
    lag_ms: int = 0

    def __str__(self) -> str:
        if self.kind == "for-ever":
            return "kept for ever"
        if self.kind == "key-time":
            return f"kept until the watermark reaches {self.label}"
        return f"kept for the watermark's delay after {self.label}"


@dataclass(frozen=True)
class Lateness:
    """What makes an input row late: its event time, or the end of the window that stands for it."""

    column: str
    is_window: bool = False


class Deduplication(KeyedOperator):
    """The keyed stage of a deduplication, without what it does.

    Args:
        uid: id under which the state is stored.
        keys: names of the input's columns that make rows equal.
        payload: names of those in which rows of one key may differ: equal floats need not have equal bits.
        schema: the input's columns, which are the output's.
        retention: how long a key is remembered.
        event_time: the watermark's column in the input, which need not be in ``schema``; None: there is none.
        lateness: what makes a row late; None: none ever is.
        may_repeat: whether a key may be forgotten between its own rows, under ``pipeline.timers = in-order``.
        follows_a_stage: its rows come from another stage, which says nothing of their order.
    """

    kind = "dropDuplicates"
    rows_column = ROWS_COLUMN
    state_values = "record"

    def __init__(
        self,
        *,
        uid: str,
        keys: tuple[str, ...],
        payload: tuple[str, ...],
        schema: StructType,
        retention: Retention,
        event_time: str | None,
        lateness: Lateness | None,
        may_repeat: bool = False,
        follows_a_stage: bool = False,
    ) -> None:
        self.uid = uid
        self.aggregates_by_key = True
        self.keys = keys
        self.output_schema = schema
        self.output_arrow_schema = arrow_schema(schema)
        self.retention = retention
        self.event_time = event_time
        self.lateness = lateness
        self.key_columns = tuple(f"__k{place}" for place in range(len(keys)))
        self.key_schema = pa.schema(
            [
                self.output_arrow_schema.field(name).with_name(column)
                for name, column in zip(keys, self.key_columns, strict=True)
            ]
        )
        self.payload = payload
        # Rows that differ in the bits of floats alone are taken for equal.
        self.keeps_arrival = not follows_a_stage and not set(payload) <= set(keys)
        #: For each output column the prepared one.
        self.sources = tuple(
            f"__b{payload.index(name)}" if name in payload else self.key_columns[keys.index(name)]
            for name in schema.fieldNames()
        )
        #: The prepared column with the event time of the row that stays; None: nobody asks for it.
        self.time_column = None
        if retention.kind != "for-ever":
            self.time_column = TIME_COLUMN if retention.key is None else self.key_columns[retention.key]
        #: The prepared column with the event time of the row that goes out; None: it has none.
        self.row_time_column = self.time_column
        if self.row_time_column is None and event_time in self.output_schema.fieldNames():
            self.row_time_column = self.sources[self.output_schema.fieldNames().index(event_time)]
        self.uses_event_time = retention.kind != "for-ever"
        # A key that has its event time in it does not come again at another one.
        self.has_timers = retention.kind == "delay" and retention.key is None
        if self.has_timers and may_repeat:
            self.aggregates_by_key = False
            self.sort_columns = (TIME_COLUMN,)
        self.registry = StateRegistry()
        self.slot = self.registry.declare(STATE_NAME, "value", self.state_schema()).slot

    @property
    def can_aggregate_once(self) -> bool:
        """True if equal keys have equal hashes: zeros with and without a sign do not."""
        return bool(self.keys) and all(is_hashable(field.type) for field in self.key_schema)

    @property
    def sorts_rows(self) -> bool:
        """True if there is a choice of rows, which are compared as structs."""
        return bool(self.payload) or self.time_column == TIME_COLUMN

    @property
    def kept_types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns that are no keys."""
        return tuple(self.output_arrow_schema.field(name).type for name in self.payload)

    @property
    def kept_texts(self) -> tuple[str, ...]:
        """The columns with texts that are no keys; none if one has lists or maps."""
        if have_lists(self.kept_types):
            return ()
        typed = zip(self.payload, self.kept_types, strict=True)
        return tuple(name for name, data_type in typed if not are_of_one_size([data_type]))

    @property
    def key_labels(self) -> tuple[str, ...]:
        """The columns that make rows equal."""
        return self.keys

    @property
    def output_key_columns(self) -> tuple[str, ...]:
        """Rows go out as they came."""
        return self.keys

    @property
    def event_time_key(self) -> str | None:
        """The key column that is the rows' event time; None: none is."""
        if self.event_time not in self.keys:
            return None
        return self.key_columns[self.keys.index(self.event_time)]

    def state_schema(self) -> pa.Schema:
        """What is kept of a key: that it is there, or when it goes."""
        if self.retention.kind == "delay":
            return pa.schema([pa.field("expiresAtMs", pa.int64(), nullable=False)])
        return pa.schema([pa.field("present", pa.bool_(), nullable=False)])

    def describe(self) -> dict[str, Any]:
        """Identity and facts of the stage for explain() and for the check of a checkpoint against the job."""
        types = {field.name: field.dataType.simpleString() for field in self.output_schema.fields}
        return {
            "operator": self.kind,
            "uid": self.uid,
            "key": [f"{name} {types[name]}" for name in self.keys],
            "state": str(self.retention),
        }
