"""Attempt-private output files of shard tasks.

A task writes the rows of its epoch to Parquet files whose name no other attempt shares and returns the names.  Nothing
is visible to readers; the driver's sink makes the winner's files visible when the checkpoint completes.  Rows that the
sink does not take are only counted.

Invariant: a file is whole and durable, and its checksum known, before its name leaves the task.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyarrow import fs

from ...errors import CorruptStateError
from ..support.ids import NO_EPOCH, CheckpointId, EpochNumber, JobId

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class StagedFile:
    """One output file of a winning attempt, by its name below the staging folder."""

    name: str
    rows: int
    size_bytes: int
    #: Empty: not known, or written before it was recorded.
    sha256: str = ""
    #: Folder below the output's in which it will be shown, if the output is partitioned.
    folder: str = ""

    def shown_as(self, number: int) -> str:
        """Its name below the folder of an output of files, when transaction ``number`` is shown."""
        return f"{self.folder}/part-{number:08d}-{self.name}".lstrip("/")


def staging_folder(path: str, job_id: JobId, branch: int) -> str:
    """Where a job's tasks stage files that are renamed into an output folder.

    Args:
        path: the output folder.
        job_id: the job's, the same over restarts.
        branch: the branch of its checkpoint location; 0: the first.
    """
    return f"{path}/_mixedmode/{job_id}-b{branch:08d}" if branch else f"{path}/_mixedmode/{job_id}"


def check_staged(filesystem: fs.FileSystem, folder: str, files: Iterable[StagedFile]) -> None:
    """Read the files that are (still) staged.

    Args:
        filesystem: of the folder.
        folder: where they are staged.
        files: what their checkpoint recorded of each; those that are gone have been shown.

    Raises:
        CorruptStateError: one is not as its task wrote it.
    """
    for file in files:
        path = f"{folder}/{file.name}"
        if not file.sha256 or filesystem.get_file_info(path).type != fs.FileType.File:
            continue
        digest, size_bytes = hashlib.sha256(), 0
        with filesystem.open_input_stream(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
                size_bytes += len(chunk)
        if size_bytes != file.size_bytes:
            raise CorruptStateError(
                f"staged output {path} has {size_bytes} bytes, its checkpoint recorded {file.size_bytes}: it was "
                "altered or cut off"
            )
        if digest.hexdigest() != file.sha256:
            raise CorruptStateError(f"staged output {path} has been altered: it does not match its checksum")


def in_partition(name: str, partition: int) -> str:
    """A name that says in which partition of a hash partitioning a file's rows are, as Spark's buckets have it."""
    return f"{name}_{partition}"


#: The epoch in the name of a state or output file, as Python's and Java's patterns have it.
EPOCH_IN_NAME = r"^e(\d{8})-"
_EPOCH = re.compile(EPOCH_IN_NAME)


def epoch_of(file_name: str) -> EpochNumber:
    """The epoch in which a state or output file was written; attempts put it first in their names."""
    match = _EPOCH.match(file_name)
    return EpochNumber(int(match[1])) if match else NO_EPOCH


def marker_name(what: str, checkpoint_id: int) -> str:
    """The name of a file that says how far the output of a checkpoint has come.

    Args:
        what: says what is done with the output, in small letters.
        checkpoint_id: the id of the checkpoint, which is that of its transactions.
    """
    return f"{what}-{checkpoint_id:08d}"


_MARKER = re.compile(r"^[a-z]+-(\d{8,})\b")


def checkpoint_of_marker(file_name: str) -> CheckpointId | None:
    """The checkpoint that a marker, or the temporary file that becomes one, is of; None: it is another file."""
    match = _MARKER.match(file_name)
    return CheckpointId(int(match[1])) if match else None


def writer_number(file_name: str) -> int:
    """The shard, or the partition of the tail, that wrote an output file; 0: its name does not say."""
    match = re.match(r"^e\d{8}-[a-z](\d{4,})-", file_name)
    return int(match[1]) if match else 0
