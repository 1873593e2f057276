"""Writes checkpoints: a checkpoint exists if and only if its ``_metadata`` does."""

from __future__ import annotations

import json
from collections.abc import Callable

from pyarrow import fs

from ...errors import CheckpointError
from ..connectors.transaction import SinkTransaction
from ..storage.checksummed import seal
from ..storage.exclusive import put_if_absent
from ..storage.filesystem import overwrite, resolve, write_atomically
from ..support.failpoints import failpoint
from ..support.ids import CheckpointId
from .branch import Branch
from .identity import JobIdentity
from .job_file import JobFile
from .metadata import CheckpointMetadata
from .retention import CheckpointRetention
from .stored_checkpoints import StoredCheckpoints


def has_checkpoint(location: str | None) -> bool:
    """Whether a job has taken a checkpoint at its ``checkpointLocation``; False also for a place that is of no use."""
    try:
        return location is not None and bool(CheckpointStore(*resolve(location)).known_ids())
    except (OSError, ValueError, CheckpointError):
        return False  # the start says what is wrong with it


def stored_shards(location: str | None) -> int | None:
    """How many shards the last checkpoint's stages have at most; None: there is none, or it cannot be read."""
    try:
        store = None if location is None else CheckpointStore(*resolve(location))
        known = [] if store is None else store.ids()
        if store is None or not known:
            return None
        return max((len(stage.shards) for stage in store.read(known[-1]).operators), default=None)
    except (OSError, ValueError, CheckpointError):
        return None  # the start says what is wrong with it


class CheckpointStore(StoredCheckpoints):
    """Reads and writes the checkpoints below one checkpoint location.

    Args:
        filesystem: of the location.
        location: its path there.
        branch: the branch that is meant, whatever drivers do; None: the one that counts.
    """

    def __init__(self, filesystem: fs.FileSystem, location: str, branch: Branch | None = None) -> None:
        super().__init__(filesystem, location, branch)
        #: Called right before each step that others can see; raises if this driver may not do it (any more).
        self.guard: Callable[[], None] = lambda: None
        #: False once this driver has removed what sorted passes had left, until the next one begins: on an object store
        #: each look would cost a checkpoint a request.
        self.may_have_backlog = True
        #: Removes what is outdated.
        self.retention = CheckpointRetention(self, lambda: self.guard())

    def work_in(self, branch: Branch) -> None:
        super().work_in(branch)
        self.may_have_backlog = True
        self.retention.forget_names()

    def discard_backlog(self) -> None:
        if self.may_have_backlog:
            super().discard_backlog()
            self.may_have_backlog = False

    def identity(self) -> JobIdentity | None:
        """The job that this location belongs to; None: it is empty.  Errors as of :meth:`JobFile.read`."""
        return JobFile(self.filesystem, self.location).read()

    def claim(self, identity: JobIdentity) -> None:
        """Write the identity of a new job."""
        JobFile(self.filesystem, self.location).claim(identity)

    def write(self, metadata: CheckpointMetadata) -> None:
        """Make a checkpoint exist.  Everything that it names must already be in place."""
        folder = self.folder(metadata.checkpoint_id)
        path = f"{folder}/_metadata"
        self.filesystem.create_dir(folder, recursive=True)
        failpoint("checkpoint-before-metadata")
        self.guard()
        if not put_if_absent(self.filesystem, path, metadata.to_bytes()):
            raise CheckpointError(
                f"{path} exists already: another driver runs this job on the same checkpointLocation. Stop one of them",
                code="MIXEDMODE_LOCATION_IN_USE",
            )
        self.retention.note_written(metadata)

    def mark_committed(self, checkpoint_id: CheckpointId) -> None:
        """Remember that the checkpoint's transaction is visible."""
        self.guard()
        write_atomically(self.filesystem, f"{self.folder(checkpoint_id)}/_committed", b"")
        newest = seal(json.dumps({"checkpoint_id": checkpoint_id}).encode())
        overwrite(self.filesystem, self.newest, newest, durable=True)

    def write_restaged(self, checkpoint_id: CheckpointId, transaction: SinkTransaction) -> None:
        """Put other staged files in the place of the checkpoint's output."""
        self.guard()
        write_atomically(
            self.filesystem, self.restaged_file(checkpoint_id), seal(transaction.model_dump_json().encode())
        )

    def mark_savepoint_made(self, checkpoint_id: CheckpointId, path: str) -> None:
        """Remember that the savepoint that the checkpoint was taken for is complete."""
        write_atomically(self.filesystem, self.savepoint_marker(checkpoint_id), path.encode())
