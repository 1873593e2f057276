"""Takes checkpoints between epochs: compact → close gateways → ``_metadata`` → open → sink commit → subsume older ones.

A checkpoint needs no task and copies no state: the files that the epochs wrote are already in the pool, so the cut is
the list of them.  Only shards whose change logs have outgrown their base are compacted first, in one Spark job.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ...errors import CheckpointError
from ..checkpoints.damage import explain_corruption
from ..checkpoints.first_position import discard_if_behind
from ..checkpoints.lease.driver_lease import DriverLease, LocationLost
from ..checkpoints.metadata import CheckpointMetadata, WantedSavepoint
from ..checkpoints.store import CheckpointStore
from ..metrics.checkpoint import CheckpointReport
from ..platform.failpoints import failpoint
from ..protocols.checkpoint_scheduler import CheckpointScheduler
from ..protocols.lifecycle.work import TaskWorker
from ..tasks.compaction_task import CompactionTask, compact_shards
from ..tasks.executor import EpochExecutor
from ..tasks.meter import Laps
from .event_channels import JobEvents
from .job_state import JobState
from .output_commit import commit_transaction
from .pinned_backlog import PinnedBacklog
from .task_graph import stage_task

if TYPE_CHECKING:
    from ...state.compaction import StateRewrite
    from ...state.lineage import CompactionKind
    from ..spec import JobSpec

_T = TypeVar("_T")

#: The trigger of a checkpoint that is taken to be written as a savepoint.
SAVEPOINT = "savepoint"

logger = logging.getLogger(__name__)


@dataclass
class Checkpointer:
    """Runs the checkpoint protocol for one job."""

    job: JobSpec
    store: CheckpointStore
    scheduler: CheckpointScheduler
    state: JobState
    run_id: str
    lease: DriverLease
    tasks: TaskWorker
    events: JobEvents
    #: Knows where tasks of the shards run.
    executor: EpochExecutor
    #: The last checkpoint that this run has completed.
    last: CheckpointMetadata | None = None
    _attempted_id: int = 0
    _failures: int = 0
    _last_files: frozenset[str] = field(init=False)
    _laps: Laps = field(init=False, default_factory=Laps)

    def __post_init__(self) -> None:
        self._last_files = frozenset(file.name for lineage in self.state.lineages for file in lineage.files)

    def take(
        self, trigger: str, now_ms: int, *, drained: bool = False, savepoint: WantedSavepoint | None = None
    ) -> CheckpointReport | None:
        """Take a checkpoint now; None if it failed within the tolerated number of failures.

        Args:
            trigger: why.
            now_ms: the scheduler's clock.
            drained: whether a drain ends with it.
            savepoint: the savepoint that must not be missing if the checkpoint is there; the caller makes it, or else
                the next run.

        Raises:
            CheckpointError: more consecutive checkpoints failed than
                ``execution.checkpointing.tolerable-failed-checkpoints`` allows, or another driver has taken over.
        """
        self.lease.check(look=True)
        number, lifecycle = self.next_id, self.tasks.lifecycle
        self._attempted_id = number
        started = time.monotonic()
        self._laps = laps = Laps()
        self.scheduler.triggered(now_ms)
        try:
            self._begin(number)
            metadata = self._write(trigger, number, drained, savepoint)
        except LocationLost:
            raise  # what others have taken over is not this run's to tolerate
        except Exception as failure:
            error = explain_corruption(failure, self.store)
            self.events.abort(number)
            lifecycle.aborted(number)
            self._failures += 1
            self.scheduler.ended_checkpoint(now_ms)
            tolerated = self.job.settings.tolerable_failed_checkpoints
            if self._failures > tolerated:
                raise CheckpointError(
                    f"checkpoint {number} failed ({error}); {self._failures} in a row, "
                    f"execution.checkpointing.tolerable-failed-checkpoints is {tolerated}"
                ) from error
            logger.warning("checkpoint %s failed, the job goes on: %s", number, error)
            return None
        laps.mark("write")
        self._failures, self.last = 0, metadata
        self.state.checkpoint_id = metadata.checkpoint_id
        self.state.pending, self.state.pending_late = [], []
        failpoint("checkpoint-after-metadata")
        self.events.complete(number)
        failpoint("events-opened")
        self.store.guard()
        PinnedBacklog(self.store, "").discard()  # the backlog is in the checkpoint now
        if lifecycle.checkpointing:
            lifecycle.completed(number)
            self.tasks.commit()
        else:
            self.commit(number)
        laps.mark("commit")
        self.store.subsume(self.job.settings.retained_checkpoints)
        discard_if_behind(self.store)
        failpoint("checkpoint-before-gc")
        self.store.guard()
        self.job.sink.sweep(self.state.epoch)
        if self.job.late_rows is not None:
            self.job.late_rows.sweep(self.state.epoch)
        self.store.collect_garbage(self.job.operator.uid, self.state.lineages, up_to_epoch=self.state.epoch)
        self.scheduler.ended_checkpoint(now_ms)
        files = {file.name: file for lineage in self.state.lineages for file in lineage.files}
        new = [file for name, file in files.items() if name not in self._last_files]
        self._last_files = frozenset(files)
        output = metadata.transaction.files
        laps.mark("cleanup")
        return CheckpointReport(
            metadata.checkpoint_id,
            trigger,
            SAVEPOINT if trigger == SAVEPOINT else metadata.kind,
            metadata.is_drained,
            round((time.monotonic() - started) * 1000),
            sum(file.size_bytes for file in files.values()),
            sum(file.entries - file.tombstones for file in files.values()),
            new_files=len(new),
            new_bytes=sum(file.size_bytes for file in new),
            files=len(files),
            output_rows=sum(file.rows for file in output),
            output_bytes=sum(file.size_bytes for file in output),
            durations_ms=laps.ms,
        )

    @property
    def next_id(self) -> int:
        """Id of the next checkpoint; that of one which failed is not used again."""
        return max(self.state.checkpoint_id, self._attempted_id) + 1

    def commit(self, checkpoint_id: int) -> None:
        """Make the output of the last checkpoint visible."""
        assert self.last is not None and self.last.checkpoint_id == checkpoint_id
        commit_transaction(self.job, self.store, self.last)

    @property
    def _finished_shards(self) -> set[int]:
        """Shards that need not run again; a drained job goes on from its savepoint, so its shards do."""
        stage = stage_task(self.job.operator.uid)
        return {task.index for task in self.tasks.lifecycle.finished if task.vertex == stage}

    def _begin(self, number: int) -> None:
        """Have every task take part."""
        lifecycle = self.tasks.lifecycle
        if not lifecycle.checkpointing:
            return
        if not lifecycle.is_under_way(number):
            lifecycle.trigger(number)
        if not lifecycle.is_taken(number):
            raise CheckpointError(f"not all tasks have taken part in checkpoint {number}: they have work to do first")

    def _write(self, trigger: str, number: int, drained: bool, savepoint: WantedSavepoint | None) -> CheckpointMetadata:
        failpoint("checkpoint-start")
        self.compact()
        self._laps.mark("compact")
        state = self.state
        if state.batch_id >= 0 and (state.spark is None or state.spark.batch_id != state.batch_id):
            state.spark = self.store.spark_log.position(state.batch_id)
        events = self.events.begin(number)
        failpoint("events-buffering")
        metadata = state.to_metadata(
            number,
            self.job.operator,
            with_state=self.job.keeps_state,
            trigger=trigger,
            finished_shards=self._finished_shards,
            events=events,
            drained=drained,
            savepoint=savepoint,
            form=self.job.staged_form,
        )
        failpoint("events-stored")
        self.store.write(metadata)
        return metadata

    def _within_timeout(self, run: Callable[[], _T]) -> _T:
        """Run Spark jobs on behalf of a checkpoint; they are cancelled when the checkpoint's time is up."""
        context = self.job.spark.sparkContext
        timeout_ms = self.job.settings.checkpoint_timeout_ms
        tag = f"mixedmode-{self.run_id}-checkpoint"
        expired = threading.Event()

        def give_up() -> None:
            expired.set()
            context.cancelJobsWithTag(tag)

        timer = threading.Timer(timeout_ms / 1000, give_up)
        timer.start()
        context.addJobTag(tag)
        try:
            return run()
        except Exception as error:
            if expired.is_set():
                raise CheckpointError(
                    f"it took longer than execution.checkpointing.timeout ({timeout_ms} ms)"
                ) from error
            raise
        finally:
            context.removeJobTag(tag)
            timer.cancel()

    def compact(self) -> None:
        """Compact the shards whose change logs have outgrown their base, in one Spark job."""
        lineages = self.state.lineages
        kinds = {shard: kind for shard, lineage in enumerate(lineages) if (kind := lineage.needs_compaction())}
        if kinds:
            self._compact(kinds)

    def rewrite(self, change: StateRewrite) -> None:
        """Change all values of the state, in one Spark job; the next checkpoint has them."""
        kinds: dict[int, CompactionKind] = {
            shard: "full" for shard, lineage in enumerate(self.state.lineages) if lineage.files
        }
        if kinds:
            self._compact(kinds, change)

    def _compact(self, kinds: dict[int, CompactionKind], change: StateRewrite | None = None) -> None:
        lineages, what = self.state.lineages, "compacted" if change is None else "rewritten"
        rows, partitions = self.executor.places(tuple(kinds), lineages)
        task = CompactionTask(
            job_id=self.state.job_id,
            epoch=self.state.epoch,
            name=f"e{self.state.epoch:08d}-{what}-{self.run_id}-{uuid.uuid4().hex[:8]}",
            lineages=tuple(lineages),
            kinds=kinds,
            shards=partitions,
            registry=self.job.operator.registry,
            key_schema=self.job.operator.key_schema,
            filesystem=self.store.filesystem,
            pool=self.store.pool(self.job.operator.uid),
            local_dir=self.job.settings.state_local_dir,
            cache_bytes=self.job.settings.state_cache_bytes,
            now_ms=round(time.time() * 1000),
            change=change,
        )
        # A rewrite takes as long as the state is large, and there is nothing to go on with without it.
        compacted = (
            self._within_timeout(lambda: compact_shards(rows, task)) if change is None else compact_shards(rows, task)
        )
        failpoint("checkpoint-compacted")
        for shard, lineage in compacted.items():
            self.state.shards[shard].lineage = lineage
        failpoint("checkpoint-after-compaction")
