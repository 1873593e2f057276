"""Declarative aggregates over keyed state: ``groupBy(...).agg(...)``.

Spark's own engine aggregates each epoch's rows first (:meth:`AggregateOperator.prepare`), so that one row per key, or
per key and window, crosses into Python.  There a shard's rows meet the state of earlier epochs a batch at a time:
encode the keys, read the cells of all of them at once, merge column by column, emit what is due, write what changed.
Nothing is done per row or key in Python that Arrow or numpy can do for the whole batch.

When results come out:

``append``  once, when the watermark passes the end of the window (or the event time that is a key); keys without event
            time when input ends.  Their state goes with them.
``update``  for every key that the epoch touched.  State of windows that the watermark has passed goes silently.
``complete`` for every key, when somebody asks between two epochs (``EpochSpec.whole_result``).  Nothing is late, and no
            state goes.

Both styles work through the keys in stored order, which gives the same results; in ``random`` style the rows of an
append are put into time order before they leave.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ....state.keys.registry import StateRegistry
from ...catalyst.columns import quoted
from ...catalyst.spark_expressions import as_column, items, parsed
from ...catalyst.struct_fields import recast
from ...catalyst.types.arrow_types import arrow_schema
from ...catalyst.window_columns import group_columns, group_names, window_sql
from ..aggregated_once import AggregatedOnce
from ..arrival_order import ARRIVAL_COLUMNS, arrival_columns, with_arrival
from ..contract import EpochSpec, EvolvedOperator, OutputsUnsorted, ShardContext
from .columns import GROUPING_ID_COLUMN, MAX_TIME_COLUMN, ROWS_COLUMN, SESSION_END_COLUMN, SESSION_START_COLUMN
from .definition import COUNT_ROWS, STATE_NAME, AggregateMode, Aggregation, GroupColumns, Partials, interval
from .evolution import take_over
from .grouping import GroupingSets
from .identity import output_identity, output_record
from .late_rows import late_rows
from .run import KeyedRun
from .session_run import SessionRun


class AggregateOperator(Aggregation, OutputsUnsorted, AggregatedOnce):
    """A keyed stage that aggregates; made by ``planner.stages.aggregates``."""

    def with_output_mode(self, output_mode: AggregateMode, uid: str) -> AggregateOperator:
        """The same stage with another output mode and id; planning it again would take a dozen analyses."""
        return self._with(output_mode=output_mode, uid=uid)

    @property
    def output_identities(self) -> tuple[tuple[str, str], ...]:
        """A key is its name, which is the same for the life of the job; the others are what they compute."""
        keys = [(f"key {key.name}", "") for key in self.output_keys]
        columns = [(output_identity(output, self.partials), output.text) for output in self.partials.outputs]
        return (*keys, *columns)

    @property
    def state_record(self) -> list[dict[str, Any]]:
        """Which output columns the state is for."""
        return output_record(self.partials)

    def evolved(
        self, stored: StateRegistry, record: Any, described: Mapping[str, Any], *, going_on: bool = True
    ) -> EvolvedOperator:
        """Take over the state of the aggregates that are still there; see :mod:`.evolution`."""
        descriptor = stored.get(STATE_NAME)
        names = described.get("aggregates")
        taken = take_over(self.partials, descriptor.schema, 2 if self.session else 0, record, names, going_on=going_on)
        other = self._with()
        if taken.partials is not self.partials:
            other._adopt(taken.partials, taken.renamed)
        other.registry = stored.with_schema(STATE_NAME, other.state_schema())
        other.slot = descriptor.slot
        return EvolvedOperator(other, tuple(taken.changes), taken.rewrite)

    def _adopt(self, partials: Partials, renamed: Sequence[Mapping[int, int]]) -> None:
        """Work on other columns of state; ``renamed``: for each output column its results by what they were."""
        self.partials = partials
        if self.projection is None:
            return
        fields = self.projection.row_schema.fields
        keys, hidden = fields[: len(self.row_keys)], fields[len(self.row_keys) :]
        first = {old: field.dataType for old, field in enumerate(hidden)}
        types = {new: first[old] for mapping in renamed for old, new in mapping.items()}
        schema = StructType(
            [*keys, *[StructField(f"a{place}", types[place]) for place in range(len(partials.results))]]
        )
        names: list[Mapping[str, str]] = [{} for _ in self.output_keys]
        names += [{f"a{old}": f"a{new}" for old, new in mapping.items() if old != new} for mapping in renamed]
        self.projection = self.projection.over(schema, names)
        self.output_arrow_schema = arrow_schema(schema)

    def fingerprint(self) -> str | None:
        """Keys, aggregates and output; the expressions themselves are in the plan of the prepared frame."""
        parts = [self.describe(), self.output_schema.json(), self.registry.to_json(), repr(self.partials.results)]
        if self.projection is not None:
            parts.append([str(column) for column in self.projection.columns])
        return json.dumps(parts, sort_keys=True)

    def describe(self) -> dict[str, Any]:
        """Identity and facts of the stage for explain() and for the check of a checkpoint against the job."""
        described: dict[str, Any] = {
            "operator": self.kind,
            "uid": self.uid,
            "key": [
                f"{key.name} {field.dataType.simpleString()}"
                for key, field in zip(self.output_keys, self.output_schema.fields, strict=False)
            ],
            "aggregates": self.output_schema.names[len(self.output_keys) :],
            "output mode": self.output_mode,
        }
        if self.windows:
            described["windows"] = self.windows
        if self.grouping is not None:
            described["grouping sets"] = self.grouping.described([key.name for key in self.keys])
        return described

    # -- driver --------------------------------------------------------------------------------------------------------

    def prepare(self, frame: DataFrame, epoch: EpochSpec, *, as_unscaled: bool = False) -> DataFrame:
        """Partial aggregation by Spark: one row per key (and window) with the buffers of its rows.

        Args:
            frame: the input.
            epoch: what the tasks must know.
            as_unscaled: the :attr:`unscaled_sums` are whole numbers.
        """
        assert self.group_columns is not None, "prepare() runs on the driver only"
        # Without an epoch only what is computed is asked for, as in _in_order.
        flat = self.flat_windows if epoch is not None and epoch.style == "sorted" else ()
        return self._prepared(_as_unscaled(self.group_columns, as_unscaled), frame, epoch, flat)

    def prepare_scan(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        """The same for tasks that scan files, who make windows that overlap of panes."""
        given = self.group_columns
        assert given is not None, "prepare_scan() runs on the driver only"
        if given.sliding is None or given.sliding.pane is None:
            return self._prepared(given, frame, epoch)
        keys = list(given.keys)
        keys[given.sliding.place] = given.sliding.pane
        return self._prepared(replace(given, keys=tuple(keys), sliding=None), frame, epoch)

    def prepare_rows(self, frame: DataFrame, epoch: EpochSpec, *, as_unscaled: bool = False) -> DataFrame:
        """The same of rows that are shuffled by key as they are, and aggregated once, behind the shuffle."""
        given = self.group_columns
        assert given is not None, "prepare_rows() runs on the driver only"
        names = [f"__g{place}" for place in range(len(given.keys))]
        spread = group_columns(given.keys, names, self.flat_windows)
        keyed = frame.select("*", *spread).repartition(*[F.col(name) for name in group_names(names, self.flat_windows)])
        keys = tuple(
            F.expr(window_sql(name) if place in self.flat_windows else name) for place, name in enumerate(names)
        )
        return self._prepared(_as_unscaled(replace(given, keys=keys), as_unscaled), keyed, epoch, self.flat_windows)

    def keys_of(self, frame: DataFrame, *, texts: bool = False) -> DataFrame:
        """The key of each row, and behind it the arguments of the aggregates that keep texts."""
        assert self.group_columns is not None, "keys_of() runs on the driver only"
        columns = [column.alias(f"__g{place}") for place, column in enumerate(self.group_columns.keys)]
        if texts:
            calls = [parsed(frame.sparkSession, sql) for sql in self.kept_texts]
            arguments = [as_column(frame.sparkSession, one) for call in calls for one in items(call.children())]
            columns += [column.alias(f"__t{place}") for place, column in enumerate(arguments)]
        return frame.select(*columns)

    def _prepared(
        self, given: GroupColumns, frame: DataFrame, epoch: EpochSpec, flat: Collection[int] = ()
    ) -> DataFrame:
        """Partial aggregates; ``flat``: the places of windows that are two columns until all is aggregated."""
        frame, partials = self._in_order(given, frame, epoch)
        names = [f"__k{i}" for i in range(len(given.keys))]
        groups = [column.alias(name) for column, name in zip(given.keys, names, strict=True)]
        counted = [] if self.rows_column in self.partials.columns else [f"{COUNT_ROWS} AS {ROWS_COLUMN}"]
        if given.sliding is not None:
            # Spark expands a row into all its windows here; it counts in the latest of them.
            start, slide_us = f"{names[given.sliding.place]}.start", given.sliding.slide_us
            frame = frame.withColumn("__time", given.sliding.time).select("*", *groups)
            is_latest = f"__time < {start} + {interval(slide_us)}"
            if self.key_schema.field(self.keys[given.sliding.place].column).type.field("start").type.tz is not None:
                # As numbers: Spark adds days by the calendar of the time zone, and looks at it for each row.
                is_latest = f"unix_micros(__time) < unix_micros({start}) + {slide_us}L"
            counted = [f"count_if({is_latest}) AS {ROWS_COLUMN}"]
            groups = group_columns([F.col(name) for name in names], names, flat)
        elif flat:
            groups = group_columns(given.keys, names, flat)
        elif self.grouping is not None:
            frame = frame.select("*", *groups)
        for place, (key, column) in enumerate(zip(self.keys, given.keys, strict=False)):
            if key.kind == "session" and not key.is_call:
                # Spark merges the sessions of a column that is marked as theirs, and of no expression over one.
                frame = frame.withColumn(names[place], column)
                groups[place] = F.col(names[place])
        if self.event_time is not None:
            counted.append(f"max({quoted(self.event_time)}) AS {MAX_TIME_COLUMN}")
        # As SQL: a call of a function on columns is a dozen calls to the JVM.
        others: list[str] = []
        if self.grouping is None:
            partial = frame.groupBy(*groups).agg(*partials, *map(F.expr, counted))
        else:
            partial, others = self._of_sets(self.grouping, frame, names, counted, partials)
        if given.own_types:
            fields = partial.schema.fields
            types = [given.own_types.get(field.name, field.dataType) for field in fields]
            partial = recast(partial, list(map(StructField, partial.columns, types)))
        selected: list[str] = []
        for place, (key, name) in enumerate(zip(self.keys, names, strict=False)):
            if key.kind == "session":
                selected += [f"{name}.start AS {SESSION_START_COLUMN}", f"{name}.end AS {SESSION_END_COLUMN}"]
            else:
                selected.append(f"{window_sql(name) if place in flat else name} AS {quoted(key.column)}")
        return partial.selectExpr(*selected, *others, *partial.columns[len(names) + len(flat) + len(others) :])

    def prepares_by(self, epoch: EpochSpec) -> Hashable:
        """Whether the rows have to be put in order."""
        return epoch.style if self.keeps_arrival else ()

    def _in_order(
        self, given: GroupColumns, frame: DataFrame, epoch: EpochSpec | None
    ) -> tuple[DataFrame, tuple[Column, ...]]:
        """The rows of a sorted pass with the columns that order them, and the partial aggregates that look at these.

        A live epoch's rows are aggregated as they come, as in Spark, and so are rows without an epoch, of which only
        the plan is wanted.
        """
        if not given.ordered or epoch is None or epoch.style != "sorted":
            return frame, given.partials
        if self.keeps_arrival:
            frame = with_arrival(frame)
        known = arrival_columns(frame.columns)
        if not known and self.event_time is None:
            return frame, given.partials
        missing = [f"0L AS {name}" for name in ARRIVAL_COLUMNS if name not in known]
        return frame.selectExpr("*", *missing) if missing else frame, given.ordered

    def _of_sets(
        self,
        grouping: GroupingSets,
        frame: DataFrame,
        names: Sequence[str],
        counted: Sequence[str],
        partials: Sequence[Column],
    ) -> tuple[DataFrame, list[str]]:
        """The partial aggregates of all grouping sets.

        Args:
            grouping: the sets.
            frame: has the keys as columns.
            names: those columns.
            counted: SQL of what is counted besides.
            partials: the partial aggregates.

        Returns:
            The groups, with what columns are made of behind their keys.
        """
        sets = [[names[place] for place in places] for places in grouping.sets]
        first = [f"grouping_id() AS {GROUPING_ID_COLUMN}", *counted]
        groups = frame.groupingSets(sets, *names).agg(*map(F.expr, first), *partials)
        # A row is in a group of each set, and counts in one.
        place = None if self.time_key is None else self.keys.index(self.time_key)
        rows = f"IF({GROUPING_ID_COLUMN} = {grouping.counted(place)}, {ROWS_COLUMN}, 0) AS {ROWS_COLUMN}"
        others = [f"CAST({GROUPING_ID_COLUMN} AS bigint) AS {GROUPING_ID_COLUMN}", rows]
        return groups, [*others, *groups.columns[len(names) + 2 : len(names) + len(first)]]

    def late_rows(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame | None:
        """The input rows whose window or session is over."""
        assert self.group_columns is not None, "late_rows() runs on the driver only"
        return late_rows(self, frame, self.group_columns, epoch.late_watermark_ms)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def output_unsorted(
        self, context: ShardContext, rows: Iterator[pa.RecordBatch], done: Callable[[pa.RecordBatch], None]
    ) -> Iterator[pa.RecordBatch]:
        """Windows that are over at the end of a pass that meets no state: neither their order nor their keys matter."""
        if self.session or self.grouping is not None or context.base is not None or context.epoch.style != "sorted":
            return rows
        return KeyedRun(self, context).output_unsorted(rows, done)

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """Process one shard of one epoch."""
        run = SessionRun(self, context) if self.session else KeyedRun(self, context)
        run.execute(rows)


def _as_unscaled(given: GroupColumns, as_unscaled: bool) -> GroupColumns:
    """The same with sums of whole numbers in place of those of decimals, if that is wanted."""
    if not as_unscaled:
        return given
    partials = tuple(given.unscaled.get(place, column) for place, column in enumerate(given.partials))
    return replace(given, partials=partials)
