"""Executes one epoch as one Spark job: prepare, shuffle by shard, sort, run the operator, collect the reports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeVar

from pyarrow import fs
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from ...errors import MisplacedRowsError, MixedModeError
from ...state.lineage import ShardLineage
from ..connectors.output_place import OutputPlace
from ..operators.admission import can_be_late
from ..operators.contract import INPUT_ROWS, EpochSpec, KeyedOperator
from ..operators.emission import emitted_schema
from ..operators.processor.keyed_rows import KEY_GROUP_COLUMN
from ..platform.columns import quoted
from ..platform.spark_observations import observed_metrics
from ..platform.spark_plans import repeatable
from ..platform.worker_errors import translate
from ..protocols.operator_events.task_events import ShardInbox
from ..spec import Settings
from .job_templates import JobTemplates, OwnWay
from .placement import ShardPins
from .publish_task import ArrowFunction, PublishTask, as_mapped, published
from .question_task import QuestionTask
from .report import NO_SHARD, REPORT_SCHEMA, ShardReport
from .shard_task import ShardTask
from .shuffle import (
    SHARD_COLUMN,
    HashExchange,
    InPlace,
    JoinedInShards,
    ShardExchange,
    exchanged_by_shard,
    with_key_group,
    without_shards,
)
from .task_sorter import SortPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

    from ..operators.tail import Tail

logger = logging.getLogger(__name__)

_Way = TypeVar("_Way", bound=HashExchange | InPlace | JoinedInShards | ShardExchange | ShardPins)


@dataclass(frozen=True)
class Executed:
    """What a stage's Spark jobs in an epoch have come to."""

    #: One report per visited shard: those of the attempts whose result Spark took.
    reports: list[ShardReport]
    #: What was observed of rows on their way, by name; of nothing that gave no rows.
    observed: Mapping[str, Row] = field(default_factory=dict)


@dataclass
class EpochExecutor:
    """Runs epochs of one operator.  Between calls it keeps how rows come to their shards, and nothing about the job."""

    spark: SparkSession
    operator: KeyedOperator
    settings: Settings
    job_id: str
    run_id: str
    max_parallelism: int
    state_filesystem: fs.FileSystem
    state_pool: str
    output: OutputPlace
    progress_folder: str
    #: True if the rows go to another stage.
    feeds_a_stage: bool = False
    #: What is done to the rows before they are staged; None: nothing.
    tail: Tail | None = None
    #: Whether something is computed of rows on their way, for progress.
    observes: bool = False

    def __post_init__(self) -> None:
        self._pickled = cloudpickle.dumps(self.operator)
        self._hash_exchange: HashExchange | None = None
        self._in_place: InPlace | None = None
        self._joined: JoinedInShards | None = None
        self._shard_exchange: ShardExchange | None = None
        self._templates = JobTemplates(self.operator, self._publishing)
        #: Styles of epochs whose rows Spark does not leave in place.
        self._moved: set[str] = set()
        self._misplaced = False
        self._pins: ShardPins | None = None
        self._asked_for_pins = False

    def close(self) -> None:
        """Let go of what executors hold for this run."""
        if self._pins is not None:
            self._pins.close()

    def execute(
        self,
        frame: DataFrame | None,
        epoch: EpochSpec,
        lineages: Sequence[ShardLineage],
        *,
        sorter: Literal["spark", "arrow"] = "spark",
        shards: Sequence[int] | None = None,
        finished: Mapping[int, ShardReport] = MappingProxyType({}),
        report_folder: str | None = None,
        inboxes: Mapping[int, ShardInbox] = MappingProxyType({}),
        in_place: bool = False,
        input_rows: int | None = None,
    ) -> Executed:
        """Run an epoch over ``frame``, or over no rows at all (timers only) when it is None.

        Args:
            frame: the epoch's input rows.
            epoch: what the tasks must know.
            lineages: committed state of every shard.
            sorter: who sorts.
            shards: for an epoch without rows, the shards to visit; None: all.
            finished: shards that an earlier run of the same pinned pass has finished; they are not computed again.
            report_folder: where finished attempts leave their reports for a restarted driver.
            inboxes: what goes to shards besides the epoch.
            in_place: the rows are handed on by a stage in whose shards they are in their key groups here, and Spark
                knows of each file which shard's it is.
            input_rows: how many rows there are, if that is known.

        Raises:
            MixedModeError: Spark has brought rows to other partitions than those of their shards.
            Exception: whatever a task has failed with.
        """
        self._ask_for_pins(lineages)
        visited = tuple(range(len(lineages)) if frame is not None or shards is None else shards)
        task = ShardTask(
            job_id=self.job_id,
            run_id=self.run_id,
            epoch=epoch,
            operator=self._pickled,
            lineages=tuple(lineages),
            shards=visited,
            state_filesystem=self.state_filesystem,
            state_pool=self.state_pool,
            output=self.output,
            local_dir=self.settings.state_local_dir,
            cache_bytes=self.settings.state_cache_bytes,
            progress_folder=self.progress_folder if epoch.style == "sorted" else None,
            finished=tuple((shard, report.to_bytes()) for shard, report in finished.items()),
            report_folder=report_folder,
            inboxes=tuple(inboxes.items()),
            sort=self._sort_plan(epoch) if frame is not None and sorter == "arrow" else None,
            hands_on=self._hands_on,
            feeds_a_stage=self.feeds_a_stage,
        )
        reports: list[ShardReport] = []
        observed: dict[str, Row] = {}
        is_first = frame is not None and self.is_first_pass(epoch, lineages)
        if frame is not None:
            rows = frame
            if is_first:
                with repeatable(rows):
                    reports, input_rows = self._first_pass(rows, visited, task, input_rows, observed)
            else:
                reports = self._completed(visited, task, lambda task: self._run(rows, task, in_place, observed))
        if not reports:
            # No rows were given, or Spark found out that there are none and ran no task at all.  One row per visited
            # shard, so that partition i exists; the rows themselves are not input.
            places, partitions = self.places(visited, lineages)
            reports = self._completed(
                visited,
                replace(task, shards=partitions),
                lambda task: self._collected(self._mapped(places, task, _without_rows(task)), observed),
            )
        reports = sorted(reports, key=lambda report: report.shard)
        if [report.shard for report in reports] != sorted(visited):
            raise MixedModeError(
                f"epoch {epoch.epoch} expected one report from each of the shards {sorted(visited)}, "
                f"got {[report.shard for report in reports]}: Spark changed the partitioning of the shuffle"
            )
        return Executed(_with_input_rows(reports, input_rows or 0) if is_first else reports, observed)

    @property
    def _hands_on(self) -> StructType | None:
        """Columns of the rows that the tasks hand on; None: they stage them themselves."""
        if self.operator.projection is not None:
            schema = self.operator.projection.row_schema
            return emitted_schema(schema) if self.feeds_a_stage else schema
        return None if self.tail is None else self.tail.row_schema

    def _completed(
        self, visited: Sequence[int], task: ShardTask, run: Callable[[ShardTask], list[Row]]
    ) -> list[ShardReport]:
        """The reports of a task's shards.

        If Spark finds that nothing gets through what follows the stage (a filter that is never true, a join with an
        empty table), it does not ask the stage for its rows.  They are input all the same, so such shards run again by
        themselves, and their output is dropped.
        """
        reports = _decoded(run(task))
        found = {report.shard for report in reports}
        if self.tail is None or found.issuperset(visited):
            return reports
        logger.info("nothing gets through behind the keyed stage in shards %s", sorted(set(visited) - found))
        finished = (*task.finished, *[(report.shard, report.to_bytes()) for report in reports])
        alone = replace(task, hands_on=None, output=replace(task.output, folder=None), finished=finished)
        return [report if report.shard in found else replace(report, dropped_rows=0) for report in _decoded(run(alone))]

    def places(self, shards: Sequence[int], lineages: Sequence[ShardLineage]) -> tuple[DataFrame, tuple[int, ...]]:
        """Rows for a task over some shards that reads none, to be run where the shards' replicas are.

        Returns:
            The rows, and for each of their partitions its shard, or ``NO_SHARD``.
        """
        self._ask_for_pins(lineages)
        if self._pins is None:
            return self.spark.range(0, len(shards), 1, len(shards)), tuple(shards)
        partitions = tuple(shard if shard in shards else NO_SHARD for shard in range(len(lineages)))
        return self._pins.of(shards), partitions

    def _ask_for_pins(self, lineages: Sequence[ShardLineage]) -> None:
        """Pin the shards once they have state, if there is a choice of places."""
        if not self._asked_for_pins and any(lineage.files for lineage in lineages):
            self._asked_for_pins = True
            self._pins = ShardPins(self.spark, len(lineages)) if ShardPins.are_useful(self.spark) else None

    def _collected(self, job: DataFrame, observed: dict[str, Row]) -> list[Row]:
        """The rows of a job; what it has observed is added to ``observed``: the last job to run is the whole one."""
        rows = job.collect()
        if self.observes:
            observed.update(observed_metrics(job))
        return rows

    def _run(self, frame: DataFrame, task: ShardTask, in_place: bool, observed: dict[str, Row]) -> list[Row]:
        """Bring the rows to their shards and run the task on them, with one exchange at most if Spark allows it."""
        parallelism, without = len(task.lineages), {shard for shard, _ in task.finished}
        own_session = self._has_own_session(task)
        if self._pins is not None and task.epoch.style == "random" and own_session:
            job = self._planned(lambda pins: (self._beside_pins(pins, frame, task), task), self._pins)
            if job is not None:
                return self._collected(job, observed)
        way: HashExchange | InPlace | None = None
        if own_session and in_place and task.epoch.style not in self._moved:
            way = self._in_place = self._in_place or InPlace(self.spark, parallelism)
        # Shards that are not wanted can be left out before the exchange only if the exchange is by shard.
        elif own_session and not without and HashExchange.is_possible(self.operator, self.max_parallelism, parallelism):
            way = self._hash_exchange = self._hash_exchange or HashExchange(self.spark, self.operator, parallelism)
        if way is not None and not self._misplaced:
            placed = replace(task, shards=way.shards)
            job = self._planned_once(way, frame, placed, lambda rows: self._adopted(rows, placed))
            if job is not None:
                try:
                    return self._collected(job, observed)
                except Exception as error:
                    if not isinstance(translate(error), MisplacedRowsError):
                        raise
                    self._note_misplaced(error)
            elif way is self._in_place:
                logger.info("Spark moves the rows of stage %s to their shards", self.operator.uid)
                self._moved.add(task.epoch.style)
                return self._run(frame, task, False, observed)

        def exchanged(rows: DataFrame) -> DataFrame:
            rows = self._prepared(rows, task.epoch)
            rows = exchanged_by_shard(rows, self.max_parallelism, parallelism, without=without)
            return self._in_order(rows, task)

        # What is planned once is for all shards.
        can_share = own_session and not without and task.epoch.style == "random"
        if can_share and self.operator.prepares_by(task.epoch) is not None:
            self._shard_exchange = self._shard_exchange or ShardExchange(self.spark)
            job = self._planned_once(self._shard_exchange, frame, task, exchanged)
            if job is not None:
                return self._collected(job, observed)
        return self._collected(self._job(exchanged(frame), task), observed)

    def is_first_pass(self, epoch: EpochSpec, lineages: Sequence[ShardLineage]) -> bool:
        """Whether Spark alone does most of an epoch: there is no state, and no row can be late."""
        if not self.operator.has_first_pass or epoch.style != "sorted" or can_be_late(epoch.late_watermark_ms):
            return False
        return not any(lineage.files for lineage in lineages)

    def _first_pass(
        self,
        frame: DataFrame,
        visited: Sequence[int],
        task: ShardTask,
        input_rows: int | None,
        observed: dict[str, Row],
    ) -> tuple[list[ShardReport], int]:
        """An epoch that :meth:`is_first_pass`; the tasks do not see all of its input, so it is counted here."""

        def run(task: ShardTask) -> list[Row]:
            for job in self._first_pass_jobs(frame, task, counts=input_rows is None):
                try:
                    rows = job.collect()
                except Exception as error:
                    if not isinstance(translate(error), MisplacedRowsError):
                        raise
                    self._note_misplaced(error)
                else:
                    observed.update(observed_metrics(job))
                    return rows
            raise AssertionError("the last way moves each row to its shard")

        reports = self._completed(visited, task, run)
        if input_rows is not None:
            return reports, input_rows
        counted = [row[0] for name, row in observed.items() if name.startswith(INPUT_ROWS)]
        # Spark leaves a side out, and its metric, if it sees from the plan that it has no partners.
        return reports, sum(counted) if len(counted) == 2 else frame.count()

    def _first_pass_jobs(self, frame: DataFrame, task: ShardTask, *, counts: bool) -> Iterator[DataFrame]:
        """The job of a first pass, and if that fails one that does not leave it to Spark where rows are."""
        parallelism, without = len(task.lineages), {shard for shard, _ in task.finished}

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
                rows = rows.union(self._in_order(way.spread(keyed(wanted(made.rows))), placed))
            return rows, placed

        if self._has_own_session(task) and JoinedInShards.is_possible(self.operator, self.max_parallelism, parallelism):
            self._joined = self._joined or JoinedInShards(self.spark, self.operator, parallelism)
            job = None if self._misplaced else self._planned(joined, self._joined)
            if job is not None:
                yield job
            else:
                logger.info("Spark moves what it has joined for stage %s to its shards", self.operator.uid)
        made = self.operator.first_pass(frame, task.epoch, wanted, counted=counts)
        rows = made.output if made.rows is None else made.output.union(made.rows)
        rows = exchanged_by_shard(keyed(rows), self.max_parallelism, parallelism, without=without)
        yield self._job(self._in_order(rows, task), task)

    def _has_own_session(self, task: ShardTask) -> bool:
        """Whether a job can be planned in a session of ours: Python code may need what was added to the user's."""
        return task.hands_on is None or self.tail is None or not self.tail.runs_python

    def _note_misplaced(self, error: BaseException) -> None:
        logger.warning("rows are moved to their shards in an exchange of their own from now on: %s", error)
        self._misplaced = True

    def _planned_once(
        self, way: OwnWay, frame: DataFrame, task: ShardTask, make: Callable[[DataFrame], DataFrame]
    ) -> DataFrame | None:
        """As :meth:`_planned`, and of the stream's epochs by a plan that is made once for all that look alike.

        Args:
            way: how rows come to their shards.
            frame: the input.
            task: works on the rows of each shard.
            make: prepares an input that the way has adopted, and brings it to its shards.
        """

        def job(rows: DataFrame) -> tuple[DataFrame, ShardTask]:
            rows, ready = as_mapped(make(rows), task)
            return self._mapped(rows, ready, ready), ready

        def anew() -> DataFrame | None:
            return self._planned(lambda way: (make(way.adopt(frame)), task), way)

        # What follows the stage may have exchanges of its own, below a join; where a template has a tail, it has none.
        return self._templates.job(way, frame, task, job, anew, checks=self.tail is None)

    def _planned(self, make: Callable[[_Way], tuple[DataFrame, ShardTask]], way: _Way) -> DataFrame | None:
        """A job in a session of our own, if that works and its plan is as expected."""
        try:
            rows, task = make(way)
            job = self._job(rows, task)
            # What follows the stage may have exchanges of its own, below a join.
            alone = job if self.tail is None else self._job(rows, replace(task, hands_on=None))
            return job if way.holds(alone) else None
        except AnalysisException as error:
            # The job's keys or aggregates name functions or variables of the user's session; there they are known.
            logger.info("rows are moved to their shards in the user's session: %s", error)
            return None

    def _beside_pins(self, pins: ShardPins, frame: DataFrame, task: ShardTask) -> DataFrame:
        rows = self._prepared(pins.adopt(frame), task.epoch)
        rows = exchanged_by_shard(rows, self.max_parallelism, len(task.lineages), keep_shard=True)
        return self._in_order(pins.beside(rows, SHARD_COLUMN), task)

    def _adopted(self, frame: DataFrame, task: ShardTask) -> DataFrame:
        return self._in_order(self._prepared(frame, task.epoch), task)

    def _prepared(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        return with_key_group(self.operator.prepare(frame, epoch), self.operator, self.max_parallelism)

    def _in_order(self, rows: DataFrame, task: ShardTask) -> DataFrame:
        """Rows of shards sorted by Spark, unless the task does it."""
        if task.sort is not None:
            return rows
        columns = (KEY_GROUP_COLUMN, *self.operator.key_columns, *self.operator.order_in(task.epoch))
        return rows.sortWithinPartitions(*[F.col(quoted(name)) for name in columns])

    def _job(self, rows: DataFrame, task: ShardTask) -> DataFrame:
        asked = self.operator.asks_about(rows)
        if asked is not None:
            rows = self.operator.answered(rows.mapInArrow(QuestionTask(task), asked))
            task = replace(task, sort=None)
        rows, task = as_mapped(rows, task)
        return self._mapped(rows, task, task)

    def _mapped(self, rows: DataFrame, task: ShardTask, function: ArrowFunction) -> DataFrame:
        """The reports of ``function``, which runs the task."""
        if task.hands_on is None:
            return rows.mapInArrow(function, REPORT_SCHEMA)
        handed_on = rows.mapInArrow(function, task.hands_on)
        return published(handed_on, self.operator.projection, self.tail, self._publishing(task))

    def _publishing(self, task: ShardTask) -> PublishTask:
        """What stages the rows that a task hands on."""
        schema = self.operator.output_schema if self.tail is None else self.tail.schema
        return PublishTask(task, emitted_schema(schema) if self.feeds_a_stage else schema)

    def _sort_plan(self, epoch: EpochSpec) -> SortPlan:
        return SortPlan(
            key=(KEY_GROUP_COLUMN, *self.operator.key_columns),
            then=self.operator.order_in(epoch),
            memory_bytes=self.settings.sorter_memory_bytes,
            spill_dir=self.settings.sorter_spill_dir,
        )


def _decoded(rows: Sequence[Row]) -> list[ShardReport]:
    return [ShardReport.from_bytes(bytes(row[0])) for row in rows]


def _with_input_rows(reports: list[ShardReport], input_rows: int) -> list[ShardReport]:
    """Reports of a pass whose input is counted as a whole: the first one has the number."""
    counts = [input_rows, *(0 for _ in reports[1:])]
    return [
        replace(report, counters=replace(report.counters, rows_in=count))
        for report, count in zip(reports, counts, strict=True)
    ]


def _without_rows(task: ShardTask):  # type: ignore[no-untyped-def]
    def run(batches):  # type: ignore[no-untyped-def]
        for _ in batches:
            pass
        yield from task(iter(()))

    return run
