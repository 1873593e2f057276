"""The committed state of a stage's shards, and where a task brings it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyarrow import fs

from ...state.keys.keygroups import ShardId
from ...state.store.files import StateFile
from ...state.store.local_copy import LocalStateCopy, process_cache
from ...state.store.local_folder import local_root
from ...state.store.packed_manifests import PackedManifests
from ..support.ids import JobId


@dataclass(frozen=True)
class ShardStates:
    """What tasks must know of the state of all shards of a stage."""

    job_id: JobId
    #: Committed state, by shard.
    manifests: PackedManifests
    filesystem: fs.FileSystem
    #: Folder of the state files.
    pool: str
    #: Folder on the local disk; None: the system's for temporary files.
    local_dir: str | None
    cache_bytes: int

    @property
    def local_root(self) -> str:
        """The folder on this machine in which local copies are."""
        return local_root(self.local_dir)

    def acquire(self, shard: ShardId) -> LocalStateCopy:
        """A shard's local copy in this process."""
        return process_cache().acquire(
            self.job_id,
            shard,
            self.manifests[shard],
            self.filesystem,
            self.pool,
            self.local_root,
            self.cache_bytes,
        )

    def holds(self, shard: ShardId) -> bool:
        """Whether this process has a local copy of a shard, however old."""
        return process_cache().known(self.job_id, shard, self.pool) is not None

    def follow(self, shard: ShardId, files: Sequence[StateFile]) -> bool:
        """Bring a local copy that this process holds up to the committed state and files of the epoch in hand.

        Args:
            shard: the shard.
            files: durable ones of one attempt, in order; the epoch may never be committed.

        Returns:
            False: there is no copy that only lacks files.
        """
        return process_cache().follow(self.job_id, shard, self.manifests[shard].append(files), self.pool)

    def retire(self) -> None:
        """Close this process's local copies of shards that the stage does not have any more."""
        process_cache().retire(self.job_id, self.pool, len(self.manifests))

    def emptied(self) -> ShardStates:
        """The same without files, for a task that only stands for others."""
        return replace(self, manifests=self.manifests.emptied())
