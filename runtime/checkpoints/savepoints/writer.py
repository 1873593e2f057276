"""Makes a savepoint of a complete checkpoint: a folder of its own, outside of the job's care.

Nothing is computed: files that the checkpoint names are copied, and checked on the way.  ``_metadata`` comes last, so a
writer that dies leaves a folder that nobody takes for a savepoint.  Copies are made by the driver, several at a time.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Iterable, Iterator

from pyarrow import fs

from ....errors import CheckpointError, CorruptStateError
from ....state.files import StateFile
from ....state.pool import StatePool, sync_path
from ...connectors.transaction import SinkTransaction
from ...platform.failpoints import failpoint
from ...platform.filesystem import exists, list_files, resolve, write_atomically
from ...platform.parallel import in_parallel
from ..first_position import FOLDER as FIRST_POSITION
from ..metadata import FORMAT_VERSION, CheckpointMetadata
from ..store import CheckpointStore
from .copying import Copied, copy_checked, copy_file
from .destination import Claim, check_destination, clear, give_free, give_up
from .store import MANIFEST, PLAN, Savepoint, SavepointFile

#: Entries of a source's own log; temporary and checksum files beside them are not copied.
_LOG_ENTRY = re.compile(r"\d+(\.compact)?$")
#: Spark merges old entries of a source's log and removes them, perhaps just while we copy.
_SOURCE_LOG_TRIES = 5


class SavepointDraft:
    """A savepoint in the making: its files first, its ``_metadata`` when the checkpoint that it is made of is complete.

    A context manager: entered, it claims the destination; left without having been finished, it leaves nothing there.

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
        check_destination(destination, savepoint_id)
        identity = store.identity()
        if identity is None:
            raise CheckpointError(f"{store.location!r} belongs to no job any more: {store.root}/job.json is gone")
        self._store = store
        self._identity = identity
        self._id = savepoint_id or uuid.uuid4().hex
        self._plan = plan_json.encode()
        self._filesystem, self._folder = resolve(destination)
        #: Where it will be: ``destination``, absolute if it is local.
        self.path = self._folder if isinstance(self._filesystem, fs.LocalFileSystem) else destination
        #: What has been copied, by its path below the folder.
        self._files: dict[str, SavepointFile] = {}
        self._has_source_logs = False
        self._is_finished = False

    def __enter__(self) -> SavepointDraft:
        try:
            Claim(self._id, self._store.location).write(self._filesystem, self._folder)
            clear(self._filesystem, self._folder)
            write_atomically(self._filesystem, f"{self._folder}/{PLAN}", self._plan)
        except BaseException:
            self.__exit__()
            raise
        digest = hashlib.sha256(self._plan).hexdigest()
        self._note([SavepointFile(path=PLAN, size_bytes=len(self._plan), sha256=digest)])
        return self

    def __exit__(self, *error: object) -> None:
        if not self._is_finished:
            give_up(self._filesystem, self._folder)

    def copy(self, files: Iterable[tuple[str, StateFile]], checkpoint_id: int) -> None:
        """Copy state files that are not there yet, and once the live sources' logs.

        Args:
            files: state files, each with the uid of its operator.
            checkpoint_id: the checkpoint that names them, for errors.

        Raises:
            CorruptStateError: a file is not as it was written.
        """
        wanted = {f"state/{uid}/{file.name}": (uid, file) for uid, file in files}
        for uid in {uid for uid, _ in wanted.values()}:
            self._filesystem.create_dir(f"{self._folder}/state/{uid}", recursive=True)

        def copy_state(path: str) -> SavepointFile:
            uid, file = wanted[path]
            source = StatePool(self._store.filesystem, self._store.pool(uid)).path(file.name)
            expected = Copied(file.size_bytes, file.sha256)
            failpoint("savepoint-copy")
            try:
                copy_checked(self._store.filesystem, source, self._filesystem, f"{self._folder}/{path}", expected)
            except CorruptStateError as error:
                raise self._store.with_alternative(CorruptStateError(f"state file {error}"), checkpoint_id) from error
            return SavepointFile(path=path, size_bytes=file.size_bytes, sha256=file.sha256)

        self._note(in_parallel(copy_state, [path for path in wanted if path not in self._files]))
        if not self._has_source_logs:
            self._note(_copy_source_logs(self._store, self._filesystem, self._folder))
            self._has_source_logs = True

    def finish(self, metadata: CheckpointMetadata) -> str:
        """Copy what is missing and make it a savepoint; returns its path.

        Args:
            metadata: a complete checkpoint whose output is visible.
        """
        self.copy(_state_files(metadata), metadata.checkpoint_id)
        if metadata.spark is None:
            self._note(_copy_first_position(self._store, self._filesystem, self._folder))
        if isinstance(self._filesystem, fs.LocalFileSystem):
            for inner in {path.rpartition("/")[0] for path in self._files}:
                sync_path(f"{self._folder}/{inner}")
        savepoint = Savepoint(
            savepoint_id=self._id,
            created_ms=round(time.time() * 1000),
            operator=dict(self._identity.stages[-1]),
            stages=tuple(map(dict, self._identity.stages)),
            max_parallelism=self._identity.max_parallelism,
            checkpoint_format=FORMAT_VERSION,
            checkpoint=metadata.model_copy(
                update={"transaction": SinkTransaction(id=metadata.checkpoint_id), "late_rows": None, "savepoint": None}
            ),
            files=tuple(self._files.values()),
        )
        failpoint("savepoint-before-metadata")
        write_atomically(self._filesystem, f"{self._folder}/{MANIFEST}", savepoint.to_bytes())
        self._is_finished = True
        failpoint("savepoint-after-metadata")
        give_free(self._filesystem, self._folder)
        return self.path

    def _note(self, files: Iterable[SavepointFile]) -> None:
        self._files.update({file.path: file for file in files})


def check_source(store: CheckpointStore, metadata: CheckpointMetadata) -> None:
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


def _state_files(metadata: CheckpointMetadata) -> Iterator[tuple[str, StateFile]]:
    """Each state file once: shards may share files."""
    for operator in metadata.operators:
        named = {file.name: file for shard in operator.shards for file in shard.load().files}
        for file in named.values():
            yield operator.uid, file


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
            path = f"spark/{entry}"
            target.create_dir(f"{folder}/{path}".rpartition("/")[0], recursive=True)
            done = copy_file(store.filesystem, f"{store.spark_location}/{entry}", target, f"{folder}/{path}")
            return SavepointFile(path=path, size_bytes=done.size_bytes, sha256=done.sha256)

        try:
            store.spark_log.check()
            return in_parallel(copy_entry, entries)
        except FileNotFoundError as error:
            if not last:
                raise CheckpointError(f"the live source's log {origin} changes faster than it can be copied") from error
            if exists(target, f"{folder}/spark"):
                target.delete_dir(f"{folder}/spark")
    raise AssertionError("unreachable")


def _copy_first_position(store: CheckpointStore, target: fs.FileSystem, folder: str) -> list[SavepointFile]:
    """Where the live sources begin, for a checkpoint that has no position of theirs yet."""
    found = []
    for info in list_files(store.filesystem, f"{store.root}/{FIRST_POSITION}", recursive=True):
        if info.type == fs.FileType.File and not info.base_name.startswith((".", "_")):
            path = info.path[len(store.root) + 1 :]
            target.create_dir(f"{folder}/{path}".rpartition("/")[0], recursive=True)
            done = copy_file(store.filesystem, info.path, target, f"{folder}/{path}")
            found.append(SavepointFile(path=path, size_bytes=done.size_bytes, sha256=done.sha256))
    return found
