"""Deduplication over keyed state: the first row of each key goes out, later ones are dropped.

Spark's own engine picks the row of each key in an epoch first (:meth:`DedupOperator.prepare`), so that one row per key
crosses into Python.  There a shard's keys are looked up in the state of earlier epochs, a batch at a time
(:mod:`.run`).  A key costs a mark and, if it is to be forgotten some time, an entry of the timer index; the values of
the rows are not kept.

Which row of a key goes out: in an epoch, and so in the backlog, the one with the least event time, and of those the
first to arrive (:mod:`..arrival_order`, :mod:`.survivor`).  Over several epochs the first one has it, as its row is out
already.  A key with a delay may be forgotten between its own rows; under ``pipeline.timers = in-order`` that is so
within an epoch, too, and then one row per key and event time crosses (:mod:`.clock`).
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from ...catalyst.columns import quoted
from ...protocols.event_time import MIN_WATERMARK
from ..admission import can_be_late, is_late, is_over
from ..aggregated_once import AggregatedOnce
from ..arrival_order import arrival_columns, with_arrival
from ..contract import EpochSpec, ShardContext
from .columns import (
    LATE_COLUMN,
    LATE_END_COLUMN,
    LATE_ROWS_COLUMN,
    MAX_TIME_COLUMN,
    ROW_COLUMN,
    ROWS_COLUMN,
    TIME_COLUMN,
)
from .definition import Deduplication
from .few_rows import FewDedupRows, few_dedup_rows
from .run import DedupRun
from .survivor import survivor

#: Types of keys that are equal if and only if they are encoded alike (strings with a collation are no keys).
_EQUAL_BY_BYTES = (IntegralType, StringType, DateType, TimestampType, TimestampNTZType, BooleanType, DecimalType)
#: Which row stays of several: a changed rule makes other rows of the same backlog.
_LEAST_ROW, _FIRST_ROW = 1, 2


class DedupOperator(Deduplication, AggregatedOnce):
    """``dropDuplicates`` and ``distinct``; made by ``planner.stages.dedup``."""

    takes_late_bound = True
    scans_rows = True

    def fingerprint(self) -> str | None:
        """Keys, columns and retention; what they are made of is in the plan of the input."""
        rule = _FIRST_ROW if self.keeps_arrival else _LEAST_ROW
        parts = [self.describe(), self.output_schema.json(), repr(self.retention), repr(self.lateness), rule]
        return json.dumps(parts, sort_keys=True)

    # -- driver --------------------------------------------------------------------------------------------------------

    def prepare(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        """One row per key (in-order: per key and event time): the one that stays, and how many it stands for."""
        return self._prepared(with_arrival(frame) if self.keeps_arrival else frame, epoch)

    def prepare_rows(self, frame: DataFrame, epoch: EpochSpec, *, as_unscaled: bool = False) -> DataFrame:
        """The same of rows that are shuffled by key as they are."""
        return self._prepared(self._shuffled(frame), epoch)

    def prepare_unaggregated(self, frame: DataFrame, epoch: EpochSpec) -> tuple[DataFrame, tuple[str, ...]] | None:
        """As :meth:`prepare_few`, of rows that are shuffled by key as they are.

        Also where keys may be forgotten between their rows: until a watermark has fired, the second row of an event
        time is not new (:mod:`.clock`).
        """
        in_order = epoch.in_order if self.has_timers else None
        if in_order is None:
            return self.prepare_few(self._shuffled(frame), epoch) if self._takes_few(epoch) else None
        if not (self.keeps_arrival and self._has_plain_keys and in_order.fired_ms == MIN_WATERMARK):
            return None
        return self._each_row(self._shuffled(frame), epoch, by_time=True)

    def _shuffled(self, frame: DataFrame) -> DataFrame:
        """The rows by key, which have been given their order before."""
        rows = with_arrival(frame) if self.keeps_arrival else frame
        return rows.repartition(*[F.col(quoted(name)) for name in self.keys])

    def keys_of(self, frame: DataFrame, *, texts: bool = False) -> DataFrame:
        """The key of each row, and behind it its other texts."""
        columns = [f"{quoted(name)} AS __g{place}" for place, name in enumerate(self.keys)]
        if texts:
            columns += [f"{quoted(name)} AS __t{place}" for place, name in enumerate(self.kept_texts)]
        return frame.selectExpr(*columns)

    def _prepared(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        arrival = arrival_columns(frame.columns) if self.keeps_arrival else ()
        in_time = ""
        counts = [f"count(1) AS {ROWS_COLUMN}"]
        if self.lateness is not None and can_be_late(epoch.late_watermark_ms):
            frame = self._with_lateness(frame, epoch)
            counts.append(f"count_if({LATE_COLUMN}) AS {LATE_ROWS_COLUMN}")
            in_time = f" FILTER (WHERE NOT {LATE_COLUMN})"
        by_time = self.has_timers and epoch.in_order is not None
        order_time = None if self.event_time_key is not None or by_time else self.event_time
        if order_time is not None:
            counts.append(f"max({quoted(order_time)}){in_time} AS {MAX_TIME_COLUMN}")
        fields = {field.name: field for field in self.output_schema.fields}
        payload = [fields[name] for name in self.payload if not (by_time and name == self.event_time)]
        has_choice = bool(payload) or self.time_column == TIME_COLUMN
        stays = survivor(payload, order_time, ROW_COLUMN, arrival) if has_choice else None
        columns = [*self.key_columns, *[count.rpartition(" ")[2] for count in counts]]
        values = {}
        if stays is not None:
            counts.append(f"{stays.aggregate}{in_time} AS {ROW_COLUMN}")
            values = {field.name: column for field, column in zip(payload, stays.columns, strict=True)}
        if by_time:
            assert self.event_time is not None
            values[self.event_time] = TIME_COLUMN
        columns += [f"{values[name]} AS __b{place}" for place, name in enumerate(self.payload)]
        if self.time_column == TIME_COLUMN:
            columns.append(TIME_COLUMN if stays is None or stays.time is None else f"{stays.time} AS {TIME_COLUMN}")
        # As SQL: a call of a function on columns is a dozen calls to the JVM.
        keys = [f"{quoted(name)} AS {column}" for name, column in zip(self.keys, self.key_columns, strict=True)]
        if by_time:
            keys.append(f"{quoted(str(self.event_time))} AS {TIME_COLUMN}")
        return frame.groupBy(*map(F.expr, keys)).agg(*map(F.expr, counts)).selectExpr(*columns)

    def prepare_few(self, frame: DataFrame, epoch: EpochSpec) -> tuple[DataFrame, tuple[str, ...]] | None:
        """Each row by itself: sorted, the one that stays is the first of its key that is not late.

        That takes keys that are equal where their bytes are, and an order of the rows.
        """
        return self._each_row(frame, epoch, by_time=False) if self._takes_few(epoch) else None

    def _each_row(
        self, frame: DataFrame, epoch: EpochSpec, *, by_time: bool
    ) -> tuple[DataFrame, tuple[str, ...]] | None:
        frame = with_arrival(frame)
        arrival = arrival_columns(frame.columns)
        if not arrival:
            return None
        order_time = None if self.event_time_key is not None else self.event_time
        counts = [f"1L AS {ROWS_COLUMN}"]
        if self.lateness is not None and can_be_late(epoch.late_watermark_ms):
            frame = self._with_lateness(frame, epoch)
            counts.append(f"CAST({LATE_COLUMN} AS BIGINT) AS {LATE_ROWS_COLUMN}")
        if order_time is not None and not by_time:
            counts.append(f"{quoted(order_time)} AS {MAX_TIME_COLUMN}")
        keys = [f"{quoted(name)} AS {column}" for name, column in zip(self.keys, self.key_columns, strict=True)]
        values = [f"{quoted(name)} AS __b{place}" for place, name in enumerate(self.payload)]
        if self.time_column == TIME_COLUMN:
            values.append(f"{quoted(str(order_time))} AS {TIME_COLUMN}")
        order = () if order_time is None else (TIME_COLUMN if by_time else MAX_TIME_COLUMN,)
        return frame.selectExpr(*keys, *counts, *values, *arrival), order

    def _takes_few(self, epoch: EpochSpec) -> bool:
        """Whether a sort finds the rows that stay, and they have an order."""
        return self.keeps_arrival and self._is_sorted(epoch)

    def _is_sorted(self, epoch: EpochSpec) -> bool:
        """Whether a sort finds the rows that stay."""
        if (self.has_timers and epoch.in_order is not None) or not self._has_plain_keys:
            return False
        has_order_time = self.event_time_key is None and self.event_time is not None
        return has_order_time or self.time_column != TIME_COLUMN

    @property
    def _has_plain_keys(self) -> bool:
        """Whether keys are equal where their bytes are."""
        types = {field.name: field.dataType for field in self.output_schema.fields}
        return all(isinstance(types[name], _EQUAL_BY_BYTES) for name in self.keys)

    def few_rows(self, names: Sequence[str], epoch: EpochSpec, max_parallelism: int) -> FewDedupRows | None:
        """As :meth:`prepare_few`, without Spark: what prepares the rows in their one task.

        Args:
            names: the columns of the epoch's input.
            epoch: what the task must know.
            max_parallelism: number of key groups.

        Returns:
            None: Spark has to.
        """
        late_ms = epoch.late_watermark_ms if can_be_late(epoch.late_watermark_ms) else None
        return few_dedup_rows(self, names, max_parallelism, late_ms) if self._takes_few(epoch) else None

    def portion_rows(self, names: Sequence[str], epoch: EpochSpec, max_parallelism: int) -> FewDedupRows | None:
        """As :meth:`few_rows`, for rows that come to their shard one by one, in the order in which they arrive."""
        late_ms = epoch.late_watermark_ms if can_be_late(epoch.late_watermark_ms) else None
        return few_dedup_rows(self, names, max_parallelism, late_ms) if self._is_sorted(epoch) else None

    def prepares_by(self, epoch: EpochSpec) -> Hashable:
        """Whether rows can be late, and whether keys are forgotten between their own rows."""
        return can_be_late(epoch.late_watermark_ms), epoch.in_order is not None

    def late_rows(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame | None:
        """The input rows that are behind what has fired."""
        if self.lateness is None:
            return None
        rows = self._with_lateness(frame, epoch)
        return rows.where(LATE_COLUMN).drop(LATE_COLUMN)

    def _with_lateness(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        """The rows with a column that tells which of them are late."""
        assert self.lateness is not None
        late_ms = epoch.late_watermark_ms
        if not self.lateness.is_window:
            late = is_late(frame, self.lateness.column, late_ms)
            return frame.selectExpr("*", f"coalesce({late}, false) AS {LATE_COLUMN}")
        # A row without a window has no event time, and is not late.
        ends = frame.withColumn(LATE_END_COLUMN, F.col(quoted(self.lateness.column))["end"])
        late = f"{is_over(ends, LATE_END_COLUMN, late_ms)} AND {LATE_END_COLUMN} IS NOT NULL"
        return ends.selectExpr("*", f"{late} AS {LATE_COLUMN}").drop(LATE_END_COLUMN)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """Process one shard of one epoch."""
        DedupRun(self, context).execute(rows)


class DedupWithinWatermarkOperator(DedupOperator):
    """``dropDuplicatesWithinWatermark``: as :class:`DedupOperator`, but for how long a key is remembered."""

    kind = "dropDuplicatesWithinWatermark"
