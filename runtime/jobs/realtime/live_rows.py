"""The rows of a stage in Real-Time Mode: from the messages of a topic to the tasks of its shards.

Spark does what a row by itself tells: the user's projections, and the shard.  What micro-batches have Spark do with all
rows of an epoch (partial aggregates, the order of keys) the tasks do with what has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...catalyst.columns import quoted
from ...operators.aggregate.operator import AggregateOperator
from ...operators.arrival_order import ARRIVAL_UNKNOWN_COLUMN
from ...operators.contract import EpochSpec, KeyedOperator
from ...operators.dedup.operator import DedupOperator
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...operators.processor.definition import ProcessorStage
from ...scan.parquet_scan import NotTakenError
from ...spark_io.message_positions import (
    KEPT_COLUMN,
    OFFSET_COLUMN,
    PARTITION_COLUMN,
    TIME_COLUMN,
    refusal,
    with_positions,
)
from ...tasks.realtime.portion_rows import PortionRows
from ...tasks.shard.task_sorter import SortPlan
from ..few_partials import FewPartials
from ..shuffle import exchanged_by_shard, key_group

#: Options of the source that the user may have left open: the broker is asked 200 times a second for each partition,
#: and not once for each row.
_SOURCE_OPTIONS = {"kafka.fetch.max.wait.ms": "5", "kafka.fetch.min.bytes": "100000"}
_ROW, _IS_FIRST, _KEY = "__row", "__is_first", "__g"
#: Of a row's number in its task, without the number of the task.
_NUMBER = "monotonically_increasing_id() & 8589934591L"


class NotLiveRows(Exception):
    """Rows of a stage cannot come in Real-Time Mode; the text says why."""


@dataclass(frozen=True)
class LiveRows:
    """What the tasks of a stage get, and what they do with it."""

    #: Without positions and markers.
    frame: DataFrame
    #: The same with positions.
    positioned: DataFrame
    portions: PortionRows
    #: The columns of ``positioned`` whose hash is the key group.
    keys: tuple[str, ...]
    #: Whether tasks get the key group of each row, which they otherwise compute.
    has_key_group: bool = False

    @classmethod
    def of(
        cls,
        operator: KeyedOperator,
        frame: DataFrame,
        epoch: EpochSpec,
        max_parallelism: int,
        sort: SortPlan,
        session: Callable[[], SparkSession],
    ) -> LiveRows:
        """The rows of an operator.

        Args:
            operator: the stage's.
            frame: its input, a stream.
            epoch: a live epoch.
            max_parallelism: number of key groups.
            sort: how a task sorts rows of the operator.
            session: for questions about plans.

        Raises:
            NotLiveRows: they cannot come so.
        """
        why = operator_refusal(operator) or refusal(frame)
        if why is not None:
            raise NotLiveRows(why)
        if isinstance(operator, ProcessorStage):
            return cls._of_processor(operator, frame, epoch, max_parallelism, sort)
        if isinstance(operator, DedupOperator):
            return cls._of_deduplication(operator, frame, max_parallelism, epoch, sort)
        if isinstance(operator, AggregateOperator):
            return cls._of_aggregate(operator, frame, epoch, max_parallelism, sort, session)
        raise NotLiveRows(f"a stage of kind {operator.kind} cannot be run in Real-Time Mode")

    @classmethod
    def _of_processor(
        cls, operator: ProcessorStage, frame: DataFrame, epoch: EpochSpec, max_parallelism: int, sort: SortPlan
    ) -> LiveRows:
        # The task numbers rows as they arrive.
        prepared = operator.prepare(frame.selectExpr("*", f"true AS {ARRIVAL_UNKNOWN_COLUMN}"), epoch)
        portions = PortionRows(sort, max_parallelism, tuple(prepared.columns))
        keys = operator.key_group_columns
        return cls(prepared, with_positions(prepared, _SOURCE_OPTIONS), portions, keys, has_key_group=True)

    @classmethod
    def _of_deduplication(
        cls, operator: DedupOperator, frame: DataFrame, max_parallelism: int, epoch: EpochSpec, sort: SortPlan
    ) -> LiveRows:
        few = operator.portion_rows(frame.columns, epoch, max_parallelism)
        if few is None:
            raise NotLiveRows("what decides which rows are duplicates is of a type that only Spark compares")
        selected = frame.select(*map(quoted, few.input_columns or ()))
        portions = PortionRows(sort, max_parallelism, tuple(selected.columns))
        names = dict(zip(operator.key_columns, operator.keys, strict=True))
        keys = tuple(names[column] for column in operator.key_group_columns)
        return cls(selected, with_positions(selected, _SOURCE_OPTIONS), portions, keys)

    @classmethod
    def _of_aggregate(
        cls,
        operator: AggregateOperator,
        frame: DataFrame,
        epoch: EpochSpec,
        max_parallelism: int,
        sort: SortPlan,
        session: Callable[[], SparkSession],
    ) -> LiveRows:
        try:
            frame, few = FewPartials(operator, max_parallelism).of_computed(frame, epoch, session)
        except (NotTakenError, AnalysisException) as error:
            why = str(error).partition("\n")[0]
            raise NotLiveRows(f"its aggregates are of a kind that only Spark computes: {why}") from error
        assert operator.group_columns is not None, "the driver has them"
        names = [f"{_KEY}{place}" for place in range(len(operator.group_columns.keys))]
        aliased = [column.alias(name) for column, name in zip(operator.group_columns.keys, names, strict=True)]
        keyed = with_positions(frame.select(*map(quoted, few.names), *aliased), _SOURCE_OPTIONS)
        known = dict(zip(operator.key_columns, names, strict=True))
        keys = tuple(known[column] for column in operator.key_group_columns)
        return cls(frame, keyed, PortionRows(sort, max_parallelism, few.names, few), keys)

    def in_shards(self, parallelism: int) -> DataFrame:
        """The rows by shard, with their positions, and between them markers, which are null in every column.

        Spark hands a row to Python when the next one of its task comes, or when a batch of Arrow's is full.  A batch is
        two rows: the marker of the row before, and the row, behind which its own marker has the batch go.  The first
        row of a task brings a marker ahead of it, too.

        Args:
            parallelism: number of shards.
        """
        portions = self.portions
        group = key_group(self.keys, portions.max_parallelism)
        names = [*portions.names, PARTITION_COLUMN, OFFSET_COLUMN, TIME_COLUMN]
        if KEPT_COLUMN in self.positioned.columns:
            # Rows that are dropped are counted by any shard, and their keys may all be null.
            names.append(KEPT_COLUMN)
            group = f"IF({KEPT_COLUMN}, {group}, CAST({OFFSET_COLUMN} % {portions.max_parallelism} AS INT))"
        rows = self.positioned.selectExpr(f"{group} AS {KEY_GROUP_COLUMN}", *map(quoted, names))
        rows = exchanged_by_shard(rows, portions.max_parallelism, parallelism)
        handed_over = [KEY_GROUP_COLUMN, *names] if self.has_key_group else names
        row = f"struct({', '.join(map(quoted, handed_over))})"
        numbered = rows.selectExpr(f"{row} AS {_ROW}", f"({_NUMBER}) = 0 AS {_IS_FIRST}")
        marked = f"IF({_IS_FIRST}, array(NULL, {_ROW}, NULL), array({_ROW}, NULL))"
        return numbered.select(F.expr(f"explode({marked})").alias(_ROW)).select(f"{_ROW}.*")


def operator_refusal(operator: KeyedOperator) -> str | None:
    """Why an operator cannot be run in Real-Time Mode, whatever its rows; None: there is nothing in the way."""
    if isinstance(operator, ProcessorStage):
        return _processor_refusal(operator)
    if isinstance(operator, AggregateOperator):
        return _aggregate_refusal(operator)
    if not isinstance(operator, DedupOperator):
        return f"a stage of kind {operator.kind} cannot be run in Real-Time Mode"
    if operator.uses_event_time:
        return "its duplicates are forgotten by the watermark, which moves at the end of an epoch only"
    return None


def _processor_refusal(operator: ProcessorStage) -> str | None:
    hooks = operator.hooks
    if operator.uses_processing_time:
        return "its processor has processing-time timers, and an epoch has one processing time"
    if operator.initial is not None:
        return "its processor has initial state"
    if operator.takes_events or operator.has_coordinator or hooks.keeps_own_state or hooks.restores_own_state:
        return "its processor talks to a coordinator, or keeps state of its own for a shard"
    return None


def _aggregate_refusal(operator: AggregateOperator) -> str | None:
    if operator.output_mode != "update":
        return f"its aggregates have output mode {operator.output_mode}: use update"
    if not operator.keys:
        return "its aggregates are of all rows together, which no shard has: group them by a column"
    if operator.session is not None or operator.time_key is not None or operator.grouping is not None:
        return "its aggregates are of windows, sessions or grouping sets"
    return None
