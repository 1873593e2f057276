"""The driver's side of a coordinator: its gateways to all subtasks, and the six steps of each of its checkpoints.

It takes what happened and returns what is to be done.  The rules are those of Flink's ``OperatorCoordinatorHolder``
with FLINK-28606 and FLINK-28639; two were sharpened for checkpoints that overlap, where Flink waits for all futures:

- Barriers of a checkpoint wait until no gateway keeps an event that was sent before it closed for this checkpoint.
- An event that a subtask's gateway keeps when it is closed once more goes out only after the newest close is undone.

Invariants:
- Checkpoints begin in ascending order of their ids, each after the coordinator's snapshot for the one before, so that
  at most one has the gateways marked.
- A subtask that does not run counts as having sent its marker (protocol only: in a job all run, or none).
- What comes for a checkpoint that is not pending (aborted, completed, of an earlier life) changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

from ....errors import CheckpointError, OperatorEventError
from ....state.keys.keygroups import ShardId, all_shards
from ...support.ids import NO_CHECKPOINT, CheckpointId
from .gateway import Closed, SubtaskGateways, T

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CloseGateway:
    """Tell a subtask that a checkpoint has begun: it closes its gateway and answers with the marker."""

    shard: ShardId
    checkpoint_id: CheckpointId


@dataclass(frozen=True)
class TakeSnapshot:
    """All markers are there: have the coordinator take its snapshot."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True)
class SendBarriers:
    """The coordinator's part is complete and settled: the subtasks may take their snapshots."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True)
class OpenGateway:
    """Tell a subtask that its gateway need not stay closed for this checkpoint."""

    shard: ShardId
    checkpoint_id: CheckpointId


@dataclass(frozen=True)
class FailCheckpoint:
    """Have the checkpoint given up everywhere; its gateways are open again."""

    checkpoint_id: CheckpointId
    reason: str


Action = CloseGateway | TakeSnapshot | SendBarriers | OpenGateway | FailCheckpoint


@dataclass
class _Pending:
    """A checkpoint under way."""

    #: Subtasks whose markers are missing.
    markers: set[ShardId]
    #: The coordinator's state; None: the snapshot has not been taken.
    data: bytes | None = None
    #: Subtasks to which something was being delivered when the gateways closed.
    deliveries: set[ShardId] = field(default_factory=set)
    barriers_sent: bool = False


class CoordinatorHolder(Generic[T]):
    """Holds the gateways of one coordinator.

    Args:
        shards: number of subtasks.
        transmit: takes an event on its way to a subtask.
        latest: the checkpoint that the job goes on from; 0: none.
    """

    def __init__(
        self, shards: int, transmit: Callable[[ShardId, T], None], latest: CheckpointId = NO_CHECKPOINT
    ) -> None:
        #: The newest checkpoint that has begun.
        self.latest = latest
        self.gateways = SubtaskGateways(shards, transmit, latest)
        self._running = set(all_shards(shards))
        self._delivering: set[ShardId] = set()
        self._pending: dict[CheckpointId, _Pending] = {}

    # -- events ------------------------------------------------------------------------------------------------------

    def send(self, shard: ShardId, event: T) -> None:
        """An event of the coordinator to a subtask.

        Raises:
            OperatorEventError: the subtask does not run.
        """
        if shard not in self._running:
            raise OperatorEventError(f"subtask {shard} does not run; send to it after its subtaskReset()")
        self.gateways[shard].send(event)

    @property
    def pending(self) -> frozenset[CheckpointId]:
        """The checkpoints that are under way."""
        return frozenset(self._pending)

    def delivering(self, shard: ShardId) -> None:
        """What has been sent to a subtask is being delivered: it is neither here nor there."""
        self._delivering.add(shard)

    def delivered(self, shard: ShardId) -> list[Action]:
        """The subtask has acknowledged what was being delivered."""
        self._delivering.discard(shard)
        for pending in self._pending.values():
            pending.deliveries.discard(shard)
        return self._barriers()

    def lost(self, shard: ShardId) -> list[Action]:
        """Delivery has failed; so do the checkpoints that wait for it."""
        self._delivering.discard(shard)
        waiting = [number for number, pending in self._pending.items() if shard in pending.deliveries]
        return self._fail(waiting, f"events to subtask {shard} were not delivered")

    # -- the six steps -----------------------------------------------------------------------------------------------

    def begin(self, checkpoint_id: CheckpointId) -> list[Action]:
        """Step 1: announce a checkpoint.

        Raises:
            CheckpointError: it is not newer than all before, or the coordinator has not taken its snapshot for one
                before: marked anew, the gateways would not close for that one, which could never be complete.
        """
        if checkpoint_id <= self.latest:
            raise CheckpointError(
                f"checkpoint {checkpoint_id} cannot begin: checkpoint {self.latest} has begun before, and ids ascend"
            )
        for number, pending in self._pending.items():
            if pending.data is None:
                raise CheckpointError(
                    f"checkpoint {checkpoint_id} cannot begin: the coordinator has not taken its snapshot for "
                    f"checkpoint {number} yet; complete or abort that one first"
                )
        self.latest = checkpoint_id
        self._pending[checkpoint_id] = _Pending(set(self._running))
        if not self._running:
            return self._snapshot(checkpoint_id)
        return [CloseGateway(shard, checkpoint_id) for shard in sorted(self._running)]

    def marker(self, marker: Closed) -> list[Action]:
        """Step 2: a subtask has closed; nothing comes from it before its snapshot."""
        pending = self._pending.get(marker.checkpoint_id)
        if pending is None or marker.shard not in pending.markers:
            return []
        pending.markers.discard(marker.shard)
        return self._snapshot(marker.checkpoint_id) if not pending.markers else []

    def _snapshot(self, checkpoint_id: CheckpointId) -> list[Action]:
        self.gateways.mark(checkpoint_id)
        return [TakeSnapshot(checkpoint_id)]

    def snapshot_taken(self, checkpoint_id: CheckpointId, data: bytes) -> list[Action]:
        """Step 3: the coordinator's snapshot is there; all gateways close, or none.

        A snapshot that comes after its checkpoint was aborted closes none and is forgotten.
        """
        closed = self.gateways.close(checkpoint_id)
        pending = self._pending.get(checkpoint_id)
        if pending is None or not closed:
            logger.info("the coordinator's snapshot for checkpoint %s comes too late", checkpoint_id)
            return []
        pending.data = data
        pending.deliveries = set(self._delivering)
        return self._barriers()

    def _barriers(self) -> list[Action]:
        """The checkpoints whose events have all settled (steps 4 and 5 are the subtasks')."""
        found: list[Action] = []
        for number, pending in self._pending.items():
            if pending.data is None or pending.barriers_sent or pending.deliveries:
                continue
            if not self.gateways.keep_older_than(number):
                pending.barriers_sent = True
                found.append(SendBarriers(number))
        return found

    def data(self, checkpoint_id: CheckpointId) -> bytes:
        """The coordinator's state in a checkpoint whose barriers may be sent."""
        data = self._pending[checkpoint_id].data
        assert data is not None, "asked for before SendBarriers"
        return data

    def acknowledged(self, shard: ShardId, checkpoint_id: CheckpointId) -> list[Action]:
        """Step 6, for one subtask: its snapshot is taken, so both of its channels open."""
        if checkpoint_id not in self._pending:
            return []
        self.gateways[shard].open(checkpoint_id)
        return [OpenGateway(shard, checkpoint_id), *self._barriers()]

    def completed(self, checkpoint_id: CheckpointId) -> list[Action]:
        """Step 6, for all: the checkpoint is complete.

        Raises:
            CheckpointError: markers are missing.
        """
        pending = self._pending.get(checkpoint_id)
        if pending is not None and pending.markers:
            raise CheckpointError(
                f"checkpoint {checkpoint_id} cannot be complete: the subtasks {sorted(pending.markers)} have not closed"
            )
        return [*self._end(checkpoint_id), *self._barriers()]

    def aborted(self, checkpoint_id: CheckpointId) -> list[Action]:
        """The checkpoint has been given up, at whatever step it was."""
        return [*self._end(checkpoint_id), *self._barriers()]

    def _end(self, checkpoint_id: CheckpointId) -> list[Action]:
        if self._pending.pop(checkpoint_id, None) is None:
            return []
        self.gateways.open(checkpoint_id)
        return [OpenGateway(shard, checkpoint_id) for shard in sorted(self._running)]

    def _fail(self, numbers: list[CheckpointId], reason: str) -> list[Action]:
        found: list[Action] = []
        for number in numbers:
            if number in self._pending:
                found += [FailCheckpoint(number, reason), *self._end(number)]
        return [*found, *self._barriers()]  # only now: one that is to fail as well must not get its barriers

    # -- failures ----------------------------------------------------------------------------------------------------

    def shard_failed(self, shard: ShardId) -> list[Action]:
        """A subtask has failed: what it had been sent is gone with it, and no pending checkpoint can be complete.

        Protocol only: in a job nobody fails alone, a failed epoch's events wait again (:meth:`lost`).
        """
        self._running.discard(shard)
        self._delivering.discard(shard)
        return self._fail(list(self._pending), f"subtask {shard} has failed")

    def shard_reset(self, shard: ShardId) -> None:
        """The subtask runs again, from a checkpoint.  What its old gateway kept is dropped: the coordinator, put back
        to the same checkpoint for this subtask, sends it again.

        Protocol only, as :meth:`shard_failed`.
        """
        self.gateways.rebuild(shard, self.latest)
        self._running.add(shard)
