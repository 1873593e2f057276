"""One end of one channel: passes events on while it is open, and keeps them while a checkpoint has it closed.

The rules are those of Flink's ``SubtaskGatewayImpl``, the same for both directions:

- While several checkpoints have it closed, an event is kept under the newest.
- Opening the oldest sends what was kept under it; opening a newer one appends what was kept under it to the next older
  one.  So an event goes out when all checkpoints that were closed at its creation are done, and order is kept.
- Opening is idempotent: a checkpoint that has it neither marked nor closed changes nothing.  One that it has never
  heard of and that is newer than all it has heard of is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ....errors import CheckpointError

T = TypeVar("T")


class Gateway(Generic[T]):
    """The sender's end.

    Args:
        transmit: takes an event on its way.
        latest: the newest checkpoint that has been attempted so far; 0: none.
    """

    def __init__(self, transmit: Callable[[T], None], latest: int = 0) -> None:
        self._transmit = transmit
        #: Events kept under each closed checkpoint.  Invariant: ascending.
        self._kept: dict[int, list[T]] = {}
        self.latest = latest

    @property
    def is_open(self) -> bool:
        return not self._kept

    @property
    def kept(self) -> list[T]:
        """What it keeps now, in order."""
        return [event for events in self._kept.values() for event in events]

    def send(self, event: T) -> None:
        """Pass an event on, or keep it."""
        if self._kept:
            self._kept[max(self._kept)].append(event)
        else:
            self._transmit(event)

    def open(self, checkpoint_id: int) -> None:
        """A checkpoint needs it closed no longer.

        Raises:
            CheckpointError: nobody has closed it, or announced that he will, for so new a checkpoint.
        """
        if checkpoint_id > self.latest:
            raise CheckpointError(
                f"a gateway cannot open for checkpoint {checkpoint_id}: the newest that it has seen is {self.latest}"
            )
        events = self._kept.pop(checkpoint_id, None)
        if not events:
            return
        older = [closed for closed in self._kept if closed < checkpoint_id]
        if older:
            self._kept[max(older)] += events
            return
        for event in events:
            self._transmit(event)

    def open_all(self) -> None:
        """No checkpoint needs it closed any longer."""
        for checkpoint_id in list(self._kept):
            self.open(checkpoint_id)

    def _close(self, checkpoint_id: int) -> None:
        self._kept[checkpoint_id] = []
        self.latest = max(self.latest, checkpoint_id)
