"""Spark's own log of the live source's query: reading positions from it and rewinding it.

Spark writes ``offsets/N`` before it hands micro-batch N to us and ``commits/N`` after our function returned.  Removing
every entry above K from both makes the next micro-batch K+1 hold everything since K: nothing lost, nothing twice
(measured; ``sources/`` stays as it is).  A checkpoint of ours stores K and the text of ``offsets/K``, because Spark
purges old entries of its logs on its own schedule.
"""

from __future__ import annotations

import json
import os
import re
import uuid
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from glob import escape, glob
from pathlib import Path

from pyarrow import fs

from ...errors import CorruptStateError
from ..storage.filesystem import delete_quietly, exists, is_local_disk, list_files, read_bytes, write_atomically
from ..support.ids import FIRST_BATCH, BatchId
from .metadata import SparkPosition

_ENTRY = re.compile(r"^\.?(\d+)(\.crc)?$")
#: An entry of a source's own log.
_SOURCE_ENTRY = re.compile(r"^(\d+)(\.compact)?$")
_COMMITTED = b'v1\n{"nextBatchWatermarkMs":0}'
_CRC_CHUNK_BYTES = 512


class SparkLog:
    """The query log below one Structured Streaming checkpoint folder.  The query must be stopped to rewind it."""

    def __init__(self, filesystem: fs.FileSystem, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder

    def position(self, batch_id: BatchId) -> SparkPosition:
        """The position after a batch that was handed to us."""
        entry = read_bytes(self._filesystem, f"{self._folder}/offsets/{batch_id}")
        return SparkPosition(batch_id=batch_id, offset_entry=entry.decode())

    def first_offset(self, number: int) -> str | None:
        """Where a source began that logs it as Spark's source for Kafka does; None: it has not begun, or logs it
        otherwise.

        Args:
            number: the source's.
        """
        path = f"{self._folder}/sources/{number}/0"
        if not exists(self._filesystem, path):
            return None
        _, mark, offset = read_bytes(self._filesystem, path).partition(b"v1\n")
        return offset.decode(errors="replace") if mark else None

    def committed_behind(self, batch_id: BatchId) -> SparkPosition | None:
        """The position behind the newest micro-batch that was processed to its end; None: none was, behind that one.

        Args:
            batch_id: the last one that is in a checkpoint.
        """
        found = list_files(self._filesystem, f"{self._folder}/commits")
        done = sorted((BatchId(int(info.base_name)) for info in found if info.base_name.isdigit()), reverse=True)
        return next((self.position(one) for one in done if one > batch_id and self._exists("offsets", one)), None)

    def files_between(
        self, number: int, place: int, begin: SparkPosition | None, end: SparkPosition
    ) -> Iterator[tuple[str, int]]:
        """The files that a source has read between two positions: each one's URI, and when it was last written (ms).

        Args:
            number: of the source's own log.
            place: of its offset in a position.
            begin: behind which; None: from the first file on.
            end: up to which, inclusive.
        """
        first, last = (
            None if one is None else _log_offset(one.offset_entry.splitlines()[2:][place]) for one in (begin, end)
        )
        if last is None:
            return
        wanted = range(0 if first is None else first + 1, last + 1)
        folder, paths = f"{self._folder}/sources/{number}", set[str]()
        for info in list_files(self._filesystem, folder):
            match = _SOURCE_ENTRY.match(info.base_name)
            if match is None or int(match[1]) < wanted.start or (match[2] is None and int(match[1]) not in wanted):
                continue
            for line in read_bytes(self._filesystem, info.path).decode().splitlines()[1:]:
                entry = json.loads(line)  # a compacted one holds those of all batches before it, too
                if entry["batchId"] in wanted and entry["path"] not in paths:
                    paths.add(entry["path"])
                    yield entry["path"], entry["timestamp"]

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
        if entry is not None and self._exists("offsets", FIRST_BATCH):
            self._restore("offsets", FIRST_BATCH, entry.encode(), exactly=True)

    def _forget(self, log: str, *, after: int) -> int:
        """Remove all entries of a log above a batch, and what Spark had not finished writing: a query without an entry
        refuses to begin beside any file there.  Returns how many entries there were."""
        forgotten = 0
        for info in list_files(self._filesystem, f"{self._folder}/{log}"):
            match = _ENTRY.match(info.base_name)
            if is_unfinished(info.base_name):
                delete_quietly(self._filesystem, info.path)
            elif match and int(match[1]) > after:
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
            self._restore("offsets", BatchId(position.batch_id - 1), entry)
        self._restore("commits", position.batch_id, _COMMITTED)
        if is_local_disk(self._filesystem):
            for path in glob(f"{escape(self._folder)}/sources/*/.*.tmp*"):  # what a write that was cut off has left
                if is_unfinished(path):
                    Path(path).unlink(missing_ok=True)
        return forgotten

    def begin_behind(self, position: SparkPosition) -> None:
        """Make the log of a query that has read up to a position, and nothing since; none has run."""
        self.restart()
        self.rewind(position)
        path = f"{self._folder}/metadata"
        if not exists(self._filesystem, path):
            write_atomically(self._filesystem, path, json.dumps({"id": str(uuid.uuid4())}).encode())

    def plan(self, batch_id: BatchId, entry: str) -> None:
        """Have the batch behind a position be one that was planned before, with the very rows that it had then."""
        self._restore("offsets", batch_id, entry.encode(), exactly=True)

    def seal(self) -> None:
        """Write checksum files of what the sources have read, for :meth:`check`; remove those whose entry is gone.

        On a local disk only, where Spark writes and removes none for a query that starts no processes.  The query may
        run meanwhile: an entry appears as a whole and never changes.  One without a checksum is not looked at.
        """
        if not is_local_disk(self._filesystem):
            return
        sources = glob(f"{escape(self._folder)}/sources/*")
        for folder in (f"{self._folder}/offsets", f"{self._folder}/commits", *sources):
            with suppress(FileNotFoundError):  # what Spark has not begun, or has removed meanwhile
                names = set(os.listdir(folder))
                for name in names:
                    of_entry = name.removeprefix(".").removesuffix(".crc")
                    if not _SOURCE_ENTRY.match(of_entry):
                        continue
                    if name != of_entry and of_entry not in names:
                        Path(folder, name).unlink(missing_ok=True)
                    elif name == of_entry and folder in sources and f".{name}.crc" not in names:
                        _write_beside(f"{folder}/.{name}.crc", crc_file(Path(folder, name).read_bytes()))

    def check(self, position: SparkPosition | None = None, numbers: Sequence[int] | None = None) -> None:
        """Look for what rewinding cannot restore: the query's id, and each source's own log of what it has read.

        A wrong bit in the list of files that the source has read would make it read one again, as would the loss of the
        last entry; of an older one Spark says only that some number does not exist, and without the folder it would
        begin anew.  Contents are compared with Hadoop's checksum files, which Spark itself does not look at.

        Args:
            position: where the query goes on from; None: only what is there is looked at.
            numbers: for each offset of the position the number of the source's own log; None: each has its own, in the
                same order.

        Raises:
            CorruptStateError: something was altered or cut off, or is missing.
        """
        found = list_files(self._filesystem, f"{self._folder}/sources", recursive=True)
        found += list_files(self._filesystem, self._folder)
        files = {info.path: info.base_name for info in found if info.type == fs.FileType.File}
        if position is not None:
            if f"{self._folder}/metadata" not in files:
                missing = f"{self._folder}/metadata" if found else self._folder
                raise self._lost(missing, "which holds the id and the sources' logs of the live source's query")
            lost = next(self._missing_entries(position, files, numbers), None)
            if lost is not None:
                raise self._lost(lost, "an entry of Spark's log of what the live source has read")
        for path, name in files.items():
            crc = f"{path[: -len(name)]}.{name}.crc"
            if crc not in files or is_unfinished(name):
                continue
            if read_bytes(self._filesystem, crc) != crc_file(read_bytes(self._filesystem, path)):
                raise CorruptStateError(
                    f"{path}, which belongs to Spark's log of the live source, or its checksum file {crc} was altered "
                    "or cut off; restore both, or start again with a new checkpointLocation and a new output path"
                )

    def _missing_entries(
        self, position: SparkPosition, files: Collection[str], numbers: Sequence[int] | None
    ) -> Iterator[str]:
        """Paths of the entries that the file sources among the query's must have and have not.

        The log of such a source has an entry per number up to the one that the position names, and beyond that if the
        query went further.  Now and then Spark writes all that there are once more into ``<number>.compact``, instead
        of that number's own entry; those before it are removed later.
        """
        lines = position.offset_entry.splitlines()[2:]
        needed_by = dict(zip(range(len(lines)) if numbers is None else numbers, map(_log_offset, lines), strict=False))
        for source, needed in needed_by.items():
            if needed is None:
                continue
            folder = f"{self._folder}/sources/{source}"
            single: set[int] = set()
            compact: set[int] = set()
            for path in files:
                match = _SOURCE_ENTRY.match(path[len(folder) + 1 :]) if path.startswith(f"{folder}/") else None
                if match is not None:
                    (compact if match[2] else single).add(int(match[1]))
            last = max([needed, *single, *compact])
            first = max(compact, default=-1) + 1
            missing = [number for number in range(first, last + 1) if number not in single]
            leading = next((place for place, number in enumerate(missing) if number != place), len(missing))
            if leading > 1:  # that so many got lost is less likely than that one had stood for all of them
                yield f"{folder}/{leading - 1}.compact"
            yield from (f"{folder}/{number}" for number in missing)

    def _lost(self, path: str, what: str) -> CorruptStateError:
        return CorruptStateError(
            f"{path} is missing, {what}: without it rows would be read again or left out. Restore it (a savepoint has"
            " a copy of what was there when it was taken), or start again with a new checkpointLocation and a new"
            " output path"
        )

    def _restore(self, log: str, batch_id: BatchId, content: bytes, *, exactly: bool = False) -> None:
        """Write an entry if it is missing or damaged (or, with ``exactly``, if it says anything else)."""
        if self._exists(log, batch_id):
            found = read_bytes(self._filesystem, f"{self._folder}/{log}/{batch_id}")
            if self._is_sound(log, batch_id, found) and (found == content if exactly else _alike(found, content)):
                return
        self._filesystem.create_dir(f"{self._folder}/{log}", recursive=True)
        delete_quietly(self._filesystem, f"{self._folder}/{log}/.{batch_id}.crc")
        write_atomically(self._filesystem, f"{self._folder}/{log}/{batch_id}", content)

    def _exists(self, log: str, batch_id: BatchId) -> bool:
        return exists(self._filesystem, f"{self._folder}/{log}/{batch_id}")

    def _is_sound(self, log: str, batch_id: BatchId, content: bytes) -> bool:
        """False if Hadoop's checksum file beside the entry, where there is one, does not fit: Spark refuses it then."""
        path = f"{self._folder}/{log}/.{batch_id}.crc"
        return not exists(self._filesystem, path) or read_bytes(self._filesystem, path) == crc_file(content)


def _write_beside(path: str, content: bytes) -> None:
    """Write a file that is there as a whole or not at all.  Not durably: without it an entry is only not checked."""
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    Path(temporary).write_bytes(content)
    os.replace(temporary, path)


def is_unfinished(name: str) -> bool:
    """True for a file that Spark renames to an entry once it is written, and for the checksum file of such a one."""
    return name.removesuffix(".crc").endswith(".tmp")


def crc_file(content: bytes) -> bytes:
    """What Hadoop's checksum file of a small file holds: a mark, the chunk size, the CRC-32 of each chunk."""
    chunks = [content[start : start + _CRC_CHUNK_BYTES] for start in range(0, len(content), _CRC_CHUNK_BYTES)]
    return b"crc\0" + _CRC_CHUNK_BYTES.to_bytes(4, "big") + b"".join(zlib.crc32(c).to_bytes(4, "big") for c in chunks)


def _alike(found: bytes, entry: bytes) -> bool:
    """True if a log entry looks whole: a version, as many lines as another one of its log, ended as that one is."""
    lines, wanted = found.split(b"\n"), entry.split(b"\n")
    return found[:1] == b"v" and len(lines) == len(wanted) and found[-1:] == entry[-1:]


def _log_offset(line: str) -> int | None:
    """The number of the last entry that a file source has read, by its line of the query's offsets; None: it has read
    nothing, or is a source of another kind."""
    try:
        body = json.loads(line)
    except ValueError:
        return None
    if not isinstance(body, dict) or set(body) != {"logOffset"}:
        return None
    number = body["logOffset"]
    return number if isinstance(number, int) and number >= 0 else None
