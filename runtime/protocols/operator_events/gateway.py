"""The sender's end of a channel: passes events on while it is open, and keeps them while a checkpoint has it closed.

The rules of opening are those of Flink's ``SubtaskGatewayImpl``, the same for both directions:

- While several checkpoints have it closed, an event is kept under the newest.
- Opening the oldest sends what was kept under it; opening a newer one appends what was kept under it to the next older
  one.  So an event goes out when all checkpoints that were closed at its creation are done, and order is kept.
- Opening is idempotent: a checkpoint that has it neither marked nor closed changes nothing.  One that it has never
  heard of and that is newer than all it has heard of is an error.

The directions differ in how a gateway closes.  The driver's, to a subtask, is *marked* before the coordinator's
snapshot and closes when the snapshot is there.  A subtask's, to the coordinator, closes at once, before the
coordinator's snapshot, and what it keeps goes into the subtask's: restored, the subtask sends it before anything new.

Protocol only: the driver takes one checkpoint after the other, so in a job no two close a gateway at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ....errors import CheckpointError
from ....state.keys.keygroups import ShardId, all_shards
from ...support.ids import NO_CHECKPOINT, CheckpointId

T = TypeVar("T")


class Gateway(Generic[T]):
    """What both directions have in common.

    Args:
        transmit: takes an event on its way.
        latest: the newest checkpoint that has been attempted so far; 0: none.
    """

    def __init__(self, transmit: Callable[[T], None], latest: CheckpointId = NO_CHECKPOINT) -> None:
        self._transmit = transmit
        #: Events kept under each closed checkpoint.  Invariant: ascending.
        self._kept: dict[CheckpointId, list[T]] = {}
        self.latest = latest

    @property
    def is_open(self) -> bool:
        """True if events pass."""
        return not self._kept

    @property
    def kept(self) -> list[T]:
        """What it keeps now, in order."""
        return [event for events in self._kept.values() for event in events]

    def send(self, event: T) -> None:
        """Pass an event on, or keep it."""
        if self.is_open:
            self._transmit(event)
        else:
            self._kept[max(self._kept)].append(event)

    def open(self, checkpoint_id: CheckpointId) -> None:
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

    def _close(self, checkpoint_id: CheckpointId) -> None:
        self._kept[checkpoint_id] = []
        self.latest = max(self.latest, checkpoint_id)


class SubtaskGateway(Gateway[T]):
    """From the coordinator to one subtask.

    The mark is what neutralises a snapshot that comes too late: aborting a checkpoint takes its mark away, and a
    gateway without the mark does not close.
    """

    def __init__(self, transmit: Callable[[T], None], latest: CheckpointId = NO_CHECKPOINT) -> None:
        super().__init__(transmit, latest)
        self._marked: int | None = None

    def mark(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint begins; events still pass.  One that is not newer than all before is left alone."""
        if checkpoint_id > self.latest:
            self._marked = self.latest = checkpoint_id

    def close(self, checkpoint_id: CheckpointId) -> bool:
        """Close for the checkpoint for which it is marked; False: it is not marked for this one."""
        if self._marked != checkpoint_id:
            return False
        self._marked = None
        self._close(checkpoint_id)
        return True

    def open(self, checkpoint_id: CheckpointId) -> None:
        if self._marked == checkpoint_id:
            self._marked = None
        super().open(checkpoint_id)

    def keeps_older_than(self, checkpoint_id: CheckpointId) -> bool:
        """True if it keeps events that were sent before it closed for this checkpoint."""
        return any(events for closed, events in self._kept.items() if closed < checkpoint_id)


class SubtaskGateways(Generic[T]):
    """The gateways from one coordinator to all of its subtasks.

    Args:
        shards: number of subtasks.
        transmit: takes an event on its way to a subtask.
        latest: the newest checkpoint that has been attempted so far; 0: none.
    """

    def __init__(self, shards: int, transmit: Callable[[ShardId, T], None], latest: CheckpointId) -> None:
        self._transmit = transmit
        self._of_shards: dict[ShardId, SubtaskGateway[T]] = {}
        for shard in all_shards(shards):
            self.rebuild(shard, latest)

    def rebuild(self, shard: ShardId, latest: CheckpointId) -> None:
        """A new gateway to a subtask; what its old one kept is dropped."""
        self._of_shards[shard] = SubtaskGateway(lambda event: self._transmit(shard, event), latest)

    def __getitem__(self, shard: ShardId) -> SubtaskGateway[T]:
        return self._of_shards[shard]

    @property
    def kept(self) -> int:
        """Events that closed gateways keep."""
        return sum(len(gateway.kept) for gateway in self._of_shards.values())

    def mark(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint begins."""
        for gateway in self._of_shards.values():
            gateway.mark(checkpoint_id)

    def close(self, checkpoint_id: CheckpointId) -> bool:
        """Close all for the checkpoint for which they are marked; False: none is marked for it.

        Raises:
            CheckpointError: some are.
        """
        closed = [gateway.close(checkpoint_id) for gateway in self._of_shards.values()]
        if any(closed) and not all(closed):
            raise CheckpointError(f"some gateways could be closed for checkpoint {checkpoint_id}, and some could not")
        return any(closed)

    def open(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint needs none of them closed any longer."""
        for gateway in self._of_shards.values():
            if checkpoint_id <= gateway.latest:  # one that was rebuilt, or never marked, may not have seen it
                gateway.open(checkpoint_id)

    def keep_older_than(self, checkpoint_id: CheckpointId) -> bool:
        """True if one keeps events that were sent before it closed for this checkpoint."""
        return any(gateway.keeps_older_than(checkpoint_id) for gateway in self._of_shards.values())


@dataclass(frozen=True)
class Closed:
    """The marker: the last that the coordinator hears from a subtask before a checkpoint."""

    shard: ShardId
    checkpoint_id: CheckpointId


class CoordinatorGateway(Gateway[T]):
    """From one subtask to its coordinator."""

    def close(self, shard: ShardId, checkpoint_id: CheckpointId) -> Closed:
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
