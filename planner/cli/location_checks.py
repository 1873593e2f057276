"""Checks a path on the command line without importing what reading it takes."""

from __future__ import annotations

from pyarrow import fs

from ...runtime.storage.filesystem import exists, resolve
from .console import misused


def check_location(location: str) -> None:
    """Raise if there is no checkpointLocation of a mixedmode job."""
    filesystem, folder = resolved_path(location)
    if is_there(filesystem, f"{folder}/mixedmode", location):
        return
    from ...runtime.checkpoints.savepoints.store import MANIFEST  # here: a health check does without its imports

    if is_there(filesystem, f"{folder}/{MANIFEST}", location):
        raise misused(f"{location!r} is a savepoint; give the checkpointLocation of a job")
    there = "exists, but has no folder mixedmode/" if is_there(filesystem, folder, location) else "does not exist"
    raise misused(f"{location!r} is not a checkpointLocation of mixedmode: it {there}")


def is_there(filesystem: fs.FileSystem, path: str, location: str) -> bool:
    """Whether there is something; an error of the command line, about ``location``, if that cannot be known."""
    try:
        return exists(filesystem, path)
    except OSError as error:
        raise misused(f"{location!r} cannot be reached: {error}") from error


def resolved_path(path: str) -> tuple[fs.FileSystem, str]:
    """The filesystem, and the path there; an error of the command line if it cannot be reached."""
    try:
        return resolve(path)
    except (ValueError, OSError) as error:
        raise misused(f"{path!r} cannot be reached: {error}") from error
