"""Putting a file where none is yet, and swapping one that only grows: what two drivers must not both succeed with.

``pyarrow.fs`` has no conditional write.  What there is instead:

==========================================  ===================================================================
local                                       a hard link under the final name, which fails if there is one
HDFS                                        a rename, which does not replace
a ``FileSystemHandler`` of one's own        its ``put_if_absent(path, data) -> bool``, if it has one
object stores (S3, GCS, ABFS), others       nothing: a look, then a write
==========================================  ===================================================================

In the last row two writers that meet between the look and the write both succeed, and the later one's content stays.
Nothing rests on that there: what must not be lost between two drivers goes to names that only one of them uses, and
which of them counts is decided by listing (``lease.claims``: a generation is claimed by a file of its own, and given up
if the listing after it shows another one; that is the compare-and-swap).  This holds on every store in which a file
that was written is in the next listing.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import Any

from pyarrow import fs

from ...state.pool import naming, sync_path
from .filesystem import delete_quietly, exists, write_atomically


def put_if_absent(filesystem: fs.FileSystem, path: str, data: bytes) -> bool:
    """Write a file, all or nothing, unless there is one; False: there is.

    Args:
        filesystem: where; see above for what it guarantees.
        path: the file; its folder exists.
        data: its content.

    Raises:
        OSError: it cannot be written.
    """
    if isinstance(filesystem, fs.LocalFileSystem):
        return _link(path, data)
    handler: Any = getattr(filesystem, "handler", None)
    if hasattr(handler, "put_if_absent"):
        return bool(handler.put_if_absent(path, data))
    if exists(filesystem, path):
        return False
    if filesystem.type_name == "hdfs":
        return _rename(filesystem, path, data)
    write_atomically(filesystem, path, data)
    return True


def _link(path: str, data: bytes) -> bool:
    if os.path.lexists(path):
        return False
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        with naming(temporary), open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a filesystem without links
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            os.replace(temporary, path)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    sync_path(os.path.dirname(path))
    return True


def _rename(filesystem: fs.FileSystem, path: str, data: bytes) -> bool:
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    write_atomically(filesystem, temporary, data)
    try:
        filesystem.move(temporary, path)
    except OSError:
        there = exists(filesystem, path)
        delete_quietly(filesystem, temporary)
        if not there:
            raise
        return False
    return True
