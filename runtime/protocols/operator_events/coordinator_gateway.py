"""From one subtask to its coordinator: closed before the coordinator's snapshot, and kept so until the subtask's own.

What it keeps belongs to after the coordinator's snapshot.  So it goes into the subtask's: restored, the subtask sends
it before anything new.
"""

from __future__ import annotations

from dataclasses import dataclass

from .gateway import Gateway, T


@dataclass(frozen=True)
class Closed:
    """The marker: the last that the coordinator hears from a subtask before a checkpoint."""

    shard: int
    checkpoint_id: int


class CoordinatorGateway(Gateway[T]):
    """The subtask's end."""

    def close(self, shard: int, checkpoint_id: int) -> Closed:
        """Close; the marker has to follow on the same way all that was passed on before.

        What is kept for older checkpoints has not been passed on, so it belongs to after this one as well.
        """
        if checkpoint_id > self.latest:
            before = self.kept
            for events in self._kept.values():
                events.clear()
            self._close(checkpoint_id)
            self._kept[checkpoint_id] += before
        return Closed(shard, checkpoint_id)
