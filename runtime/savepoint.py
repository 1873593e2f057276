"""Makes a savepoint of a complete checkpoint: a folder of its own, outside of the job's care.

Nothing is computed: files that the checkpoint names are copied, and checked on the way.  ``_metadata`` comes last, so a
writer that dies leaves a folder that nobody takes for a savepoint.  Copies are made by the driver, several at a time.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Iterator

from pyarrow import fs

from ..errors import CheckpointError, CorruptStateError
from ..state.files import StateFile
from ..state.pool import StatePool, sync_path
from .checkpoints.metadata import CheckpointMetadata, SinkTransaction
from .checkpoints.store import CheckpointStore
from .failpoints import failpoint
from .filesystem import delete_quietly, exists, list_files, resolve, write_atomically
from .savepoint_files import Copied, copy_checked, copy_file, in_parallel
from .savepoint_store import MANIFEST, PLAN, Savepoint, SavepointFile

#: Entries of a source's own log; temporary and checksum files beside them are not copied.
_LOG_ENTRY = re.compile(r"\d+(\.compact)?$")
#: Spark merges old entries of a source's log and removes them, perhaps just while we copy.
_SOURCE_LOG_TRIES = 5


def write_savepoint(store: CheckpointStore, metadata: CheckpointMetadata, destination: str, plan_json: str) -> str:
    """Write a checkpoint as a savepoint; the caller keeps the checkpoint's files from being removed meanwhile.

    Args:
        store: the job's checkpoint store.
        metadata: a complete checkpoint of it whose output is visible.
        destination: a folder that is empty or does not exist, local or a URI.
        plan_json: the job's execution plan.

    Returns:
        The savepoint's path: ``destination``, absolute if it is local.

    Raises:
        CheckpointError: the destination is not empty, or the checkpoint is nothing to go on from.
        CorruptStateError: a state file is not as it was written; nothing is left at the destination.
    """
    check_destination(destination)
    _check_source(store, metadata)
    filesystem, folder = resolve(destination)
    try:
        filesystem.create_dir(folder, recursive=True)
        savepoint = _copy(store, metadata, filesystem, folder, plan_json)
        failpoint("savepoint-before-metadata")
        write_atomically(filesystem, f"{folder}/{MANIFEST}", savepoint.to_bytes())
    except BaseException:
        delete_quietly(filesystem, folder)
        raise
    return folder if isinstance(filesystem, fs.LocalFileSystem) else destination


def check_destination(destination: str) -> None:
    """Raise CheckpointError if there is anything at the destination of a savepoint."""
    if not destination.strip():
        raise CheckpointError("the savepoint's path is empty; give a folder that is empty or does not exist")
    filesystem, folder = resolve(destination)
    if filesystem.get_file_info(folder).type == fs.FileType.File:
        raise CheckpointError(f"{destination!r} is a file; a savepoint needs a folder that is empty or does not exist")
    names = sorted(info.base_name for info in list_files(filesystem, folder))
    if not names:
        return
    if MANIFEST in names:
        what = "holds a savepoint"
    elif PLAN in names or "state" in names:
        what = "holds what is left of a savepoint that was never finished (or is being written)"
    else:
        what = f"is not empty ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
    raise CheckpointError(f"{destination!r} {what}; a savepoint needs a folder that is empty or does not exist")


def _check_source(store: CheckpointStore, metadata: CheckpointMetadata) -> None:
    if not any(operator.shards for operator in metadata.operators):
        raise CheckpointError(
            f"checkpoint {metadata.checkpoint_id} holds no state to make a savepoint of: runtime-mode batch keeps none"
        )
    if not store.is_committed(metadata.checkpoint_id):
        raise CheckpointError(
            f"the output of checkpoint {metadata.checkpoint_id} is not visible yet: a savepoint of it would lose it"
        )


def _copy(
    store: CheckpointStore, metadata: CheckpointMetadata, target: fs.FileSystem, folder: str, plan_json: str
) -> Savepoint:
    """Copy everything but the manifest, and describe it."""
    identity = store.identity()
    if identity is None:
        raise CheckpointError(f"{store.location!r} belongs to no job any more: {store.root}/job.json is gone")
    target.create_dir(folder, recursive=True)
    plan = plan_json.encode()
    write_atomically(target, f"{folder}/{PLAN}", plan)
    files = [SavepointFile(path=PLAN, size_bytes=len(plan), sha256=hashlib.sha256(plan).hexdigest())]
    for operator in metadata.operators:
        target.create_dir(f"{folder}/state/{operator.uid}", recursive=True)

    def copy_state(item: tuple[str, StateFile]) -> SavepointFile:
        uid, file = item
        path = f"state/{uid}/{file.name}"
        source = StatePool(store.filesystem, store.pool(uid)).path(file.name)
        expected = Copied(file.size_bytes, file.sha256)
        failpoint("savepoint-copy")
        try:
            copy_checked(store.filesystem, source, target, f"{folder}/{path}", expected)
        except CorruptStateError as error:
            raise store.with_alternative(CorruptStateError(f"state file {error}"), metadata.checkpoint_id) from error
        return SavepointFile(path=path, size_bytes=file.size_bytes, sha256=file.sha256)

    files += in_parallel(copy_state, _state_files(metadata))
    if metadata.spark is not None:
        files += _copy_source_logs(store, target, folder)
    if isinstance(target, fs.LocalFileSystem):
        for inner in {file.path.rpartition("/")[0] for file in files}:
            sync_path(f"{folder}/{inner}")
    return Savepoint(
        savepoint_id=uuid.uuid4().hex,
        created_ms=round(time.time() * 1000),
        operator=dict(identity.operator),
        max_parallelism=identity.max_parallelism,
        checkpoint=metadata.model_copy(
            update={"transaction": SinkTransaction(id=metadata.checkpoint_id), "late_rows": None}
        ),
        files=tuple(files),
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
