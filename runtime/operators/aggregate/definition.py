"""Describes an aggregation as data: its keys, its partial aggregates and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.types import DataType, StructType

from ....state.keys.key_hash import is_hashable
from ....state.keys.registry import StateRegistry
from ...catalyst.types.arrow_types import arrow_schema
from ...catalyst.types.value_sizes import are_of_one_size, have_lists
from ...scan.partial_scans import Overlap
from ..columnar.unscaled_sums import UnscaledSum, UnscaledSums
from ..contract import KeyedOperator
from ..projection import Projection
from .buffers import Buffer, DecimalSumBuffer
from .columns import GROUPING_ID_COLUMN, ROWS_COLUMN, SESSION_START_COLUMN
from .grouping import GroupingSets
from .results import Result

#: The number of rows, as the planner writes it for ``count(*)``.
COUNT_ROWS = "count(1)"
#: Partial aggregates that keep one of their arguments' values begin so.
_CHOOSING = tuple(f"{name}(" for name in ("max", "min", "first", "last", "any_value", "max_by", "min_by"))
#: Name of the one state variable.
STATE_NAME = "aggregate"

AggregateMode = Literal["append", "update", "complete"]
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


#: What tells groups of different grouping sets apart; the last of the keys, and none of the user's.
GROUPING_ID = GroupKey("grouping_id()", GROUPING_ID_COLUMN, "plain", event_time=False, is_call=False)


@dataclass(frozen=True)
class SlidingWindow:
    """A window that overlaps with its neighbours."""

    #: Which key it is.
    place: int
    #: What it is made of.
    time: Column
    slide_us: int
    length_us: int
    #: Windows one after the other, as long as the distance between those that overlap, which are whole numbers of
    #: them; None: they are not.
    pane: Column | None


@dataclass(frozen=True)
class GroupColumns:
    """The grouping expressions and partial aggregates as Spark columns, which cannot leave the driver."""

    keys: tuple[Column, ...]
    #: None: no windows overlap.
    sliding: SlidingWindow | None = None
    #: The partial aggregates under their names.
    partials: tuple[Column, ...] = ()
    #: The same for rows in any order, of which :data:`~..arrival_order.ARRIVAL_COLUMNS` say where they belong;
    #: empty: no aggregate depends on their order.
    ordered: tuple[Column, ...] = ()
    #: By the places of partial aggregates that are sums of decimals, the same as sums of whole numbers.
    unscaled: Mapping[int, Column] = field(default_factory=dict)
    #: Types as they cross into Python, of columns whose structs have several fields of one name; keys are ``__k0``…
    own_types: Mapping[str, DataType] = field(default_factory=dict)
    #: The output as users know it, if its structs are such; None: as the operator gives it.
    known: StructType | None = None


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


def interval(duration_us: int) -> str:
    """SQL of a day-time interval."""
    seconds, micros = divmod(duration_us, 1_000_000)
    return f"make_dt_interval(0, 0, 0, {seconds}.{micros:06d})"


@dataclass(frozen=True)
class OutputColumn:
    """An output column behind the keys."""

    name: str
    #: What it computes, as Spark writes it.
    text: str
    #: What it makes of its aggregates; empty: it is its one aggregate.
    expression: str
    #: Places of its aggregates among the results.
    results: tuple[int, ...]


@dataclass(frozen=True)
class GroupBy:
    """What rows are grouped by."""

    #: The grouping expressions, in the user's order; behind them the grouping id, if there are grouping sets.
    keys: tuple[GroupKey, ...]
    #: Arrow type of each.
    types: tuple[pa.DataType, ...]
    #: The same as Spark columns.
    columns: GroupColumns
    #: The grouping sets; None: one, of all keys.
    sets: GroupingSets | None = None


class Aggregation(KeyedOperator):
    """The keyed stage of an aggregation, without what it does.

    Args:
        uid: id under which the state is stored.
        by: what rows are grouped by.
        partials: what is computed.
        output_schema: Spark's schema of the result, which begins with the keys.
        output_mode: ``append``, ``update`` or ``complete``.
        event_time: the watermark's column, if there is one.
        projection: how output rows are made of keys and results; None: keys and results are the output.
        follows_a_stage: no column of the input says in which order rows have arrived.
    """

    kind = "agg"
    aggregates_by_key = True

    def __init__(
        self,
        *,
        uid: str,
        by: GroupBy,
        partials: Partials,
        output_schema: StructType,
        output_mode: AggregateMode,
        event_time: str | None,
        projection: Projection | None = None,
        follows_a_stage: bool = False,
    ) -> None:
        self.uid = uid
        keys, group_columns, grouping = by.keys, by.columns, by.sets
        # A count of all rows, if the job has one, tells how many rows came; but rows in several groups count once.
        is_once = group_columns.sliding is None and grouping is None
        counts = (name for name, sql in partials.columns.items() if sql == COUNT_ROWS and is_once)
        self.rows_column = next(counts, ROWS_COLUMN)
        self.keys = keys
        self.partials = partials
        self.output_schema = output_schema
        self.projection = projection
        #: What the operator writes.
        self.output_arrow_schema = arrow_schema(output_schema if projection is None else projection.row_schema)
        #: The leading columns of the output.
        self.output_keys = keys if grouping is None else keys[:-1]
        #: Those of what the operator writes: a projection may read the grouping id.
        self.row_keys = self.output_keys if projection is None else keys
        self.grouping = grouping
        self.output_mode = output_mode
        self.event_time = event_time
        self.group_columns: GroupColumns | None = group_columns
        self.keeps_arrival = bool(group_columns.ordered) and not follows_a_stage
        #: The windows' definitions, if they are known: state of windows of another length is not this job's.
        self.windows = [
            str(column)
            for key, column in zip(keys, group_columns.keys, strict=False)
            if key.kind != "plain" and key.is_call
        ]
        stored = [(key, data_type) for key, data_type in zip(keys, by.types, strict=True) if key.kind != "session"]
        self.key_columns = tuple(key.column for key, _ in stored)
        self.key_schema = pa.schema([pa.field(key.column, data_type) for key, data_type in stored])
        self.session = next((key for key in keys if key.kind == "session"), None)
        self.sort_columns = (SESSION_START_COLUMN,) if self.session else ()
        self.state_values = "sessions" if self.session else "record"
        #: The key column that the watermark is compared with.
        self.time_key = next((key for key in keys if key.event_time and key.kind != "session"), None)
        #: Groups of these sets are of no window or event time, so only the end of all input completes them.
        self.timeless_ids = (
            () if grouping is None or self.time_key is None else grouping.ids_without(keys.index(self.time_key))
        )
        self.uses_event_time = any(key.event_time for key in keys)
        time_type = next((t for key, t in zip(keys, by.types, strict=True) if key.kind == "session"), None)
        self.time_type = None if time_type is None else time_type.field("start").type
        self.registry = StateRegistry()
        self.slot = self.registry.declare(STATE_NAME, "value", self.state_schema()).slot

    @property
    def timed(self) -> bool:
        """True if keys wait in the timer index: for the watermark, or (append without event time) for the end."""
        return self.output_mode == "append" or (self.uses_event_time and self.output_mode == "update")

    @property
    def scans_files(self) -> bool:  # type: ignore[override]
        """True if rows are in one group each, which is a key, or in windows that are made of such groups."""
        is_plain = self.grouping is None and self.session is None and bool(self.keys)
        if not is_plain or self.group_columns is None:
            return False
        return self.group_columns.sliding is None or self.group_columns.sliding.pane is not None

    @property
    def can_aggregate_once(self) -> bool:
        """True if rows that are shuffled by the hash of their keys are aggregated there: no row is in several groups.

        Zeros with and without a sign are one key and have two hashes; and where rows are put in order, Spark does more.
        """
        given = self.group_columns
        is_plain = self.grouping is None and self.session is None and bool(self.keys)
        if not is_plain or given is None or given.sliding is not None or given.ordered:
            return False
        return all(is_hashable(field.type) for field in self.key_schema)

    @property
    def kept_types(self) -> tuple[pa.DataType, ...]:
        """The types of the partial aggregates."""
        return self.partials.types

    @property
    def sorts_rows(self) -> bool:
        """True if Spark sorts rows to aggregate them: what it keeps of a group is not of one size."""
        return not are_of_one_size(self.kept_types)

    @property
    def kept_texts(self) -> tuple[str, ...]:
        """The SQL of the partial aggregates with texts, if each keeps one of those that it meets; else empty."""
        labelled = zip(self.partials.labels, self.kept_types, strict=True)
        found = tuple(dict.fromkeys(sql for sql, data_type in labelled if not are_of_one_size([data_type])))
        choose = all(sql.startswith(_CHOOSING) for sql in found)
        return found if choose and not have_lists(self.kept_types) else ()

    @property
    def flat_windows(self) -> tuple[int, ...]:
        """Places of keys that are windows of Spark's own making, which are never null; none with grouping sets."""
        if self.grouping is not None:
            return ()
        return tuple(place for place, key in enumerate(self.keys) if key.kind == "window" and key.is_call)

    @property
    def unscaled_sums(self) -> UnscaledSums | None:
        """The sums of decimals that Spark can compute as whole numbers; None: there are none."""
        given, partials = self.group_columns, self.partials
        if given is None or not given.unscaled or given.ordered:
            return None
        columns = {f"__b{place}" for place in given.unscaled}
        sums = [buffer.columns for buffer in partials.buffers if isinstance(buffer, DecimalSumBuffer)]
        named = [(partials.places[total], partials.places[count], partials.types[total]) for total, count in sums]
        texts = self.column_texts
        known = tuple(UnscaledSum(*one, texts.get(one[0], "")) for one in dict.fromkeys(named) if one[0] in columns)
        # A sum whose aggregate is gone is not looked at, and has to stay a decimal for those that are.
        return UnscaledSums(known) if {one.column for one in known} == columns else None

    @property
    def window_overlaps(self) -> dict[str, Overlap]:
        """By key column the windows that a scan makes of panes."""
        sliding = None if self.group_columns is None else self.group_columns.sliding
        if sliding is None or sliding.pane is None:
            return {}
        return {self.keys[sliding.place].column: Overlap(sliding.slide_us, sliding.length_us, ROWS_COLUMN)}

    @property
    def column_texts(self) -> dict[str, str]:  # type: ignore[override]
        """By prepared column the aggregate that it is for, as the user wrote it."""
        places = self.partials.places
        return {places[at]: one.text for one in self.partials.results for at in one.columns if one.text}

    @property
    def gives_whole_result(self) -> bool:  # type: ignore[override]
        """True in outputMode complete, which drops and evicts nothing."""
        return self.output_mode == "complete"

    @property
    def begins_without_rows(self) -> bool:  # type: ignore[override]
        """True without keys, where a count is 0 as soon as Spark has run a micro-batch."""
        return not self.keys and self.output_mode != "append"

    @property
    def key_labels(self) -> tuple[str, ...]:
        """Spark's names of the key columns."""
        return tuple(key.name for key in self.keys if key.kind != "session")

    @property
    def output_key_columns(self) -> tuple[str, ...]:
        """Output begins with the keys; of grouping sets one looks like another without the grouping id."""
        if self.grouping is not None:
            return ()
        named = zip(self.keys, self.output_schema.names, strict=False)
        return tuple(name for key, name in named if key.kind != "session")

    def state_schema(self) -> pa.Schema:
        """The record of a key: the buffers by their SQL."""
        fields = [
            pa.field(f"{place}: {sql}", data_type, nullable=False)
            for place, (sql, data_type) in enumerate(zip(self.partials.labels, self.partials.types, strict=True))
        ]
        if self.time_type is not None:
            fields = [pa.field(name, self.time_type, nullable=False) for name in ("start", "end")] + fields
        return pa.schema(fields)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get everything but Spark's column objects."""
        return {**self.__dict__, "group_columns": None}
