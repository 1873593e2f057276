"""Marks checkpoints that other processes read, by a small file for each, so that the job does not remove them.

Invariant: a reader that dies holds its checkpoint for no longer than :data:`HOLDS_MS`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyarrow import fs

from ..storage.filesystem import delete_quietly, list_files, read_bytes, write_atomically
from ..support.ids import CheckpointId

#: A reader that has not finished by then may find files gone.
HOLDS_MS = 30 * 60_000


@dataclass(frozen=True)
class CheckpointReaders:
    """The readers of one location's checkpoints.

    Args:
        filesystem: of the location.
        home: the folder of the branch that the checkpoints are in.
    """

    filesystem: fs.FileSystem
    home: str

    @property
    def _folder(self) -> str:
        return f"{self.home}/readers"

    def held(self) -> set[CheckpointId]:
        """The checkpoints that somebody reads; what holds none any more is removed."""
        found = set[CheckpointId]()
        for info in list_files(self.filesystem, self._folder):
            try:
                body = json.loads(read_bytes(self.filesystem, info.path))
                if body["until_ms"] > time.time() * 1000:
                    found.add(CheckpointId(int(body["checkpoint"])))
                    continue
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError):
                pass  # it may be half written by an object store's client that died: it holds nothing
            delete_quietly(self.filesystem, info.path)
        return found

    @contextmanager
    def holding(self, checkpoint_id: CheckpointId) -> Iterator[None]:
        """Keep the checkpoint meanwhile; one who may not write to the location reads it all the same."""
        path = f"{self._folder}/{uuid.uuid4().hex}.json"
        body = {"checkpoint": checkpoint_id, "until_ms": round(time.time() * 1000) + HOLDS_MS}
        try:
            self.filesystem.create_dir(self._folder, recursive=True)
            write_atomically(self.filesystem, path, json.dumps(body).encode())
            is_held = True
        except OSError:
            is_held = False
        try:
            yield
        finally:
            if is_held:
                delete_quietly(self.filesystem, path)
