"""Deletes many files: in turn on a disk; on object stores, which answer slowly, many at a time or by one request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from pyarrow import fs

from .conditional import MOST_AT_ONCE
from .filesystem import appears_whole
from .parallel import in_parallel
from .s3 import S3


def delete_files(filesystem: fs.FileSystem, paths: Iterable[str], deleted: Callable[[], None] = lambda: None) -> None:
    """Delete what are known to be files, and may already be gone: nobody looks first, each look would be a request.

    Args:
        filesystem: where they are.
        paths: the files; on S3 of one bucket.
        deleted: called after each, or after each request for many.
    """

    def delete(path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            filesystem.delete_file(path)
        deleted()

    if isinstance(filesystem, S3):
        wanted = list(paths)
        for begin in range(0, len(wanted), MOST_AT_ONCE):
            filesystem.delete_files(wanted[begin : begin + MOST_AT_ONCE])
            deleted()
    elif appears_whole(filesystem):
        in_parallel(delete, paths)
    else:
        for path in paths:
            delete(path)
