"""From the coordinator to one subtask: marked before the coordinator's snapshot, closed when the snapshot is there.

The mark is what neutralises a snapshot that comes too late: aborting a checkpoint takes its mark away, and a gateway
without the mark does not close.
"""

from __future__ import annotations

from collections.abc import Callable

from .gateway import Gateway, T


class SubtaskGateway(Gateway[T]):
    """The coordinator's end.

    Args:
        transmit: takes an event on its way.
        latest: the newest checkpoint that has been attempted so far.
    """

    def __init__(self, transmit: Callable[[T], None], latest: int = 0) -> None:
        super().__init__(transmit, latest)
        self._marked: int | None = None

    def mark(self, checkpoint_id: int) -> None:
        """A checkpoint begins; events still pass.  One that is not newer than all before is left alone."""
        if checkpoint_id > self.latest:
            self._marked = self.latest = checkpoint_id

    def close(self, checkpoint_id: int) -> bool:
        """Close for the checkpoint for which it is marked; False: it is not marked for this one."""
        if self._marked != checkpoint_id:
            return False
        self._marked = None
        self._close(checkpoint_id)
        return True

    def open(self, checkpoint_id: int) -> None:
        if self._marked == checkpoint_id:
            self._marked = None
        super().open(checkpoint_id)

    def keeps_older_than(self, checkpoint_id: int) -> bool:
        """True if it keeps events that were sent before it closed for this checkpoint."""
        return any(events for closed, events in self._kept.items() if closed < checkpoint_id)
