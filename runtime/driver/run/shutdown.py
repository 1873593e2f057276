"""Ends a run and takes its savepoints: the work that the job's lifecycle asks for.

Three endings (FLIP-147): the end of input with a final checkpoint, stop-with-savepoint with drain, and without.  A run
that is merely stopped closes as it is, after an ordinary checkpoint.

Invariant of stop-with-savepoint: until its checkpoint is complete nothing of it can be seen, neither rows that a drain
has fired nor its state; a job that fails or dies before goes on from the last checkpoint, as if nobody had asked.
So the savepoint's files are copied before the checkpoint: what is likely to fail fails while it costs nothing.  (A sink
that shows rows at once gets those of the drain when the files are copied.)  From then on there will be a savepoint: the
checkpoint says where it goes, and if this run does not get there the next one does (``savepoints.completion``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from ....errors import QueryError
from ...checkpoints.metadata import DueSavepoint
from ...checkpoints.savepoints.background import SavepointCopies
from ...checkpoints.savepoints.queue import SavepointRequest
from ...checkpoints.savepoints.writer import SavepointDraft
from ...connectors.sources.live_query import Stopped
from ...jvm.spark_errors import what_happened
from ...metrics.events.events import SavepointWritten
from ...metrics.events.facts import InputEnded, RunFinished, RunStopped, checkpoint_failed
from ...protocols.lifecycle.actions import AdvanceToMaxWatermark, Close, Commit, EndInputAndFinish
from ...protocols.lifecycle.events import Stop
from ...protocols.lifecycle.job import TaskWork
from ...protocols.lifecycle.work import TaskWorker
from ...spec import Phase
from ...storage.filesystem import absolute
from ...support.failpoints import failpoint
from ..checkpoint.checkpoint_reports import SAVEPOINT
from ..coordinators.task_graph import SINK, stage_task
from .idle_wait import wait_until_due
from .rescaling import Rescaling
from .running_job import RunningJob


@dataclass
class Ending:
    """Drives the lifecycle of a run's tasks wherever something ends.

    Args:
        run: the run.
    """

    run: RunningJob
    _phase: Phase | None = None
    _work: TaskWorker = field(init=False)
    _copies: SavepointCopies = field(init=False)
    _rescaling: Rescaling = field(init=False)

    def __post_init__(self) -> None:
        run = self.run
        self._copies = SavepointCopies(run.context.store, run.job.plan_json, self._savepoint_made)
        self._rescaling = Rescaling(run)
        self._work = run.tasks
        for uid in run.state.stages:
            self._work.on(stage_task(uid), AdvanceToMaxWatermark, partial(self._fire, uid))
            self._work.on(stage_task(uid), EndInputAndFinish, partial(self._finish_stage, uid))
        self._work.on(SINK, EndInputAndFinish, self._finish_sink)
        self._work.on(SINK, Commit, self._commit)
        self._work.on(SINK, Close, self._close_sink)

    def _savepoint_made(self, path: str) -> None:
        self.run.context.listener.on(SavepointWritten(path=path))

    def source_ended(self, phase: Phase, source: str) -> None:
        """A source gives no more rows: stages that read nothing else fire all and finish, while others go on."""
        self._phase = phase
        self.run.sources.ended(source)

    # -- endings -----------------------------------------------------------------------------------------------------

    def natural_end(self, phase: Phase) -> None:
        """End of input: MAX_WATERMARK fires what is left, operators finish, the final checkpoint commits it all.

        A savepoint that was asked for in the meantime is made of the final checkpoint.
        """
        run, state = self.run, self.run.state
        with run.context.turn:
            run.epochs.check_stopped()
            self._phase = phase
            run.checkpoints.wait()
            run.events.hand_over()
            run.context.listener.on(InputEnded())
            for name in state.sources:
                run.sources.ended(name)
            state.finished = True
            drain = self._drain_at_the_end()
            try:
                while self._work.run():
                    run.epochs.deliver()
                    if drain is not None:
                        run.tasks.lifecycle.trigger(run.checkpoints.next_id, Stop.DRAIN)
                    wanted = None if drain is None else self._wanted(drain, absolute(drain.path))
                    trigger = "end of input" if drain is None else SAVEPOINT
                    drained = drain is not None
                    taken = run.checkpoints.checkpoint(trigger, close=False, drained=drained, savepoint=wanted)
                    if taken is None and drain is None:  # a drain fails with its checkpoint
                        wait_until_due(run)  # many failures in a row are not tolerated
                        drain = self._drain_at_the_end()
            except BaseException as error:
                if drain is not None:
                    drain.report_failure(what_happened(error))
                raise
            self._rescaling.settle()
            run.context.listener.on(RunFinished(state.checkpoint_id))
            self._begin_copies([*self.run.context.savepoints.take_plain(), *([] if drain is None else [drain])])

    def _drain_at_the_end(self) -> SavepointRequest | None:
        """The drain that the end of input has overtaken: its savepoint becomes the final checkpoint."""
        pending = self.run.context.savepoints.take_stop()
        if pending is not None and pending.stop is Stop.SUSPEND:
            pending.fail("all data had ended before; the job ends with it")
            return None
        return pending

    def stop_with_savepoint(self, phase: Phase, request: SavepointRequest) -> None:
        """End the run with a savepoint; the failure of the savepoint is the run's.

        Raises:
            QueryError: the savepoint cannot be written.
        """
        run, lifecycle = self.run, self.run.tasks.lifecycle
        assert request.stop is not None
        store, plan, number = run.context.store, run.job.plan_json, 0
        try:
            with run.context.turn, SavepointDraft(store, request.path, plan, request.savepoint_id) as draft:
                self._phase = phase
                run.checkpoints.wait()
                if request.stop is Stop.SUSPEND and lifecycle.waiting_sources:
                    run.checkpoints.checkpoint("end of a source")  # one that has ended closes at an ordinary checkpoint
                number = run.checkpoints.next_id
                lifecycle.trigger(number, request.stop)
                failpoint("stop-before-work")
                self._work.run()
                self._copy_ahead(draft)
                run.epochs.deliver()
                drained, wanted = request.stop is Stop.DRAIN, self._wanted(request, draft.path)
                if run.checkpoints.checkpoint(SAVEPOINT, close=False, drained=drained, savepoint=wanted) is None:
                    raise QueryError("its checkpoint failed", code="MIXEDMODE_SAVEPOINT_NOT_TAKEN")
                path = self._finish(draft)
                self._work.run()
                self._rescaling.settle()
                run.context.listener.on(SavepointWritten(path=path))
                run.context.listener.on(RunStopped(savepoint=request.stop))
        except Stopped:
            request.fail("the query was stopped")
            raise
        except BaseException as error:
            if lifecycle.is_under_way(number):
                lifecycle.aborted(number)
                run.context.listener.on(checkpoint_failed(number, SAVEPOINT, "aborted", error))
            failure = QueryError(f"{request} failed: {what_happened(error)}", code="MIXEDMODE_SAVEPOINT_NOT_TAKEN")
            request.answer.set_exception(failure)
            raise failure from error
        request.answer.set_result(path)

    def _wanted(self, request: SavepointRequest, path: str) -> DueSavepoint:
        """What a checkpoint says of the savepoint that it is taken for."""
        return DueSavepoint(savepoint_id=request.savepoint_id, path=path, plan=self.run.job.plan_json)

    def _copy_ahead(self, draft: SavepointDraft) -> None:
        """Copy all that the checkpoint which comes next will name."""
        checkpoints = self.run.checkpoints
        checkpoints.housekeeping.compact_now()
        stages = self.run.state.stages.items()
        files = [(uid, file) for uid, stage in stages for manifest in stage.manifests for file in manifest.files]
        failpoint("stop-before-copy")
        draft.copy(files, checkpoints.next_id)
        failpoint("stop-copied")

    def _finish(self, draft: SavepointDraft) -> str:
        """Make the draft a savepoint of the checkpoint that is complete now: there is no way back any more."""
        last = self.run.checkpoints.last
        assert last is not None, "the checkpoint of a stop-with-savepoint was just taken"
        try:
            path = draft.finish(last)
            self.run.context.store.mark_savepoint_made(last.checkpoint_id, path)
        except Exception as error:
            raise QueryError(
                f"{error}; but its checkpoint {last.checkpoint_id} is complete, and its output visible: a job that is "
                f"started again on the checkpointLocation first writes the savepoint to {draft.path!r}, and goes on "
                "from there; `mixedmode savepoint LOCATION --complete` writes it without the job"
            ) from error
        return path

    def settle_rescale(self) -> None:
        """Answer whoever has asked for other shards, if the run's last checkpoint holds them."""
        self._rescaling.settle()

    def cancel(self) -> None:
        """The run was stopped, or has done what its trigger asks for: everything closes as it is."""
        self._rescaling.finish()
        if not self.run.tasks.lifecycle.is_closed:
            self.run.tasks.lifecycle.cancel()
            self._work.run()

    # -- savepoints while the job goes on ----------------------------------------------------------------------------

    def serve(self, phase: Phase) -> None:
        """Take the savepoints, and deal the shards, that were asked for; the caller stands between two epochs."""
        self._rescaling.serve()
        if self.run.context.savepoints.is_empty:
            return
        with self.run.context.turn:
            requests = self.run.context.savepoints.take_plain()
            if not requests:
                return
            self._phase = phase
            try:
                taken = self.run.checkpoints.checkpoint(SAVEPOINT) is not None
            except BaseException as error:
                for request in requests:
                    request.fail(what_happened(error))
                raise
            if taken:
                self._begin_copies(requests)
                return
            for request in requests:
                request.fail("its checkpoint failed")

    def wait_for_savepoints(self) -> None:
        """Return when the savepoints that are still being written are answered."""
        self._copies.wait()

    def _begin_copies(self, requests: list[SavepointRequest]) -> None:
        """Answer requests with the last checkpoint."""
        last = self.run.checkpoints.last
        assert last is not None, "a savepoint is made of a checkpoint that was just taken"
        self._copies.begin(last, requests)

    # -- work of the tasks -------------------------------------------------------------------------------------------

    def _fire(self, uid: str, work: TaskWork) -> None:
        assert self._phase is not None
        if self._has_no_more_input(uid):
            self.run.state.stages[uid].watermark.end_of_input()
        self.run.epochs.fire_all(self._phase, uid)

    def _finish_stage(self, uid: str, work: TaskWork) -> None:
        assert self._phase is not None
        self.run.epochs.finish_operators(self._phase, uid)
        self.run.state.stages[uid].finished = self._has_no_more_input(uid)

    def _has_no_more_input(self, uid: str) -> bool:
        """Whether all that a stage takes rows of has ended; not in a drain: the job may go on from its savepoint."""
        stage, state = self.run.job.stage_of(uid), self.run.state
        return state.finished or (
            all(state.sources[name].finished for name in self.run.job.sources_of(stage))
            and all(state.stages[edge.origin].finished for edge in stage.edges)
        )

    def _finish_sink(self, work: TaskWork) -> None:
        self.run.job.sink.end_input()
        self.run.job.sink.finish()

    def _close_sink(self, work: TaskWork) -> None:
        self.run.job.sink.close()
        if self.run.job.late_rows is not None:
            self.run.job.late_rows.sink.close()

    def _commit(self, work: TaskWork) -> None:
        # Those of checkpoints are the coordinator's; without checkpoints there is one commit, of everything.
        assert isinstance(work.work, Commit) and work.work.up_to is None
        self.run.epochs.deliver()
        while self.run.checkpoints.checkpoint("end of input", close=False) is None:
            wait_until_due(self.run)
