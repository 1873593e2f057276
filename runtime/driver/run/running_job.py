"""The parts of one run, as its phases and endings use them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...checkpoints.lease.driver_lease import DriverLease
from ...checkpoints.savepoints.queue import SavepointQueue
from ...checkpoints.store import CheckpointStore
from ...connectors.output_place import OutputPlace
from ...connectors.sources.live_query import LiveSource
from ...jobs.executor import EpochExecutor
from ...metrics.backlog_progress import BacklogProgress
from ...metrics.events.events import CheckpointCompleted, SourceChanged
from ...metrics.events.facts import FactListener
from ...protocols.checkpoint_scheduler import COVERED_MS, CheckpointScheduler
from ...protocols.lifecycle.work import TaskWorker
from ...spec import Phase
from ...support.failpoints import BESIDE
from ...tasks.shard.pass_pause import PassPause, PauseMarker
from ..checkpoint.async_checkpoint import CheckpointServices
from ..checkpoint.checkpoint_coordinator import CheckpointCoordinator
from ..checkpoint.checkpoint_thread import CompletingThread
from ..checkpoint.housekeeping import Housekeeping
from ..checkpoint.state_compactor import StateCompactor
from ..clocks import clock_ms
from ..coordinators.event_channels import JobEvents
from ..coordinators.task_graph import lifecycle_of
from ..epochs.epoch_runner import EpochRunner
from ..epochs.graph_epochs import GraphEpochs
from ..epochs.pinned_backlog import PinnedBacklog
from ..requests.commit_queue import CommitQueue
from ..requests.pause_switch import PauseSwitch
from ..requests.rescale_queue import RescaleQueue
from ..sources.live_folders import LiveFolders
from ..sources.seam_report import SeamReport
from ..sources.source_cleaning import SourceCleaning
from ..sources.source_losses import SourceLosses
from ..sources.source_offsets import SourceOffsets
from ..sources.source_status import SourceStatus
from ..state.job_state import JobState
from ..state.stage_handoffs import exchanges_of, place_of
from .backlog_pause import BacklogPause
from .live_start import LiveStart
from .run_snapshot import Published

if TYPE_CHECKING:
    from ...spec import JobSpec
    from ..recovery.recovery import Recovered


@dataclass
class RunContext:
    """What a run has from its very beginning, before it is known where the job stands."""

    run_id: str
    store: CheckpointStore
    listener: FactListener
    #: Moves to the branch that the run works in when the location is claimed.
    backlog: BacklogProgress
    lease: DriverLease
    #: Held by whoever runs an epoch, takes a checkpoint, or changes anything of the job's state.
    turn: threading.RLock
    stopping: threading.Event
    #: Set to have the phase's clock look again at once.
    wake: threading.Event
    #: Savepoints that users ask for.
    savepoints: SavepointQueue
    #: What users ask to be made visible.
    commits: CommitQueue
    #: Whether users want a pause.
    pause: PauseSwitch
    live: LiveSource | None
    live_start: LiveStart
    #: What other threads may read.
    published: Published
    #: Set when the run has failed.
    failed: threading.Event = field(default_factory=threading.Event)
    #: Set when ``stop()`` has given the run up.
    given_up: threading.Event = field(default_factory=threading.Event)
    #: Other numbers of shards that users ask for.
    rescales: RescaleQueue = field(default_factory=RescaleQueue)

    @property
    def marker(self) -> PauseMarker:
        """What keeps tasks from beginning with a shard."""
        return PauseMarker(self.store.filesystem, f"{self.store.home}/pause")

    @property
    def pass_pause(self) -> PassPause:
        """Pauses of a backlog at batch speed."""
        held = BacklogPause(self.pause, self.stopping, self.wake, self.lease.check, self.listener)
        tag = f"{self.tag}-shards"
        return PassPause(self.marker, tag, lambda: self.pause.times, lambda: self.pause.is_wanted, held.hold)

    def is_set(self) -> bool:
        """Whether the run is to end, for whoever waits for somebody outside: it was stopped, or has failed, or a
        savepoint ends it."""
        return self.stopping.is_set() or self.failed.is_set() or self.savepoints.ends_the_job

    @property
    def tag(self) -> str:
        """Spark job tag, by which the run's jobs can be cancelled."""
        return f"mixedmode-{self.run_id}"

    @property
    def tag_of_all(self) -> str:
        """The same for all Spark jobs of the run's threads, those of a user's ``foreachBatch`` function among them."""
        return f"{self.tag}-all"


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
    def of(cls, recovered: Recovered, context: RunContext) -> RunningJob:
        """Put the parts together."""
        job, state, listener = recovered.job, recovered.state, context.listener
        scheduler = _scheduler(job, state)
        tasks = TaskWorker(lifecycle_of(job, state))
        events = JobEvents.of(job, state, context.wake.set)
        exchanges = exchanges_of(job, context.store)
        executors = {uid: _executor(job, state, uid, context, place_of(job, exchanges, uid)) for uid in state.stages}

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
            exchanges=exchanges,
            listener=listener,
            backlog=context.backlog,
            tag=context.tag,
            events=events,
            applied=applied,
        )
        beside = CompletingThread(
            job.spark, f"{BESIDE}{context.run_id}", context.wake.set, context.tag_of_all, context.given_up
        )
        name = f"{BESIDE}{context.run_id}-housekeeping"
        tidying = CompletingThread(job.spark, name, context.wake.set, context.tag_of_all, context.given_up)
        compactor = StateCompactor(job, state.job_id, context.run_id, context.store, executors)
        cleaning = SourceCleaning(job, context.store, context.live)
        cleaning.begin()
        services = CheckpointServices(
            job=job,
            store=context.store,
            lease=context.lease,
            events=events,
            exchanges=exchanges,
            compactor=compactor,
            clean_sources=cleaning.clean,
            failed=context.failed,
            given_up=context.given_up,
        )
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
                tell=published,
                tell_failed=listener.on,
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


def _scheduler(job: JobSpec, state: JobState) -> CheckpointScheduler:
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


def _executor(job: JobSpec, state: JobState, uid: str, context: RunContext, output: OutputPlace) -> EpochExecutor:
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
        runs_folder=f"{context.store.runs}/{uid}",
        stopped_folder=f"{context.store.backlog}/stopped",
        pause=context.pass_pause,
        observes=bool(job.stage_of(uid).observed) or (transform is not None and bool(transform.observed)),
    )
