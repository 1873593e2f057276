"""Writes what a shard changes in an epoch in segments while rows flow; local copies follow what is durable.

At an epoch's end all rows wait.  So little should be left to write then, and little to bring in when the next epoch
begins: this process's copy of the shard has the segments by then, and so have its copies of other shards, each of which
may come to this process with the next epoch.  None of it counts before the driver has committed the epoch; without that
the copies are built anew (:mod:`mixedmode.state.store.local_copy`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

from ....state.keys.keygroups import ShardId
from ....state.store.files import StateFile
from ....state.store.log import LogWriter
from ....state.store.segmented_log import SegmentedLog
from ...operators.open_epoch import OpenEpoch
from ...support.failpoints import failpoint
from ...support.ids import BatchId, EpochNumber
from ..shard_states import ShardStates
from .run_folder import RunFolder


@dataclass(frozen=True)
class SegmentPolicy:
    """When segments are written, and brought in.

    Args:
        keys: so many changed keys are a segment: some 20 ms, of which an epoch's end has the last.
        follow_every_s: how often local copies are brought up to what is durable.
    """

    keys: int = 4096
    follow_every_s: float = 3.0


class ChangeSegments:
    """The change log of one attempt.

    Args:
        folder: where other processes learn of it.
        batch: the epoch's, by Spark's number.
        shard: the shard.
        states: the committed state of all shards.
        name: beginning of its files' names, as unique as the attempt.
        epoch: the epoch's number.
        policy: when segments are written, and brought in.
    """

    def __init__(
        self,
        folder: RunFolder,
        batch: BatchId,
        shard: ShardId,
        states: ShardStates,
        name: str,
        epoch: EpochNumber,
        policy: SegmentPolicy,
    ) -> None:
        self._folder, self._batch, self._shard, self._states, self._policy = folder, batch, shard, states, policy
        self.log = SegmentedLog(
            partial(LogWriter, states.filesystem, states.pool, states.local_root, epoch=epoch), name
        )
        #: How many files others know of.
        self._known = 0
        self._follow_at_s = time.monotonic() + policy.follow_every_s

    def look(self, epoch: OpenEpoch) -> None:
        """Between two portions: bring local copies on, and write what has changed if it is much."""
        # What was written before, which is durable by now; not what is written now.
        if time.monotonic() >= self._follow_at_s:
            self._follow_at_s = time.monotonic() + self._policy.follow_every_s
            self._follow()
        if epoch.unwritten_keys >= self._policy.keys:
            epoch.write_changes(self.log)
            self.log.cut()
            failpoint("realtime-task-segment")

    def finish(self) -> list[StateFile]:
        """The files of the whole epoch, as soon as they are durable."""
        return self.log.finish()

    def _follow(self) -> None:
        files = self.log.durable()
        if len(files) > self._known:
            self._states.follow(self._shard, files)
            self._folder.write_segments(self._batch, self._shard, files)
            self._known = len(files)
            failpoint("realtime-task-segment-known")
        for other in map(ShardId, range(len(self._states.manifests))):
            if other != self._shard and self._states.holds(other):
                self._states.follow(other, self._folder.segments(self._batch, other))
