"""Prepares an operator's rows and brings them to their shards, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..catalyst.columns import quoted
from ..operators.aggregate.operator import AggregateOperator
from ..operators.aggregated_once import AggregatedOnce
from ..operators.arrival_order import arrival_columns
from ..operators.columnar.few_rows import FewRows, hashed_columns
from ..operators.contract import EpochSpec, KeyedOperator
from ..operators.dedup.operator import DedupOperator
from ..operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ..tasks.report import PreparationRefusal
from ..tasks.shard.shard_routing import ShardRouting
from ..tasks.shard.shard_task import ShardTask
from .few_partials import FewPartials
from .shard_placement import ShardPlacement
from .shuffle import SHARD_COLUMN, exchanged_by_shard, with_key_group


@dataclass(frozen=True)
class ShardRows:
    """Arranges the rows of one stage.

    Args:
        operator: the stage's.
        max_parallelism: number of key groups.
        few_partials: finds out what few rows are aggregated by; None: the stage does not aggregate.
    """

    operator: KeyedOperator
    max_parallelism: int
    few_partials: FewPartials | None = None

    @classmethod
    def of(cls, operator: KeyedOperator, max_parallelism: int) -> ShardRows:
        """Arranges the rows of a stage; the arguments are those of the class."""
        few = FewPartials(operator, max_parallelism) if isinstance(operator, AggregateOperator) else None
        return cls(operator, max_parallelism, few)

    def in_shards(self, rows: DataFrame, task: ShardTask, *, by_hash: bool) -> DataFrame:
        """Rows in their shards, in order.

        Args:
            rows: the input.
            task: works on them.
            by_hash: they stay where Spark's aggregation by key puts them (:class:`.shuffle.HashExchange`).
        """
        rows = self._prepared(rows, task)
        if not by_hash:
            shards, done = len(task.states.manifests), task.sorted_pass.done
            rows = exchanged_by_shard(rows, self.max_parallelism, shards, without=done)
        return self.in_order(rows, task)

    def forms_of(self, task: ShardTask, *, as_unscaled: bool) -> Iterator[ShardTask]:
        """The task as it takes sums of decimals as whole numbers, for passes over many rows, and as it is.

        Args:
            task: works on the rows of each shard.
            as_unscaled: sums may be whole numbers.
        """
        unscaled = self.operator.unscaled_sums if isinstance(self.operator, AggregateOperator) else None
        if as_unscaled and unscaled is not None and task.epoch.style == "sorted":
            yield replace(task, unscaled=unscaled)
        yield task

    def aggregated_once(
        self, way: ShardRouting, *, frame: DataFrame, task: ShardTask, mostly_unique: bool
    ) -> tuple[DataFrame, ShardTask]:
        """As :meth:`in_shards` by hash, of rows that are shuffled as they are and aggregated there.

        Args:
            way: has a session in which a shuffle has a partition for each shard.
            frame: the input.
            task: works on them.
            mostly_unique: most rows have a key of their own; tasks of a deduplication then sort them, if they can.
        """
        assert isinstance(self.operator, AggregatedOnce), "no other stage aggregates"
        rows = way.adopt(frame)
        if mostly_unique and isinstance(self.operator, DedupOperator):
            unaggregated = self.operator.prepare_unaggregated(rows, task.epoch)
            if unaggregated is not None:
                prepared, order = unaggregated
                prepared = with_key_group(prepared, self.operator, self.max_parallelism)
                if task.sort is None:
                    return self._sorted(prepared, order), task
                return prepared, replace(task, sort=replace(task.sort, then=order))
        prepared = self.operator.prepare_rows(rows, task.epoch, as_unscaled=task.unscaled is not None)
        return self.in_order(with_key_group(prepared, self.operator, self.max_parallelism), task), task

    def in_one_task(self, rows: DataFrame, task: ShardTask) -> DataFrame:
        """Rows of all shards in one partition, in order.

        Args:
            rows: the input, of a session without adaptive execution.
            task: works on them.
        """
        if task.few_rows is not None:
            asked = task.few_rows.input_columns
            if asked is None:
                return self.operator.prepare(rows.coalesce(1), task.epoch)
            return rows if list(asked) == rows.columns else rows.select(*map(quoted, asked))
        rows = rows.coalesce(1)
        few = None
        if task.sort is None and task.epoch.style == "random":
            few = self.operator.prepare_few(rows, task.epoch)
        if few is None:
            return self.in_shards(rows, task, by_hash=True)
        prepared, order = few
        return self._sorted(with_key_group(prepared, self.operator, self.max_parallelism), order)

    def one_task(
        self, rows: DataFrame, task: ShardTask, are_few: Callable[[], bool], session: Callable[[], SparkSession]
    ) -> ShardTask:
        """The task that works on all shards, and prepares and sorts their rows itself if it can.

        Args:
            rows: the input.
            task: works on the rows of each shard.
            are_few: whether the rows are known to be so few that they may come as they are, or those of the epoch
                before were; asked if it matters.
            session: gives the session that the job is planned in.
        """
        whole = replace(task, in_one=True)
        if task.sort is None or task.epoch.style != "random":
            return whole
        few = self.few_in_task(rows, task.epoch, are_few, session)
        return whole if few is None else replace(whole, few_rows=few, sort=replace(task.sort, then=few.order))

    def few_in_task(
        self, rows: DataFrame, epoch: EpochSpec, are_few: Callable[[], bool], session: Callable[[], SparkSession]
    ) -> FewRows | None:
        """What prepares the rows of a small epoch of the stream in their one task; None: Spark does.

        Args:
            rows: the input.
            epoch: what the task must know.
            are_few: see :meth:`one_task`.
            session: see :meth:`one_task`.
        """
        operator = self.operator
        few: FewRows | None = None
        if isinstance(operator, DedupOperator) and are_few():
            few = operator.few_rows(rows.columns, epoch, self.max_parallelism)
        elif self.few_partials is not None and are_few():
            few = self.few_partials.of(rows, epoch, session)
        if few is not None:
            return few
        hashed = hashed_columns(operator.key_columns, operator.key_schema, operator.key_group_places)
        return None if hashed is None else FewRows(hashed, self.max_parallelism, operator.order_in(epoch))

    def note_not_prepared(self, refusal: PreparationRefusal) -> None:
        """A task has left the few rows of an epoch to Spark; ``refusal``: why."""
        if refusal.lasts and self.few_partials is not None:
            self.few_partials.give_up(refusal.why)

    def beside_placement(self, placement: ShardPlacement, rows: DataFrame, task: ShardTask) -> DataFrame:
        """As :meth:`in_shards`, where the shards' local copies are.

        Args:
            placement: say where that is.
            rows: the input, of a session without adaptive execution.
            task: works on them.
        """
        rows = self._prepared(rows, task)
        rows = exchanged_by_shard(rows, self.max_parallelism, len(task.states.manifests), keep_shard=True)
        return self.in_order(placement.beside(rows, SHARD_COLUMN), task)

    def in_order(self, rows: DataFrame, task: ShardTask) -> DataFrame:
        """Rows of shards sorted by Spark, unless the task does it."""
        if task.sort is not None:
            return rows
        return self._sorted(rows, self.operator.order_in(task.epoch))

    def _prepared(self, frame: DataFrame, task: ShardTask) -> DataFrame:
        if task.unscaled is None:
            prepared = self.operator.prepare(frame, task.epoch)
        else:
            assert isinstance(self.operator, AggregateOperator), "no other stage has sums"
            prepared = self.operator.prepare(frame, task.epoch, as_unscaled=True)
        return with_key_group(prepared, self.operator, self.max_parallelism)

    def _sorted(self, rows: DataFrame, order: tuple[str, ...]) -> DataFrame:
        columns = (KEY_GROUP_COLUMN, *self.operator.key_columns, *order)
        arrival = arrival_columns(rows.columns) if self.operator.keeps_arrival else ()
        rows = rows.sortWithinPartitions(*[F.col(quoted(name)) for name in (*columns, *arrival)])
        return rows.drop(*arrival) if arrival else rows
