"""A coordinator's channels to all shards of a job, run by the driver: the protocol's two ends and what is between them.

Shards are Spark tasks that live for one epoch, and a checkpoint lies between two epochs.  So both ends of each channel
are kept by the driver, and the way between them is an epoch: what waits for a shard is taken when its task is sent out,
and is delivered when the driver accepts the report of the attempt that has won; what the shard has sent is in that
report.  Attempts that lose have received and sent nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic

from ....errors import CheckpointError
from ....state.keys.keygroups import ShardId, all_shards
from ...support.ids import NO_CHECKPOINT, CheckpointId
from .coordinator_holder import (
    Action,
    CloseGateway,
    CoordinatorHolder,
    FailCheckpoint,
    OpenGateway,
    SendBarriers,
    TakeSnapshot,
)
from .gateway import T
from .subtask import SubtaskEnd, SubtaskSnapshot


class Channel(Generic[T]):
    """Both directions between one coordinator and its shards.  Not thread-safe.

    Args:
        shards: number of shards.
        receive: takes events that arrive at the coordinator.
        restored: the shards' parts of the checkpoint that the job goes on from.
        latest: that checkpoint; 0: none.
        reached: told where a checkpoint has got to, so that a test can have the process die there.
    """

    def __init__(
        self,
        shards: int,
        receive: Callable[[ShardId, T], None],
        restored: Sequence[SubtaskSnapshot[T]] = (),
        latest: CheckpointId = NO_CHECKPOINT,
        reached: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._reached = reached
        self.holder: CoordinatorHolder[T] = CoordinatorHolder(
            shards, lambda shard, event: self._put(shard, event), latest
        )
        parts = restored or [SubtaskSnapshot[T]()] * shards
        self.ends = [SubtaskEnd(shard, receive, parts[shard], latest) for shard in all_shards(shards)]

    def _put(self, shard: ShardId, event: T) -> None:
        self.ends[shard].put(event)

    @property
    def waiting(self) -> list[ShardId]:
        """Shards for which something waits."""
        return [end.shard for end in self.ends if end.waiting]

    # -- epochs ------------------------------------------------------------------------------------------------------

    def take(self, shards: Iterable[ShardId]) -> dict[ShardId, tuple[T, ...]]:
        """What goes out with the tasks of an epoch, by shard."""
        taken = {}
        for shard in shards:
            if events := self.ends[shard].take():
                self.holder.delivering(shard)
                taken[shard] = events
        return taken

    def accept(self, shard: ShardId, sent: Iterable[T]) -> int:
        """An epoch's winning attempt counts; returns how many events are delivered with it."""
        delivered = self.ends[shard].accepted()
        self._do(self.holder.delivered(shard))
        self.ends[shard].send(sent)
        return delivered

    def fail(self, shards: Iterable[ShardId]) -> None:
        """The epoch has failed: what went out with it waits again."""
        for shard in shards:
            self.ends[shard].failed()
            self._do(self.holder.lost(shard))

    def parts(self) -> list[SubtaskSnapshot[T]]:
        """What each subtask has that nobody has taken, between two epochs and two checkpoints.

        Raises:
            CheckpointError: an epoch or a checkpoint is under way.
        """
        if self.holder.pending:
            raise CheckpointError(f"checkpoint {max(self.holder.pending)} is under way: its events are not settled")
        return [end.snapshot() for end in self.ends]

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def begin(
        self, checkpoint_id: CheckpointId, snapshot: Callable[[], bytes]
    ) -> tuple[bytes, list[SubtaskSnapshot[T]]]:
        """Steps 1 to 5: the coordinator's part of a checkpoint and the shards'; the gateways stay closed.

        Args:
            checkpoint_id: its id.
            snapshot: has the coordinator take its snapshot.

        Raises:
            CheckpointError: an epoch is under way.
        """
        try:
            actions = self.holder.begin(checkpoint_id)
            self._reached("events-announced")
            if not self._do(actions, snapshot):
                raise CheckpointError(f"checkpoint {checkpoint_id} has to wait for an epoch that is under way")
            self._reached("events-closed")
            found = [end.snapshot() for end in self.ends]
            return self.holder.data(checkpoint_id), found
        except BaseException:
            self.abort(checkpoint_id)
            raise

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """Step 6: the shards' parts are durable, which is their acknowledgement, and with them the checkpoint is."""
        for end in self.ends:
            self._do(self.holder.acknowledged(end.shard, checkpoint_id))
        self._do(self.holder.completed(checkpoint_id))

    def abort(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint has been given up; nothing, if it never began."""
        self._do(self.holder.aborted(checkpoint_id))

    def _do(self, actions: list[Action], snapshot: Callable[[], bytes] | None = None) -> bool:
        """Do what the holder says; True if barriers may be sent: the shards' snapshots can be taken."""
        settled, queue = False, list(actions)
        while queue:
            action = queue.pop(0)
            if isinstance(action, CloseGateway):
                marker = self.ends[action.shard].gateway.close(action.shard, action.checkpoint_id)
                self._reached("events-marker")
                queue += self.holder.marker(marker)
            elif isinstance(action, TakeSnapshot):
                assert snapshot is not None, "only begin() makes the holder ask for a snapshot"
                data = snapshot()
                self._reached("events-snapshot")
                queue += self.holder.snapshot_taken(action.checkpoint_id, data)
            elif isinstance(action, OpenGateway):
                gateway = self.ends[action.shard].gateway
                if action.checkpoint_id <= gateway.latest:
                    gateway.open(action.checkpoint_id)
            elif isinstance(action, FailCheckpoint):
                raise CheckpointError(f"checkpoint {action.checkpoint_id}: {action.reason}")
            else:
                assert isinstance(action, SendBarriers)
                settled = True
        return settled
