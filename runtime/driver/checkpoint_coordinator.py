"""Takes checkpoints: the one place where a checkpoint happens, from its trigger to the removal of what it replaces.

1. :meth:`~CheckpointCoordinator.cut`: every task takes part, the gateways of the coordinators close, and all that the
   checkpoint holds is frozen.
2. Writing it: state files are compacted where change logs have outgrown their base, then comes ``_metadata``.  From
   here on it counts; what fails before may be tolerated, and leaves everything as it was.
3. Completing it: gateways open, the sink commits, older checkpoints and files that nothing names are removed.

A cut needs no task and copies no state: the files that the epochs wrote are already in the pool, so it is the list of
them.  What follows looks at nothing but the cut, so that later epochs do not concern it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from ...errors import CheckpointError
from ..checkpoints.damage import explain_corruption
from ..checkpoints.first_position import discard_if_behind
from ..checkpoints.lease.driver_lease import DriverLease, LocationLost
from ..checkpoints.metadata import CheckpointMetadata, WantedSavepoint
from ..checkpoints.store import CheckpointStore
from ..connectors.exchange import Exchange
from ..metrics.checkpoint import CheckpointReport
from ..metrics.listeners import CheckpointFailed
from ..platform.failpoints import failpoint
from ..protocols.checkpoint_scheduler import CheckpointScheduler
from ..protocols.lifecycle.work import TaskWorker
from ..tasks.meter import Laps
from .clocks import clock_ms
from .event_channels import JobEvents
from .job_state import Cut, JobState
from .output_commit import commit_transaction
from .state_compactor import StateCompactor
from .task_graph import stage_task

if TYPE_CHECKING:
    from ...state.compaction import StateRewrite
    from ..spec import JobSpec

#: The trigger of a checkpoint that is taken to be written as a savepoint.
SAVEPOINT = "savepoint"

logger = logging.getLogger(__name__)


class Declined(CheckpointError):
    """A task does not take part in a checkpoint."""


@dataclass
class CheckpointCoordinator:
    """Runs the checkpoint protocol for one job; every method is called under the turn of its run.

    Args:
        job: whose checkpoints they are.
        store: where they go.
        scheduler: says when they are due.
        state: what they are taken of.
        lease: says whether the location is still this run's.
        tasks: the lifecycle of the job's tasks, and the work that it asks for.
        events: what goes between the driver and the shards.
        exchanges: what stages hand on to others, by stage.
        stage_result: has all of the result staged, where each checkpoint shows all of it.
        compactor: compacts state files.
        tell: called with the report of each one that is complete.
        tell_failed: called with each one that has come to nothing.
    """

    job: JobSpec
    store: CheckpointStore
    scheduler: CheckpointScheduler
    state: JobState
    lease: DriverLease
    tasks: TaskWorker
    events: JobEvents
    exchanges: Mapping[str, Exchange]
    stage_result: Callable[[], None]
    compactor: StateCompactor
    tell: Callable[[CheckpointReport], None]
    tell_failed: Callable[[CheckpointFailed], None]
    #: The last checkpoint that this run has completed.
    last: CheckpointMetadata | None = None
    _attempted_id: int = 0
    _failures: int = 0
    #: Last epoch that is in a checkpoint.
    _epoch: int = field(init=False)
    _last_files: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._epoch = self.state.epoch
        self._last_files = frozenset(
            file.name for stage in self.state.stages.values() for lineage in stage.lineages for file in lineage.files
        )

    # -- when --------------------------------------------------------------------------------------------------------

    def checkpoint_if_due(self, trigger: str = "interval") -> None:
        """Take a checkpoint if the scheduler says so.

        A periodic one that would hold nothing new is left out: copies of the last checkpoint would push out the older
        ones, which are the way back from damaged state.
        """
        if not self.scheduler.due(clock_ms()):
            return
        if self.scheduler.immediate or self._has_news:
            self.checkpoint(trigger)
        else:
            self.scheduler.triggered(clock_ms())

    def checkpoint_if_behind(self, trigger: str) -> bool:
        """Take a checkpoint if there was an epoch since the last one; False if it failed tolerably."""
        return not self._has_news or self.checkpoint(trigger) is not None

    @property
    def _has_news(self) -> bool:
        return bool(self.state.pending) or self.state.epoch > self._epoch or self.events.has_news

    @property
    def next_id(self) -> int:
        """Id of the next checkpoint; that of one which failed is not used again."""
        return max(self.state.checkpoint_id, self._attempted_id) + 1

    # -- what --------------------------------------------------------------------------------------------------------

    def checkpoint(
        self, trigger: str, *, close: bool = True, drained: bool = False, savepoint: WantedSavepoint | None = None
    ) -> CheckpointReport | None:
        """Take a checkpoint now; None if it failed within the tolerated number of failures.

        Args:
            trigger: why.
            close: let tasks close that have waited for it; False: the caller does.
            drained: whether a drain ends with it.
            savepoint: the savepoint that must not be missing if the checkpoint is there; the caller makes it, or else
                the next run.

        Raises:
            CheckpointError: more consecutive checkpoints failed than
                ``execution.checkpointing.tolerable-failed-checkpoints`` allows, or another driver has taken over.
        """
        self.lease.check(look=True)
        number, now_ms = self.next_id, clock_ms()
        self._attempted_id = number
        started, laps = time.monotonic(), Laps()
        self.scheduler.triggered(now_ms)
        try:
            cut, metadata = self._write(self.cut(number, trigger, drained=drained, savepoint=savepoint), laps)
        except LocationLost as lost:
            self.tell_failed(CheckpointFailed(number, trigger, "aborted", lost, is_tolerated=False))
            raise  # what others have taken over is not this run's to tolerate
        except Exception as failure:
            self._failed(number, trigger, now_ms, failure)
            return None
        self._complete(cut, metadata, laps)
        self.scheduler.ended_checkpoint(now_ms)
        report = self._report(cut, metadata, round((time.monotonic() - started) * 1000), laps)
        self.tell(report)
        if close:
            self.tasks.run()
        return report

    def cut(self, number: int, trigger: str, *, drained: bool = False, savepoint: WantedSavepoint | None = None) -> Cut:
        """Have every task take part, and freeze what the checkpoint holds.

        Args:
            number: the checkpoint's id.
            trigger: why it is taken.
            drained: whether a drain ends with it.
            savepoint: what it is taken for; None: for itself.

        Raises:
            Declined: a task has work to do first.
        """
        lifecycle, state = self.tasks.lifecycle, self.state
        if lifecycle.checkpointing:
            if not lifecycle.is_under_way(number):
                lifecycle.trigger(number)
            if not lifecycle.is_taken(number):
                raise Declined(f"not all tasks have taken part in checkpoint {number}: they have work to do first")
        failpoint("checkpoint-start")
        if state.epoch > self._epoch and not self.job.sink.shows_at_once:
            self.stage_result()
        if state.batch_id >= 0 and (state.spark is None or state.spark.batch_id != state.batch_id):
            state.spark = self.store.spark_log.position(state.batch_id)
        events = self.events.begin(number)
        failpoint("events-buffering")
        finished = lifecycle.finished
        return Cut.of(
            state,
            number,
            trigger,
            finished_shards={
                uid: {task.index for task in finished if task.vertex == stage_task(uid)} for uid in state.stages
            },
            events=events,
            form=self.job.staged_form,
            branch=self.store.branch.number,
            drained=drained,
            savepoint=savepoint,
        )

    def _write(self, cut: Cut, laps: Laps) -> tuple[Cut, CheckpointMetadata]:
        """Compact where that is due, and write ``_metadata``."""
        cut = self._compacted(cut)
        laps.mark("compact")
        metadata = cut.to_metadata(with_state=self.job.keeps_state)
        failpoint("events-stored")
        self.store.write(metadata)
        laps.mark("write")
        return cut, metadata

    def _complete(self, cut: Cut, metadata: CheckpointMetadata, laps: Laps) -> None:
        """The checkpoint is there: tell everybody, show its output, remove what it replaces."""
        self._failures, self.last, self._epoch = 0, metadata, cut.epoch
        self.state.complete(cut)
        failpoint("checkpoint-after-metadata")
        self.events.complete(cut.number)
        failpoint("events-opened")
        self.store.guard()
        self.store.discard_backlog()  # it is in the checkpoint now
        if self.tasks.lifecycle.checkpointing:
            self.tasks.lifecycle.completed(cut.number)
            for commit in self.tasks.commits():
                assert commit.up_to == cut.number, "one checkpoint at a time"
                commit_transaction(self.job, self.store, metadata)
        else:
            commit_transaction(self.job, self.store, metadata)
        laps.mark("commit")
        self.store.subsume(self.job.settings.retained_checkpoints)
        discard_if_behind(self.store)
        failpoint("checkpoint-before-gc")
        self.store.guard()
        self.job.sink.sweep(cut.epoch)
        if self.job.late_rows is not None:
            self.job.late_rows.sweep(cut.epoch)
        for exchange in self.exchanges.values():
            exchange.sweep(cut.epoch)
        for stage in cut.stages:
            self.store.collect_garbage(stage.uid, stage.lineages, up_to_epoch=cut.epoch)
        laps.mark("cleanup")

    def _failed(self, number: int, trigger: str, now_ms: int, failure: Exception) -> None:
        """Give a checkpoint up.

        Raises:
            CheckpointError: it was one too many.
        """
        error = explain_corruption(failure, self.store)
        self.events.abort(number)
        self.tasks.lifecycle.aborted(number)
        self._failures += 1
        self.scheduler.ended_checkpoint(now_ms)
        tolerated = self.job.settings.tolerable_failed_checkpoints
        is_tolerated = self._failures <= tolerated
        outcome: Literal["declined", "failed"] = "declined" if isinstance(failure, Declined) else "failed"
        self.tell_failed(CheckpointFailed(number, trigger, outcome, error, is_tolerated, self._failures))
        if not is_tolerated:
            raise CheckpointError(
                f"checkpoint {number} failed ({error}); {self._failures} in a row, "
                f"execution.checkpointing.tolerable-failed-checkpoints is {tolerated}"
            ) from error
        logger.warning("checkpoint %s failed, the job goes on: %s", number, error)

    def _report(self, cut: Cut, metadata: CheckpointMetadata, duration_ms: int, laps: Laps) -> CheckpointReport:
        files = {file.name: file for stage in cut.stages for lineage in stage.lineages for file in lineage.files}
        new = [file for name, file in files.items() if name not in self._last_files]
        self._last_files = frozenset(files)
        return CheckpointReport(
            cut.number,
            cut.trigger,
            SAVEPOINT if cut.trigger == SAVEPOINT else metadata.kind,
            metadata.is_drained,
            duration_ms,
            sum(file.size_bytes for file in files.values()),
            sum(file.entries - file.tombstones for file in files.values()),
            new_files=len(new),
            new_bytes=sum(file.size_bytes for file in new),
            files=len(files),
            output_rows=sum(file.rows for file in cut.pending),
            output_bytes=sum(file.size_bytes for file in cut.pending),
            durations_ms=laps.ms,
        )

    # -- state files -------------------------------------------------------------------------------------------------

    def compact(self) -> None:
        """Compact now, for a cut that will follow."""
        for stage in self.state.stages.values():
            before = tuple(stage.shards)
            stage.compacted(before, self.compactor.compacted(stage.operator, stage.lineages, self.state.epoch))

    def rewrite(self, uid: str, change: StateRewrite) -> None:
        """Change all values of a stage's state; the next checkpoint has them."""
        stage = self.state.stages[uid]
        before = tuple(stage.shards)
        lineages = self.compactor.rewritten(stage.operator, stage.lineages, self.state.epoch, change)
        stage.compacted(before, lineages)

    def _compacted(self, cut: Cut) -> Cut:
        """The cut with compacted files, which the state has from now on, too."""
        stages = []
        for stage in cut.stages:
            lineages = self.compactor.compacted(stage.operator, stage.lineages, cut.epoch)
            if lineages:
                self.state.stages[stage.uid].compacted(stage.shards, lineages)
                failpoint("checkpoint-after-compaction")
            stages.append(stage.with_lineages(lineages))
        return replace(cut, stages=tuple(stages))
