"""Deletes many files: in turn on a disk, several at a time on an object store, which answers slowly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from pyarrow import fs

from .filesystem import appears_whole
from .parallel import in_parallel


def delete_files(filesystem: fs.FileSystem, paths: Iterable[str], deleted: Callable[[], None] = lambda: None) -> None:
    """Delete what are known to be files, and may already be gone: nobody looks first, each look would be a request.

    Args:
        filesystem: where they are.
        paths: the files.
        deleted: called after each.
    """

    def delete(path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            filesystem.delete_file(path)
        deleted()

    if appears_whole(filesystem):
        in_parallel(delete, paths)
    else:
        for path in paths:
            delete(path)
