"""Spark's own log of the live source's query: reading positions from it and rewinding it.

Spark writes ``offsets/N`` before it hands micro-batch N to us and ``commits/N`` after our function returned.  Removing
every entry above K from both makes the next micro-batch K+1 hold everything since K: nothing lost, nothing twice
(measured; ``sources/`` stays as it is).  A checkpoint of ours stores K and the text of ``offsets/K``, because Spark
purges old entries of its logs on its own schedule.
"""

from __future__ import annotations

import re
import zlib

from pyarrow import fs

from ..errors import CorruptStateError
from .checkpoints.metadata import SparkPosition
from .filesystem import delete_quietly, exists, list_files, read_bytes, write_atomically

_ENTRY = re.compile(r"^\.?(\d+)(\.crc)?$")
_COMMITTED = b'v1\n{"nextBatchWatermarkMs":0}'
_CRC_CHUNK_BYTES = 512


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
        """Forget everything: the next run asks the sources where they begin, under a new query id."""
        delete_quietly(self._filesystem, self._folder)

    def restart(self, *, keep_planned: bool = False) -> None:
        """Begin again where the sources began: their own logs say where that was, and stay, as does the query's id.

        Args:
            keep_planned: plan the first micro-batch as it was planned before, if it was.
        """
        delete_quietly(self._filesystem, f"{self._folder}/commits")
        self._forget("offsets", after=0 if keep_planned else -1)

    def replay(self, entry: str | None = None) -> None:
        """Hand the first batch over again, with the very rows that it was pinned to, then whatever comes after it.

        Args:
            entry: content of the first batch's offsets, written again if it is damaged; None: not known.
        """
        # Spark goes on from its newest planned batch: a second one would make it skip the first.
        self.restart(keep_planned=True)
        if entry is not None and self._exists("offsets", 0):
            self._restore("offsets", 0, entry.encode(), exactly=True)

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
        self._restore("offsets", position.batch_id, entry, exactly=True)
        if position.batch_id > 0:
            # Spark insists on the entry before the newest, which it may have purged, and reads from it up to the
            # newest only to let the source know where it is: a copy of the newest stands for "nothing in between".
            self._restore("offsets", position.batch_id - 1, entry)
        self._restore("commits", position.batch_id, _COMMITTED)
        return forgotten

    def check(self) -> None:
        """Compare what rewinding cannot restore with Hadoop's checksum files, which Spark itself does not look at.

        A wrong bit in the list of files that the source has read would make it read one again.

        Raises:
            CorruptStateError: the query's id or the source's own log was altered or cut off.
        """
        found = list_files(self._filesystem, f"{self._folder}/sources", recursive=True)
        found += list_files(self._filesystem, self._folder)
        files = {info.path: info.base_name for info in found if info.type == fs.FileType.File}
        for path, name in files.items():
            crc = f"{path[: -len(name)]}.{name}.crc"
            if crc not in files:
                continue
            if read_bytes(self._filesystem, crc) != crc_file(read_bytes(self._filesystem, path)):
                raise CorruptStateError(
                    f"{path}, which belongs to Spark's log of the live source, or its checksum file {crc} was altered "
                    "or cut off; restore both, or start again with a new checkpointLocation and a new output path"
                )

    def _restore(self, log: str, batch_id: int, content: bytes, *, exactly: bool = False) -> None:
        """Write an entry if it is missing or damaged (or, with ``exactly``, if it says anything else)."""
        if self._exists(log, batch_id):
            found = read_bytes(self._filesystem, f"{self._folder}/{log}/{batch_id}")
            if self._is_sound(log, batch_id, found) and (found == content if exactly else _alike(found, content)):
                return
        self._filesystem.create_dir(f"{self._folder}/{log}", recursive=True)
        delete_quietly(self._filesystem, f"{self._folder}/{log}/.{batch_id}.crc")
        write_atomically(self._filesystem, f"{self._folder}/{log}/{batch_id}", content)

    def _exists(self, log: str, batch_id: int) -> bool:
        return exists(self._filesystem, f"{self._folder}/{log}/{batch_id}")

    def _is_sound(self, log: str, batch_id: int, content: bytes) -> bool:
        """False if Hadoop's checksum file beside the entry, where there is one, does not fit: Spark refuses it then."""
        path = f"{self._folder}/{log}/.{batch_id}.crc"
        return not exists(self._filesystem, path) or read_bytes(self._filesystem, path) == crc_file(content)


def crc_file(content: bytes) -> bytes:
    """What Hadoop's checksum file of a small file holds: a mark, the chunk size, the CRC-32 of each chunk."""
    chunks = [content[start : start + _CRC_CHUNK_BYTES] for start in range(0, len(content), _CRC_CHUNK_BYTES)]
    return b"crc\0" + _CRC_CHUNK_BYTES.to_bytes(4, "big") + b"".join(zlib.crc32(c).to_bytes(4, "big") for c in chunks)


def _alike(found: bytes, entry: bytes) -> bool:
    """True if a log entry looks whole: a version, as many lines as another one of its log, ended as that one is."""
    lines, wanted = found.split(b"\n"), entry.split(b"\n")
    return found[:1] == b"v" and len(lines) == len(wanted) and found[-1:] == entry[-1:]
