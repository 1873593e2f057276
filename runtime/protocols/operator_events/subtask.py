"""A subtask's end of both channels: what has come and is not yet taken, and its gateway to the coordinator.

Invariants:
- What is taken is *in flight* until the work that it was taken for is accepted or has failed.  Accepted, it is gone for
  good; failed, it is back, in its old place and order.
- A snapshot is possible only while nothing is in flight; it holds everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic

from ....errors import CheckpointError
from ....state.keys.keygroups import ShardId
from ...support.ids import NO_CHECKPOINT, CheckpointId
from .gateway import CoordinatorGateway, T


@dataclass(frozen=True)
class SubtaskSnapshot(Generic[T]):
    """A subtask's part of a checkpoint, as far as events are concerned."""

    #: Sent to it by the coordinator and not taken.
    inbox: tuple[T, ...] = ()
    #: Sent by it and kept by its gateway.
    kept: tuple[T, ...] = ()


class SubtaskEnd(Generic[T]):
    """One subtask, from its start or restore to its end.

    Args:
        shard: which it is.
        to_coordinator: takes its events on their way to the coordinator.
        restored: its snapshot in the checkpoint that it goes on from.
        latest: that checkpoint.
    """

    def __init__(
        self,
        shard: ShardId,
        to_coordinator: Callable[[ShardId, T], None],
        restored: SubtaskSnapshot[T] | None = None,
        latest: CheckpointId = NO_CHECKPOINT,
    ) -> None:
        self.shard = shard
        self._inbox: list[T] = []
        self._in_flight = 0
        self.gateway: CoordinatorGateway[T] = CoordinatorGateway(lambda event: to_coordinator(shard, event), latest)
        if restored is not None:
            self._inbox += restored.inbox
            for event in restored.kept:
                self.gateway.send(event)

    @property
    def waiting(self) -> int:
        """Events that nobody has taken yet."""
        return len(self._inbox) - self._in_flight

    def put(self, event: T) -> None:
        """An event has come from the coordinator."""
        self._inbox.append(event)

    def take(self) -> tuple[T, ...]:
        """Take all that waits, for work that is about to begin."""
        if self._in_flight:
            raise CheckpointError(f"subtask {self.shard} still works on {self._in_flight} events; it takes no others")
        self._in_flight = len(self._inbox)
        return tuple(self._inbox)

    def accepted(self) -> int:
        """The work is done and counts; returns the number of events that are delivered with it."""
        delivered, self._in_flight = self._in_flight, 0
        del self._inbox[:delivered]
        return delivered

    def failed(self) -> None:
        """The work counts for nothing: its events wait again."""
        self._in_flight = 0

    def send(self, events: Iterable[T]) -> None:
        """Events of the subtask to its coordinator."""
        for event in events:
            self.gateway.send(event)

    def snapshot(self) -> SubtaskSnapshot[T]:
        """Its part of a checkpoint.

        Raises:
            CheckpointError: events are in flight.
        """
        if self._in_flight:
            raise CheckpointError(f"subtask {self.shard} works on {self._in_flight} events: its state is not settled")
        return SubtaskSnapshot(tuple(self._inbox), tuple(self.gateway.kept))
