"""How a run ends, and its savepoints: the work of the job's lifecycle, done by those who can.

Three endings (FLIP-147): the end of input with a final checkpoint, stop-with-savepoint with drain, and without.  A run
that is merely stopped closes as it is, after an ordinary checkpoint.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from ..errors import QueryError
from .job_tasks import SINK, stage_task
from .lifecycle.actions import AdvanceToMaxWatermark, Close, Commit, EndInputAndFinish
from .lifecycle.events import Stop
from .lifecycle.job import TaskWork
from .lifecycle.work import TaskWorker
from .live import Stopped
from .savepoint import write_savepoint
from .savepoint_desk import SavepointDesk, SavepointRequest
from .spec import Phase
from .stepper import Stepper

logger = logging.getLogger(__name__)


@dataclass
class Ending:
    """Drives the lifecycle of a run's tasks wherever something ends.

    Args:
        step: executes epochs and checkpoints.
        desk: savepoint requests.
    """

    step: Stepper
    desk: SavepointDesk
    _phase: Phase | None = None
    _work: TaskWorker = field(init=False)

    def __post_init__(self) -> None:
        self._work = self.step.tasks
        stage, sink = stage_task(self.step.job.operator.uid), self.step.job.sink
        self._work.on(stage, AdvanceToMaxWatermark, self._fire)
        self._work.on(stage, EndInputAndFinish, self._finish_stage)
        self._work.on(SINK, EndInputAndFinish, self._finish_sink)
        self._work.on(SINK, Commit, self._commit)
        self._work.on(SINK, Close, lambda work: sink.close())

    # -- endings -----------------------------------------------------------------------------------------------------

    def natural_end(self, phase: Phase) -> None:
        """End of input: MAX_WATERMARK fires what is left, operators finish, the final checkpoint commits it all.

        A savepoint that was asked for in the meantime is made of the final checkpoint.
        """
        step, state = self.step, self.step.state
        with step.turn:
            step.check_stopped()
            self._phase = phase
            state.watermark.end_of_input()
            step.recorder.event("MAX_WATERMARK", "all sources have ended")
            for name in state.sources:
                step.source_ended(name)
            state.finished = True
            drain = self._drain_at_the_end()
            try:
                while self._work.run():
                    step.deliver()
                    if drain is not None:
                        step.tasks.lifecycle.trigger(step.checkpointer.next_id, Stop.DRAIN)
                    step.checkpoint("end of input" if drain is None else "savepoint", close=False)
            except BaseException as error:
                if drain is not None:
                    drain.answer.set_exception(QueryError(f"the {drain} failed: {error}"))
                raise
            step.recorder.event("finished", f"checkpoint {state.checkpoint_id}")
            for request in [*self.desk.take_plain(), *([] if drain is None else [drain])]:
                self._write(request)

    def _drain_at_the_end(self) -> SavepointRequest | None:
        """The drain that the end of input has overtaken: its savepoint becomes the final checkpoint."""
        pending = self.desk.take_stop()
        if pending is not None and pending.stop is Stop.SUSPEND:
            pending.answer.set_exception(
                QueryError(f"the {pending} was not taken: all data had ended before; the job ends with it")
            )
            return None
        return pending

    def stop_with_savepoint(self, phase: Phase, request: SavepointRequest) -> None:
        """End the run with a savepoint; the failure of the savepoint is the run's.

        Raises:
            QueryError: the savepoint cannot be written.
        """
        step, lifecycle = self.step, self.step.tasks.lifecycle
        assert request.stop is not None
        try:
            with step.turn:
                self._phase = phase
                if request.stop is Stop.SUSPEND and lifecycle.waiting_sources:
                    step.checkpoint("savepoint")  # a source that has ended closes at an ordinary checkpoint
                lifecycle.trigger(step.checkpointer.next_id, request.stop)
                self._work.run()
                step.deliver()
                if step.checkpoint("savepoint", close=False) is None:
                    raise QueryError("its checkpoint failed")
                path = self._copy(request)
                self._work.run()
                step.recorder.event("savepoint", path)
                step.recorder.event("stopped", f"with savepoint, {request.stop.value}")
        except Stopped:
            request.answer.set_exception(QueryError(f"the {request} was not taken: the query was stopped"))
            raise
        except BaseException as error:
            failure = QueryError(f"{request} failed: {error}")
            request.answer.set_exception(failure)
            raise failure from error
        request.answer.set_result(path)

    def cancel(self) -> None:
        """The run was stopped, or has done what its trigger asks for: everything closes as it is."""
        if not self.step.tasks.lifecycle.is_closed:
            self.step.tasks.lifecycle.cancel()
            self._work.run()

    # -- savepoints while the job goes on ----------------------------------------------------------------------------

    def serve(self, phase: Phase) -> None:
        """Take the savepoints that were asked for; the caller stands between two epochs."""
        if self.desk.is_empty:
            return
        with self.step.turn:
            requests = self.desk.take_plain()
            if not requests:
                return
            self._phase = phase
            try:
                taken = self.step.checkpoint("savepoint") is not None
            except BaseException as error:
                for request in requests:
                    request.answer.set_exception(QueryError(f"the {request} was not taken: {error}"))
                raise
            for request in requests:
                if taken:
                    self._write(request)
                else:
                    request.answer.set_exception(QueryError(f"the {request} was not taken: its checkpoint failed"))

    def _write(self, request: SavepointRequest) -> None:
        """Answer a request with the last checkpoint; its failure is only the asker's."""
        try:
            path = self._copy(request)
        except Exception as error:
            logger.warning("savepoint %s failed: %s", request.path, error)
            request.answer.set_exception(QueryError(f"the {request} failed: {error}"))
            return
        self.step.recorder.event("savepoint", path)
        request.answer.set_result(path)

    def _copy(self, request: SavepointRequest) -> str:
        checkpointer = self.step.checkpointer
        assert checkpointer.last is not None, "a savepoint is made of a checkpoint that was just taken"
        return write_savepoint(checkpointer.store, checkpointer.last, request.path, self.step.job.plan_json)

    # -- work of the tasks -------------------------------------------------------------------------------------------

    def _fire(self, work: TaskWork) -> None:
        assert self._phase is not None
        self.step.fire_all(self._phase)

    def _finish_stage(self, work: TaskWork) -> None:
        assert self._phase is not None
        self.step.finish_operators(self._phase)

    def _finish_sink(self, work: TaskWork) -> None:
        self.step.job.sink.end_input()
        self.step.job.sink.finish()

    def _commit(self, work: TaskWork) -> None:
        assert isinstance(work.work, Commit)
        if work.work.up_to is None:  # without checkpoints there is one commit, of everything
            self.step.deliver()
            self.step.checkpoint("end of input", close=False)
        else:
            self.step.checkpointer.commit(work.work.up_to)
