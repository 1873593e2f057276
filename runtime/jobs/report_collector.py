"""Runs the Spark jobs of an epoch and collects the reports of its shards, with pauses between them if wanted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...errors import MisplacedRowsError, WideSumError
from ...state.keys.keygroups import ShardId
from ..catalyst.spark_observations import observed_metrics
from ..jvm.job_cancellation import is_of_a_cancelled_job
from ..jvm.partition_jobs import collected_by_partition
from ..jvm.worker_errors import translate
from ..tasks.report import PreparationRefusal, ShardReport
from ..tasks.shard.pass_pause import PassPause
from ..tasks.shard.shard_task import ShardTask
from .prepared_jobs import ExecutedJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReportCollector:
    """Runs a stage's jobs.

    Args:
        spark: the session.
        max_cores: how many shards of a sorted pass may be worked on at once; None: as many as Spark has cores for.
        observes: whether something is computed of rows on their way, for progress.
        has_transform: whether operations of Spark's follow the stage within its job.
        note_unusable: called when Spark has not done what its plan said, or what it was asked for was too little.
        note_not_prepared: called when a task has left it to Spark to prepare its rows.
    """

    spark: SparkSession
    max_cores: int | None
    observes: bool
    has_transform: bool
    note_unusable: Callable[[BaseException], None]
    note_not_prepared: Callable[[PreparationRefusal], None]

    def shards_at_once(self, task: ShardTask) -> int | None:
        """How many shards may be worked on at once; None: as many as Spark has cores for."""
        return self.max_cores if task.epoch.style == "sorted" else None

    def collect_reports(
        self,
        visited: Sequence[ShardId],
        task: ShardTask,
        run: Callable[[ShardTask], list[Row]],
        pause: PassPause | None = None,
    ) -> list[ShardReport]:
        """The reports of a task's shards.

        If Spark finds that nothing gets through what follows the stage (a filter that is never true, a join with an
        empty table), it does not ask the stage for its rows.  They are input all the same, so such shards run again by
        themselves, and their output is dropped.
        """
        reports = (
            ShardReport.of_rows(run(task)) if pause is None else self._collect_between_pauses(visited, task, run, pause)
        )
        found = {report.shard for report in reports}
        if not self.has_transform or found.issuperset(visited):
            return reports
        logger.info("no row passes the operations after the keyed stage in shards %s", sorted(set(visited) - found))
        done, nowhere = task.sorted_pass.and_done(reports), replace(task.output, folder=None)
        alone = replace(task, hands_on=None, output=nowhere, sorted_pass=done)
        again = ShardReport.of_rows(run(alone))
        return [report if report.shard in found else replace(report, dropped_rows=0) for report in again]

    def _collect_between_pauses(
        self, visited: Sequence[ShardId], task: ShardTask, run: Callable[[ShardTask], list[Row]], pause: PassPause
    ) -> list[ShardReport]:
        """The reports of a task's shards; between its jobs it is held, and the next one does what is left."""
        done: dict[ShardId, ShardReport] = {}
        while True:
            pauses = pause.pauses_begun()
            pause.hold()
            is_marked = pause.marker.is_there
            if is_marked and pause.is_wanted():
                continue
            # Where the jobs are single shards none is begun in a pause.  A marker that nobody wants holds back nothing:
            # shards without a report and without a pause would be taken for shards without rows.
            marker = None if self.shards_at_once(task) or is_marked else pause.marker
            left = replace(task.sorted_pass.and_done(done.values()), pause=marker)
            step = replace(task, sorted_pass=left)
            self.spark.sparkContext.addJobTag(pause.tag)
            try:
                reports = ShardReport.of_rows(run(step))
            except Exception as error:
                if pause.pauses_begun() == pauses or not is_of_a_cancelled_job(error, self.spark):
                    raise
                logger.info("the backlog pass is cut short for a pause, before its first shard")
                continue
            finally:
                self.spark.sparkContext.removeJobTag(pause.tag)
            done.update((report.shard, report) for report in reports)
            if pause.pauses_begun() == pauses or done.keys() >= set(visited):
                return reports

    def collect_rows(
        self,
        jobs: Iterator[DataFrame] | Iterator[DataFrame | ExecutedJob],
        observed: dict[str, Row],
        *,
        counted: bool = False,
        at_once: int | None = None,
        pause: PassPause | None = None,
    ) -> list[Row]:
        """The rows of the first job whose plan Spark keeps to, and whose tasks take the rows as they come.

        Args:
            jobs: the same in several ways.
            observed: what it has observed is added here: the last job to run is the whole one.
            counted: it counts its rows, whether or not the user asked for anything.
            at_once: how many shards may be worked on at once; None: as many as Spark has cores for.
            pause: holds the jobs of single shards; None: there are no pauses.
        """
        unusable: Exception | None = None
        for job in jobs:
            try:
                if at_once is None or isinstance(job, ExecutedJob):  # what is planned once is for the stream
                    rows = job.collect()
                elif pause is None:
                    rows = collected_by_partition(job, at_once)
                else:
                    rows = collected_by_partition(job, at_once, pause.is_wanted, pause.hold)
            except Exception as error:
                translated = translate(error)
                if not isinstance(translated, (MisplacedRowsError, WideSumError)):
                    raise
                unusable = error
                self.note_unusable(translated)
            else:
                refusal = PreparationRefusal.of_rows(rows)
                if refusal is not None:
                    self.note_not_prepared(refusal)
                    continue
                # What is planned once for all epochs observes nothing.
                if (self.observes or counted) and not isinstance(job, ExecutedJob):
                    observed.update(observed_metrics(job))
                return rows
        assert unusable is not None, "there is at least one job"
        raise unusable
