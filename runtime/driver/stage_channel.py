"""The runtime's own coordinator of a keyed stage: epochs go out to the shards as events, reports come back as events.

An epoch's event is its :class:`EpochSpec`: the watermark, whether the job is in backlog, what is to fire.  It goes
through the gateways that close for checkpoints, so no epoch can begin while a checkpoint is taken, and no checkpoint
while the shards work on an epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import CheckpointError
from ..protocols.operator_events.channel import Channel

if TYPE_CHECKING:
    from ..operators.contract import EpochSpec
    from ..tasks.report import ShardReport


class StageChannel:
    """Epochs out, reports in.

    Args:
        shards: number of shards.
        latest: the checkpoint that the job goes on from.
    """

    def __init__(self, shards: int, latest: int = 0) -> None:
        self._reports: list[ShardReport] = []
        self._channel: Channel[EpochSpec | ShardReport] = Channel(shards, self._receive, latest=latest)

    def _receive(self, shard: int, report: EpochSpec | ShardReport) -> None:
        self._reports.append(report)  # type: ignore[arg-type]

    def command(self, epoch: EpochSpec, shards: Sequence[int]) -> None:
        """Send an epoch to the shards that take part in it, and have them take it.

        Raises:
            CheckpointError: a checkpoint is being taken.
        """
        if not all(self._channel.holder.is_open(shard) for shard in shards):
            raise CheckpointError(f"epoch {epoch.epoch} cannot begin while a checkpoint is taken")
        for shard in shards:
            self._channel.holder.send(shard, epoch)
        taken = self._channel.take(shards)
        assert all(taken[shard] == (epoch,) for shard in shards), "one epoch at a time"

    def accept(self, reports: Sequence[ShardReport]) -> list[ShardReport]:
        """The reports of an epoch, as they arrive at the coordinator."""
        for report in reports:
            self._channel.accept(report.shard, [report])
        arrived, self._reports = self._reports, []
        return arrived

    def fail(self, shards: Sequence[int]) -> None:
        """The epoch has failed: the shards forget it."""
        for shard in shards:
            self._channel.accept(shard, [])

    def begin(self, checkpoint_id: int) -> None:
        """Close for a checkpoint.  The coordinator's state is the job's, which others write down.

        Raises:
            CheckpointError: the shards work on an epoch.
        """
        _, parts = self._channel.begin(checkpoint_id, lambda: b"")
        lost = [part for part in parts if part.inbox or part.kept]
        assert not lost, "control events are sent and taken in one step"

    def complete(self, checkpoint_id: int) -> None:
        """The checkpoint is complete."""
        self._channel.complete(checkpoint_id)

    def abort(self, checkpoint_id: int) -> None:
        """The checkpoint has been given up."""
        self._channel.abort(checkpoint_id)
