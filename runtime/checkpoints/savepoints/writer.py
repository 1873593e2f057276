"""Makes a savepoint of a complete checkpoint: a folder of its own, outside of the job's care.

Nothing is computed: files that the checkpoint names are copied, and checked on the way.  ``_metadata`` comes last, so a
writer that dies leaves a folder that nobody takes for a savepoint.  Copies are made by the driver, several at a time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from pyarrow import fs

from ....errors import CheckpointError, CorruptStateError
from ....state.store.files import StateFile
from ....state.store.pool import StatePool
from ...storage.filesystem import exists, list_files
from ...storage.parallel import in_parallel
from ...support.failpoints import failpoint
from ...support.ids import CheckpointId
from ..first_position import FOLDER as FIRST_POSITION
from ..metadata import CheckpointMetadata, state_files
from ..store import CheckpointStore
from .copying import CopyReport, copy_checked, copy_file
from .folder import SavepointFolder
from .store import SavepointFile

logger = logging.getLogger(__name__)

#: Entries of a source's own log; temporary and checksum files beside them are not copied.
_LOG_ENTRY = re.compile(r"\d+(\.compact)?$")
#: Spark merges old entries of a source's log and removes them, perhaps just while we copy.
_SOURCE_LOG_TRIES = 5


class SavepointDraft(SavepointFolder):
    """A savepoint in the making: its files first, its ``_metadata`` when the checkpoint that it is made of is complete.

    Args:
        store: the job's checkpoint store.
        destination: a folder that is empty or does not exist, or has the leftovers of this savepoint, local or a URI.
        plan_json: the job's execution plan.
        savepoint_id: its id; None: a new one.

    Raises:
        CheckpointError: the destination is not empty.
    """

    def __init__(
        self, store: CheckpointStore, destination: str, plan_json: str, savepoint_id: str | None = None
    ) -> None:
        super().__init__(destination, store.location, plan_json, savepoint_id)
        identity = store.identity()
        if identity is None:
            raise CheckpointError(f"{store.location!r} belongs to no job any more: {store.root}/job.json is gone")
        self._store = store
        self._identity = identity
        self._has_source_logs = False

    def copy(self, files: Iterable[tuple[str, StateFile]], checkpoint_id: CheckpointId) -> None:
        """Copy state files that are not there yet, and once the live sources' logs.

        Args:
            files: state files, each with the uid of its operator.
            checkpoint_id: the checkpoint that names them, for errors.

        Raises:
            CorruptStateError: a file is not as it was written.
        """
        wanted = {f"state/{uid}/{file.name}": (uid, file) for uid, file in files}
        for uid in {uid for uid, _ in wanted.values()}:
            self.filesystem.create_dir(f"{self.folder}/state/{uid}", recursive=True)

        def copy_state(path: str) -> SavepointFile:
            uid, file = wanted[path]
            source = StatePool(self._store.filesystem, self._store.pool(uid)).path(file.name)
            expected = CopyReport(file.size_bytes, file.sha256)
            failpoint("savepoint-copy")
            try:
                copy_checked(self._store.filesystem, source, self.filesystem, f"{self.folder}/{path}", expected)
            except CorruptStateError as error:
                raise self._store.with_alternative(CorruptStateError(f"state file {error}"), checkpoint_id) from error
            return SavepointFile(path=path, size_bytes=file.size_bytes, sha256=file.sha256)

        self.note(in_parallel(copy_state, [path for path in wanted if path not in self.files]))
        if not self._has_source_logs:
            self.note(_copy_source_logs(self._store, self.filesystem, self.folder))
            self._has_source_logs = True

    def finish(self, metadata: CheckpointMetadata) -> str:
        """Copy what is missing and make it a savepoint; returns its path.

        Args:
            metadata: a complete checkpoint whose output is visible.
        """
        self.copy(state_files(metadata.operators), metadata.checkpoint_id)
        if metadata.spark is None:
            self.note(_copy_first_position(self._store, self.filesystem, self.folder))
        return self.complete(metadata, self._identity.stages, self._identity.max_parallelism)


def check_has_state(store: CheckpointStore, metadata: CheckpointMetadata) -> None:
    """Raise CheckpointError if a checkpoint is nothing to make a savepoint of."""
    if not any(operator.shards for operator in metadata.operators):
        raise CheckpointError(
            f"checkpoint {metadata.checkpoint_id} holds no state to make a savepoint of: runtime-mode batch keeps none"
        )
    if not store.is_committed(metadata.checkpoint_id):
        raise CheckpointError(
            f"the output of checkpoint {metadata.checkpoint_id} is not visible yet: a savepoint of it would lose it",
            code="MIXEDMODE_OUTPUT_NOT_SHOWN",
        )


def _copy_source_logs(store: CheckpointStore, target: fs.FileSystem, folder: str) -> list[SavepointFile]:
    """The live sources' own logs: without them a file source would read again all that it has read.

    They may hold entries beyond the checkpoint's position; a source that goes on from that position takes those next.
    """
    origin = f"{store.spark_location}/sources"
    for last in range(_SOURCE_LOG_TRIES - 1, -1, -1):
        entries = [
            info.path[len(store.spark_location) + 1 :]
            for info in list_files(store.filesystem, origin, recursive=True)
            if info.type == fs.FileType.File and _LOG_ENTRY.match(info.base_name)
        ]

        def copy_entry(entry: str) -> SavepointFile:
            return _copied(store, f"{store.spark_location}/{entry}", target, folder, f"spark/{entry}")

        try:
            store.spark_log.check()
            return in_parallel(copy_entry, entries)
        except FileNotFoundError as error:
            if not last:
                raise CheckpointError(f"the live source's log {origin} changes faster than it can be copied") from error
            logger.info("the log of the live source %s has changed meanwhile and is copied again", origin)
            if exists(target, f"{folder}/spark"):
                target.delete_dir(f"{folder}/spark")
    raise AssertionError("unreachable")


def _copy_first_position(store: CheckpointStore, target: fs.FileSystem, folder: str) -> list[SavepointFile]:
    """Where the live sources begin, for a checkpoint that has no position of theirs yet."""
    found = []
    for info in list_files(store.filesystem, f"{store.root}/{FIRST_POSITION}", recursive=True):
        if info.type == fs.FileType.File and not info.base_name.startswith((".", "_")):
            found.append(_copied(store, info.path, target, folder, info.path[len(store.root) + 1 :]))
    return found


def _copied(store: CheckpointStore, source: str, target: fs.FileSystem, folder: str, path: str) -> SavepointFile:
    """A file of a checkpoint's location, copied to a path below a savepoint's folder."""
    target.create_dir(f"{folder}/{path}".rpartition("/")[0], recursive=True)
    done = copy_file(store.filesystem, source, target, f"{folder}/{path}")
    return SavepointFile(path=path, size_bytes=done.size_bytes, sha256=done.sha256)
