"""Executes one epoch of a stage as one Spark job: prepares, shuffles by shard, sorts, runs the operator."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from pyarrow import fs
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession

from ...errors import MixedModeError
from ...state.keys.keygroups import ShardId, all_shards
from ...state.store.packed_manifests import PackedManifests
from ...state.store.state_manifest import StateManifest
from ..catalyst.columns import quoted
from ..catalyst.spark_observations import observed_metrics
from ..catalyst.spark_plans import repeatable
from ..catalyst.spark_session import WITHOUT_CODE, PrivateSession
from ..connectors.output_place import OutputPlace
from ..operators.admission import can_be_late
from ..operators.contract import INPUT_ROWS, EpochSpec, KeyedOperator, ShardCounters
from ..operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ..spec import Settings
from ..storage.filesystem import delete_quietly
from ..support.failpoints import failpoint
from ..support.ids import JobId, RunId
from ..tasks.report import NO_SHARD, ShardReport
from ..tasks.shard.pass_context import NO_PASS, PassContext
from ..tasks.shard.pass_pause import PassPause
from ..tasks.shard.shard_task import ShardTask
from ..tasks.shard.task_sorter import SortPlan
from ..tasks.shard_states import ShardStates
from .columnar_pass import ColumnarPass
from .output_transform_task import staged_rows
from .report_collector import ReportCollector
from .row_pass import RowPass
from .scan_pass import ScanPlace
from .shard_placement import ShardPlacement
from .stage_epoch import NOT_PINNED, EpochRows, EpochRun, PinnedShards, StageEpoch, StageResult
from .stage_jobs import StageJobs

if TYPE_CHECKING:
    from ..operators.output_transform import OutputTransform

logger = logging.getLogger(__name__)

_ScanPass = TypeVar("_ScanPass", ColumnarPass, RowPass)


@dataclass
class EpochExecutor:
    """Runs epochs of one operator.  Between calls it keeps how rows come to their shards, and nothing about the job."""

    spark: SparkSession
    operator: KeyedOperator
    settings: Settings
    job_id: JobId
    run_id: RunId
    max_parallelism: int
    state_filesystem: fs.FileSystem
    state_pool: str
    output: OutputPlace
    progress_folder: str
    #: True if the rows go to another stage.
    feeds_a_stage: bool = False
    #: What is done to the rows before they are staged; None: nothing.
    output_transform: OutputTransform | None = None
    #: Whether something is computed of rows on their way, for progress.
    observes: bool = False
    #: Where tasks leave what they read in place of Spark for those of the shards; None: Spark reads all.
    scans: ScanPlace | None = None
    #: The driver's pauses, for passes that may be held between shards; None: it makes none.
    pause: PassPause | None = None

    def __post_init__(self) -> None:
        self._pickled = cloudpickle.dumps(self.operator)
        self._few_rows = PrivateSession(self.spark, WITHOUT_CODE)
        self._columnar = None if self.scans is None else self._scan_pass(ColumnarPass, self.scans)
        self._row_pass = None if self.scans is None else self._scan_pass(RowPass, self.scans)
        self._placement: ShardPlacement | None = None
        self._can_place: bool | None = None
        self._asking = threading.Lock()
        self.forget_shards()

    def forget_shards(self) -> None:
        """The shards are others from now on: plan for them, and find places for them, anew."""
        self.close()
        #: Plans them.
        self.jobs = StageJobs(
            self.spark, self.operator, self.max_parallelism, self.feeds_a_stage, self.output_transform
        )
        self._placement = None

    def close(self) -> None:
        """Let go of what executors hold for this run."""
        if self._placement is not None:
            self._placement.close()

    def execute(
        self,
        epoch: StageEpoch,
        rows: EpochRows | None = None,
        *,
        shards: Sequence[ShardId] | None = None,
        pinned: PinnedShards = NOT_PINNED,
        can_pause: bool = False,
    ) -> StageResult:
        """Run an epoch over some rows, or over no rows at all (timers only).

        Args:
            epoch: the epoch.
            rows: its input; None: there is none.
            shards: for an epoch without rows, the shards to visit; None: all.
            pinned: what an earlier run has left of it, and a later one may find.
            can_pause: whether it may be held between shards.

        Raises:
            MixedModeError: Spark has brought rows to other partitions than those of their shards.
            Exception: whatever a task has failed with.
        """
        if rows is not None and self.operator.is_stateless:
            return self._staged_as_they_are(rows.frame, epoch.spec)
        visited = all_shards(len(epoch.manifests)) if rows is not None or shards is None else tuple(shards)
        run = self._begun(epoch, rows, visited, pinned)
        run.pause = self.pause if can_pause else None
        scans = [] if rows is None or rows.in_place else self._scanned(run, rows, pinned.finished)
        reports = [] if run.rows is None else self._over_rows(run, run.rows)
        if not reports:  # no rows were given, or Spark found out that there are none and ran no task at all
            reports = self._over_places(run)
        for scan in scans:
            scan.discard()
        reports = sorted(reports, key=lambda report: report.shard)
        if [report.shard for report in reports] != sorted(run.visited):
            raise MixedModeError(
                f"epoch {epoch.spec.epoch} expected one report from each of the shards {sorted(run.visited)}, "
                f"got {[report.shard for report in reports]}: Spark changed the partitioning of the shuffle"
            )
        if run.rows is not None and epoch.spec.style == "random":
            self.jobs.note_rows(sum(report.counters.rows_in for report in reports))
        return StageResult(_with_input_rows(reports, run.input_rows or 0) if run.is_first else reports, run.observed)

    def _begun(
        self, epoch: StageEpoch, rows: EpochRows | None, visited: tuple[ShardId, ...], pinned: PinnedShards
    ) -> EpochRun:
        """What is known of an epoch before its tasks run; arguments as of :meth:`execute`."""
        task = self.task(epoch, visited)
        sorted_pass = replace(task.sorted_pass.and_done(pinned.finished.values()), report_folder=pinned.report_folder)
        task = replace(task, sorted_pass=sorted_pass)
        if rows is None:
            return EpochRun(epoch, visited, replace(task, sort=None), self.placement_for(epoch.manifests))
        return EpochRun(
            epoch,
            visited,
            replace(task, input_times=self.operator.input_times if rows.tells_inputs else None),
            self.placement_for(epoch.manifests),
            rows=rows.frame,
            input_rows=rows.count,
            is_first=self.is_first_pass(epoch),
            in_place=rows.in_place,
        )

    def _scanned(
        self, run: EpochRun, rows: EpochRows, finished: Mapping[ShardId, ShardReport]
    ) -> list[ColumnarPass | RowPass]:
        """Have tasks read what they can of the input instead of Spark; what they have not read stays in ``run``.

        Args:
            run: the epoch.
            rows: its input.
            finished: shards that are not computed again.

        Returns:
            The passes that hold something until the epoch is over.
        """
        epoch, shards, inputs = run.epoch.spec, len(run.epoch.manifests), rows.inputs or (rows.frame,)
        # A join takes what meets no state.
        if self._row_pass is not None and (run.is_first or not self.operator.has_first_pass):
            read = self._row_pass.read(inputs, epoch, shards, finished)
            if read is not None:
                failpoint("backlog-scanned")
                run.rows, run.input_rows = None, read.rows
                run.task = replace(run.task, runs=read.runs, sort=None)
                return [self._row_pass]
        if self._columnar is not None and not run.is_first:
            scanned = self._columnar.scanned(inputs, epoch, shards, finished)
            if scanned is not None:
                failpoint("backlog-scanned")
                run.rows = scanned.rest
                sort = None if scanned.rest is None else self._sort_plan(epoch)
                run.task = replace(run.task, runs=scanned.runs, sort=sort)
                return [self._columnar]
        return []

    def _over_rows(self, run: EpochRun, frame: DataFrame) -> list[ShardReport]:
        """The reports of shards whose rows Spark brings to them."""
        if run.is_first:
            with repeatable(frame):
                return self._first_pass(run, frame)
        rows = frame if run.in_place else self.throttled(frame, run.epoch.spec)
        collector = self._collector

        def collect(task: ShardTask) -> list[Row]:
            jobs = self.jobs.of_epoch(rows, task, run.placement, in_place=run.in_place)
            return collector.collect_rows(jobs, run.observed, at_once=collector.shards_at_once(task), pause=run.pause)

        return collector.collect_reports(run.visited, run.task, collect, run.pause)

    def _over_places(self, run: EpochRun) -> list[ShardReport]:
        """The reports of shards that get no rows from Spark: one row each, so that partition i exists, is no input."""
        places, partitions = self.places(run.visited, run.epoch.manifests)
        reads = run.task.runs is not None
        pause, collector = run.pause if reads else None, self._collector

        def collect(task: ShardTask) -> list[Row]:
            job = self.jobs.of_shards(places, task)
            if reads and task.hands_on is None and self.operator.questions is None:  # all that goes through are reports
                job = self._few_rows.adopt(job)
            jobs = iter([job])
            at_once = collector.shards_at_once(task) if task.runs is not None else None
            return collector.collect_rows(jobs, run.observed, at_once=at_once, pause=pause)

        return collector.collect_reports(run.visited, replace(run.task, shards=partitions), collect, pause)

    def _staged_as_they_are(self, frame: DataFrame, epoch: EpochSpec) -> StageResult:
        """An epoch of a stage that keeps nothing; the first shard stands for all."""
        schema = self.operator.output_schema
        rows = self.throttled(frame, epoch).select(*map(quoted, schema.fieldNames()))
        staged, job = staged_rows(rows, schema, self.output, epoch.epoch, self.run_id)
        report = ShardReport(
            shard=ShardId(0),
            attempt=f"e{epoch.epoch:08d}-{self.run_id}",
            files=(),
            output=staged.files,
            counters=ShardCounters(rows_in=staged.rows),
            durations_ms={},
            dropped_rows=staged.dropped_rows,
        )
        return StageResult([report], observed_metrics(job) if self.observes else {})

    def _scan_pass(self, kind: type[_ScanPass], place: ScanPlace) -> _ScanPass:
        return kind(
            spark=self.spark,
            operator=self.operator,
            settings=self.settings,
            filesystem=self.state_filesystem,
            place=place,
            max_parallelism=self.max_parallelism,
            run_id=self.run_id,
            progress_folder=self.progress_folder,
            few_rows=self._few_rows,
        )

    def task(self, epoch: StageEpoch, shards: tuple[ShardId, ...]) -> ShardTask:
        """What works on the rows of each shard in an epoch; ``shards``: those of the partitions."""
        return ShardTask(
            run_id=self.run_id,
            epoch=epoch.spec,
            operator=self._pickled,
            states=ShardStates(
                job_id=self.job_id,
                manifests=PackedManifests(epoch.manifests),
                filesystem=self.state_filesystem,
                pool=self.state_pool,
                local_dir=self.settings.state_local_dir,
                cache_bytes=self.settings.state_cache_bytes,
            ),
            shards=shards,
            output=self.output,
            sorted_pass=PassContext(self.progress_folder) if epoch.spec.style == "sorted" else NO_PASS,
            inboxes=tuple(epoch.inboxes.items()),
            sort=self._sort_plan(epoch.spec) if epoch.sorter == "arrow" else None,
            hands_on=self.jobs.hands_on,
            feeds_a_stage=self.feeds_a_stage,
        )

    def throttled(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        """The rows of an epoch, read by as many tasks as a backlog may have at once."""
        cores = self.settings.backlog_max_cores
        return frame if cores is None or epoch.style != "sorted" else frame.coalesce(cores)

    def places(
        self, shards: Sequence[ShardId], manifests: Sequence[StateManifest]
    ) -> tuple[DataFrame, tuple[ShardId, ...]]:
        """Rows for a task over some shards that reads none, to be run where the shards' local copies are.

        Returns:
            The rows, and for each of their partitions its shard, or ``NO_SHARD``.
        """
        placement = self.placement_for(manifests)
        if placement is None:
            return self.spark.range(0, len(shards), 1, len(shards)), tuple(shards)
        partitions = tuple(shard if shard in shards else NO_SHARD for shard in all_shards(len(manifests)))
        return placement.of(shards), partitions

    def placement_for(self, manifests: Sequence[StateManifest]) -> ShardPlacement | None:
        """What keeps shards in place, for the next job; None: they have no state yet, or there is no choice now.

        Args:
            manifests: as for :meth:`execute`.
        """
        if not any(manifest.files for manifest in manifests):
            return None
        with self._asking:  # an epoch may ask, and a compaction beside it
            if self._can_place is None:
                self._can_place = ShardPlacement.are_possible(self.spark)
            if not self._can_place:
                return None
            if self._placement is None or self._placement.parallelism != len(manifests):
                self.close()
                self._placement = ShardPlacement(self.spark, self.operator.uid, len(manifests))
            return self._placement if self._placement.have_choice() else None

    def is_first_pass(self, epoch: StageEpoch) -> bool:
        """Whether Spark alone does most of an epoch with rows: there is no state, and no row can be late."""
        if (
            not self.operator.has_first_pass
            or epoch.spec.style != "sorted"
            or can_be_late(epoch.spec.late_watermark_ms)
        ):
            return False
        return not epoch.has_state

    def _first_pass(self, run: EpochRun, frame: DataFrame) -> list[ShardReport]:
        """An epoch that :meth:`is_first_pass`; the tasks do not see all of its input, so it is counted here."""
        collector, counts = self._collector, run.input_rows is None

        def collect(task: ShardTask) -> list[Row]:
            jobs = self.jobs.of_first_pass(frame, task, counts=counts)
            at_once = collector.shards_at_once(task)
            return collector.collect_rows(jobs, run.observed, counted=True, at_once=at_once, pause=run.pause)

        reports = collector.collect_reports(run.visited, run.task, collect, run.pause)
        if counts:
            counted = [row[0] for name, row in run.observed.items() if name.startswith(INPUT_ROWS)]
            # Spark leaves a side out, and its metric, if it sees from the plan that it has no partners.
            run.input_rows = sum(counted) if len(counted) == 2 else frame.count()
        return reports

    @property
    def _collector(self) -> ReportCollector:
        return ReportCollector(
            self.spark,
            self.settings.backlog_max_cores,
            self.observes,
            self.output_transform is not None,
            self._begin_again,
            self.jobs.note_not_prepared,
        )

    def _begin_again(self, error: BaseException) -> None:
        """The next job does all from its beginning; ``error``: what was wrong with this one."""
        self.jobs.note_unusable(error)
        delete_quietly(self.state_filesystem, self.progress_folder)  # how far it was does not count

    def _sort_plan(self, epoch: EpochSpec) -> SortPlan:
        return sort_plan(self.operator, self.settings, epoch)


def sort_plan(operator: KeyedOperator, settings: Settings, epoch: EpochSpec) -> SortPlan:
    """How a task sorts the rows of an operator.

    Args:
        operator: the operator.
        settings: the job's.
        epoch: the epoch.
    """
    return SortPlan(
        key=(KEY_GROUP_COLUMN, *operator.key_columns),
        then=operator.order_in(epoch),
        memory_bytes=settings.sorter_memory_bytes,
        spill_dir=settings.sorter_spill_dir,
    )


def _with_input_rows(reports: list[ShardReport], input_rows: int) -> list[ShardReport]:
    """Reports of a pass whose input is counted as a whole: the first one has the number."""
    counts = [input_rows, *(0 for _ in reports[1:])]
    return [
        replace(report, counters=replace(report.counters, rows_in=count))
        for report, count in zip(reports, counts, strict=True)
    ]
