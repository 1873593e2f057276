"""Drives a job through the phases of its plan, on a thread of its own.

The runner decides nothing about modes: it executes ``job.phases`` in order.  A phase that a recovered job has behind it
is skipped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from ....errors import CheckpointError, QueryError
from ...checkpoints.branch import Branch
from ...checkpoints.identity import JobIdentity
from ...checkpoints.lease.driver_lease import DriverLease, LocationLost
from ...checkpoints.savepoints.destination import check_destination, check_writable, claim
from ...checkpoints.savepoints.queue import SavepointQueue, SavepointRequest
from ...checkpoints.store import CheckpointStore
from ...connectors.sources.live_query import LiveSource, Stopped
from ...jvm.jvm_loss import explain_jvm_loss
from ...jvm.spark_errors import what_happened
from ...jvm.worker_errors import translate
from ...metrics.backlog import BacklogProgress
from ...metrics.events.events import PhaseBegan, RunRestored, SavepointWritten
from ...metrics.events.facts import FactListener, RunFinished, StateEvolved, file_lost
from ...spec import JobSpec
from ...storage.filesystem import delete_quietly, resolve, write_atomically
from ...storage.spark_paths import spark_uri
from ...support.clean_up import take_all
from ...support.failpoints import failpoint
from ..recovery.recovery import Recovered, identify, recover, refuse_more_after_the_end
from ..recovery.takeover import begin_branch, open_outputs, remove_older_branches
from ..requests.commit_queue import CommitQueue, CommitRequest
from ..requests.pause_switch import PauseSwitch
from ..requests.rescale_queue import RescaleRequest
from .hangs import what_hangs
from .live_start import LiveStart
from .phases import IN_BACKLOG, PHASES
from .rescaling import IN_BACKLOG as NO_RESCALE_IN_BACKLOG
from .rescaling import check_rescale, redealt_at_restart
from .running_job import RunContext, RunningJob
from .shutdown import Ending
from .snapshot import Published, RunSnapshot

logger = logging.getLogger(__name__)


class JobRunner:
    """Executes one job from recovery to its end.

    Args:
        job: what to do.
        location: the checkpoint location (a temporary folder for sinks that need none).
        run_id: id of this run; new with every start.
        listener: is told what happens.
    """

    def __init__(self, job: JobSpec, location: str, run_id: str, listener: FactListener) -> None:
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
        )
        store.guard = lease.check
        turn, stopping, wake, live = threading.RLock(), threading.Event(), threading.Event(), None
        pause = PauseSwitch(wake.set)
        if job.live is not None:
            uri = spark_uri(job.spark, location, f"{path}/spark")
            live = LiveSource(job.live, uri, job.name, turn, stopping)
        # What is below the location moves to the branch that the run works in, which is known when it is claimed.
        self._context = RunContext(
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
        self._thread_id: int | None = None
        #: Held by whoever begins or ends a pause.
        self._pausing = threading.Lock()
        #: The location's, from the moment when it is claimed.
        self.identity: JobIdentity | None = None
        #: Set once recovery is done.
        self._run: RunningJob | None = None
        self._ending: Ending | None = None

    # -- what others may know ----------------------------------------------------------------------------------------

    @property
    def now(self) -> RunSnapshot:
        """Where the run stood when it last changed; for any thread."""
        return self._context.published.now

    @property
    def backlog(self) -> BacklogProgress:
        """How far the backlog has come."""
        return self._context.backlog

    @property
    def store(self) -> CheckpointStore:
        """The checkpoint location's."""
        return self._context.store

    @property
    def lease(self) -> DriverLease:
        """The run's claim on the location."""
        return self._context.lease

    @property
    def live(self) -> LiveSource | None:
        """The live source's query; None: the job has none."""
        return self._context.live

    @property
    def running(self) -> RunningJob | None:
        """The parts of the run; None: it has not recovered yet."""
        return self._run

    # -- the run -----------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Claim the checkpoint location for this run, which may take one ``execution.lease.expiry``.

        Raises:
            CheckpointError: another driver has it, it is not for this job, or it cannot be written to.
        """
        context, store = self._context, self._context.store
        if context.lease.claim is None:
            try:
                claimed = context.lease.take(store.view)
            except OSError as error:
                raise CheckpointError(f"checkpointLocation {self._location!r} cannot be claimed: {error}") from error
            context.lease.on_lost = context.wake.set
            store.work_in(Branch(claimed.branch))
            backlog = BacklogProgress(store.filesystem, f"{store.home}/progress", context.listener)
            self._context = replace(context, backlog=backlog)
            self._let_shards_begin()  # an earlier run may have been killed in a pause
            if context.live is not None:
                context.live.checkpoint = spark_uri(self.job.spark, self._location, store.spark_location)
        if self.identity is None:
            try:
                self.identity = identify(self.job, store)
            except BaseException:
                context.lease.release()
                raise

    def run(self) -> None:
        """Recover, then execute the phases; returns at the end of input or when stopped."""
        self.claim()
        self._thread_id = threading.get_ident()
        self.job.spark.sparkContext.addJobTag(self._context.tag_of_all)
        context, why = self._context, "the query has ended"
        try:
            assert self.identity is not None, "claim() finds it"
            recovered = self._recovered(self.identity)
            self._run = run = RunningJob.of(recovered, context)
            self._ending = ending = Ending(run)
            self._go_through(run, ending, recovered)
            self._tidy()
        except Stopped:
            self._close_tasks()
            self._tidy()
            raise
        except BaseException as error:
            context.failed.set()
            explained = error if self._run is None else self._run.losses.explained(error)
            why = f"the query has failed: {what_happened(explain_jvm_loss(translate(explained), self.job.spark))}"
            try:
                context.lease.find_out()
            except LocationLost as lost:
                raise lost from error
            if explained is not error:
                raise explained from error
            raise
        finally:
            self._thread_id = None
            context.savepoints.close(why)
            context.pause.close(why)
            # Whatever else fails now, perhaps for the same reason, is neither why the run ends nor a reason to stay.
            steps: list[Callable[[], object]] = []
            if self._run is not None:
                # What it completes it does before anything that it needs is closed.
                steps += [self._give_up_checkpoint]
            steps += [partial(context.rescales.close, why)]
            if self._run is not None:
                steps += [
                    self._run.beside.close,
                    self._run.tidying.close,
                    self._run.events.close,
                    self._run.losses.close,
                ]
            if self._run is not None and self._ending is not None:
                # Before another run may remove their files.
                steps += [self._ending.wait_for_savepoints]
                steps += [executor.close for executor in self._run.executors.values()]
            steps += [] if context.live is None else [context.live.close]
            take_all(*steps, context.lease.release)
            context.commits.close("the run has ended")

    def _recovered(self, identity: JobIdentity) -> Recovered:
        """Find out where the job stands, and keep older drivers from what can be seen."""
        store, lease = self._context.store, self._context.lease
        assert lease.claim is not None
        self.job.sink.ending = self._context
        begin_branch(self.job, store, identity, lease.claim)
        open_outputs(self.job, store, identity)
        recovered = recover(self.job, store, identity)
        store.guard()
        self.job.sink.fence()
        remove_older_branches(self.job, store)
        return recovered

    def _go_through(self, run: RunningJob, ending: Ending, recovered: Recovered) -> None:
        context, state = self._context, run.state
        self._tell(recovered)
        if state.finished:
            refuse_more_after_the_end(run.job, context.store, state)
            context.listener.on(RunFinished(None))
            return
        context.live_start.settle(state)
        run.seams.check()
        for uid, change in recovered.rewrites.items():
            run.checkpoints.rewrite(uid, change)
        run.events.open()
        for phase in run.job.phases:
            if context.stopping.is_set():
                break
            if run.is_behind(phase):
                continue
            context.published.enters(phase)
            context.listener.on(PhaseBegan(phase=phase.kind))
            failpoint(f"phase-{phase.kind}")
            PHASES[phase.kind](run, ending, phase)
            if phase.serves_savepoints_at_its_end:
                ending.serve(phase)
            if phase.takes_savepoints and (request := context.savepoints.take_stop()) is not None:
                ending.stop_with_savepoint(phase, request)
                return
        self._close_tasks()

    def _tell(self, recovered: Recovered) -> None:
        """Say what was found."""
        listener, checkpoint = self._context.listener, recovered.checkpoint
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
        assert self._run is not None
        with self._context.turn:
            self._run.checkpoints.give_up()
            if self._ending is not None:
                self._ending.settle_rescale()

    def _tidy(self) -> None:
        if self._run is not None:
            with self._context.turn:
                self._run.checkpoints.housekeeping.finish()

    def _close_tasks(self) -> None:
        """The run ends as things stand, and when the checkpoint in flight is complete."""
        if self._run is not None:
            with self._context.turn:
                self._run.checkpoints.wait()
        if self._ending is not None:
            self._ending.cancel()

    # -- what users ask for ------------------------------------------------------------------------------------------

    def ask_savepoint(self, request: SavepointRequest) -> None:
        """Hand in a request for a savepoint, which is answered between two epochs.

        Raises:
            CheckpointError: there is something at the savepoint's path, or it cannot be written to.
            QueryError: the query cannot take one now, or has ended.
        """
        if not self.job.keeps_state:
            raise QueryError(
                f"no {request} can be taken: execution.runtime-mode is batch, which keeps no state",
                code="MIXEDMODE_SAVEPOINT_NOT_TAKEN",
            )
        check_destination(request.path)
        phase = self.now.phase
        if not request.wait and phase is not None and not phase.takes_savepoints:
            raise QueryError(f"no {request} can be taken: {IN_BACKLOG}", code="MIXEDMODE_SAVEPOINT_NOT_TAKEN")
        if request.stop is not None:
            check_writable(request.path)  # later it would cost the job's run
        self._context.savepoints.ask(request)
        self._context.wake.set()

    def ask_rescale(self, request: RescaleRequest) -> None:
        """Hand in a request for another number of shards, which is answered between two epochs.

        Raises:
            QueryError: it cannot be done now, or ever.
            ValueError: there cannot be so many shards.
        """
        check_rescale(self.job, request)
        phase = self.now.phase
        if not request.wait and phase is not None and phase.kind == "backlog":
            raise QueryError(f"no {request} can be done: {NO_RESCALE_IN_BACKLOG}", code="MIXEDMODE_RESCALE_NOT_DONE")
        self._context.rescales.ask(request)
        self._context.wake.set()

    def withdraw_rescale(self, request: RescaleRequest) -> bool:
        """Take a request back; False: the run has begun with it."""
        return self._context.rescales.withdraw(request)

    def ask_commit(self) -> Future[bool]:
        """Have all that is processed made visible; False: the run has ended instead."""
        request = CommitRequest()
        self._context.commits.ask(request)
        self._context.wake.set()
        return request.answer

    def ask_pause(self) -> Future[None]:
        """Have the run stand still; answered when it does.

        Raises:
            QueryError: the run has ended.
        """
        with self._pausing:
            context, phase = self._context, self.now.phase
            # Before the first task can see the marker: the pass must know that it was not told of all shards.
            answer = context.pause.ask()
            if phase is not None and phase.kind == "backlog" and not context.stopping.is_set():
                self._hold_shards()
                if not context.backlog.has_begun:
                    # It reads yet: no shard is lost by beginning again.
                    self.job.spark.sparkContext.cancelJobsWithTag(context.pass_pause.tag)
        return answer

    def _hold_shards(self) -> None:
        """Keep tasks that have not begun with their shard from it."""
        marker = self._context.marker
        try:
            write_atomically(marker.filesystem, marker.path, b"")
        except OSError as error:
            logger.warning("the backlog runs to its end before the pause: %s", error)

    def resume(self) -> bool:
        """Have the run go on after a pause; False: there was none.

        Raises:
            QueryError: the run has ended.
        """
        with self._pausing:
            self._let_shards_begin()
            return self._context.pause.lift()

    def _let_shards_begin(self) -> None:
        marker = self._context.marker
        delete_quietly(marker.filesystem, marker.path)

    @property
    def pause(self) -> PauseSwitch:
        """Whether the run makes a pause."""
        return self._context.pause

    def stop(self) -> None:
        """End the run: what the live phase has processed is checkpointed, an unfinished backlog leaves nothing."""
        context = self._context
        context.stopping.set()
        context.wake.set()
        if self.is_inside:
            return  # the step in hand is the caller's own: it is finished, and no other begins
        # Were it to become live meanwhile: each step of that phase looks at ``stopping`` first.
        phase = self.now.phase
        if phase is None or not phase.finishes_its_epoch:
            stop_live = [] if context.live is None else [context.live.stop]
            # Where Spark itself is gone there is nothing to cancel, and the run finds out by itself.
            take_all(lambda: self.job.spark.sparkContext.cancelJobsWithTag(context.tag), *stop_live)

    def what_hangs(self) -> str:
        """What the run has in hand, in words: the user's function, Spark's tasks, or the phase."""
        live, beside = self._context.live, None if self._run is None else self._run.beside.thread_id
        threads = (beside, None if live is None else live.thread_id, self._thread_id)
        return what_hangs(self.job, self._context, threads)

    def give_up(self) -> None:
        """Have nobody wait any more for what is in hand: :meth:`stop` was called, and it does not return.

        Nothing of it counts: what has no checkpoint is processed again by the next run.
        """
        context = self._context
        context.lease.give_up()
        context.failed.set()
        context.given_up.set()
        context.wake.set()
        spark = self.job.spark.sparkContext
        take_all(lambda: spark.cancelJobsWithTag(context.tag), lambda: spark.cancelJobsWithTag(context.tag_of_all))

    def leave(self) -> None:
        """Give the location free although the run's thread has not come back, and stop the live source's query."""
        context, why = self._context, "the query was stopped, and given up"
        steps: list[Callable[[], object]] = [
            partial(context.savepoints.close, why),
            partial(context.pause.close, why),
            partial(context.rescales.close, why),
        ]
        if (live := context.live) is not None:
            live.refuse()  # whose thread may be the very one that hangs, so that nobody waits for its end
            threading.Thread(target=partial(take_all, live.stop, live.close), daemon=True).start()
        take_all(*steps, context.lease.release, partial(context.commits.close, why))

    @property
    def is_given_up(self) -> bool:
        """True once :meth:`give_up` was called."""
        return self._context.given_up.is_set()

    @property
    def is_stopping(self) -> bool:
        """True once :meth:`stop` was called."""
        return self._context.stopping.is_set()

    @property
    def is_inside(self) -> bool:
        """True if a step of this job called us (a ``foreachBatch`` function): waiting for the job would be for ever."""
        live = self._context.live
        handing_over = None if live is None else live.thread_id
        completing = None if self._run is None else self._run.beside.thread_id
        return threading.get_ident() in (self._thread_id, handing_over, completing)
