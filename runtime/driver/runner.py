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
from typing import TYPE_CHECKING

from ...errors import CheckpointError, QueryError
from ..checkpoints.branch import Branch
from ..checkpoints.identity import JobIdentity
from ..checkpoints.lease.driver_lease import DriverLease, LocationLost
from ..checkpoints.metadata import SourceState
from ..checkpoints.savepoints.destination import check_destination, check_writable, claim
from ..checkpoints.savepoints.queue import SavepointDesk, SavepointRequest
from ..checkpoints.store import CheckpointStore
from ..connectors.sources.history import HistoryCut, cut
from ..connectors.sources.live_query import LiveSource, OnBatch, Stopped, delivers_one_batch
from ..metrics.backlog import BacklogProgress
from ..metrics.listeners import PhaseBegan, Restored, RunFinished, RunListener, SavepointWritten, StateEvolved
from ..platform.clean_up import take_all
from ..platform.failpoints import failpoint
from ..platform.filesystem import resolve
from ..platform.jvm_loss import explain_jvm_loss
from ..platform.spark_paths import spark_uri
from ..platform.worker_errors import translate
from ..protocols.event_time import MAX_WATERMARK
from ..spec import JobSpec, Phase
from .assembly import Run, assemble
from .commit_queue import CommitDesk
from .endings import Ending
from .epoch_runner import Stepper, now_ms
from .epoch_specs import OBSERVED
from .job_state import JobState
from .live_start import LiveStart
from .naps import nap_s
from .pinned_backlog import PinnedBacklog
from .recovery import Recovered, identify, recover, refuse_more_after_the_end
from .takeover import begin_branch, open_outputs, remove_older_branches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

_IN_BACKLOG = (
    "the job works through its backlog, and execution.interval-during-backlog is 0, so there is no state to take it of"
    " before the switch; ask with wait=True to have it then, or set the option to an interval for checkpoints"
)


class JobRunner:
    """Executes one job from recovery to its end.

    Args:
        job: what to do.
        location: the checkpoint location (a temporary folder for sinks that need none).
        run_id: id of this run; new with every start.
        listener: is told what happens.
    """

    def __init__(self, job: JobSpec, location: str, run_id: str, listener: RunListener) -> None:
        self.job = job
        self.listener = listener
        self.run_id = run_id
        self.turn = threading.RLock()
        self.stopping = threading.Event()
        self.phase: Phase | None = None
        #: Set once recovery is done.
        self.stepper: Stepper | None = None
        filesystem, path = resolve(location)
        self.store = CheckpointStore(filesystem, path)
        settings = job.settings
        self.lease = DriverLease(
            filesystem,
            self.store.root,
            run_id,
            expiry_ms=settings.lease_expiry_ms,
            heartbeat_ms=settings.lease_heartbeat_ms,
        )
        self.store.guard = self.lease.check
        self._wake = threading.Event()
        self._thread_id: int | None = None
        self._recovered: Recovered | None = None
        #: Savepoints that users ask for.
        self.desk = SavepointDesk(lambda request: claim(request, self.store.location))
        #: The location's, from the moment when it is claimed.
        self.identity: JobIdentity | None = None
        #: What users ask to be made visible.
        self.commits = CommitDesk()
        self._ending: Ending | None = None
        self._location = location
        # Both move to the branch that the run works in, which is known when it has claimed the location.
        self.backlog = BacklogProgress(filesystem, f"{self.store.root}/progress")
        self.live: LiveSource | None = None
        if job.live is not None:
            spark_checkpoint = spark_uri(job.spark, location, f"{path}/spark")
            self.live = LiveSource(job.live, spark_checkpoint, job.name, self.turn, self.stopping)
        self._live_start = LiveStart(job, self.store, location, self.live, listener)

    def claim(self) -> None:
        """Claim the checkpoint location for this run, which may take one ``execution.lease.expiry``.

        Raises:
            CheckpointError: another driver has it, it is not for this job, or it cannot be written to.
        """
        if self.lease.claim is None:
            try:
                claim = self.lease.take(self.store.view)
            except OSError as error:
                raise CheckpointError(f"checkpointLocation {self._location!r} cannot be claimed: {error}") from error
            self.lease.on_lost = self._wake.set
            self.store.work_in(Branch(claim.branch))
            self.backlog = BacklogProgress(self.store.filesystem, f"{self.store.home}/progress")
            if self.live is not None:
                self.live.checkpoint = spark_uri(self.job.spark, self._location, self.store.spark_location)
        if self.identity is None:
            try:
                self.identity = identify(self.job, self.store)
            except BaseException:
                self.lease.release()
                raise

    def run(self) -> None:
        """Recover, then execute the phases; returns at the end of input or when stopped."""
        self.claim()
        self._thread_id = threading.get_ident()
        why = "the query has ended"
        try:
            assert self.identity is not None, "claim() finds it"
            self._run(self.identity)
        except Stopped:
            self._close_tasks()
            raise
        except BaseException as error:
            why = f"the query has failed: {explain_jvm_loss(translate(error), self.job.spark)}"
            try:
                self.lease.find_out()
            except LocationLost as lost:
                raise lost from error
            raise
        finally:
            self._thread_id = None
            self.desk.close(why)
            # Whatever else fails now, perhaps for the same reason, is neither why the run ends nor a reason to stay.
            steps: list[Callable[[], object]] = []
            if self.stepper is not None:
                steps.append(self.stepper.events.close)
            if self.stepper is not None and self._ending is not None:
                # Before another run may remove their files.
                steps += [self._ending.wait_for_savepoints, self.stepper.executor.close]
            take_all(*steps, self.lease.release)
            self.commits.close()

    def _run(self, identity: JobIdentity) -> None:
        assert self.lease.claim is not None
        begin_branch(self.job, self.store, identity, self.lease.claim)
        open_outputs(self.job, self.store, identity)
        self._recovered = recover(self.job, self.store, identity)
        self.store.guard()
        self.job.sink.fence()
        remove_older_branches(self.job, self.store)
        self.stepper = step = self._assembled(self._recovered.state)
        self._ending = ending = Ending(step, self.desk)
        state, checkpoint = self._recovered.state, self._recovered.checkpoint
        if checkpoint is not None:
            self.listener.on(Restored(checkpoint.checkpoint_id, state.epoch, drained=bool(checkpoint.drained)))
        if self._recovered.savepoint is not None:
            self.listener.on(SavepointWritten(self._recovered.savepoint, by_recovery=True))
        for change in self._recovered.evolution:
            self.listener.on(StateEvolved(change))
        if state.finished:
            refuse_more_after_the_end(self.job, self.store, state)
            self.listener.on(RunFinished(None))
            return
        self._live_start.settle(state)
        if self._recovered.change is not None:
            step.checkpointer.rewrite(self._recovered.change)
        step.events.open()
        phases: dict[str, Callable[[Phase, Stepper], None]] = {
            "backlog": self._run_backlog,
            "history": self._run_history,
            "catch-up": self._run_catch_up,
            "switch": self._run_switch,
            "live": self._run_live,
            "finish": lambda phase, step: ending.natural_end(phase),
        }
        for phase in self.job.phases:
            if self.stopping.is_set():
                break
            if self._is_behind(phase):
                continue
            self.phase = phase
            self.listener.on(PhaseBegan(phase.kind))
            failpoint(f"phase-{phase.kind}")
            phases[phase.kind](phase, step)
            if phase.kind in ("history", "catch-up", "switch"):
                ending.serve(phase)
            if phase.kind != "backlog" and (request := self.desk.take_stop()) is not None:
                ending.stop_with_savepoint(phase, request)
                return
        self._close_tasks()

    def _close_tasks(self) -> None:
        """The run ends as things stand."""
        if self._ending is not None:
            self._ending.cancel()

    def ask_savepoint(self, request: SavepointRequest) -> None:
        """Hand in a request for a savepoint, which is answered between two epochs.

        Raises:
            CheckpointError: there is something at the savepoint's path, or it cannot be written to.
            QueryError: the query cannot take one now, or has ended.
        """
        if not self.job.keeps_state:
            raise QueryError(f"no {request} can be taken: execution.runtime-mode is batch, which keeps no state")
        check_destination(request.path)
        if not request.wait and self.phase is not None and self.phase.kind == "backlog":
            raise QueryError(f"no {request} can be taken: {_IN_BACKLOG}")
        if request.stop is not None:
            check_writable(request.path)  # later it would cost the job's run
        self.desk.ask(request)
        self._wake.set()

    def _assembled(self, state: JobState) -> Stepper:
        return assemble(
            self.job,
            self.store,
            state,
            Run(self.run_id, self._tag, self.listener, self.backlog, self.lease, self.turn, self.stopping, self._wake),
        )

    @property
    def _tag(self) -> str:
        return f"mixedmode-{self.run_id}"

    def stop(self) -> None:
        """End the run: what the live phase has processed is checkpointed, an unfinished backlog leaves nothing."""
        self.stopping.set()
        self._wake.set()
        if self.is_inside:
            return  # the step in hand is the caller's own: it is finished, and no other begins
        if self.phase is None or self.phase.kind != "live":
            stop_live = [] if self.live is None else [self.live.stop]
            # Where Spark itself is gone there is nothing to cancel, and the run finds out by itself.
            take_all(lambda: self.job.spark.sparkContext.cancelJobsWithTag(self._tag), *stop_live)

    @property
    def is_inside(self) -> bool:
        """True if a step of this job called us (a ``foreachBatch`` function): waiting for the job would be for ever."""
        handing_over = None if self.live is None else self.live.thread_id
        return threading.get_ident() in (self._thread_id, handing_over)

    # -- phases ------------------------------------------------------------------------------------------------------

    def _run_backlog(self, phase: Phase, step: Stepper) -> None:
        """History and waiting live data as sorted passes over batch keyed state."""
        self.desk.refuse_those_that_do_not_wait(_IN_BACKLOG)
        state = step.state
        history = self._unread_history(step)
        final_ms, at_end = self._final_watermark, self._has_phase("finish")
        if self.live is None or self.job.live is None:
            step.sorted_pass(phase, history, final_ms, at_end=at_end, pin=self._pin)
            return
        history = self._live_start.with_landed(history, state)
        passes = 0
        # Batch mode forgets a key at its end, so it must see all of its rows in one pass.
        at_once = not self.job.keeps_state
        one_batch = at_once or delivers_one_batch(self.job.live)

        def on_batch(batch: DataFrame, batch_id: int) -> None:
            nonlocal passes, history
            if batch_id <= state.batch_id:
                return
            frame = batch if history is None else history.unionByName(batch)
            if one_batch:
                position = self.store.spark_log.position(batch_id).offset_entry
                # A second batch holds what arrived while the job was down after a kill in the first.
                pin = None if passes else self._pin
                step.sorted_pass(phase, frame, final_ms, at_end=at_end, pin=pin, live_position=position)
            else:
                step.sorted_pass(phase, frame, None)
            state.batch_id = batch_id
            history = None
            passes += 1

        self.live.drain(on_batch, at_once=at_once)
        if passes == 0 and (history is not None or state.epoch == 0):
            rows = self._empty() if history is None else history
            step.sorted_pass(phase, rows, final_ms, at_end=at_end, pin=self._pin)
            self._live_start.was_read(state)
        elif passes and not one_batch:
            step.sorted_pass(phase, None, final_ms, at_end=at_end)

    def _run_history(self, phase: Phase, step: Stepper) -> None:
        """Streaming mode: the history in slices, each an epoch of its own."""
        history = self.job.history
        if history is None or step.state.sources["history"].finished:
            return
        position = step.state.sources["history"].position
        if position is None:
            where = cut(history, self.job.event_time, self.job.settings.history_rows_per_epoch)
        else:
            where = HistoryCut.from_json(position)
        while not where.done:
            with self.turn:
                step.streaming_epoch(phase, where.take(history, self.job.event_time))
                where = replace(where, next=where.next + 1)
                step.state.set_source("history", position=where.to_json())
                step.checkpoint_if_due()
                self._serve(phase)
            if self.desk.ready_stop() is not None and not where.done:
                return
        step.source_ended("history")

    def _run_catch_up(self, phase: Phase, step: Stepper) -> None:
        """Streaming mode: what the live source holds at the start, with isBacklog still true."""
        if self.live is None or not any(step.state.sources[one.name].is_backlog for one in self.job.live_inputs):
            return

        def take(batch: DataFrame, batch_id: int) -> None:
            step.streaming_epoch(phase, batch)
            step.state.batch_id = batch_id
            step.checkpoint_if_due()
            self._serve(phase)

        def on_batch(batch: DataFrame, batch_id: int) -> None:
            if self.desk.ready_stop() is not None:
                raise Stopped
            if batch_id > step.state.batch_id:
                take(batch, batch_id)

        if (landed := self._live_start.landed(step.state)) is not None:
            with self.turn:
                take(landed, 0)
            if self.desk.ready_stop() is not None:
                return
        self.live.drain(on_batch)

    def _run_switch(self, phase: Phase, step: Stepper) -> None:
        """isBacklog turns false: rows become visible, and under interval 0 a checkpoint is taken at once."""
        with self.turn:
            step.check_stopped()
            for name in step.state.sources:
                step.set_backlog(name, False, "the backlog is processed")
            if "history" in step.state.sources:
                step.source_ended("history")
            step.events.hand_over()
            if not self._has_phase("live"):
                step.scheduler.request()  # nothing comes after the switch: this is the last chance
                step.send_events(phase)
            step.deliver()
            step.checkpoint_if_due("switch")

    def _run_live(self, phase: Phase, step: Stepper) -> None:
        """Micro-batches until the query is stopped; a clock of our own fires timers and checkpoints in between."""
        live = self.live
        assert live is not None
        step.state.watermark.watch(now_ms())
        query = live.start(self._on_live_batch(phase, step), self.job.trigger or {"processingTime": "0 seconds"})
        try:
            while query.isActive and not self.stopping.is_set() and self.desk.ready_stop() is None:
                self._wake.wait(nap_s(step))
                self._wake.clear()
                with self.turn, live.refusing_after_failure():
                    if not self.stopping.is_set() and not live.failed:
                        self._live_step(phase, step, live)
        except Stopped:
            pass  # somebody stops the query between two epochs: what is processed is whole, and is made visible below
        except BaseException:
            live.refuse()
            with self.turn:
                take_all(live.stop)
            raise
        # The epoch in hand is finished first; a micro-batch that still waits for its turn is refused.
        live.refuse()
        with self.turn:
            live.stop()
        if live.failed or self.desk.ready_stop() is None:
            live.raise_failure()
        if self.desk.ready_stop() is None or self.stopping.is_set():
            step.checkpoint_if_behind("stop")

    def _on_live_batch(self, phase: Phase, step: Stepper) -> OnBatch:
        def on_batch(batch: DataFrame, batch_id: int) -> None:
            if batch_id <= step.state.batch_id or self.desk.ready_stop() is not None:
                return
            step.note_lag()
            # An operator of which only some inputs are in backlog runs as if none were.
            lagging = all(step.state.sources[one.name].is_backlog for one in self.job.live_inputs)
            if lagging and self._has_phase("backlog"):
                step.sorted_pass(phase, batch, OBSERVED, drop_late=True)
                step.deliver()
            else:
                step.streaming_epoch(phase, batch)
            step.state.batch_id = batch_id
            step.note_lag()
            step.checkpoint_if_due()
            self._serve(phase)
            self._wake.set()

        return on_batch

    def _serve(self, phase: Phase) -> None:
        """Take the savepoints that were asked for since the last epoch."""
        if self._ending is not None:
            self._ending.serve(phase)

    def _live_step(self, phase: Phase, step: Stepper, live: LiveSource) -> None:
        """What the clock of the live phase does between two epochs."""
        self.lease.check()
        step.events.check()
        drained = live.is_drained
        step.tick(phase, idle=drained)
        if drained:
            step.note_drained()
        step.checkpoint_if_due()
        self._serve(phase)
        self._commit_for_users(phase, step)

    def ask_commit(self) -> Future[bool]:
        """Have all that is processed made visible; False: the run has ended instead."""
        wish = self.commits.ask()
        self._wake.set()
        return wish

    def _commit_for_users(self, phase: Phase, step: Stepper) -> None:
        """Make visible what users have asked for; after a failure that is tolerated, with a later turn."""
        wishes = self.commits.pending()
        if wishes and step.commit_now(phase):
            self.commits.grant(wishes)

    # -- small things ------------------------------------------------------------------------------------------------

    @property
    def _pin(self) -> PinnedBacklog | None:
        return None if self._recovered is None else self._recovered.pin

    @property
    def _is_recovered(self) -> bool:
        return self._recovered is not None and self._recovered.checkpoint is not None

    def _is_behind(self, phase: Phase) -> bool:
        """True if the run that this one goes on from has completed the phase.

        A checkpoint with no source in backlog was taken at the switch or later: what waits at the live source now is
        the stream's.  A job without a live phase works off what has arrived since its last run.
        """
        assert self.stepper is not None
        switched = self._is_recovered and not self.stepper.state.is_backlog
        return switched and self._has_phase("live") and phase.kind != "live"

    def _has_phase(self, kind: str) -> bool:
        return any(phase.kind == kind for phase in self.job.phases)

    @property
    def _final_watermark(self) -> int:
        if self._has_phase("finish"):
            return MAX_WATERMARK
        if self._is_recovered or self.job.settings.final_watermark == "observed":
            return OBSERVED
        return MAX_WATERMARK

    def _unread_history(self, step: Stepper) -> DataFrame | None:
        """The history, without the slices that an earlier run has taken as a stream."""
        source: SourceState | None = step.state.sources.get("history")
        if source is None or source.finished or self.job.history is None:
            return None
        if source.position is None:
            return self.job.history
        where = HistoryCut.from_json(source.position)
        return None if where.done else where.rest(self.job.history, self.job.event_time)

    def _empty(self) -> DataFrame:
        frame = self.job.history if self.job.history is not None else self.job.live
        assert frame is not None
        return self.job.spark.createDataFrame([], frame.schema)
