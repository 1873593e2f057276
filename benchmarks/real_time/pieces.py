"""A shard's change log of an epoch, which is written in pieces while rows flow."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import records
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.local_copy import LocalStateCopy
from mixedmode.state.store.log import LogWriter
from pyarrow import fs
from timeline import Timeline

#: Cuts that take longer are in the timeline.
_LONG_S = 0.01


@dataclass
class _Piece:
    """A file that was written, and may not be durable yet."""

    #: Waits until it is.
    durable: Callable[[], list[StateFile]]
    file: StateFile
    #: Whether it is known to whoever follows this shard.
    told: bool = False


class ChangeLog:
    """What rows of an epoch change.

    Each cut writes what has changed since the last one, and applies the same to the local copy, whose manifest grows
    with it: the next epoch then finds the copy that it wants.  A file becomes durable beside the rows that follow.  If
    the epoch is not committed, the manifest is no beginning of the committed one, and the copy is made anew.

    Args:
        folder: of the run.
        name: of the epoch and shard, in names of files.
        writer: what only this process has in names of state files.
        epoch: its number.
        copy: the shard's local copy.
        log: the timeline.
    """

    def __init__(self, folder: str, name: str, writer: str, epoch: int, copy: LocalStateCopy, log: Timeline) -> None:
        self._folder, self._name, self._writer, self._epoch, self._log = folder, name, writer, epoch, log
        self._copy = copy
        self._get = copy.database.get
        self._pieces: list[_Piece] = []
        #: Since the last cut.
        self._changes: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes:
        """The state of a key."""
        new = self._changes.get(key)
        return self._get(key) if new is None else new

    def put(self, key: bytes, value: bytes) -> None:
        """Change it."""
        self._changes[key] = value

    def cut(self, *, last: bool = False) -> None:
        """Write what has changed since the last cut."""
        if not self._changes:
            return
        began = time.perf_counter()
        keys = sorted(self._changes)
        values = [self._changes[key] for key in keys]
        name = f"{self._name}-{len(self._pieces)}-{self._writer}"
        writer = LogWriter(fs.LocalFileSystem(), f"{self._folder}/pool", f"{self._folder}/local", name, self._epoch)
        writer.put_many(keys, values)
        built = time.perf_counter()
        durable = writer.finish_soon()
        if durable is None:
            done = writer.finish()
            durable = done.copy
        written, file = time.perf_counter(), writer.file
        assert file is not None
        self._pieces.append(_Piece(durable, file))
        try:
            self._copy.database.write(keys, values, deletes=False)
            self._copy.manifest = self._copy.manifest.append([file])
        except BaseException:
            self._copy.damaged = True
            raise
        self._changes = {}
        took = time.perf_counter() - began
        if last or took > _LONG_S:
            times = {"build_ms": built - began, "write_ms": written - built, "all_ms": took}
            rounded = {what: round(seconds * 1e3, 1) for what, seconds in times.items()}
            self._log("shard piece", keys=len(keys), last=last, **rounded)

    def tell(self) -> None:
        """Let whoever follows this shard know of its pieces; they are durable for long, and the newest soon."""
        for number, piece in enumerate(self._pieces):
            if not piece.told:
                piece.durable()
                records.hand_over(f"{self._folder}/pieces/{self._name}-{number}", piece.file.to_json(), synced=False)
                piece.told = True

    def durable(self) -> list[StateFile]:
        """All files, as soon as they are durable."""
        return [file for piece in self._pieces for file in piece.durable()]
