"""Claims the folder of an unfinished savepoint: by a file that is written first and removed last.

Invariant: as long as anything of a savepoint is at its destination and its ``_metadata`` is not, the claim is there.
So whoever completes it after a crash knows its leftovers from other people's files, however often it is cut short.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from pyarrow import ArrowException, fs

from ....errors import CheckpointError
from ...storage.filesystem import delete_quietly, exists, list_files, read_bytes, resolve, write_atomically
from ...storage.folder_checks import folder_place
from ...support.redaction import credentials_in, redacted
from ..folders import CLEANED_FOLDERS
from .queue import SavepointRequest
from .store import CLAIM, MANIFEST, PLAN


@dataclass(frozen=True)
class DestinationClaim:
    """The content of the file."""

    savepoint_id: str
    #: The checkpointLocation of the job that makes it.
    job: str

    def write(self, filesystem: fs.FileSystem, folder: str) -> None:
        """Claim a folder, which need not exist."""
        filesystem.create_dir(folder, recursive=True)
        write_atomically(filesystem, f"{folder}/{CLAIM}", json.dumps(asdict(self)).encode())


def claim_of(filesystem: fs.FileSystem, folder: str) -> DestinationClaim | None:
    """Who makes a savepoint there; None: nobody, or the file says nothing."""
    path = f"{folder}/{CLAIM}"
    if not exists(filesystem, path):
        return None
    with contextlib.suppress(ValueError, TypeError):
        return DestinationClaim(**json.loads(read_bytes(filesystem, path)))
    return None


def clear(filesystem: fs.FileSystem, folder: str) -> None:
    """Remove all of an unfinished savepoint but its claim."""
    for info in list_files(filesystem, folder):
        if info.base_name != CLAIM:
            delete_quietly(filesystem, info.path)


def claim(request: SavepointRequest, job: str) -> None:
    """Take the place of a savepoint before anything is done for it; given back if the request comes to nothing.

    Args:
        request: who wants it.
        job: the checkpointLocation of the job.

    Raises:
        CheckpointError: there is something, or it cannot be written to.
    """
    try:
        check_destination(request.path)
        DestinationClaim(request.savepoint_id, job).write(*resolve(request.path))
    except OSError as error:
        raise CheckpointError(
            f"{request.path!r} cannot be written to ({error})", code="MIXEDMODE_SAVEPOINT_UNWRITABLE"
        ) from error

    def answered(answer: Future[str]) -> None:
        if answer.exception() is not None:
            _give_back(request)

    request.answer.add_done_callback(answered)


def _give_back(request: SavepointRequest) -> None:
    with contextlib.suppress(OSError):
        filesystem, folder = resolve(request.path)
        found = claim_of(filesystem, folder)
        is_mine = found is not None and found.savepoint_id == request.savepoint_id
        if is_mine and not exists(filesystem, f"{folder}/{MANIFEST}"):
            give_up(filesystem, folder)


def give_free(filesystem: fs.FileSystem, folder: str) -> None:
    """Remove the claim on a savepoint that is finished."""
    delete_quietly(filesystem, f"{folder}/{CLAIM}")


def give_up(filesystem: fs.FileSystem, folder: str) -> None:
    """Remove an unfinished savepoint, as far as that can be done."""
    with contextlib.suppress(OSError):  # what could not be written cannot always be removed
        clear(filesystem, folder)
        delete_quietly(filesystem, folder)


def savepoint_name(job: str) -> str:
    """A name that no other savepoint has, for people to read: which job, and when.

    Args:
        job: the job's name or id.
    """
    now = datetime.now(timezone.utc)
    return f"{re.sub('[^A-Za-z0-9_.-]+', '-', job)}-{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"


def check_wanted(destination: str, job: str | None) -> None:
    """Check what somebody gives as the destination of a new savepoint, before anything is requested.

    Args:
        destination: a folder, local or a URI.
        job: the checkpointLocation of its job, which removes what it does not need there; None: a temporary one.

    Raises:
        CheckpointError: it holds credentials, cannot be reached, is not empty, or is among the job's own files.
    """
    held = credentials_in(destination)
    if held is not None:
        raise CheckpointError(
            f"the savepoint's path {redacted(destination)!r} holds {held}, which logs and checkpoints would show; leave"
            " it out and set the spark.hadoop.… settings of its filesystem, or a credential provider",
            code="MIXEDMODE_LOCATION_SECRET",
        )
    try:
        check_destination(destination)
        place = folder_place("savepoint", destination)
    except (ArrowException, ValueError, OSError) as error:
        raise CheckpointError(
            f"the savepoint's path {destination!r} cannot be reached: {error}; allowed: a path, or the URI of a"
            " filesystem that pyarrow.fs knows (file:, hdfs:, s3:, gs:, abfs:, …)",
            code="MIXEDMODE_SAVEPOINT_UNWRITABLE",
        ) from error
    checkpoints = None if job is None else folder_place("checkpointLocation", job)
    if checkpoints is not None and any(place.is_within(checkpoints, part) for part in CLEANED_FOLDERS):
        raise CheckpointError(
            f"the savepoint's path {destination!r} is among the files of checkpointLocation {job!r}, which are removed"
            " when they are not needed; give it a folder of its own",
            code="MIXEDMODE_LOCATION_SHARED",
        )


def check_destination(destination: str, savepoint_id: str | None = None) -> None:
    """Raise CheckpointError if there is anything at the destination of a savepoint.

    Args:
        destination: a folder, local or a URI.
        savepoint_id: what is left of this very savepoint may be there.
    """
    if not destination.strip():
        raise CheckpointError("the savepoint's path is empty; give a folder that is empty or does not exist")
    filesystem, folder = resolve(destination)
    if filesystem.get_file_info(folder).type == fs.FileType.File:
        raise CheckpointError(
            f"{destination!r} is a file; a savepoint needs a folder that is empty or does not exist",
            code="MIXEDMODE_SAVEPOINT_UNWRITABLE",
        )
    # A claim that was cut short says nothing.
    found = (info.base_name for info in list_files(filesystem, folder))
    names = sorted(name for name in found if not name.startswith(f"{CLAIM}."))
    if not names:
        return
    if MANIFEST in names:
        what = "holds a savepoint"
    elif {CLAIM, PLAN, "state"} & set(names):
        claim = claim_of(filesystem, folder)
        if claim is not None and claim.savepoint_id == savepoint_id:
            return
        what = "holds what is left of a savepoint that was never finished (or is being written)"
    else:
        what = f"is not empty ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
    raise CheckpointError(
        f"{destination!r} {what}; a savepoint needs a folder that is empty or does not exist",
        code="MIXEDMODE_SAVEPOINT_UNWRITABLE",
    )


def probe_destination(destination: str) -> None:
    """Raise CheckpointError if nothing can be written to the destination of a savepoint; the folder is made."""
    filesystem, folder = resolve(destination)
    probe = f"{folder}/.{uuid.uuid4().hex}.probe"
    try:
        filesystem.create_dir(folder, recursive=True)
        write_atomically(filesystem, probe, b"")
        filesystem.delete_file(probe)
    except OSError as error:
        raise CheckpointError(
            f"{destination!r} cannot be written to ({error}); the job continues", code="MIXEDMODE_SAVEPOINT_UNWRITABLE"
        ) from error
