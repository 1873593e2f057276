"""Puts the parts of a run together: scheduler, executor, tasks, checkpointer, stepper."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..checkpoints.lease.driver_lease import DriverLease
from ..checkpoints.store import CheckpointStore
from ..metrics.backlog import BacklogProgress
from ..metrics.listeners import RunListener
from ..protocols.checkpoint_scheduler import CheckpointScheduler
from ..protocols.lifecycle.work import TaskWorker
from ..tasks.executor import EpochExecutor
from .checkpoint_coordinator import Checkpointer
from .epoch_runner import Stepper, clock_ms
from .event_channels import JobEvents
from .job_state import JobState
from .task_graph import lifecycle_of

if TYPE_CHECKING:
    from ..spec import JobSpec


@dataclass(frozen=True)
class Run:
    """What belongs to one run of a job, besides its state."""

    run_id: str
    #: Spark job tag, by which the run's jobs can be cancelled.
    tag: str
    listener: RunListener
    backlog: BacklogProgress
    lease: DriverLease
    turn: threading.RLock
    stopping: threading.Event
    #: Set to have the phase's clock look again at once.
    wake: threading.Event


def assemble(job: JobSpec, store: CheckpointStore, state: JobState, run: Run) -> Stepper:
    """The stepper of a run that goes on from a state."""
    scheduler = _scheduler(job, state)
    tasks = TaskWorker(lifecycle_of(job, state))
    events = JobEvents.of(job, state, run.wake.set)
    executor = _executor(job, store, state, run)
    return Stepper(
        job=job,
        state=state,
        scheduler=scheduler,
        checkpointer=Checkpointer(job, store, scheduler, state, run.run_id, run.lease, tasks, events, executor),
        executor=executor,
        listener=run.listener,
        backlog=run.backlog,
        tag=run.tag,
        turn=run.turn,
        stopping=run.stopping,
        tasks=tasks,
        events=events,
    )


def _scheduler(job: JobSpec, state: JobState) -> CheckpointScheduler:
    settings = job.settings
    during_backlog_ms = settings.interval_during_backlog_ms
    if settings.runtime_mode == "streaming" and not during_backlog_ms:
        during_backlog_ms = settings.checkpoint_interval_ms
    return CheckpointScheduler(
        interval_ms=settings.checkpoint_interval_ms,
        interval_during_backlog_ms=during_backlog_ms,
        min_pause_ms=settings.checkpoint_min_pause_ms,
        now_ms=clock_ms(),
        sources=frozenset(state.sources),
        # From the start, not as changes: the first trigger is then armed by the interval that is in force.
        backlog={name for name, source in state.sources.items() if source.is_backlog},
        ended={name for name, source in state.sources.items() if source.finished},
    )


def _executor(job: JobSpec, store: CheckpointStore, state: JobState, run: Run) -> EpochExecutor:
    return EpochExecutor(
        spark=job.spark,
        operator=job.operator,
        settings=job.settings,
        job_id=state.job_id,
        run_id=run.run_id,
        max_parallelism=state.max_parallelism,
        state_filesystem=store.filesystem,
        state_pool=store.pool(job.operator.uid),
        output=job.sink.output,
        progress_folder=run.backlog.folder,
    )
