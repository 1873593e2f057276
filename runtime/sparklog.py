"""Spark's own log of the live source's query: reading positions from it and rewinding it.

Spark writes ``offsets/N`` before it hands micro-batch N to us and ``commits/N`` after our function returned.  Removing
every entry above K from both makes the next micro-batch K+1 hold everything since K: nothing lost, nothing twice
(measured; ``sources/`` stays as it is).  A checkpoint of ours stores K and the text of ``offsets/K``, because Spark
purges old entries of its logs on its own schedule.
"""

from __future__ import annotations

import re

from pyarrow import fs

from .checkpoints.metadata import SparkPosition
from .filesystem import delete_quietly, list_files, read_bytes, write_atomically

_ENTRY = re.compile(r"^\.?(\d+)(\.crc)?$")
_COMMITTED = b'v1\n{"nextBatchWatermarkMs":0}'


class SparkLog:
    """The query log below one Structured Streaming checkpoint folder.  The query must be stopped to rewind it."""

    def __init__(self, filesystem: fs.FileSystem, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder

    def position(self, batch_id: int) -> SparkPosition:
        """The position after a batch that was handed to us."""
        entry = read_bytes(self._filesystem, f"{self._folder}/offsets/{batch_id}")
        return SparkPosition(batch_id=batch_id, offset_entry=entry.decode())

    def clear(self) -> None:
        """Forget everything: the next run starts from the source's beginning under a new query id."""
        delete_quietly(self._filesystem, self._folder)

    def replay(self) -> None:
        """Hand the first batch over again, with the very rows that it was pinned to, then whatever comes after it."""
        delete_quietly(self._filesystem, f"{self._folder}/commits")
        # Spark goes on from its newest planned batch: a second one would make it skip the first.
        self._forget("offsets", after=0)

    def _forget(self, log: str, *, after: int) -> int:
        """Remove all entries of a log above a batch; returns how many there were."""
        forgotten = 0
        for info in list_files(self._filesystem, f"{self._folder}/{log}"):
            match = _ENTRY.match(info.base_name)
            if match and int(match[1]) > after:
                forgotten += match[2] is None
                delete_quietly(self._filesystem, info.path)
        return forgotten

    def rewind(self, position: SparkPosition) -> int:
        """Go back to a position; returns how many later batches were forgotten."""
        self._forget("commits", after=position.batch_id)
        forgotten = self._forget("offsets", after=position.batch_id)
        entry = position.offset_entry.encode()
        self._restore("offsets", position.batch_id, entry)
        if position.batch_id > 0:
            # Spark insists on the entry before the newest, which it may have purged, and reads from it up to the
            # newest only to let the source know where it is: a copy of the newest stands for "nothing in between".
            self._restore("offsets", position.batch_id - 1, entry)
        self._restore("commits", position.batch_id, _COMMITTED)
        return forgotten

    def _restore(self, log: str, batch_id: int, content: bytes) -> None:
        path = f"{self._folder}/{log}/{batch_id}"
        if self._filesystem.get_file_info(path).type == fs.FileType.NotFound:
            self._filesystem.create_dir(f"{self._folder}/{log}", recursive=True)
            delete_quietly(self._filesystem, f"{self._folder}/{log}/.{batch_id}.crc")
            write_atomically(self._filesystem, path, content)
