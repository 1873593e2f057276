"""A task that reads a source: it ends when the source gives no more, or when a savepoint is to end the job."""

from __future__ import annotations

from .actions import Fail, OperatorStatus, Saw, Step, TaskStatus
from .events import MaxWatermark, Stop
from .task import Task


class SourceTask(Task):
    """Any subtask of a source; checkpoints begin here."""

    #: True once the source has given all that it has; False if the job only stops, even with drain.
    is_exhausted = False

    def no_more_records(self) -> list[Step]:
        """The source has reached its end; nobody is left to be told of it once the task has closed."""
        if self.status is TaskStatus.CLOSED:
            return self._taken()
        if self.end_of_data is None:
            self._do(Saw("no more records"))
            self.is_exhausted = True
            self._end(finished=True)
        elif not self.end_of_data.finished and self._final.savepoint_id is not None:
            self._do(
                Fail(
                    f"the source ran out of data while stop-with-savepoint {self._final.savepoint_id} without drain was"
                    " under way"
                )
            )
        return self._taken()

    def restore(self) -> list[Step]:
        """Go on from a checkpoint in which this source had finished: only pass on that it has."""
        if not self.finished_on_restore:
            raise ValueError("restore() is for a source that had finished in the checkpoint")
        if self.end_of_data is None:
            self._do(Saw("finished in an earlier run"))
            self.is_exhausted = True
            self._end(finished=True)
        return self._taken()

    def _begin(self, checkpoint_id: int, stop: Stop | None) -> None:
        if stop is not None and self.end_of_data is None:
            self._do(Saw(f"stop-with-savepoint {checkpoint_id} {stop.value}"))
            self._final.savepoint_id = checkpoint_id  # before EndOfData: nothing older may end the wait
            self._end(finished=stop is Stop.DRAIN)
        super()._begin(checkpoint_id, stop)

    def _end(self, finished: bool) -> None:
        if finished:
            self._advance_to_max()
            self._emit(MaxWatermark())
        self._end_data(finished)
        assert not finished or self.operator is not OperatorStatus.RUNNING
