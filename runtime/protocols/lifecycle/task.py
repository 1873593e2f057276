"""The common part of all tasks' state machines: snapshots, transactions, the final wait, the end.

A machine is that of one task, and as well that of any number of subtasks that are always told the same
(:mod:`.vertex_tasks`): each of them takes the steps that the machine gives.

Invariants:
- EndOfData is sent once; after it nothing but barriers and EndOfPartition.
- A task closes once, and only when a checkpoint that began after its EndOfData has completed (or checkpointing is off),
  its EndOfData is acknowledged by every receiver, and all of its own channels have ended.
- A transaction is committed only by the completion of its checkpoint or of a later one.
"""

from __future__ import annotations

from .actions import (
    Abort,
    Action,
    AdvanceToMaxWatermark,
    Close,
    Commit,
    Decline,
    Emit,
    EndInputAndFinish,
    Fail,
    OperatorStatus,
    Saw,
    Snapshot,
    Step,
    TaskStatus,
)
from .events import (
    Barrier,
    CancelBarrier,
    ChannelEvent,
    CheckpointAborted,
    CheckpointCompleted,
    EndOfData,
    EndOfDataAcknowledged,
    EndOfPartition,
    Stop,
)
from .final_checkpoint import FinalCheckpoint


class Task:
    """A task with its operator.

    Args:
        receivers: number of channels that lead out of it (of each of its subtasks, if it stands for several).
        checkpointing: False: there are no checkpoints, and nothing waits for one.
        finished_on_restore: True: the operator had finished in the checkpoint that the job goes on from; it is not
            opened or called again, and the task only passes on what comes.
        transactional: True: the operator has a transaction per checkpoint, as sinks do.
    """

    def __init__(
        self,
        receivers: int,
        *,
        checkpointing: bool = True,
        finished_on_restore: bool = False,
        transactional: bool = False,
    ) -> None:
        self.status = TaskStatus.RUNNING
        self.operator = OperatorStatus.FINISHED if finished_on_restore else OperatorStatus.RUNNING
        self.finished_on_restore = finished_on_restore
        #: The EndOfData that the task has sent; None: it may still send records.
        self.end_of_data: EndOfData | None = None
        self._receivers = receivers
        self._checkpointing = checkpointing
        self._transactional = transactional
        self._unacknowledged = receivers
        self._final = FinalCheckpoint()
        #: Checkpoints that the task took part in and that it has not seen complete.
        self._transactions: list[int] = []
        self._steps: list[Step] = []

    # -- what it is told ---------------------------------------------------------------------------------------------

    def acknowledged(self, receivers: int = 1) -> list[Step]:
        """So many more receivers have processed all records of the task."""
        if self._unacknowledged:
            self._unacknowledged = max(self._unacknowledged - receivers, 0)
            if not self._unacknowledged:
                self._do(Saw(EndOfDataAcknowledged()))
                self._close_if_ready()
        return self._taken()

    def completed(self, checkpoint_id: int) -> list[Step]:
        """A checkpoint has completed; late and repeated notifications change nothing."""
        self._completed(checkpoint_id)
        return self._taken()

    def aborted(self, checkpoint_id: int, latest_completed: int = 0) -> list[Step]:
        """A checkpoint was given up; what it would have committed goes with the next one.

        Args:
            checkpoint_id: the checkpoint.
            latest_completed: newest complete checkpoint, whose own notification may have been lost (protocol only); 0:
                none.
        """
        self._completed(latest_completed)
        if self.status is not TaskStatus.CLOSED:
            self._do(Saw(CheckpointAborted(checkpoint_id)))
            if checkpoint_id == self._final.savepoint_id:
                self._do(Fail(f"stop-with-savepoint {checkpoint_id} failed"))
        return self._taken()

    def cancel(self) -> list[Step]:
        """Close as things stand: the job was stopped after an ordinary checkpoint."""
        if self.status is not TaskStatus.CLOSED:
            self._do(Saw("stopped"))
            self._close()
        return self._taken()

    def refusal(self, stop: Stop | None) -> str | None:
        """Why the task would not take part in a checkpoint now; None: it would."""
        if self.status is TaskStatus.CLOSED:
            return "it has finished"
        if not self._checkpointing:
            return "checkpointing is off"
        if stop is not None and self._final.savepoint_id is not None:
            return f"stop-with-savepoint {self._final.savepoint_id} is under way"
        if stop is Stop.SUSPEND and self.end_of_data is not None and self.end_of_data.finished:
            return "its data has ended, so it cannot stop without drain; a final checkpoint ends it"
        return None

    def trigger(self, checkpoint_id: int, stop: Stop | None = None) -> list[Step]:
        """Take part in a checkpoint as one of the tasks where it begins, or decline (see :class:`Decline`)."""
        reason = self.refusal(stop)
        if reason is not None:
            self._emit(CancelBarrier(checkpoint_id))
            self._do(Decline(checkpoint_id, reason))
        else:
            self._begin(checkpoint_id, stop)
        return self._taken()

    def awaits(self, checkpoint_id: int) -> bool:
        """True if the completion of this checkpoint would end the task's final wait."""
        return not self._final.is_complete and self._final.would_end(checkpoint_id)

    # -- for subclasses ----------------------------------------------------------------------------------------------

    @property
    def _inputs_ended(self) -> bool:
        """True if every channel that leads into the task has ended."""
        return True

    def _begin(self, checkpoint_id: int, stop: Stop | None) -> None:
        """The task's barrier and snapshot."""
        if stop is not None:
            self._final.savepoint_id = checkpoint_id
        self._emit(Barrier(checkpoint_id, stop))
        if self._transactional:
            self._transactions.append(checkpoint_id)
        if self.end_of_data is not None:
            self._final.took_part(checkpoint_id)
        self._do(Snapshot(checkpoint_id, finished=self.operator is OperatorStatus.FINISHED))

    def _advance_to_max(self) -> None:
        if not self.finished_on_restore:
            self._do(AdvanceToMaxWatermark())

    def _end_data(self, finished: bool) -> None:
        """Finish the operator, unless the job only stops, and tell the receivers."""
        self.status = TaskStatus.WAITING_FOR_FINAL_CP
        if finished and not self.finished_on_restore:
            self.operator = OperatorStatus.FINISHED
            self._do(EndInputAndFinish())
        self.end_of_data = EndOfData(finished)
        self._emit(self.end_of_data)
        if self._transactional and not self._checkpointing:
            self._do(Commit(None))
        self._close_if_ready()

    def _close_if_ready(self) -> None:
        if self.end_of_data is None or self.status is TaskStatus.CLOSED or not self._inputs_ended:
            return
        if self._checkpointing and (not self._final.is_complete or self._unacknowledged):
            return
        self._close()

    def _do(self, action: Action) -> None:
        self._steps.append(Step(action, self.status, self.operator))

    def _emit(self, event: ChannelEvent) -> None:
        if self._receivers:
            self._do(Emit(event))

    def _taken(self) -> list[Step]:
        steps, self._steps = self._steps, []
        return steps

    # -- private -----------------------------------------------------------------------------------------------------

    def _completed(self, checkpoint_id: int) -> None:
        if self.status is TaskStatus.CLOSED or not self._final.is_news(checkpoint_id):
            return
        self._do(Saw(CheckpointCompleted(checkpoint_id)))
        if any(transaction <= checkpoint_id for transaction in self._transactions):
            self._do(Commit(checkpoint_id))
        self._transactions = [transaction for transaction in self._transactions if transaction > checkpoint_id]
        self._final.completed(checkpoint_id)
        self._close_if_ready()

    def _close(self) -> None:
        if self._transactions:
            self._do(Abort(tuple(self._transactions)))
            self._transactions = []
        self.status, self.operator = TaskStatus.CLOSED, OperatorStatus.CLOSED
        if not self.finished_on_restore:
            self._do(Close())
        self._emit(EndOfPartition())
