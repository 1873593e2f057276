"""What happens to files of a folder, as the kernel tells it at once (Linux's inotify)."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

CREATED, CLOSED = 0x100, 0x8  # IN_CREATE, IN_CLOSE_WRITE
_HEAD = struct.Struct("iIII")


class FileEvents:
    """Events of some kinds in a folder, from the moment when this is made.

    Args:
        folder: the folder.
        kinds: the kinds.
    """

    def __init__(self, folder: Path, kinds: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_CLOEXEC)
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, bytes(folder), kinds) < 0:
            raise OSError(ctypes.get_errno(), "inotify", str(folder))

    def __enter__(self) -> FileEvents:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._descriptor)

    def names(self, seconds: float) -> Iterator[str]:
        """Names of the files, as the events come; ends when the time is over."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            if select.select([self._descriptor], [], [], left_s)[0]:
                yield from self._names(os.read(self._descriptor, 1 << 16))

    @staticmethod
    def _names(data: bytes) -> Iterator[str]:
        place = 0
        while place < len(data):
            length = _HEAD.unpack_from(data, place)[3]
            place += _HEAD.size
            yield data[place : place + length].rstrip(b"\0").decode()
            place += length
