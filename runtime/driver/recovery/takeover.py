"""Begins the branch of a driver that took over from one which may still be running: seeds it, then fences the older.

Order, each step of which may be repeated after a crash in the middle: the output of the newest checkpoint that counts
is made visible, under the names that the older driver would give it → links to, or copies of, the state files that the
checkpoints name → Spark's query log → the newest checkpoint's ``_metadata``: from here on the new branch counts → the
checkpoints before it.  When the run has recovered from there, all older branches are removed: what an older driver has
staged, and whatever it still wants to hand over, is gone.
"""

from __future__ import annotations

import logging
import os
import shutil

from pyarrow import fs

from ....errors import CheckpointError, CorruptStateError
from ...checkpoints.branch import SEEDED, Branch, branches_in, is_seeded
from ...checkpoints.identity import JobIdentity
from ...checkpoints.lease.claims import LeaseClaim
from ...checkpoints.metadata import CheckpointMetadata, state_files
from ...checkpoints.spark_log import is_unfinished
from ...checkpoints.store import CheckpointStore
from ...connectors.staging_folder import StagingFolder
from ...spec import JobSpec
from ...storage.filesystem import delete_quietly, exists, is_local_disk, list_files, write_atomically
from ...storage.parallel import in_parallel
from ...storage.spark_paths import spark_uri
from ...support.failpoints import failpoint
from ...support.ids import CheckpointId
from ..checkpoint.output_commit import commit_transaction, pending_output
from .existing_rows import prepare_output

logger = logging.getLogger(__name__)

#: What branch 0 has in the folder that all branches share.
_OF_BRANCH_0 = ("checkpoints", "state", "output", "exchange", "backlog", "progress", "newest.json")
#: Spark renames and merges entries of its log, perhaps just while we copy.
_LOG_TRIES = 5


def open_outputs(job: JobSpec, store: CheckpointStore, identity: JobIdentity) -> None:
    """Open the sink, and the side output of late rows, for the branch that the store is in."""
    job.sink.branch, job.sink.guard = store.branch.number, store.guard
    prepare_output(job, store, identity)
    staging_uri = spark_uri(job.spark, job.checkpoint_location or store.location, store.output)
    staging = StagingFolder(store.filesystem, store.output, staging_uri)
    job.sink.open(job.spark, staging, identity.job_id)
    if job.late_rows is not None:
        job.late_rows.sink.branch = store.branch.number
        job.late_rows.sink.open(job.spark, staging, identity.job_id)


def begin_branch(job: JobSpec, store: CheckpointStore, identity: JobIdentity, claim: LeaseClaim) -> None:
    """Seed the branch of a claim, unless it has none of its own or that was done.

    Args:
        job: the job; its sink is opened for the older branch if that has output to be shown.
        store: works in the branch.
        identity: the job's.
        claim: what this run has.

    Raises:
        CorruptStateError: what the branch is to go on from is not whole.
    """
    if claim.branch == 0 or is_seeded(store.filesystem, store.root, claim):
        return
    seed = frozenset(map(CheckpointId, claim.seed or ()))
    older = CheckpointStore(store.filesystem, store.location, Branch(claim.parent, seed))
    older.guard = store.guard
    newest = older.latest()
    if newest is not None:
        open_outputs(job, older, identity)
        commit_transaction(job, older, newest, pending_output(job, older, newest))
        failpoint("takeover-after-commit")
        _take_over(older, store, newest)
    _copy_spark_log(older, store)
    failpoint("takeover-before-metadata")
    store.guard()
    if newest is None:
        store.filesystem.create_dir(store.home, recursive=True)
        write_atomically(store.filesystem, f"{store.home}/{SEEDED}", b"")
        return
    store.write(newest)
    failpoint("takeover-after-metadata")
    for before in reversed(older.ids()[:-1]):
        try:
            metadata = older.read(before)
            _take_over(older, store, metadata)
            store.write(metadata)
        except (CheckpointError, CorruptStateError, OSError) as error:
            logger.warning("the older checkpoint %s is not copied: %s", before, error)


def _take_over(older: CheckpointStore, store: CheckpointStore, metadata: CheckpointMetadata) -> None:
    """All of a checkpoint but its ``_metadata``."""
    number = metadata.checkpoint_id
    wanted = {(uid, file.name): file.size_bytes for uid, file in state_files(metadata.operators)}
    for uid in {uid for uid, _ in wanted}:
        store.filesystem.create_dir(store.pool(uid), recursive=True)

    def keep(item: tuple[str, str]) -> None:
        uid, name = item
        failpoint("takeover-copy")
        link_or_copy(store.filesystem, f"{older.pool(uid)}/{name}", f"{store.pool(uid)}/{name}", wanted[item])

    in_parallel(keep, wanted)
    store.filesystem.create_dir(store.folder(number), recursive=True)
    if older.is_committed(number):
        store.mark_committed(number)
    made = older.savepoint_made(number)
    if made is not None:
        store.mark_savepoint_made(number, made)


def link_or_copy(filesystem: fs.FileSystem, source: str, target: str, size_bytes: int) -> None:
    """Have an immutable file under a second name, which stays when the first is gone.

    Raises:
        CorruptStateError: it is missing, or has another size.
    """
    there = filesystem.get_file_info(target)
    if there.type == fs.FileType.File and there.size == size_bytes:
        return
    found = filesystem.get_file_info(source)
    if found.type != fs.FileType.File or found.size != size_bytes:
        raise CorruptStateError(f"state file {source} is missing, or has not the {size_bytes} bytes that it had")
    delete_quietly(filesystem, target)
    if is_local_disk(filesystem):
        try:
            os.link(source, target)
        except OSError:  # a filesystem without links
            shutil.copyfile(source, target)
        return
    try:
        filesystem.copy_file(source, target)
    except NotImplementedError:
        with filesystem.open_input_stream(source) as stream, filesystem.open_output_stream(target) as copy:
            while chunk := stream.read(1 << 20):
                copy.write(chunk)


def _copy_spark_log(older: CheckpointStore, store: CheckpointStore) -> None:
    """The log of the live source's query, as far as it goes; recovery rewinds it to what the checkpoint says."""
    filesystem, source, target = store.filesystem, older.spark_location, store.spark_location
    for last in range(_LOG_TRIES - 1, -1, -1):
        delete_quietly(filesystem, target)
        try:
            for info in list_files(filesystem, source, recursive=True):
                path = f"{target}{info.path[len(source) :]}"
                if info.type != fs.FileType.File or is_unfinished(info.base_name):
                    continue
                filesystem.create_dir(path.rpartition("/")[0], recursive=True)
                filesystem.copy_file(info.path, path)
            return
        except OSError as error:
            if not last:
                raise
            logger.info("the log of the live source %s has changed meanwhile and is copied again: %s", source, error)


def remove_older_branches(job: JobSpec, store: CheckpointStore) -> None:
    """Remove what older drivers have left, and may still be writing: nothing of it counts any more."""
    newest = store.branch.number
    if not newest:
        return
    store.guard()
    paths = [f"{store.root}/{name}" for name in _OF_BRANCH_0]
    paths.append(f"{store.location}/spark")
    older = (number for number in branches_in(store.filesystem, store.root) if number < newest)
    paths += [Branch(number).home(store.root) for number in older]
    for path in paths:
        _remove(store.filesystem, path)
    job.sink.remove_older_branches()
    if job.late_rows is not None:
        job.late_rows.sink.remove_older_branches()


def _remove(filesystem: fs.FileSystem, path: str) -> None:
    """Remove a folder in which somebody may still be writing."""
    if not exists(filesystem, path):
        return
    try:
        delete_quietly(filesystem, path)
    except OSError as error:
        logger.warning("%s is obsolete and could not be removed yet: %s", path, error)
