"""Putting a file where none is yet, and replacing one that was seen: what two drivers must not both succeed with.

==========================================  ===================================================================
local                                       a hard link under the final name, which fails if there is one
HDFS                                        a rename, which does not replace
S3, GCS, ABFS                               the store decides (:mod:`.conditional`)
a ``FileSystemHandler`` of one's own        its ``put_if_absent(path, data) -> bool``, if it has one
others (stores that fsspec serves, old ones) nothing: a look, then a write
==========================================  ===================================================================

In the last row two writers that meet between the look and the write both succeed, and the later one's content stays.
Nothing rests on that there: what must not be lost between two drivers goes to names that only one of them uses, and
which of them counts is decided by listing (``lease.claims``: a generation is claimed by a file of its own, and given up
if the listing after it shows another one).  This holds on every store in which a file that was written is in the next
listing.  Replacing (:func:`swap`) is decided by S3, GCS and ABFS alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Mapping
from typing import Any

from pyarrow import fs

from ...state.store.disk_syncs import sync_path
from .conditional import ConditionalClient, Version
from .filesystem import delete_quietly, exists, is_local_disk, read_bytes, write_atomically, write_durably
from .object_stores import azure_client, google_client
from .s3 import S3


def put_if_absent(filesystem: fs.FileSystem, path: str, data: bytes) -> bool:
    """Write a file, all or nothing, unless there is one; False: there is.

    Args:
        filesystem: where; see above for what it guarantees.
        path: the file; its folder exists.
        data: its content.

    Raises:
        OSError: it cannot be written.
    """
    if is_local_disk(filesystem):
        return _link(path, data)
    handler: Any = getattr(filesystem, "handler", None)
    if hasattr(handler, "put_if_absent"):
        return bool(handler.put_if_absent(path, data))
    if exists(filesystem, path):  # a store may not look at the condition
        return False
    found = conditional_client(filesystem, path)
    if found is not None:
        client, key = found
        with contextlib.suppress(NotImplementedError):
            return client.put_if_absent(key, data)
    if filesystem.type_name == "hdfs":
        return _rename(filesystem, path, data)
    write_atomically(filesystem, path, data)
    return True


def read_version(filesystem: fs.FileSystem, path: str) -> Version:
    """A file as :func:`swap` takes it.

    Raises:
        FileNotFoundError: there is none.
    """
    found = conditional_client(filesystem, path)
    if found is None:
        return Version(read_bytes(filesystem, path), "")
    client, key = found
    version = client.get(key)
    if version is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return version


def swap(filesystem: fs.FileSystem, path: str, data: bytes, seen: Version | None) -> Version | None:
    """Write a file, all or nothing, in place of the version that was seen; where nobody decides that, in any case.

    Args:
        filesystem: where.
        path: the file; its folder exists.
        data: its content.
        seen: what was there; None: nothing.

    Returns:
        The new version; None: there is another one than was seen.

    Raises:
        OSError: it cannot be written.
    """
    found = conditional_client(filesystem, path)
    if found is not None:
        client, key = found
        with contextlib.suppress(NotImplementedError):
            return client.swap(key, seen, data)
    write_atomically(filesystem, path, data)
    return Version(data, "")


def decides(filesystem: fs.FileSystem, path: str, data: bytes) -> bool:
    """False if a store takes a file that is to be put only if there is none, though there is.

    Args:
        filesystem: of the store; any other decides, or is known not to.
        path: a file that is there.
        data: its content.
    """
    found = conditional_client(filesystem, path)
    if found is None:
        return True
    client, key = found
    try:
        return not client.put_if_absent(key, data)
    except NotImplementedError:
        return False


def conditional_client(filesystem: fs.FileSystem, path: str) -> tuple[ConditionalClient, str] | None:
    """Who writes a file of an object store under a condition, and its key there; None: nobody can."""
    bucket, _, key = path.partition("/")
    if isinstance(filesystem, S3):
        return filesystem.client(bucket), key
    if filesystem.type_name == "gcs":
        return google_client(bucket, anonymous=bool(_said(filesystem).get("anonymous"))), key
    if filesystem.type_name == "abfs":
        return _azure_client(bucket, _said(filesystem)), key
    return None


def _said(filesystem: fs.FileSystem) -> Mapping[str, Any]:
    """With what a filesystem was made; pyarrow tells it to nobody but those that it sends the filesystem to."""
    ((said,),) = filesystem.__reduce__()[1:]
    return dict(said)


def _azure_client(container: str, said: Mapping[str, Any]) -> ConditionalClient:
    account, key, token = said["account_name"], said.get("account_key") or None, said.get("sas_token") or None
    principal = tuple(str(said.get(name) or "") for name in ("tenant_id", "client_id", "client_secret"))
    return azure_client(container, account, key, token, principal if all(principal) else None)


def _link(path: str, data: bytes) -> bool:
    if os.path.lexists(path):
        return False
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        write_durably(temporary, data)
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
