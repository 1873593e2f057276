"""Checks that a job's folders can be used, before it starts and without leaving anything there.

A folder that is a file, or that nobody may write to, would otherwise end the query when its first file is written: for
an output after the whole backlog.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import PurePosixPath

from pyarrow import ArrowException, fs

from ...errors import OptionError
from ..support.redaction import redacted
from .filesystem import is_local, is_local_disk, resolve

_ALLOWED = "allowed: a folder that this user can write to, or that can be made"


def resolve_option(option: str, location: str) -> tuple[fs.FileSystem, str]:
    """As :func:`resolve`, for the value of an option.

    Raises:
        OptionError: it is on no filesystem that is known here, or that can be reached.
    """
    try:
        return resolve(location)
    except (ArrowException, ValueError, OSError) as error:
        raise OptionError(
            f"{option} = {location!r} cannot be reached: {error}; allowed: a path, or the URI of a filesystem that"
            " pyarrow.fs knows (file:, hdfs:, s3:, gs:, abfs:, …)",
            code="MIXEDMODE_LOCATION_UNUSABLE",
        ) from error


def local_path(location: str) -> str:
    """The path of a folder on a disk of the machine, which may be written as a ``file:`` URI; others stay as they are.

    Raises:
        ValueError: it is empty, or on another filesystem.
    """
    if not location.strip():
        raise ValueError("it is empty")
    if not is_local(location):
        raise ValueError("it is not on a local disk")
    return resolve(location)[1] if location.lower().startswith("file:") else location


def local_option(option: str, location: str | None) -> str | None:
    """As :func:`local_path`, for the value of an option; None: it is unset.

    Raises:
        OptionError: as :func:`local_path`.
    """
    try:
        return None if location is None else local_path(location)
    except ValueError as error:
        raise OptionError(
            f"{option} = {redacted(location or '')!r} is not allowed: {error}; allowed: a local folder"
        ) from error


@dataclass(frozen=True)
class Place:
    """Where a folder really is, whatever links or names lead there: two options with equal places mean one folder."""

    filesystem: str
    path: PurePosixPath

    def is_within(self, other: Place, part: str) -> bool:
        """True if it is ``part`` of the other folder, or below that."""
        within = other.path / part
        if self.filesystem != "local":
            return self.filesystem == other.filesystem and self.path.is_relative_to(within)
        # What is there already may itself be a link to elsewhere.
        return other.filesystem == "local" and self.path.is_relative_to(os.path.realpath(within))


def folder_place(option: str, location: str) -> Place:
    """The place of a folder, which need not exist.

    Raises:
        OptionError: as :func:`resolve_option`.
    """
    filesystem, path = resolve_option(option, location)
    local = is_local_disk(filesystem)
    return Place(filesystem.type_name, PurePosixPath(os.path.realpath(path) if local else path))


def check_folder(option: str, location: str) -> None:
    """Raise unless the location is a folder that can be written to, or can become one.

    Local folders are tried by a temporary folder beside what will be made, so that nothing is left of a job that is
    refused; elsewhere only a file in the place of the folder is found.

    Raises:
        OptionError: it is, or lies below, a file, or it cannot be written to.
    """
    filesystem, folder = resolve_option(option, location)
    path = PurePosixPath(folder)
    local = is_local_disk(filesystem)
    candidates = [path, *path.parents] if local else [path]
    try:
        for candidate in candidates:
            kind = filesystem.get_file_info(str(candidate)).type
            if kind == fs.FileType.NotFound and local and os.path.islink(candidate):
                raise OptionError(
                    f"{option} = {location!r} is, or lies below, a symbolic link to nothing: {str(candidate)!r};"
                    f" {_ALLOWED}",
                    code="MIXEDMODE_LOCATION_UNUSABLE",
                )
            if kind == fs.FileType.Directory:
                if local:
                    os.rmdir(tempfile.mkdtemp(prefix=".mixedmode-", dir=candidate))
                return
            if kind != fs.FileType.NotFound:
                what = "is a file" if candidate == path else f"lies below {str(candidate)!r}, which is a file"
                raise OptionError(f"{option} = {location!r} {what}; {_ALLOWED}", code="MIXEDMODE_LOCATION_UNUSABLE")
    except OSError as error:
        where = "" if candidate == path else f" in {str(candidate)!r}"
        reason = error.strerror or error
        raise OptionError(
            f"{option} = {location!r} cannot be written to: {reason}{where}; {_ALLOWED}",
            code="MIXEDMODE_LOCATION_UNUSABLE",
        ) from error
