"""Creates the parts of a run from the job, its state and its settings."""

from __future__ import annotations

from collections.abc import Mapping

from ...connectors.output_place import OutputPlace
from ...connectors.stage_handoff import StageHandoff
from ...jobs.executor import EpochExecutor
from ...jobs.scan_pass import ScanPlace
from ...protocols.checkpoint_scheduler import COVERED_MS, CheckpointScheduler
from ...spec import JobSpec
from ...support.failpoints import BESIDE
from ..checkpoint.async_checkpoint import CheckpointServices
from ..checkpoint.checkpoint_thread import CompletingThread
from ..checkpoint.state_compactor import StateCompactor
from ..clocks import clock_ms
from ..coordinators.event_channels import JobEvents
from ..sources.source_cleaning import SourceCleaning
from ..state.job_state import JobState
from .run_context import RunContext


def scheduler_of(job: JobSpec, state: JobState) -> CheckpointScheduler:
    """Says when checkpoints are due."""
    settings = job.settings
    during_backlog_ms = settings.interval_during_backlog_ms
    if not during_backlog_ms and (settings.runtime_mode == "streaming" or job.has_phase("catch-up")):
        during_backlog_ms = settings.checkpoint_interval_ms or COVERED_MS
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


def executor_of(job: JobSpec, state: JobState, uid: str, context: RunContext, output: OutputPlace) -> EpochExecutor:
    """Runs the epochs of one stage.

    Args:
        job: the job.
        state: its state.
        uid: of the stage.
        context: the run's.
        output: where the stage's rows go.
    """
    stage, transform = state.stages[uid], job.output_transform_in_stage if uid == job.last_stage.uid else None
    return EpochExecutor(
        spark=job.planning,
        operator=stage.operator,
        settings=job.settings,
        job_id=state.job_id,
        run_id=context.run_id,
        max_parallelism=stage.max_parallelism,
        state_filesystem=context.store.filesystem,
        state_pool=context.store.pool(uid),
        output=output,
        output_transform=transform,
        feeds_a_stage=uid != job.last_stage.uid,
        progress_folder=context.backlog.folder,
        scans=ScanPlace(f"{context.store.runs}/{uid}", f"{context.store.backlog}/stopped", job.scan_least_bytes),
        pause=context.pass_pause,
        observes=bool(job.stage_of(uid).observed) or (transform is not None and bool(transform.observed)),
    )


def completing_threads(job: JobSpec, context: RunContext) -> tuple[CompletingThread, CompletingThread]:
    """Where checkpoints are completed beside the epochs, and where files are compacted and removed behind those."""
    beside, tidying = (
        CompletingThread(job.spark, name, context.wake.set, context.tag_of_all, context.given_up)
        for name in (f"{BESIDE}{context.run_id}", f"{BESIDE}{context.run_id}-housekeeping")
    )
    return beside, tidying


def checkpoint_services(
    job: JobSpec,
    state: JobState,
    context: RunContext,
    events: JobEvents,
    handoffs: Mapping[str, StageHandoff],
    executors: Mapping[str, EpochExecutor],
) -> CheckpointServices:
    """Whom the completion of a checkpoint asks.

    Args:
        job: the job.
        state: its state.
        context: the run's.
        events: those between coordinators and shards.
        handoffs: what stages hand to others.
        executors: by stage.
    """
    cleaning = SourceCleaning(job, context.store, context.live)
    cleaning.begin()
    return CheckpointServices(
        job=job,
        store=context.store,
        lease=context.lease,
        events=events,
        handoffs=handoffs,
        compactor=StateCompactor(job, state.job_id, context.run_id, context.store, executors),
        clean_sources=cleaning.clean,
        failed=context.failed,
        given_up=context.given_up,
    )
