"""The Spark jobs of one stage: its rows prepared, in order within their shards, and through the task to its reports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...errors import WideSumError
from ..catalyst.prepared.micro_batch import partitions_of
from ..catalyst.small_inputs import is_small
from ..catalyst.spark_plans import executed_text
from ..catalyst.types.arrow_functions import mapped_in_arrow
from ..operators.contract import KeyedOperator
from ..operators.emission_watermark import emitted_schema
from ..tasks.report import REPORT_SCHEMA, PreparationRefusal
from ..tasks.shard.condition_task import ConditionTask
from ..tasks.shard.publish_task import ArrowFunction, PublishTask, as_mapped, projected, published
from ..tasks.shard.shard_routing import ShardRouting
from ..tasks.shard.shard_task import ShardTask
from ..tasks.shard.shards_in_one import InOneTask
from .prepared_jobs import ExecutedJob, PreparedJobs
from .rows_as_they_are import key_sample
from .shard_placement import ShardPlacement
from .shard_rows import ShardRows
from .shuffle import (
    SHORT_TEXT_BYTES,
    HashExchange,
    InPlace,
    JoinedInShards,
    ShardExchange,
    exchanged_by_shard,
    with_key_group,
    without_shards,
)
from .small_files import SmallFiles

if TYPE_CHECKING:
    from ..operators.output_transform import OutputTransform

logger = logging.getLogger(__name__)

_Routing = TypeVar("_Routing", bound=ShardRouting)


@dataclass
class StageJobs:
    """Plans the jobs of a stage's epochs, and remembers how rows have come to their shards.

    Args:
        spark: the session.
        operator: the stage's.
        max_parallelism: number of key groups.
        feeds_a_stage: whether the rows go to another stage.
        output_transform: what is done to the rows before they are staged; None: nothing.
    """

    spark: SparkSession
    operator: KeyedOperator
    max_parallelism: int
    feeds_a_stage: bool
    output_transform: OutputTransform | None

    def __post_init__(self) -> None:
        self.shard_rows = ShardRows.of(self.operator, self.max_parallelism)
        self._small_files = SmallFiles(self.operator.uid)
        #: By the style of epochs, and whether texts of keys are short.
        self._hash_exchanges: dict[tuple[str, bool], HashExchange] = {}
        self._in_place: InPlace | None = None
        self._in_one: InOneTask | None = None
        self._joined: JoinedInShards | None = None
        self._shard_exchange: ShardExchange | None = None
        self._templates = PreparedJobs(self.operator, self.publishing)
        #: Styles of epochs whose rows Spark does not leave in place.
        self._moved: set[str] = set()
        #: Spark has brought rows to other partitions than its plan said.
        self._misplaced = False
        #: A sum of decimals needs more than 64 bits.
        self._has_wide_sums = False
        #: Rows of the last epoch of the stream; None: not known.
        self._rows: int | None = None

    @property
    def row_schema(self) -> StructType:
        """Columns of the rows that the tasks write, as another stage is handed them."""
        projection = self.operator.projection
        return emitted_schema(self.operator.output_schema if projection is None else projection.row_schema)

    @property
    def hands_on(self) -> StructType | None:
        """Columns of the rows that the tasks hand on; None: they stage them themselves."""
        if self.operator.projection is not None:
            schema = self.operator.projection.row_schema
            return emitted_schema(schema) if self.feeds_a_stage else schema
        return None if self.output_transform is None else self.output_transform.row_schema

    def of_epoch(
        self, frame: DataFrame, task: ShardTask, placement: ShardPlacement | None, *, in_place: bool
    ) -> Iterator[DataFrame | ExecutedJob]:
        """The job that brings an epoch's rows to their shards and runs the task on them.

        Args:
            frame: the rows.
            task: works on the rows of each shard.
            placement: where the shards' local copies are; None: anywhere.
            in_place: the rows are in their shards already, if Spark leaves them there.

        Yields:
            Jobs with one exchange at most, if Spark allows it; the next one is for when Spark has not done what its
            plan said.
        """
        parallelism, without = len(task.states.manifests), task.sorted_pass.done
        own_session = task.hands_on is None or self.has_own_session
        if placement is not None and task.epoch.style == "random" and own_session:
            job = self._planned_once(
                placement, frame, task, lambda rows: self.shard_rows.beside_placement(placement, rows, task)
            )
            if job is not None:
                yield job
        if own_session and not without and not in_place and placement is None and self._fits_one_task(frame, task):
            one = self._in_one = self._in_one or InOneTask(self.spark)
            whole = self.shard_rows.one_task(
                frame, task, lambda: self._rows is not None or is_small(frame), lambda: one.session
            )
            for rows, its in self._small_files.ways(frame, whole):
                once = self._planned_once(one, rows, its, partial(self.shard_rows.in_one_task, task=its))
                if once is not None:
                    yield once
        way: HashExchange | InPlace | None = None
        if own_session and in_place and task.epoch.style not in self._moved:
            way = self._in_place = self._in_place or InPlace(self.spark, parallelism)
        # Shards that are not wanted can be left out before the exchange only if the exchange is by shard.
        elif (
            own_session
            and not without
            and HashExchange.is_possible(
                self.operator, self.max_parallelism, parallelism, many_rows=task.epoch.style == "sorted"
            )
        ):
            way = self._hash_exchange(task.epoch.style, parallelism)
        if way is not None and not self._misplaced:
            is_possible = yield from self._in_partitions(way, frame, replace(task, shards=way.shards))
            if not is_possible and way is self._in_place:
                logger.info("Spark moves the rows of stage %s to their shards", self.operator.uid)
                self._moved.add(task.epoch.style)
                yield from self.of_epoch(frame, task, None, in_place=False)
                return

        def exchanged(rows: DataFrame) -> DataFrame:
            return self.shard_rows.in_shards(rows, task, by_hash=False)

        # What is planned once is for all shards.
        can_share = own_session and not without and task.epoch.style == "random"
        if can_share and self.operator.prepares_by(task.epoch) is not None:
            self._shard_exchange = self._shard_exchange or ShardExchange(self.spark)
            once = self._planned_once(self._shard_exchange, frame, task, exchanged)
            if once is not None:
                yield once
        yield self._job(exchanged(frame), task)

    def _in_partitions(
        self, way: ShardRouting, frame: DataFrame, task: ShardTask
    ) -> Generator[DataFrame | ExecutedJob, None, bool]:
        """The jobs that leave rows in the partitions that Spark puts them in; returns whether there are any."""
        sample = None
        if isinstance(way, HashExchange) and task.epoch.style == "sorted":
            sample = key_sample(self.operator, frame)
            if sample is not None and 0 < sample.longest_text <= SHORT_TEXT_BYTES:
                way = self._hash_exchange("sorted", len(task.states.manifests), short_texts=True)
        as_unscaled = way is not self._in_place and not self._has_wide_sums
        for its in self.shard_rows.forms_of(task, as_unscaled=as_unscaled):
            if sample is not None and sample.hardly_repeat(self.operator):
                make = partial(
                    self.shard_rows.aggregated_once, frame=frame, task=its, mostly_unique=sample.mostly_unique
                )
                job = self._planned(make, way)
                # Spark 4.1 has two aggregations all the same, one above the other.
                if job is not None and "partial_" not in executed_text(job):
                    yield job
            if self._misplaced:
                break  # so are rows of other forms
            if its.unscaled is not None and self._has_wide_sums:
                continue
            once = self._planned_once(way, frame, its, partial(self.shard_rows.in_shards, task=its, by_hash=True))
            if once is None:
                return False
            yield once
        return True

    def of_first_pass(self, frame: DataFrame, task: ShardTask, *, counts: bool) -> Iterator[DataFrame]:
        """The job of a pass in which Spark alone does most (``KeyedOperator.first_pass``).

        Args:
            frame: the rows.
            task: works on what Spark makes of them for each shard.
            counts: whether Spark is to count them on the way.

        Yields:
            As :meth:`of_epoch`.
        """
        parallelism, without = len(task.states.manifests), task.sorted_pass.done

        def keyed(rows: DataFrame) -> DataFrame:
            return with_key_group(rows, self.operator, self.max_parallelism)

        def wanted(rows: DataFrame) -> DataFrame:
            return without_shards(rows, self.operator, self.max_parallelism, parallelism, without)

        def joined(way: JoinedInShards) -> tuple[DataFrame, ShardTask]:
            made = self.operator.first_pass(
                way.adopt(frame), task.epoch, lambda rows: way.spread(wanted(rows)), counted=counts
            )
            rows, placed = keyed(made.output), replace(task, shards=way.shards, sort=None)
            if made.rows is not None:
                rows = rows.union(self.shard_rows.in_order(way.spread(keyed(wanted(made.rows))), placed))
            return rows, placed

        own_session = task.hands_on is None or self.has_own_session
        if own_session and JoinedInShards.is_possible(self.operator, self.max_parallelism, parallelism):
            self._joined = self._joined or JoinedInShards(self.spark, self.operator, parallelism)
            job = None if self._misplaced else self._planned(joined, self._joined)
            if job is not None:
                yield job
            else:
                logger.info("Spark moves what it has joined for stage %s to its shards", self.operator.uid)
        made = self.operator.first_pass(frame, task.epoch, wanted, counted=counts)
        rows = made.output if made.rows is None else made.output.union(made.rows)
        rows = exchanged_by_shard(keyed(rows), self.max_parallelism, parallelism, without=without)
        yield self._job(self.shard_rows.in_order(rows, task), task)

    def handed_on(self, rows: DataFrame, task: ShardTask) -> tuple[DataFrame, ShardTask]:
        """The output of a task that hands its rows on within the job, and the task; ``rows`` are in their shards."""
        rows, task = as_mapped(rows, task)
        assert task.hands_on is not None
        return projected(mapped_in_arrow(rows, task, task.hands_on), self.operator.projection, marked=True), task

    def reported(self, rows: DataFrame, task: ShardTask) -> tuple[DataFrame, ShardTask]:
        """The reports of a task, and the task; ``rows`` are in their shards."""
        rows, task = as_mapped(rows, task)
        return _mapped(self, rows, task, task), task

    def of_shards(self, places: DataFrame, task: ShardTask) -> DataFrame:
        """The job over no rows; ``places`` has a partition for each shard."""
        return _mapped(self, places, task, without_rows(task))

    @property
    def has_own_session(self) -> bool:
        """Whether a job can be planned in a session of ours: Python code may need what was added to the user's."""
        return self.output_transform is None or not self.output_transform.runs_python

    def _fits_one_task(self, frame: DataFrame, task: ShardTask) -> bool:
        """Whether all shards of an epoch are to be one task's work."""
        # What is handed on, to another stage or to operations of Spark's, is in its shard's partition.
        if self._misplaced or self.feeds_a_stage or task.hands_on is not None:
            return False
        if not InOneTask.is_possible(self.operator, len(task.states.manifests)):
            return False
        if task.epoch.style == "sorted":
            return task.runs is None and is_small(frame)
        return self.has_few(frame)

    def has_few(self, frame: DataFrame) -> bool:
        """Whether an epoch of the stream has rows in one partition, and no more than one task should work on."""
        return not self._misplaced and InOneTask.is_of_use(self._rows) and partitions_of(frame) == 1

    def note_rows(self, rows: int) -> None:
        """An epoch of the stream has had so many."""
        self._rows = rows

    def _hash_exchange(self, style: str, parallelism: int, *, short_texts: bool = False) -> HashExchange:
        if (style, short_texts) not in self._hash_exchanges:
            self._hash_exchanges[style, short_texts] = HashExchange(
                self.spark, self.operator, parallelism, many_rows=style == "sorted", short_texts=short_texts
            )
        return self._hash_exchanges[style, short_texts]

    def note_not_prepared(self, refusal: PreparationRefusal) -> None:
        """A task has left the few rows of an epoch to Spark; ``refusal``: why."""
        if refusal.reads:
            self._small_files.give_up(refusal.why)
        else:
            self.shard_rows.note_not_prepared(refusal)

    def note_unusable(self, error: BaseException) -> None:
        """From now on rows are moved to their shards by what decides the shard, or sums are wide; ``error``: why."""
        if isinstance(error, WideSumError):
            logger.warning("from now on Spark adds the decimals of stage %s as such: %s", self.operator.uid, error)
            self._has_wide_sums = True
            return
        logger.warning("from now on rows are moved to their shards by a shuffle of their own: %s", error)
        self._misplaced = True

    def _planned_once(
        self, way: ShardRouting, frame: DataFrame, task: ShardTask, make: Callable[[DataFrame], DataFrame]
    ) -> DataFrame | ExecutedJob | None:
        """As :meth:`_planned`, and of the stream's epochs by a plan that is made once for all that look alike.

        Args:
            way: how rows come to their shards.
            frame: the input.
            task: works on the rows of each shard.
            make: prepares an input that the way has adopted, and brings it to its shards.
        """

        def job(rows: DataFrame) -> tuple[DataFrame, tuple[ShardTask]]:
            found, made = self.reported(make(rows), task)
            return found, (made,)

        def anew() -> DataFrame | None:
            return self._planned(lambda way: (make(way.adopt(frame)), task), way)

        # What follows the stage may have exchanges of its own, below a join; where a template has a tail, it has none.
        return self._templates.job(way, frame, task, job, anew, checks=self.output_transform is None)

    def _planned(self, make: Callable[[_Routing], tuple[DataFrame, ShardTask]], way: _Routing) -> DataFrame | None:
        """A job in a session of our own, if that works and its plan is as expected."""
        try:
            rows, task = make(way)
            job = self._job(rows, task)
            # What follows the stage may have exchanges of its own, below a join.
            alone = job if self.output_transform is None else self._job(rows, replace(task, hands_on=None))
            return job if way.holds(alone) else None
        except AnalysisException as error:
            # The job's keys or aggregates name functions or variables of the user's session; there they are known.
            logger.info("rows are moved to their shards in the user's session: %s", error)
            return None

    def _job(self, rows: DataFrame, task: ShardTask) -> DataFrame:
        questions = self.operator.questions
        asked = None if questions is None else questions.columns(rows)
        if questions is not None and asked is not None:
            rows = questions.answered(mapped_in_arrow(rows, ConditionTask(task), asked))
            task = replace(task, sort=None)
        rows, task = as_mapped(rows, task)
        return _mapped(self, rows, task, task)

    def publishing(self, task: ShardTask) -> PublishTask:
        """What stages the rows that a task hands on."""
        schema = self.operator.output_schema if self.output_transform is None else self.output_transform.schema
        # It stages rows: it runs no operator and reads no state, and events are of one epoch.
        task = replace(task, operator=b"", states=task.states.emptied(), inboxes=())
        return PublishTask(task, emitted_schema(schema) if self.feeds_a_stage else schema)


def _mapped(jobs: StageJobs, rows: DataFrame, task: ShardTask, function: ArrowFunction) -> DataFrame:
    """The reports of ``function``, which runs the task."""
    if task.hands_on is None:
        return mapped_in_arrow(rows, function, REPORT_SCHEMA)
    handed_on = mapped_in_arrow(rows, function, task.hands_on)
    return published(handed_on, jobs.operator.projection, jobs.output_transform, jobs.publishing(task))


def without_rows(task: ArrowFunction):  # type: ignore[no-untyped-def]
    """A task that gets no rows, but its partition."""

    def run(batches):  # type: ignore[no-untyped-def]
        for _ in batches:
            pass
        yield from task(iter(()))

    return run
