"""Paths on any filesystem that ``pyarrow.fs`` reaches, and the two atomic operations that the protocols lean on."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from dataclasses import dataclass
from urllib.parse import quote

from pyarrow import ArrowInvalid, fs

from ...errors import OptionError
from ...state.store.disk_syncs import naming, sync_path
from .s3 import s3_filesystem

#: Filesystems of pyarrow whose files appear when they are complete.
_OBJECT_STORES = ("s3", "gcs", "abfs")
#: The same, as fsspec names them behind ``pyarrow.fs``.
_FSSPEC_STORES = re.compile(r"py::fsspec\+.*\b(s3a?|gs|gcs|abfss?|az|adl)\b")
#: What stands before the path of a local URI, which names no host.
_LOCAL_URI = re.compile(r"file:(///|/(?!/))", re.IGNORECASE)
#: A URI with an absolute path; the authority is a host, a bucket, or a container of an account.
_URI = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):(?://(?P<authority>[^/?]*))?(?P<path>/[^?]*)?(?P<query>\?.*)?", re.I)
#: Characters of a path that mean themselves in a URI for pyarrow, which decodes all others.
_UNQUOTED = "/!$&'()*+,;=:@-._~"
#: Names that Hadoop has for what pyarrow knows under one.
_PYARROW_SCHEMES = {"s3a": "s3", "s3n": "s3"}
#: Schemes whose authority is the first part of the path, for pyarrow.
_WITH_BUCKET = ("s3", "gs", "gcs", "abfs", "abfss")
_WITHOUT_BUCKET = ("hdfs", "viewfs")
#: What can be done about schemes that are often seen and cannot be served.
_INSTEAD = {
    "dbfs": "give the folder as /dbfs/… where it is mounted, or the URI of the storage below it (s3:, abfss:, gs:)",
    "wasb": "give the same container as abfss://container@account.dfs.core.windows.net/…",
    "wasbs": "give the same container as abfss://container@account.dfs.core.windows.net/…",
    "http": "it cannot be written to",
    "https": "it cannot be written to",
}


@dataclass(frozen=True)
class _Parts:
    """The parts of a URI as they are written; nothing is decoded, as Hadoop does not."""

    scheme: str
    authority: str
    path: str
    query: str


def _parts(location: str) -> _Parts | None:
    """The parts of a URI; None for a local path.  ``scheme:/x`` is a URI, ``name:x`` is a file of that name."""
    found = _URI.fullmatch(location)
    if found is None or (found["authority"] is None and found["path"] is None):
        return None
    return _Parts(found["scheme"].lower(), found["authority"] or "", found["path"] or "", found["query"] or "")


def path_text(what: str, path: object) -> str:
    """A path that a caller gave, as text.

    Raises:
        OptionError: it is no path: neither a string with something in it, and without NUL characters, nor an
            ``os.PathLike``; ``what`` names the argument.
    """
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise OptionError(f"{what} must be a path, as str or os.PathLike, got {path!r}")
    return text


def is_local(location: str) -> bool:
    """True for a plain path and for a ``file:`` URI."""
    parts = _parts(location)
    return parts is None or parts.scheme == "file"


def resolve(location: str) -> tuple[fs.FileSystem, str]:
    """The filesystem and the path on it of a URI or of a plain (relative or absolute) local path.

    Paths are taken as they are written, like Spark does (through Hadoop's ``Path``): ``%20`` is no space.  What follows
    a ``?`` in the URI of another filesystem is for pyarrow (``endpoint_override=…``).

    Raises:
        ValueError: nothing here serves the URI's scheme, or no file system can have such a path.
        OSError: a bucket of S3 cannot be used; says which setting may be wrong.
    """
    if "\0" in location:
        raise ValueError("it contains a NUL character, which no path can have")
    local = _LOCAL_URI.match(location)
    if local is not None:
        return fs.LocalFileSystem(), os.path.abspath("/" + location[local.end() :].lstrip("/"))
    parts = _parts(location)
    if parts is None and not location.lower().startswith("file:"):
        return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(location))
    if parts is None or parts.scheme == "file":
        filesystem, path = fs.FileSystem.from_uri(location)  # raises: it names a host, or no absolute path
    else:
        filesystem, path = _remote(parts)
    return filesystem, path.rstrip("/")


def _remote(parts: _Parts) -> tuple[fs.FileSystem, str]:
    scheme = _PYARROW_SCHEMES.get(parts.scheme, parts.scheme)
    if scheme == "s3":
        return s3_filesystem(parts.authority, parts.path, parts.query)
    location = f"{scheme}://{parts.authority}{quote(parts.path, safe=_UNQUOTED)}{parts.query}"
    try:
        return fs.FileSystem.from_uri(location)
    except ArrowInvalid as error:
        if "nrecognized filesystem type" not in str(error):
            raise
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped, import-not-found, unused-ignore]

        served, path = url_to_fs(f"{scheme}://{parts.authority}{parts.path}")
    except (ImportError, ValueError, TypeError) as error:  # the last one: it wants arguments that no URI has
        instead = _INSTEAD.get(scheme, "install the fsspec package that does, or use one of the others")
        raise ValueError(f"neither pyarrow.fs nor fsspec serves {parts.scheme}: here ({error}); {instead}") from error
    return fs.PyFileSystem(fs.FSSpecHandler(served)), str(path)


def absolute(location: str) -> str:
    """A location as another process finds it, whatever its working folder: local ones as absolute paths."""
    return resolve(location)[1] if is_local(location) else location


def uri(location: str, path: str) -> str:
    """``path``, resolved from ``location`` (or below it), with the scheme and the authority of the location.

    Raises:
        ValueError: it is not below the location.
    """
    parts = _parts(location)
    if parts is None or parts.scheme == "file":
        return f"file://{path}"
    inner, wanted = parts.path.strip("/"), path.strip("/")
    for base in _bases(parts, inner):
        if wanted == base or base == "" or wanted.startswith(f"{base}/"):
            rest = wanted[len(base) :].strip("/")
            authority = parts.authority.rpartition("@")[2] if parts.scheme in ("s3", "s3a", "s3n") else parts.authority
            return f"{parts.scheme}://{authority}/" + "/".join(filter(None, (inner, rest)))
    raise ValueError(f"{path!r} is not below {location!r}")


def _bases(parts: _Parts, inner: str) -> list[str]:
    """What a URI's path may be on its filesystem."""
    names = (parts.authority.partition("@")[0], parts.authority.rpartition("@")[2])
    with_bucket = ["/".join(filter(None, (name, inner))) for name in names if name]
    if _PYARROW_SCHEMES.get(parts.scheme, parts.scheme) in _WITH_BUCKET:
        return with_bucket
    return [inner] if parts.scheme in _WITHOUT_BUCKET else [*with_bucket, inner]


def exists(filesystem: fs.FileSystem, path: str) -> bool:
    """True if there is a file or folder at ``path``."""
    return filesystem.get_file_info(path).type != fs.FileType.NotFound


def list_files(filesystem: fs.FileSystem, folder: str, *, recursive: bool = False) -> list[fs.FileInfo]:
    """The files and folders below a folder; empty if it does not exist.

    Args:
        filesystem: of the folder.
        folder: its path there.
        recursive: also those in folders below; False: one level.
    """
    return filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=recursive))


def appears_whole(filesystem: fs.FileSystem) -> bool:
    """True if a file is there only when it was written to its end: of object stores, and of handlers that say so."""
    name = filesystem.type_name
    said = getattr(getattr(filesystem, "handler", None), "appears_whole", False)
    return name in _OBJECT_STORES or bool(said) or _FSSPEC_STORES.match(name) is not None


def write_durably(path: str, data: bytes) -> None:
    """Write a local file that is on the disk when this returns."""
    with naming(path), open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def is_local_disk(filesystem: fs.FileSystem) -> bool:
    """Whether files lie on a disk of this machine: a call takes microseconds, and a file needs a sync to last."""
    return isinstance(filesystem, fs.LocalFileSystem)


def progress_interval_s(filesystem: fs.FileSystem) -> float:
    """How often files that are only for people to see are written and looked at, which elsewhere takes long."""
    return 1.0 if is_local_disk(filesystem) else 5.0


def write_atomically(filesystem: fs.FileSystem, path: str, data: bytes) -> None:
    """Write a file so that a reader sees all of it or none, and nothing of it is left if the disk refuses.

    Object stores make an object visible only when its upload is complete.  Elsewhere files go through a temporary name
    and a rename, local ones durably.  Where a rename does not replace (HDFS), a file that is written again is gone in
    between; ``_metadata`` is never written again.

    Args:
        filesystem: of the file.
        path: its path there; its folder exists.
        data: the whole content.

    Raises:
        OSError: it could not be written.
    """
    if appears_whole(filesystem):
        with naming(path), filesystem.open_output_stream(path) as stream:
            stream.write(data)
        return
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        if is_local_disk(filesystem):
            if data:
                write_durably(temporary, data)
                os.replace(temporary, path)
            else:  # it is whole as soon as it is there
                with naming(path), open(path, "wb"):
                    pass
        else:
            with naming(temporary), filesystem.open_output_stream(temporary) as stream:
                stream.write(data)
            _move(filesystem, temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            delete_quietly(filesystem, temporary)
        raise
    if is_local_disk(filesystem):
        sync_path(os.path.dirname(path))


def overwrite(filesystem: fs.FileSystem, path: str, data: bytes, *, durable: bool) -> None:
    """Write a small file that may be there already; on a local disk in place, which takes a tenth of the CPU.

    For files that are written again and again, and whose readers bear to find one half written.  One that has other
    names, as a copy by hard links has, gets a new file, so that those keep what they had.

    Args:
        filesystem: of the file.
        path: its path there; its folder exists.
        data: the whole content.
        durable: whether a crash of the machine must not bring the old content back.

    Raises:
        OSError: it could not be written.
    """
    if is_local_disk(filesystem):
        with contextlib.suppress(FileNotFoundError), naming(path), open(path, "r+b") as file:
            if os.fstat(file.fileno()).st_nlink == 1:
                file.write(data)
                file.truncate()
                if durable:
                    os.fsync(file.fileno())
                return
    write_atomically(filesystem, path, data)


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
