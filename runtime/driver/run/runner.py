"""Drives a job through the phases of its plan, on a thread of its own.

The runner decides nothing about modes: it executes ``job.phases`` in order.  A phase that a recovered job has behind it
is skipped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from ....errors import CheckpointError
from ...checkpoints.branch import Branch
from ...checkpoints.identity import JobIdentity
from ...checkpoints.lease.driver_lease import DriverLease, LocationLost
from ...checkpoints.savepoints.destination import claim
from ...checkpoints.savepoints.queue import SavepointQueue
from ...checkpoints.store import CheckpointStore
from ...connectors.sources.live_query import LiveSource, Stopped
from ...jvm.session_loss import explain_session_loss
from ...jvm.spark_errors import what_happened
from ...jvm.worker_errors import translate
from ...metrics.backlog_progress import BacklogProgress
from ...metrics.events.events import PhaseBegan, RunRestored, SavepointWritten
from ...metrics.events.facts import FactListener, RunFinished, StateEvolved, file_lost
from ...spec import JobSpec
from ...storage.filesystem import resolve
from ...storage.spark_paths import spark_uri
from ...support.clean_up import take_all
from ...support.failpoints import failpoint
from ...support.ids import RunId
from ..epochs.live_columns import live_with_needed_columns
from ..realtime.phase import run_real_time
from ..recovery.recovery import RecoveredRun, identify, recover, refuse_more_after_the_end
from ..recovery.takeover import begin_branch, open_outputs, remove_older_branches
from ..requests.commit_queue import CommitQueue
from ..requests.pause_switch import PauseSwitch
from .live_start import LiveStart
from .phases import PHASES
from .rescaling import redealt_at_restart
from .run_context import RunContext
from .run_snapshot import Published
from .run_stop import RunStop
from .running_job import RunningJob
from .shutdown import Ending
from .user_requests import UserRequests

logger = logging.getLogger(__name__)


class JobRunner:
    """Executes one job from recovery to its end.

    Args:
        job: what to do.
        location: the checkpoint location (a temporary folder for sinks that need none).
        run_id: id of this run; new with every start.
        listener: is told what happens.
    """

    def __init__(self, job: JobSpec, location: str, run_id: RunId, listener: FactListener) -> None:
        self.job = job
        self._location = location
        filesystem, path = resolve(location)
        store = CheckpointStore(filesystem, path)
        settings = job.settings
        lease = DriverLease(
            filesystem,
            store.root,
            run_id,
            expiry_ms=settings.lease_expiry_ms,
            heartbeat_ms=settings.lease_heartbeat_ms,
            has_event_log=settings.event_log_enabled,
        )
        store.guard = lease.check
        turn, stopping, wake, live = threading.RLock(), threading.Event(), threading.Event(), None
        pause = PauseSwitch(wake.set)
        if job.live is not None:
            uri = spark_uri(job.spark, location, f"{path}/spark")
            live = LiveSource(job.live, partial(live_with_needed_columns, job), uri, job.name, turn, stopping)
        # What is below the location moves to the branch that the run works in, which is known when it is claimed.
        self.context = RunContext(
            run_id=run_id,
            store=store,
            listener=listener,
            backlog=BacklogProgress(filesystem, f"{store.root}/progress", listener),
            lease=lease,
            turn=turn,
            stopping=stopping,
            wake=wake,
            savepoints=SavepointQueue(lambda request: claim(request, store.location)),
            commits=CommitQueue(),
            pause=pause,
            live=live,
            live_start=LiveStart(job, store, location, live, listener),
            published=Published(),
        )
        #: What users ask for.
        self.requests = UserRequests(job, self.context)
        #: Ends the run.
        self.stopping = RunStop(job, self.context)
        #: The location's, from the moment when it is claimed.
        self.identity: JobIdentity | None = None
        #: The parts of the run; None: it has not recovered yet.
        self.running: RunningJob | None = None
        self._ending: Ending | None = None

    # -- the run -----------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Claim the checkpoint location for this run, which may take one ``execution.lease.expiry``.

        Raises:
            CheckpointError: another driver has it, it is not for this job, or it cannot be written to.
        """
        try:
            if self.context.lease.claim is None:
                self._take_lease()
            if self.identity is None:
                self.identity = identify(self.job, self.context.store)
        except BaseException as error:
            self.context.lease.release()  # no run begins, so none would
            if isinstance(error, OSError):
                raise CheckpointError(f"checkpointLocation {self._location!r} cannot be claimed: {error}") from error
            raise

    def _take_lease(self) -> None:
        context, store = self.context, self.context.store
        claimed = context.lease.take(store.view)
        context.lease.on_lost = context.wake.set
        store.work_in(Branch(claimed.branch))
        context.backlog = BacklogProgress(store.filesystem, f"{store.home}/progress", context.listener)
        self.requests.let_shards_begin()  # an earlier run may have been killed in a pause
        if context.live is not None:
            context.live.checkpoint = spark_uri(self.job.spark, self._location, store.spark_location)

    def run(self) -> None:
        """Recover, then execute the phases; returns at the end of input or when stopped."""
        self.claim()
        self.stopping.thread_id = threading.get_ident()
        self.job.spark.sparkContext.addJobTag(self.context.tag_of_all)
        context, why = self.context, "the query has ended"
        try:
            assert self.identity is not None, "claim() finds it"
            recovered = self._recovered(self.identity)
            self.running = self.stopping.run = run = RunningJob.of(recovered, context)
            self._ending = ending = Ending(run)
            self._go_through(run, ending, recovered)
            self._tidy()
        except Stopped:
            self._close_tasks()
            self._tidy()
            raise
        except BaseException as error:
            context.failed.set()
            explained = error if self.running is None else self.running.losses.explained(error)
            why = f"the query has failed: {what_happened(explain_session_loss(translate(explained), self.job.spark))}"
            try:
                context.lease.find_out()
            except LocationLost as lost:
                raise lost from error
            if explained is not error:
                raise explained from error
            raise
        finally:
            self.stopping.thread_id = None
            context.savepoints.close(why)
            context.pause.close(why)
            # Whatever else fails now, perhaps for the same reason, is neither why the run ends nor a reason to stay.
            steps: list[Callable[[], object]] = []
            if self.running is not None:
                # What it completes it does before anything that it needs is closed.
                steps += [self._give_up_checkpoint]
            steps += [partial(context.rescales.close, why)]
            if self.running is not None:
                steps += [
                    self.running.beside.close,
                    self.running.tidying.close,
                    self.running.events.close,
                    self.running.losses.close,
                ]
            if self.running is not None and self._ending is not None:
                # Before another run may remove their files.
                steps += [self._ending.wait_for_savepoints]
                steps += [executor.close for executor in self.running.executors.values()]
            steps += [] if context.live is None else [context.live.close]
            take_all(*steps, context.lease.release)
            context.commits.close("the run has ended")

    def _recovered(self, identity: JobIdentity) -> RecoveredRun:
        """Find out where the job stands, and keep older drivers from what can be seen."""
        store, lease = self.context.store, self.context.lease
        assert lease.claim is not None
        self.job.sink.ending = self.context
        begin_branch(self.job, store, identity, lease.claim)
        open_outputs(self.job, store, identity)
        recovered = recover(self.job, store, identity)
        store.guard()
        self.job.sink.fence()
        remove_older_branches(self.job, store)
        return recovered

    def _go_through(self, run: RunningJob, ending: Ending, recovered: RecoveredRun) -> None:
        context, state = self.context, run.state
        self._report_recovery(recovered)
        if state.finished:
            refuse_more_after_the_end(run.job, context.store, state)
            context.listener.on(RunFinished(None))
            return
        context.live_start.settle(state)
        run.seams.check()
        for uid, change in recovered.rewrites.items():
            run.checkpoints.housekeeping.rewrite(uid, change)
        run.events.open()
        for phase in run.job.phases:
            if context.stopping.is_set():
                break
            if run.is_behind(phase):
                continue
            context.published.enters(phase)
            context.listener.on(PhaseBegan(phase=phase.kind))
            failpoint(f"phase-{phase.kind}")
            function = PHASES[phase.kind] if phase.real_time_ms is None else run_real_time
            function(run, ending, phase)
            if phase.serves_savepoints_at_its_end:
                ending.serve(phase)
            if phase.takes_savepoints and (request := context.savepoints.take_stop()) is not None:
                ending.stop_with_savepoint(phase, request)
                return
        self._close_tasks()

    def _report_recovery(self, recovered: RecoveredRun) -> None:
        """Say what was found."""
        listener, checkpoint = self.context.listener, recovered.checkpoint
        if checkpoint is not None:
            listener.on(
                RunRestored(
                    checkpoint_id=checkpoint.checkpoint_id,
                    epoch=recovered.state.epoch,
                    drained=bool(checkpoint.drained),
                )
            )
            if (redealt := redealt_at_restart(checkpoint, recovered.state)) is not None:
                listener.on(redealt)
        if recovered.savepoint is not None:
            listener.on(SavepointWritten(path=recovered.savepoint, by_recovery=True))
        for change in recovered.evolution:
            listener.on(StateEvolved(change))
        for lost in recovered.lost:
            listener.on(file_lost(lost.path, lost.fate, recovered.state.epoch))

    def _give_up_checkpoint(self) -> None:
        assert self.running is not None
        with self.context.turn:
            self.running.checkpoints.give_up()
            if self._ending is not None:
                self._ending.settle_rescale()

    def _tidy(self) -> None:
        if self.running is not None:
            with self.context.turn:
                self.running.checkpoints.housekeeping.finish()

    def _close_tasks(self) -> None:
        """The run ends as things stand, and when the checkpoint in flight is complete."""
        if self.running is not None:
            with self.context.turn:
                self.running.checkpoints.wait()
        if self._ending is not None:
            self._ending.cancel()
