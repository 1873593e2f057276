"""Writes the savepoint of a stop-with-savepoint whose process was killed before it was written.

The checkpoint of a stop-with-savepoint says what it was taken for.  Once it is complete the stop has happened (what a
drain has fired is visible), so there has to be a savepoint: the next start makes it before it goes on, or somebody who
does not want to start the job.  The mark that it was made comes last; without it all is done again, which ends in the
same savepoint with the same id.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from ....errors import CheckpointError, CorruptStateError
from ...storage.filesystem import absolute, resolve
from ...support.failpoints import failpoint
from ...support.ids import CheckpointId, RunId
from ..lease.driver_lease import DriverLease
from ..metadata import CheckpointMetadata, DueSavepoint
from ..store import CheckpointStore
from .destination import give_free
from .store import open_savepoint
from .writer import SavepointDraft, check_has_state

logger = logging.getLogger(__name__)


def pending_savepoint(store: CheckpointStore, metadata: CheckpointMetadata) -> DueSavepoint | None:
    """The savepoint that a checkpoint was taken for and that was not made; None: nothing is missing."""
    if metadata.savepoint is None or store.savepoint_made(metadata.checkpoint_id) is not None:
        return None
    return metadata.savepoint


def complete_pending(store: CheckpointStore, metadata: CheckpointMetadata) -> str | None:
    """Make what a checkpoint's stop-with-savepoint has left undone; returns its path, None: nothing was.

    Args:
        store: the job's checkpoint store; no other run may have it.
        metadata: its newest checkpoint, whose output is visible.

    Raises:
        CheckpointError: the savepoint cannot be written.
        CorruptStateError: a state file is not as it was written.
    """
    wanted = pending_savepoint(store, metadata)
    if wanted is None:
        return None
    logger.warning(
        "a run was killed while it stopped with a savepoint; this start writes the savepoint to %s", wanted.path
    )
    try:
        return complete_savepoint(store, metadata, wanted)
    except CorruptStateError:
        raise
    except (CheckpointError, OSError) as error:
        raise CheckpointError(
            f"the job was stopped with checkpoint {metadata.checkpoint_id} and a savepoint that was not finished, and"
            f" it cannot be written to {wanted.path!r} ({error}). The job goes on once there is one: make that path"
            f" usable, or have it written elsewhere with `mixedmode savepoint {store.location} PATH --complete`",
            code="MIXEDMODE_SAVEPOINT_UNWRITABLE",
        ) from error


def complete_savepoint(
    store: CheckpointStore, metadata: CheckpointMetadata, wanted: DueSavepoint, path: str | None = None
) -> str:
    """Make the savepoint that a checkpoint was taken for; returns its path.

    Args:
        store: the job's checkpoint store.
        metadata: the checkpoint.
        wanted: what it says of the savepoint.
        path: where to, a folder or a URI; None: where it should have been.

    Raises:
        CheckpointError: there is something else at the path, or the checkpoint's output is not visible yet.
        CorruptStateError: a state file is not as it was written.
    """
    check_has_state(store, metadata)
    target = wanted.path if path is None else path
    if _is_there(target, wanted.savepoint_id):
        give_free(*resolve(target))
    else:
        failpoint("completion-start")
        with SavepointDraft(store, target, wanted.plan, wanted.savepoint_id) as draft:
            target = draft.finish(metadata)
    store.mark_savepoint_made(metadata.checkpoint_id, target)
    return target


@dataclass(frozen=True)
class CompletedSavepoint:
    """A savepoint that a job was stopped with."""

    path: str
    checkpoint_id: CheckpointId
    drained: bool


def complete_offline(location: str, path: str | None = None) -> CompletedSavepoint:
    """Make the savepoint that the job on a checkpoint location was killed before, without the job.

    Args:
        location: the job's checkpointLocation.
        path: where the savepoint goes; None: where it was asked for.

    Raises:
        CheckpointError: a job runs there, or was not stopped with a savepoint, or its output is not visible yet, or the
            savepoint cannot be written.
        CorruptStateError: a state file is not as it was written.
    """
    filesystem, folder = resolve(location)
    store = CheckpointStore(filesystem, folder)
    lease = DriverLease(filesystem, store.root, RunId(uuid.uuid4().hex[:8]))
    lease.take()
    store.guard = lease.check
    try:
        newest = store.latest()
        if newest is None or newest.savepoint is None:
            raise CheckpointError(f"the job on {location!r} was not stopped with a savepoint: there is none to finish")
        made = store.savepoint_made(newest.checkpoint_id)
        if made is not None and path is not None:
            raise CheckpointError(f"the savepoint that the job on {location!r} was stopped with is complete: {made}")
        if made is None and not store.is_committed(newest.checkpoint_id):
            raise CheckpointError(
                f"the output of checkpoint {newest.checkpoint_id} in {location!r} is not visible yet, and only the job"
                " can show it: start it again, and it finishes the savepoint too",
                code="MIXEDMODE_OUTPUT_NOT_SHOWN",
            )
        if made is None:
            try:
                made = complete_savepoint(store, newest, newest.savepoint, None if path is None else absolute(path))
            except OSError as error:
                where = path or newest.savepoint.path
                raise CheckpointError(
                    f"the savepoint cannot be written to {where!r}: {error}", code="MIXEDMODE_SAVEPOINT_UNWRITABLE"
                ) from error
        return CompletedSavepoint(made, newest.checkpoint_id, newest.is_drained)
    finally:
        lease.release()


def _is_there(path: str, savepoint_id: str) -> bool:
    try:
        return open_savepoint(path).savepoint.savepoint_id == savepoint_id
    except CheckpointError:
        return False
