"""The pool: one folder of immutable state files on any filesystem that ``pyarrow.fs`` reaches.

Invariants: a file is written once, under a name that no other attempt shares, and is complete and durable before its
description (:class:`~.files.StateFile`) leaves the writer.  Nobody changes it afterwards; who brings it in checks it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs

from ...errors import CheckpointError, CorruptStateError
from .disk_syncs import begin_syncs, naming, sync_path

if TYPE_CHECKING:
    from .files import StateFile

_CHUNK_BYTES = 1 << 20
#: Small files that this process has written last, by path: bytes of each, and of all.
_KEPT_FILE_BYTES, _KEPT_BYTES = 1 << 20, 4 << 20
_kept: dict[str, pa.Buffer] = {}
_keeping = threading.Lock()


class StatePool:
    """Reads and writes whole files of one pool folder."""

    def __init__(self, filesystem: fs.FileSystem, folder: str) -> None:
        self.filesystem = filesystem
        self.folder = folder.rstrip("/")
        #: True if its files are written where they are to be.
        self.is_local = isinstance(filesystem, fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """Where a file lies on the pool's filesystem."""
        return f"{self.folder}/{name}"

    def staging_path(self, name: str, local_dir: str) -> str:
        """Local path under which a new file is written; in a local pool that is its place already."""
        folder = self.folder if self.is_local else local_dir
        os.makedirs(folder, exist_ok=True)
        return f"{folder}/{name}"

    def publish(self, name: str, staged: str, *, with_name: bool = False) -> None:
        """Make a staged file durable in the pool; elsewhere the staged copy is gone afterwards, if that failed too.

        Args:
            name: what it is called there.
            staged: where it is.
            with_name: its name becomes durable, too: no :meth:`sync_folder` follows.
        """
        if self.is_local:
            if with_name:
                sync_new_file(staged)
            else:
                sync_path(staged)
            return
        with writing(self.path(name)):
            self.filesystem.create_dir(self.folder, recursive=True)
            try:
                with open(staged, "rb") as source, self.filesystem.open_output_stream(self.path(name)) as target:
                    shutil.copyfileobj(source, target, _CHUNK_BYTES)
            except OSError:
                # Whatever is there is half a file that nothing will name.
                with contextlib.suppress(OSError):
                    self.delete_quietly(name)
                raise
            finally:
                os.unlink(staged)

    def sync_folder(self) -> None:
        """Make the names of published files durable."""
        if self.is_local:
            sync_path(self.folder)

    def delete_quietly(self, name: str) -> None:
        """Delete a file that may not be there."""
        try:
            self.filesystem.delete_file(self.path(name))
        except OSError:
            if self.filesystem.get_file_info(self.path(name)).type == fs.FileType.File:
                raise

    def fetch(self, file: StateFile, target: str) -> None:
        """Bring a file to a local path (a hard link where possible) and check its size and checksum."""
        try:
            if self.is_local:
                try:
                    os.link(self.path(file.name), target)
                except FileNotFoundError:
                    raise
                except OSError:  # another device, or a filesystem without links
                    shutil.copyfile(self.path(file.name), target)
            else:
                self._download(file.name, target)
        except FileNotFoundError:
            raise CorruptStateError(f"state file {self.path(file.name)} is missing") from None
        self._check(file, os.path.getsize(target), file_sha256(target))

    def keep(self, name: str, data: pa.Buffer) -> None:
        """Have a small file at hand that was just written: the next epoch of its shard brings it in, mostly here."""
        if data.size <= _KEPT_FILE_BYTES:
            with _keeping:
                _kept[self.path(name)] = data
                while sum(kept.size for kept in _kept.values()) > _KEPT_BYTES:
                    del _kept[next(iter(_kept))]

    def read(self, file: StateFile, *, at_hand: bool = False) -> pa.Buffer:
        """The checked content of a small file.

        Args:
            file: its description.
            at_hand: what this process has kept of it will do; it is let go.
        """
        with _keeping:
            kept = _kept.pop(self.path(file.name), None)
        if at_hand and kept is not None:
            data = kept
        else:
            try:
                with self.filesystem.open_input_stream(self.path(file.name)) as stream:
                    data = stream.read_buffer()
            except FileNotFoundError:
                raise CorruptStateError(f"state file {self.path(file.name)} is missing") from None
        self._check(file, data.size, hashlib.sha256(data).hexdigest())
        return data

    def check(self, file: StateFile) -> None:
        """Read a file and compare size and checksum, in little memory."""
        digest, size_bytes = hashlib.sha256(), 0
        try:
            with self.filesystem.open_input_stream(self.path(file.name)) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    size_bytes += len(chunk)
        except FileNotFoundError:
            raise CorruptStateError(f"state file {self.path(file.name)} is missing") from None
        self._check(file, size_bytes, digest.hexdigest())

    def _download(self, name: str, target: str) -> None:
        with self.filesystem.open_input_stream(self.path(name)) as source, naming(target), open(target, "wb") as local:
            shutil.copyfileobj(source, local, _CHUNK_BYTES)

    def _check(self, file: StateFile, size_bytes: int, sha256: str) -> None:
        if size_bytes != file.size_bytes:
            raise CorruptStateError(
                f"state file {self.path(file.name)} has {size_bytes} bytes, its checkpoint recorded {file.size_bytes}"
            )
        if sha256 != file.sha256:
            raise CorruptStateError(
                f"state file {self.path(file.name)} has been altered: its SHA-256 is {sha256}, "
                f"its checkpoint recorded {file.sha256}"
            )


def file_sha256(path: str) -> str:
    """SHA-256 of a local file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def sync_new_file(path: str) -> None:
    """Make a local file durable, and its name in its folder."""
    begin_new_file_sync(path)()


def begin_new_file_sync(path: str) -> Callable[[], None]:
    """The same, begun; returns what waits until it is done."""
    return begin_syncs(path, os.path.dirname(path))


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Make an error of the disk one of ours, which says where; for the code that writes a file of a task.

    Raises:
        CheckpointError: the disk is full, or the file cannot be written for another reason.
    """
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"could not write {path}: {error.strerror or error}") from error


class PoolWriter:
    """Where a writer's files go, and how they are called.

    Args:
        filesystem: the pool's.
        pool: folder of the pool.
        local_dir: local folder for files that are on their way to a pool elsewhere.
        name: beginning of the files' names, as unique as the attempt.
        epoch: the epoch whose changes are written.
    """

    def __init__(self, filesystem: fs.FileSystem, pool: str, local_dir: str, name: str, epoch: int) -> None:
        self._pool = StatePool(filesystem, pool)
        self._local_dir = local_dir
        self._name = name
        self._epoch = epoch
