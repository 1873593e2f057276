"""The wait of a task that has sent EndOfData: until a checkpoint completes that began after it.

Notifications may be lost, late or out of order, and several checkpoints may be under way, so any checkpoint that began
after EndOfData ends the wait.  Only a savepoint that is to end the job is waited for by its own id: the job must not
end without it.  (That notifications are lost, repeated or out of order is protocol only: our driver takes one
checkpoint at a time, and tells of each once.)
"""

from __future__ import annotations


class FinalCheckpoint:
    """Decides which completion ends the wait."""

    def __init__(self) -> None:
        #: First checkpoint that the task took part in after its EndOfData.
        self.min_id: int | None = None
        #: A savepoint that is to end the job.
        self.savepoint_id: int | None = None
        #: The checkpoint that ended the wait.
        self.ended_by: int | None = None
        self._latest = 0

    @property
    def is_complete(self) -> bool:
        return self.ended_by is not None

    def took_part(self, checkpoint_id: int) -> None:
        """The task takes part in a checkpoint after its EndOfData."""
        if self.min_id is None:
            self.min_id = checkpoint_id

    def is_news(self, checkpoint_id: int) -> bool:
        """False for a completion that was reported before, or is older than one that was.

        A savepoint that is to end the job is waited for even if a later checkpoint has overtaken it.
        """
        return checkpoint_id > self._latest or (checkpoint_id == self.savepoint_id and not self.is_complete)

    def completed(self, checkpoint_id: int) -> None:
        """A checkpoint has completed."""
        if not self.is_news(checkpoint_id):
            return
        self._latest = max(self._latest, checkpoint_id)
        if self.would_end(checkpoint_id) and self.ended_by is None:
            self.ended_by = checkpoint_id

    def would_end(self, checkpoint_id: int) -> bool:
        """True if the completion of this checkpoint ends the wait."""
        if self.savepoint_id is not None:
            return checkpoint_id == self.savepoint_id
        return self.min_id is not None and checkpoint_id >= self.min_id
