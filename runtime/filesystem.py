"""Paths on any filesystem that ``pyarrow.fs`` reaches, and the two atomic operations that the protocols lean on."""

from __future__ import annotations

import contextlib
import os
import re
import uuid

from pyarrow import fs

from ..state.pool import naming, sync_path

#: Filesystems of pyarrow whose files appear when they are complete.
_OBJECT_STORES = ("s3", "gcs", "abfs")
#: The same, as fsspec names them behind ``pyarrow.fs``.
_FSSPEC_STORES = re.compile(r"py::fsspec\+.*\b(s3a?|gs|gcs|abfss?|az|adl)\b")
#: What stands before the path of a local URI, which names no host.
_LOCAL_URI = re.compile(r"file:(///|/(?!/))", re.IGNORECASE)


def resolve(location: str) -> tuple[fs.FileSystem, str]:
    """The filesystem and the path on it of a URI or of a plain (relative or absolute) local path.

    The path in a local URI is taken as it is written, like Spark does (through Hadoop's ``Path``): ``%20`` is no space.
    """
    local = _LOCAL_URI.match(location)
    if local is not None:
        return fs.LocalFileSystem(), os.path.abspath("/" + location[local.end() :].lstrip("/"))
    if "://" in location or location.startswith("file:"):
        filesystem, path = fs.FileSystem.from_uri(location)
        return filesystem, path.rstrip("/")
    return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(location))


def absolute(location: str) -> str:
    """A location as another process finds it, whatever its working folder: local ones as absolute paths."""
    filesystem, path = resolve(location)
    return path if isinstance(filesystem, fs.LocalFileSystem) else location


def uri(location: str, path: str) -> str:
    """``path``, resolved from ``location`` (or below it), as Spark must be given it: always with a scheme."""
    if "://" not in location or location.startswith("file:"):
        return f"file://{path}"
    return f"{location[: location.index('://') + 3]}{path}"


def exists(filesystem: fs.FileSystem, path: str) -> bool:
    """True if there is a file or folder at ``path``."""
    return filesystem.get_file_info(path).type != fs.FileType.NotFound


def list_files(filesystem: fs.FileSystem, folder: str, *, recursive: bool = False) -> list[fs.FileInfo]:
    """The files and folders below ``folder``; empty if it does not exist."""
    return filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=recursive))


def appears_whole(filesystem: fs.FileSystem) -> bool:
    """True if a file is there only when it was written to its end: of object stores, and of handlers that say so."""
    name = filesystem.type_name
    said = getattr(getattr(filesystem, "handler", None), "appears_whole", False)
    return name in _OBJECT_STORES or bool(said) or _FSSPEC_STORES.match(name) is not None


def write_atomically(filesystem: fs.FileSystem, path: str, data: bytes) -> None:
    """Write a file so that a reader sees all of it or none, and nothing of it is left if the disk refuses.

    Object stores make an object visible only when its upload is complete.  Elsewhere files go through a temporary name
    and a rename, local ones durably.  Where a rename does not replace (HDFS), a file that is written again is gone in
    between; ``_metadata`` is never written again.
    """
    if appears_whole(filesystem):
        with naming(path), filesystem.open_output_stream(path) as stream:
            stream.write(data)
        return
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        if isinstance(filesystem, fs.LocalFileSystem):
            with naming(temporary), open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        else:
            with naming(temporary), filesystem.open_output_stream(temporary) as stream:
                stream.write(data)
            _move(filesystem, temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            delete_quietly(filesystem, temporary)
        raise
    if isinstance(filesystem, fs.LocalFileSystem):
        sync_path(os.path.dirname(path))


def _move(filesystem: fs.FileSystem, source: str, target: str) -> None:
    try:
        filesystem.move(source, target)
    except OSError:
        if not exists(filesystem, source) or not exists(filesystem, target):
            raise
        filesystem.delete_file(target)
        filesystem.move(source, target)


def read_bytes(filesystem: fs.FileSystem, path: str) -> bytes:
    """The whole content of a file."""
    with filesystem.open_input_stream(path) as stream:
        return bytes(stream.read())


def delete_quietly(filesystem: fs.FileSystem, path: str) -> None:
    """Delete a file or folder that may already be gone."""
    kind = filesystem.get_file_info(path).type
    try:
        if kind == fs.FileType.Directory:
            filesystem.delete_dir(path)
        elif kind == fs.FileType.File:
            filesystem.delete_file(path)
    except FileNotFoundError:
        pass
