"""Copies of files between any two filesystems, with the checksum of what was copied.

A savepoint shares no bytes with the checkpoints that it was made from, nor a restored job with its savepoint: files are
copied, never linked, so either may be moved, damaged or deleted without the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pyarrow import fs

from ....errors import CorruptStateError
from ....state.store.disk_syncs import sync_path
from ...storage.filesystem import is_local_disk

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class CopyReport:
    """What went through a copy."""

    size_bytes: int
    sha256: str


def copy_file(source: fs.FileSystem, source_path: str, target: fs.FileSystem, target_path: str) -> CopyReport:
    """Copy one file; local copies are durable.  The folder must exist.

    Raises:
        FileNotFoundError: there is no such file.
    """
    digest, size_bytes = hashlib.sha256(), 0
    with source.open_input_stream(source_path) as reader, target.open_output_stream(target_path) as writer:
        while chunk := reader.read(_CHUNK_BYTES):
            digest.update(chunk)
            size_bytes += len(chunk)
            writer.write(chunk)
    if is_local_disk(target):
        sync_path(target_path)
    return CopyReport(size_bytes, digest.hexdigest())


def copy_checked(
    source: fs.FileSystem, source_path: str, target: fs.FileSystem, target_path: str, expected: CopyReport
) -> None:
    """Copy one file that must be as it was written.

    Raises:
        CorruptStateError: the file is missing, or is not what was recorded of it.
    """
    try:
        found = copy_file(source, source_path, target, target_path)
    except FileNotFoundError:
        raise CorruptStateError(f"{source_path} is missing") from None
    if found.size_bytes != expected.size_bytes:
        raise CorruptStateError(f"{source_path} has {found.size_bytes} bytes, {expected.size_bytes} were recorded")
    if found.sha256 != expected.sha256:
        raise CorruptStateError(
            f"{source_path} has been altered: its SHA-256 is {found.sha256}, {expected.sha256} was recorded"
        )
