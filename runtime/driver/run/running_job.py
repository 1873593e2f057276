"""The parts of one run, as its phases and endings use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...jobs.executor import EpochExecutor
from ...metrics.events.events import CheckpointCompleted, SourceChanged
from ...protocols.checkpoint_scheduler import CheckpointScheduler
from ...protocols.lifecycle.work import TaskWorker
from ...spec import JobSpec, Phase
from ..checkpoint.checkpoint_coordinator import CheckpointCoordinator
from ..checkpoint.checkpoint_thread import CompletingThread
from ..checkpoint.housekeeping import Housekeeping
from ..coordinators.event_channels import JobEvents
from ..coordinators.task_graph import lifecycle_of
from ..epochs.epoch_runner import EpochRunner
from ..epochs.graph_epochs import GraphEpochs
from ..epochs.pinned_backlog import PinnedBacklog
from ..recovery.recovery import RecoveredRun
from ..sources.live_folders import LiveFolders
from ..sources.seam_report import SeamReport
from ..sources.source_losses import SourceLosses
from ..sources.source_offsets import SourceOffsets
from ..sources.source_status import SourceStatus
from ..state.job_state import JobState
from ..state.stage_handoffs import handoffs_of, output_place_of
from .run_context import RunContext
from .run_parts import checkpoint_services, completing_threads, executor_of, scheduler_of


@dataclass(frozen=True)
class RunningJob:
    """A run that knows where its job stands."""

    job: JobSpec
    context: RunContext
    state: JobState
    scheduler: CheckpointScheduler
    executors: Mapping[str, EpochExecutor]
    #: The lifecycle of the job's tasks, and the work that it asks for.
    tasks: TaskWorker
    events: JobEvents
    epochs: EpochRunner
    checkpoints: CheckpointCoordinator
    #: Where checkpoints are completed beside the epochs.
    beside: CompletingThread
    #: Where files are compacted and removed behind those.
    tidying: CompletingThread
    sources: SourceStatus
    #: What its micro-batches hold of the sources.
    offsets: SourceOffsets
    #: What those have lost before they were read.
    losses: SourceLosses
    #: How live inputs go on from histories.
    seams: SeamReport
    #: Whether the folders of live files are there.
    folders: LiveFolders
    #: Keeps the finished shards of the backlog; None: the backlog is behind, or cannot be told from another one.
    pin: PinnedBacklog | None
    #: Whether the run goes on from a checkpoint.
    is_recovered: bool

    @classmethod
    def of(cls, recovered: RecoveredRun, context: RunContext) -> RunningJob:
        """Put the parts together."""
        job, state, listener = recovered.job, recovered.state, context.listener
        scheduler = scheduler_of(job, state)
        tasks = TaskWorker(lifecycle_of(job, state))
        events = JobEvents.of(job, state, context.wake.set)
        handoffs = handoffs_of(job, context.store)
        executors = {
            uid: executor_of(job, state, uid, context, output_place_of(job, handoffs, uid)) for uid in state.stages
        }

        def applied() -> None:
            context.published.of_state(state)

        def published(event: CheckpointCompleted | SourceChanged) -> None:
            context.published.of_state(state)
            listener.on(event)

        losses = SourceLosses(job, state, context.store, listener)
        graph = GraphEpochs(
            job=job,
            state=state,
            executors=executors,
            handoffs=handoffs,
            listener=listener,
            backlog=context.backlog,
            tag=context.tag,
            events=events,
            applied=applied,
        )
        beside, tidying = completing_threads(job, context)
        services = checkpoint_services(job, state, context, events, handoffs, executors)
        context.published.of_state(state)
        return cls(
            job=job,
            context=context,
            state=state,
            scheduler=scheduler,
            executors=executors,
            tasks=tasks,
            events=events,
            epochs=EpochRunner(
                job=job,
                state=state,
                store=context.store,
                graph=graph,
                listener=listener,
                turn=context.turn,
                stopping=context.stopping,
                events=events,
            ),
            checkpoints=CheckpointCoordinator(
                services=services,
                scheduler=scheduler,
                state=state,
                tasks=tasks,
                stage_result=graph.stage_whole_result,
                beside=beside,
                housekeeping=Housekeeping(services, state, tidying),
                on_completed=published,
                on_failed=listener.on,
                beside_and_wait=beside.wait_for,
            ),
            beside=beside,
            tidying=tidying,
            sources=SourceStatus(job, state, scheduler, tasks, published),
            offsets=SourceOffsets(job, listener),
            losses=losses,
            seams=SeamReport(job, state, losses, listener),
            folders=LiveFolders.of(job.live, job.spark, listener),
            pin=recovered.pin,
            is_recovered=recovered.checkpoint is not None,
        )

    def is_behind(self, phase: Phase) -> bool:
        """True if the run that this one goes on from has completed the phase.

        A checkpoint with no source in backlog was taken at the switch or later: what waits at the live source now is
        the stream's.  A job without a live phase works off what has arrived since its last run.
        """
        switched = self.is_recovered and not self.state.is_backlog
        return switched and self.job.has_phase("live") and phase.is_passed_once
