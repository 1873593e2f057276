"""Declarative aggregates over keyed state: ``groupBy(...).agg(...)``.

Spark's own engine aggregates each epoch's rows first (:meth:`AggregateOperator.prepare`), so that one row per key, or
per key and window, crosses into Python.  There a shard's rows meet the state of earlier epochs a batch at a time:
encode the keys, read the cells of all of them at once, merge column by column, emit what is due, write what changed.
Nothing is done per row or key in Python that Arrow or numpy can do for the whole batch.

When results come out:

``append``  once, when the watermark passes the end of the window (or the event time that is a key); keys without event
            time when input ends.  Their state goes with them.
``update``  for every key that the epoch touched.  State of windows that the watermark has passed goes silently.

Both styles work through the keys in stored order, which gives the same results; in ``random`` style the rows of an
append are put into time order before they leave.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ....state.compaction import StateRewrite
from ....state.registry import StateRegistry
from ...platform.columns import quoted
from ...spec import EpochSpec, KeyedOperator, ShardContext
from ...tasks.row_spool import Projection
from ..processor.row_reader import arrow_schema
from .buffers import Buffer
from .columns import MAX_TIME_COLUMN, ROWS_COLUMN, SESSION_END_COLUMN, SESSION_START_COLUMN
from .identity import OutputColumn, output_identity, record_of
from .results import Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The number of rows, as the planner writes it for ``count(*)``.
COUNT_ROWS = "count(1)"
#: Name of the one state variable.
STATE_NAME = "aggregate"

KeyKind = Literal["plain", "window", "session"]


@dataclass(frozen=True)
class GroupKey:
    """One grouping expression."""

    #: Spark's name of it, which the output has.
    name: str
    #: Its column in the prepared frame.
    column: str
    kind: KeyKind
    #: True if the watermark's column is what it is made of, so that the watermark decides when it is complete.
    event_time: bool
    #: True if the grouping itself computes it by a function; False for a column that the input has.
    is_call: bool = True


@dataclass(frozen=True)
class GroupColumns:
    """The grouping expressions and partial aggregates as Spark columns, which cannot leave the driver."""

    keys: tuple[Column, ...]
    #: If windows overlap: which key is the window, the time it is made of, and the distance between windows.
    sliding: tuple[int, Column, int] | None = None
    #: The partial aggregates under their names.
    partials: tuple[Column, ...] = ()


@dataclass(frozen=True)
class Partials:
    """The partial columns that Spark computes, their buffers and the results made of them."""

    #: Column name in the prepared frame -> the SQL of the partial aggregate, which its state is recognised by.
    columns: Mapping[str, str]
    #: The columns of state, in stored order, by the names of the partial columns; one may come more than once.
    places: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    buffers: tuple[Buffer, ...]
    results: tuple[Result, ...]
    #: What the results are output as.
    outputs: tuple[OutputColumn, ...]
    #: Result -> the change of the job that it came with, unless it was there from the start.
    since: Mapping[int, int] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        """The SQL of each column of state."""
        return tuple(self.columns[name] for name in self.places)


class AggregateOperator(KeyedOperator):
    """A keyed stage that aggregates; made by ``planner.aggregates.plan_aggregate``.

    Args:
        uid: id under which the state is stored.
        keys: the grouping expressions, in the user's order.
        group_columns: the same as Spark columns.
        key_types: Arrow type of each grouping expression.
        partials: what is computed.
        output_schema: Spark's schema of the result.
        key_outputs: places in ``keys`` of the leading output columns.
        output_mode: ``append`` or ``update``.
        event_time: the watermark's column, if there is one.
        projection: how output rows are made of keys and results; None: keys and results are the output.
    """

    aggregates_by_key = True

    def __init__(
        self,
        *,
        uid: str,
        keys: tuple[GroupKey, ...],
        group_columns: GroupColumns,
        key_types: tuple[pa.DataType, ...],
        partials: Partials,
        output_schema: StructType,
        key_outputs: tuple[int, ...],
        output_mode: Literal["append", "update"],
        event_time: str | None,
        projection: Projection | None = None,
    ) -> None:
        self.uid = uid
        # A count of all rows, if the job has one, tells how many rows came; but rows in several windows count once.
        counts = (name for name, sql in partials.columns.items() if sql == COUNT_ROWS and not group_columns.sliding)
        self.rows_column = next(counts, ROWS_COLUMN)
        self.keys = keys
        self.partials = partials
        self.output_schema = output_schema
        self.projection = projection
        #: What :meth:`run` writes.
        self.output_arrow_schema = arrow_schema(output_schema if projection is None else projection.row_schema)
        self.key_outputs = key_outputs
        self.output_mode = output_mode
        self.event_time = event_time
        self._group_columns: GroupColumns | None = group_columns
        #: The windows' definitions, if they are known: state of windows of another length is not this job's.
        self._windows = [
            str(column)
            for key, column in zip(keys, group_columns.keys, strict=False)
            if key.kind != "plain" and key.is_call
        ]
        stored = [(key, data_type) for key, data_type in zip(keys, key_types, strict=True) if key.kind != "session"]
        self.key_columns = tuple(key.column for key, _ in stored)
        self.key_schema = pa.schema([pa.field(key.column, data_type) for key, data_type in stored])
        self.session = next((key for key in keys if key.kind == "session"), None)
        self.sort_columns = (SESSION_START_COLUMN,) if self.session else ()
        self.state_values = "sessions" if self.session else "record"
        #: The key column that the watermark is compared with.
        self.time_key = next((key for key in keys if key.event_time and key.kind != "session"), None)
        self.uses_event_time = any(key.event_time for key in keys)
        time_type = next((t for key, t in zip(keys, key_types, strict=True) if key.kind == "session"), None)
        self.time_type = None if time_type is None else time_type.field("start").type
        self.registry = StateRegistry()
        self.slot = self.registry.declare(STATE_NAME, "value", self._state_schema()).slot

    @property
    def timed(self) -> bool:
        """True if keys wait in the timer index: for the watermark, or (append without event time) for the end."""
        return self.uses_event_time or self.output_mode == "append"

    def with_output_mode(self, output_mode: Literal["append", "update"]) -> AggregateOperator:
        """The same stage with another output mode; planning it again would take a dozen analyses."""
        other = object.__new__(AggregateOperator)
        other.__dict__.update(self.__dict__, output_mode=output_mode)
        return other

    @property
    def key_labels(self) -> tuple[str, ...]:
        """Spark's names of the key columns."""
        return tuple(key.name for key in self.keys if key.kind != "session")

    def _state_schema(self) -> pa.Schema:
        """The buffers by their SQL."""
        fields = [
            pa.field(f"{place}: {sql}", data_type, nullable=False)
            for place, (sql, data_type) in enumerate(zip(self.partials.labels, self.partials.types, strict=True))
        ]
        if self.time_type is not None:
            fields = [pa.field(name, self.time_type, nullable=False) for name in ("start", "end")] + fields
        return pa.schema(fields)

    @property
    def output_identities(self) -> tuple[tuple[str, str], ...]:
        """A key is its name, which is the same for the life of the job; the others are what they compute."""
        keys = [(f"key {self.keys[place].name}", "") for place in self.key_outputs]
        columns = [(output_identity(output, self.partials), output.text) for output in self.partials.outputs]
        return (*keys, *columns)

    @property
    def state_record(self) -> list[dict[str, Any]]:
        """Which output columns the state is for."""
        return record_of(self.partials)

    def evolve(
        self, stored: StateRegistry, record: Any, described: Mapping[str, Any], *, going_on: bool = True
    ) -> tuple[list[str], StateRewrite | None]:
        """Take over the state of the aggregates that are still there; see :mod:`.aggregate_evolution`."""
        from .evolution import take_over

        descriptor = stored.get(STATE_NAME)
        names = described.get("aggregates")
        taken = take_over(self.partials, descriptor.schema, 2 if self.session else 0, record, names, going_on=going_on)
        if taken.partials is not self.partials:
            self._adopt(taken.partials, taken.renamed)
        self.registry = stored.with_schema(STATE_NAME, self._state_schema())
        self.slot = descriptor.slot
        return taken.changes, taken.rewrite

    def _adopt(self, partials: Partials, renamed: Sequence[Mapping[int, int]]) -> None:
        """Work on other columns of state; ``renamed``: for each output column its results by what they were."""
        self.partials = partials
        if self.projection is None:
            return
        fields = self.projection.row_schema.fields
        keys, hidden = fields[: len(self.key_outputs)], fields[len(self.key_outputs) :]
        first = {old: field.dataType for old, field in enumerate(hidden)}
        types = {new: first[old] for mapping in renamed for old, new in mapping.items()}
        schema = StructType(
            [*keys, *[StructField(f"a{place}", types[place]) for place in range(len(partials.results))]]
        )
        names: list[Mapping[str, str]] = [{} for _ in keys]
        names += [{f"a{old}": f"a{new}" for old, new in mapping.items() if old != new} for mapping in renamed]
        self.projection = self.projection.over(schema, names)
        self.output_arrow_schema = arrow_schema(schema)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get everything but Spark's column objects."""
        return {**self.__dict__, "_group_columns": None}

    def fingerprint(self) -> str | None:
        """Keys, aggregates and output; the expressions themselves are in the plan of the prepared frame."""
        parts = [self.describe(), self.output_schema.json(), self.registry.to_json(), repr(self.partials.results)]
        if self.projection is not None:
            parts.append([str(column) for column in self.projection.columns])
        return json.dumps(parts, sort_keys=True)

    def describe(self) -> dict[str, Any]:
        """Identity and facts of the stage for explain() and for the check of a checkpoint against the job."""
        described: dict[str, Any] = {
            "operator": "agg",
            "uid": self.uid,
            "key": [
                f"{self.keys[place].name} {self.output_schema.fields[place].dataType.simpleString()}"
                for place in self.key_outputs
            ],
            "aggregates": self.output_schema.names[len(self.key_outputs) :],
            "output mode": self.output_mode,
        }
        if self._windows:
            described["windows"] = self._windows
        return described

    # -- driver --------------------------------------------------------------------------------------------------------

    def prepare(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        """Partial aggregation by Spark: one row per key (and window) with the buffers of its rows."""
        given = self._group_columns
        assert given is not None, "prepare() runs on the driver only"
        names = [f"__k{i}" for i in range(len(self.keys))]
        groups = [column.alias(name) for column, name in zip(given.keys, names, strict=True)]
        counted = [] if self.rows_column in self.partials.columns else [f"{COUNT_ROWS} AS {ROWS_COLUMN}"]
        if given.sliding is not None:
            # Spark expands a row into all its windows here; it counts in the latest of them.
            place, time, slide_us = given.sliding
            frame = frame.withColumn("__time", time).select("*", *groups)
            counted = [f"count_if(__time < {names[place]}.start + {interval(slide_us)}) AS {ROWS_COLUMN}"]
            groups = [F.col(name) for name in names]
        for place, (key, column) in enumerate(zip(self.keys, given.keys, strict=True)):
            if key.kind == "session" and not key.is_call:
                # Spark merges the sessions of a column that is marked as theirs, and of no expression over one.
                frame = frame.withColumn(names[place], column)
                groups[place] = F.col(names[place])
        if self.event_time is not None:
            counted.append(f"max({quoted(self.event_time)}) AS {MAX_TIME_COLUMN}")
        # As SQL: a call of a function on columns is a dozen calls to the JVM.
        partial = frame.groupBy(*groups).agg(*given.partials, *map(F.expr, counted))
        selected: list[str] = []
        for key, name in zip(self.keys, names, strict=True):
            if key.kind == "session":
                selected += [f"{name}.start AS {SESSION_START_COLUMN}", f"{name}.end AS {SESSION_END_COLUMN}"]
            else:
                selected.append(f"{name} AS {quoted(key.column)}")
        return partial.selectExpr(*selected, *partial.columns[len(names) :])

    def late_rows(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame | None:
        """The input rows whose window or session is over."""
        from .late import late_rows

        assert self._group_columns is not None, "late_rows() runs on the driver only"
        return late_rows(self, frame, self._group_columns, epoch.late_watermark_ms)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """Process one shard of one epoch."""
        from .run import KeyedRun
        from .session_run import SessionRun

        run = SessionRun(self, context) if self.session else KeyedRun(self, context)
        run.execute(rows)


def interval(duration_us: int) -> str:
    """SQL of a day-time interval."""
    seconds, micros = divmod(duration_us, 1_000_000)
    return f"make_dt_interval(0, 0, 0, {seconds}.{micros:06d})"
