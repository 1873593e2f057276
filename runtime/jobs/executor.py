"""Executes one epoch as one Spark job: prepare, shuffle by shard, sort, run the operator, collect the reports."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeVar

from pyarrow import fs
from pyspark import cloudpickle

from ...errors import MisplacedRowsError, MixedModeError
from ...state.store.packed_manifests import PackedManifests
from ...state.store.state_manifest import StateManifest
from ..catalyst.columns import quoted
from ..catalyst.spark_observations import observed_metrics
from ..catalyst.spark_plans import repeatable
from ..connectors.output_place import OutputPlace
from ..jvm.job_cancellation import is_of_a_cancelled_job
from ..jvm.partition_jobs import collected_by_partition
from ..jvm.worker_errors import translate
from ..operators.admission import can_be_late
from ..operators.contract import INPUT_ROWS, EpochSpec, KeyedOperator, ShardCounters
from ..operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ..protocols.operator_events.task_events import ShardInbox
from ..spec import Settings
from ..support.failpoints import failpoint
from ..tasks.report import NO_SHARD, ShardReport
from ..tasks.shard.pass_pause import PassPause
from ..tasks.shard.shard_task import ShardTask
from ..tasks.shard.task_sorter import SortPlan
from .columnar_pass import ColumnarPass
from .output_transform_task import staged_rows
from .prepared_jobs import ExecutedJob
from .row_pass import RowPass
from .shard_placement import ShardPins
from .shuffle import (
    HashExchange,
    InPlace,
    JoinedInShards,
    ShardExchange,
)
from .stage_jobs import StageJobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from ..operators.output_transform import OutputTransform

logger = logging.getLogger(__name__)

_ScanPass = TypeVar("_ScanPass", ColumnarPass, RowPass)
_Way = TypeVar("_Way", bound=HashExchange | InPlace | JoinedInShards | ShardExchange | ShardPins)


@dataclass(frozen=True)
class StageResult:
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
    tail: OutputTransform | None = None
    #: Whether something is computed of rows on their way, for progress.
    observes: bool = False
    #: Where tasks leave partial aggregates for those of the shards; None: Spark makes all of them.
    runs_folder: str | None = None
    #: Where it is remembered that tasks have scanned in vain; None: nowhere.
    stopped_folder: str | None = None
    #: The driver's pauses, for passes that may be held between shards; None: it makes none.
    pause: PassPause | None = None

    def __post_init__(self) -> None:
        self._pickled = cloudpickle.dumps(self.operator)
        self._columnar = None if self.runs_folder is None else self._scan_pass(ColumnarPass, self.runs_folder)
        self._row_pass = None if self.runs_folder is None else self._scan_pass(RowPass, self.runs_folder)
        self._pins: ShardPins | None = None
        self._can_pin: bool | None = None
        self._asking = threading.Lock()
        self.forget_shards()

    def forget_shards(self) -> None:
        """The shards are others from now on: plan for them, and find places for them, anew."""
        self.close()
        #: Plans them.
        self.jobs = StageJobs(self.spark, self.operator, self.max_parallelism, self.feeds_a_stage, self.tail)
        self._pins = None

    def close(self) -> None:
        """Let go of what executors hold for this run."""
        if self._pins is not None:
            self._pins.close()

    def execute(
        self,
        frame: DataFrame | None,
        epoch: EpochSpec,
        manifests: Sequence[StateManifest],
        *,
        inputs: Sequence[DataFrame] = (),
        sorter: Literal["spark", "arrow"] = "spark",
        shards: Sequence[int] | None = None,
        finished: Mapping[int, ShardReport] = MappingProxyType({}),
        report_folder: str | None = None,
        inboxes: Mapping[int, ShardInbox] = MappingProxyType({}),
        in_place: bool = False,
        input_rows: int | None = None,
        tells_inputs: bool = False,
        pausable: bool = False,
    ) -> StageResult:
        """Run an epoch over ``frame``, or over no rows at all (timers only) when it is None.

        Args:
            frame: the epoch's input rows.
            epoch: what the tasks must know.
            manifests: committed state of every shard.
            inputs: the rows by input, where they may be prepared one by one.
            sorter: who sorts.
            shards: for an epoch without rows, the shards to visit; None: all.
            finished: shards that an earlier run of the same pinned pass has finished; they are not computed again.
            report_folder: where finished attempts leave their reports for a restarted driver.
            inboxes: what goes to shards besides the epoch.
            in_place: the rows are handed on by a stage in whose shards they are in their key groups here, and Spark
                knows of each file which shard's it is.
            input_rows: how many rows there are, if that is known.
            tells_inputs: the reports say of each input how far its event times go; the operator has ``input_times``.
            pausable: whether it may be held between shards.

        Raises:
            MixedModeError: Spark has brought rows to other partitions than those of their shards.
            Exception: whatever a task has failed with.
        """
        if frame is not None and self.operator.is_stateless:
            return self._staged_as_they_are(frame, epoch)
        pins = self.pins_for(manifests)
        visited = tuple(range(len(manifests)) if frame is not None or shards is None else shards)
        task = replace(
            self.task(epoch, manifests, visited, inboxes, None if frame is None else sorter),
            finished=tuple((shard, report.to_bytes()) for shard, report in finished.items()),
            report_folder=report_folder,
            input_times=self.operator.input_times if tells_inputs and frame is not None else None,
        )
        reports: list[ShardReport] = []
        observed: dict[str, Row] = {}
        is_first = frame is not None and self.is_first_pass(epoch, manifests)
        pause = self.pause if pausable else None
        scanned = read = None
        meets_none = is_first or not self.operator.has_first_pass  # of a join, which takes what meets no state
        if frame is not None and self._row_pass is not None and meets_none and not in_place:
            read = self._row_pass.read(inputs or (frame,), epoch, len(manifests), finished)
        if read is not None:
            failpoint("backlog-scanned")
            frame, task = None, replace(task, runs=read.runs, sort=None)
        if frame is not None and self._columnar is not None and not is_first and not in_place:
            scanned = self._columnar.scanned(inputs or (frame,), epoch, len(manifests), finished)
            if scanned is not None:
                failpoint("backlog-scanned")
        if scanned is not None and self._columnar is not None:
            frame, inputs = scanned.rest, ()
            task = replace(task, runs=scanned.runs, sort=None if frame is None else self._sort_plan(epoch))
        if frame is not None:
            rows = frame if is_first or in_place else self.throttled(frame, epoch)
            if is_first:
                with repeatable(rows):
                    reports, input_rows = self._first_pass(rows, visited, task, input_rows, observed, pause)
            else:

                def jobs(task: ShardTask) -> Iterator[DataFrame | ExecutedJob]:
                    return self.jobs.of_epoch(rows, task, pins, in_place=in_place)

                def run(task: ShardTask) -> list[Row]:
                    return self._collected(jobs(task), observed, at_once=self._at_once(task), pause=pause)

                reports = self._completed(visited, task, run, pause)
        if not reports:
            # No rows were given, or Spark found out that there are none and ran no task at all.  One row per visited
            # shard, so that partition i exists; the rows themselves are not input.
            places, partitions = self.places(visited, manifests)
            held = pause if task.runs is not None else None

            def over_places(task: ShardTask) -> list[Row]:
                at_once = None if task.runs is None else self._at_once(task)
                return self._collected(iter([self.jobs.of_shards(places, task)]), observed, at_once=at_once, pause=held)

            reports = self._completed(visited, replace(task, shards=partitions), over_places, held)
        if scanned is not None and self._columnar is not None:
            self._columnar.discard()
        if read is not None and self._row_pass is not None:
            self._row_pass.discard()
            input_rows = read.rows
        reports = sorted(reports, key=lambda report: report.shard)
        if [report.shard for report in reports] != sorted(visited):
            raise MixedModeError(
                f"epoch {epoch.epoch} expected one report from each of the shards {sorted(visited)}, "
                f"got {[report.shard for report in reports]}: Spark changed the partitioning of the shuffle"
            )
        if frame is not None and epoch.style == "random":
            self.jobs.note_rows(sum(report.counters.rows_in for report in reports))
        return StageResult(_with_input_rows(reports, input_rows or 0) if is_first else reports, observed)

    def _staged_as_they_are(self, frame: DataFrame, epoch: EpochSpec) -> StageResult:
        """An epoch of a stage that keeps nothing; the first shard stands for all."""
        schema = self.operator.output_schema
        rows = self.throttled(frame, epoch).select(*map(quoted, schema.fieldNames()))
        staged, job = staged_rows(rows, schema, self.output, epoch.epoch, self.run_id)
        report = ShardReport(
            shard=0,
            attempt=f"e{epoch.epoch:08d}-{self.run_id}",
            files=(),
            output=staged.files,
            counters=ShardCounters(rows_in=staged.rows),
            durations_ms={},
            dropped_rows=staged.dropped_rows,
        )
        return StageResult([report], observed_metrics(job) if self.observes else {})

    def _scan_pass(self, kind: type[_ScanPass], folder: str) -> _ScanPass:
        return kind(
            spark=self.spark,
            operator=self.operator,
            settings=self.settings,
            filesystem=self.state_filesystem,
            folder=folder,
            max_parallelism=self.max_parallelism,
            run_id=self.run_id,
            progress_folder=self.progress_folder,
            stopped_folder=self.stopped_folder,
        )

    def task(
        self,
        epoch: EpochSpec,
        manifests: Sequence[StateManifest],
        shards: tuple[int, ...],
        inboxes: Mapping[int, ShardInbox],
        sorter: Literal["spark", "arrow"] | None,
    ) -> ShardTask:
        """What works on the rows of each shard in an epoch.

        Args:
            epoch: what it must know.
            manifests: committed state of every shard.
            shards: those of the partitions.
            inboxes: what goes to shards besides the epoch.
            sorter: who sorts; None: there are no rows.
        """
        return ShardTask(
            job_id=self.job_id,
            run_id=self.run_id,
            epoch=epoch,
            operator=self._pickled,
            manifests=PackedManifests(manifests),
            shards=shards,
            state_filesystem=self.state_filesystem,
            state_pool=self.state_pool,
            output=self.output,
            local_dir=self.settings.state_local_dir,
            cache_bytes=self.settings.state_cache_bytes,
            progress_folder=self.progress_folder if epoch.style == "sorted" else None,
            inboxes=tuple(inboxes.items()),
            sort=self._sort_plan(epoch) if sorter == "arrow" else None,
            hands_on=self.jobs.hands_on,
            feeds_a_stage=self.feeds_a_stage,
        )

    def throttled(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        """The rows of an epoch, read by as many tasks as a backlog may have at once."""
        cores = self.settings.backlog_max_cores
        return frame if cores is None or epoch.style != "sorted" else frame.coalesce(cores)

    def _at_once(self, task: ShardTask) -> int | None:
        """How many shards may be worked on at once; None: as many as Spark has cores for."""
        return self.settings.backlog_max_cores if task.epoch.style == "sorted" else None

    def _between_pauses(
        self, visited: Sequence[int], task: ShardTask, run: Callable[[ShardTask], list[Row]], pause: PassPause
    ) -> list[ShardReport]:
        """The reports of a task's shards; between its jobs it is held, and the next one does what is left."""
        done: dict[int, ShardReport] = {}
        while True:
            times = pause.times()
            pause.hold()
            is_marked = pause.marker.is_there
            if is_marked and pause.is_wanted():
                continue
            known = {shard for shard, _ in task.finished}
            finished = [(shard, report.to_bytes()) for shard, report in done.items() if shard not in known]
            # Where the jobs are single shards none is begun in a pause.  A marker that nobody wants holds back nothing:
            # shards without a report and without a pause would be taken for shards without rows.
            marker = None if self._at_once(task) or is_marked else pause.marker
            step = replace(task, finished=(*task.finished, *finished), pause=marker)
            self.spark.sparkContext.addJobTag(pause.tag)
            try:
                reports = ShardReport.of_rows(run(step))
            except Exception as error:
                if pause.times() == times or not is_of_a_cancelled_job(error, self.spark):
                    raise
                logger.info("the backlog pass is cut short for a pause, before its first shard")
                continue
            finally:
                self.spark.sparkContext.removeJobTag(pause.tag)
            done.update((report.shard, report) for report in reports)
            if pause.times() == times or done.keys() >= set(visited):
                return reports

    def _completed(
        self,
        visited: Sequence[int],
        task: ShardTask,
        run: Callable[[ShardTask], list[Row]],
        pause: PassPause | None = None,
    ) -> list[ShardReport]:
        """The reports of a task's shards.

        If Spark finds that nothing gets through what follows the stage (a filter that is never true, a join with an
        empty table), it does not ask the stage for its rows.  They are input all the same, so such shards run again by
        themselves, and their output is dropped.
        """
        reports = ShardReport.of_rows(run(task)) if pause is None else self._between_pauses(visited, task, run, pause)
        found = {report.shard for report in reports}
        if self.tail is None or found.issuperset(visited):
            return reports
        logger.info("no row passes the operations after the keyed stage in shards %s", sorted(set(visited) - found))
        finished = (*task.finished, *[(report.shard, report.to_bytes()) for report in reports])
        alone = replace(task, hands_on=None, output=replace(task.output, folder=None), finished=finished)
        again = ShardReport.of_rows(run(alone))
        return [report if report.shard in found else replace(report, dropped_rows=0) for report in again]

    def places(self, shards: Sequence[int], manifests: Sequence[StateManifest]) -> tuple[DataFrame, tuple[int, ...]]:
        """Rows for a task over some shards that reads none, to be run where the shards' local copies are.

        Returns:
            The rows, and for each of their partitions its shard, or ``NO_SHARD``.
        """
        pins = self.pins_for(manifests)
        if pins is None:
            return self.spark.range(0, len(shards), 1, len(shards)), tuple(shards)
        partitions = tuple(shard if shard in shards else NO_SHARD for shard in range(len(manifests)))
        return pins.of(shards), partitions

    def pins_for(self, manifests: Sequence[StateManifest]) -> ShardPins | None:
        """What keeps shards in place, for the next job; None: they have no state yet, or there is no choice now.

        Args:
            manifests: as for :meth:`execute`.
        """
        if not any(manifest.files for manifest in manifests):
            return None
        with self._asking:  # an epoch may ask, and a compaction beside it
            if self._can_pin is None:
                self._can_pin = ShardPins.are_possible(self.spark)
            if not self._can_pin:
                return None
            if self._pins is None or self._pins.parallelism != len(manifests):
                self.close()
                self._pins = ShardPins(self.spark, self.operator.uid, len(manifests))
            return self._pins if self._pins.have_choice() else None

    def _collected(
        self,
        jobs: Iterator[DataFrame] | Iterator[DataFrame | ExecutedJob],
        observed: dict[str, Row],
        *,
        counted: bool = False,
        at_once: int | None = None,
        pause: PassPause | None = None,
    ) -> list[Row]:
        """The rows of the first job whose plan Spark keeps to.

        Args:
            jobs: the same in several ways.
            observed: what it has observed is added here: the last job to run is the whole one.
            counted: it counts its rows, whether or not the user asked for anything.
            at_once: how many shards may be worked on at once; None: as many as Spark has cores for.
            pause: holds the jobs of single shards; None: there are no pauses.
        """
        misplaced: Exception | None = None
        for job in jobs:
            try:
                if at_once is None or isinstance(job, ExecutedJob):  # what is planned once is for the stream
                    rows = job.collect()
                elif pause is None:
                    rows = collected_by_partition(job, at_once, lambda: False, lambda: None)
                else:
                    rows = collected_by_partition(job, at_once, pause.is_wanted, pause.hold)
            except Exception as error:
                if not isinstance(translate(error), MisplacedRowsError):
                    raise
                misplaced = error
                self.jobs.note_misplaced(error)
            else:
                # What is planned once for all epochs observes nothing.
                if (self.observes or counted) and not isinstance(job, ExecutedJob):
                    observed.update(observed_metrics(job))
                return rows
        assert misplaced is not None, "there is at least one job"
        raise misplaced

    def is_first_pass(self, epoch: EpochSpec, manifests: Sequence[StateManifest]) -> bool:
        """Whether Spark alone does most of an epoch: there is no state, and no row can be late."""
        if not self.operator.has_first_pass or epoch.style != "sorted" or can_be_late(epoch.late_watermark_ms):
            return False
        return not any(manifest.files for manifest in manifests)

    def _first_pass(
        self,
        frame: DataFrame,
        visited: Sequence[int],
        task: ShardTask,
        input_rows: int | None,
        observed: dict[str, Row],
        pause: PassPause | None,
    ) -> tuple[list[ShardReport], int]:
        """An epoch that :meth:`is_first_pass`; the tasks do not see all of its input, so it is counted here."""

        def run(task: ShardTask) -> list[Row]:
            jobs = self.jobs.of_first_pass(frame, task, counts=input_rows is None)
            return self._collected(jobs, observed, counted=True, at_once=self._at_once(task), pause=pause)

        reports = self._completed(visited, task, run, pause)
        if input_rows is not None:
            return reports, input_rows
        counted = [row[0] for name, row in observed.items() if name.startswith(INPUT_ROWS)]
        # Spark leaves a side out, and its metric, if it sees from the plan that it has no partners.
        return reports, sum(counted) if len(counted) == 2 else frame.count()

    def _sort_plan(self, epoch: EpochSpec) -> SortPlan:
        return SortPlan(
            key=(KEY_GROUP_COLUMN, *self.operator.key_columns),
            then=self.operator.order_in(epoch),
            memory_bytes=self.settings.sorter_memory_bytes,
            spill_dir=self.settings.sorter_spill_dir,
        )


def _with_input_rows(reports: list[ShardReport], input_rows: int) -> list[ShardReport]:
    """Reports of a pass whose input is counted as a whole: the first one has the number."""
    counts = [input_rows, *(0 for _ in reports[1:])]
    return [
        replace(report, counters=replace(report.counters, rows_in=count))
        for report, count in zip(reports, counts, strict=True)
    ]
