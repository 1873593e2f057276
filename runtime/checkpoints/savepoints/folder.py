"""The folder of a savepoint in the making: claimed first, a savepoint with the last file that is written to it."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ....state.store.disk_syncs import sync_path
from ...connectors.transaction import SinkTransaction
from ...storage.filesystem import is_local_disk, resolve, write_atomically
from ...support.failpoints import failpoint
from ..metadata import FORMAT_VERSION, CheckpointMetadata
from .destination import DestinationClaim, check_destination, clear, give_free, give_up
from .store import MANIFEST, PLAN, Savepoint, SavepointFile

if TYPE_CHECKING:
    from typing_extensions import Self


class SavepointFolder:
    """A context manager: entered, it claims the destination; left without :meth:`complete`, it leaves nothing there.

    Args:
        destination: a folder that is empty or does not exist, or has the leftovers of this savepoint, local or a URI.
        maker: who makes it: the checkpointLocation of a job.
        plan_json: the job's execution plan.
        savepoint_id: its id; None: a new one.

    Raises:
        CheckpointError: the destination is not empty.
    """

    def __init__(self, destination: str, maker: str, plan_json: str, savepoint_id: str | None = None) -> None:
        check_destination(destination, savepoint_id)
        self._maker = maker
        self._id = savepoint_id or uuid.uuid4().hex
        self._plan = plan_json.encode()
        self.filesystem, self.folder = resolve(destination)
        #: Where it will be: ``destination``, absolute if it is local.
        self.path = self.folder if is_local_disk(self.filesystem) else destination
        #: What is there and belongs to it, by its path below the folder.
        self.files: dict[str, SavepointFile] = {}
        self._is_finished = False

    def __enter__(self) -> Self:
        try:
            DestinationClaim(self._id, self._maker).write(self.filesystem, self.folder)
            clear(self.filesystem, self.folder)
            write_atomically(self.filesystem, f"{self.folder}/{PLAN}", self._plan)
        except BaseException:
            self.__exit__()
            raise
        digest = hashlib.sha256(self._plan).hexdigest()
        self.note([SavepointFile(path=PLAN, size_bytes=len(self._plan), sha256=digest)])
        return self

    def __exit__(self, *error: object) -> None:
        if not self._is_finished:
            give_up(self.filesystem, self.folder)

    def note(self, files: Iterable[SavepointFile]) -> None:
        """These files are there and belong to it."""
        self.files.update({file.path: file for file in files})

    def complete(
        self, metadata: CheckpointMetadata, stages: Sequence[Mapping[str, object]], max_parallelism: int
    ) -> str:
        """Make it a savepoint; returns its path.

        Args:
            metadata: the checkpoint in it, whose output is visible; all files that it names are noted.
            stages: what the operators of its job's stages say of themselves, in topological order.
            max_parallelism: number of key groups.
        """
        if is_local_disk(self.filesystem):
            for inner in {path.rpartition("/")[0] for path in self.files}:
                sync_path(f"{self.folder}/{inner}")
        savepoint = Savepoint(
            savepoint_id=self._id,
            created_ms=round(time.time() * 1000),
            operator=dict(stages[-1]),
            stages=tuple(map(dict, stages)),
            max_parallelism=max_parallelism,
            checkpoint_format=FORMAT_VERSION,
            checkpoint=metadata.model_copy(
                update={"transaction": SinkTransaction(id=metadata.checkpoint_id), "late_rows": None, "savepoint": None}
            ),
            files=tuple(self.files.values()),
        )
        failpoint("savepoint-before-metadata")
        write_atomically(self.filesystem, f"{self.folder}/{MANIFEST}", savepoint.to_bytes())
        self._is_finished = True
        failpoint("savepoint-after-metadata")
        give_free(self.filesystem, self.folder)
        return self.path
