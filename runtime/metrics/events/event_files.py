"""Names the files of a job's event log, ``<checkpointLocation>/mixedmode/history``.

::

    20260101T000000000Z-<run id>/part-000001.jsonl               lines of one run, as they were written
    20260101T000000000Z-<run id>/part-000002-000005-l1.jsonl     what has become of parts 2 to 5, with fewer lines

One folder for each run, so no two drivers have a file in common.  A part only grows, by whole lines but for the last
one of a driver that was killed.  Old parts of a long run become one that has less to say of each epoch
(:mod:`.event_log`); where both are there, since that was cut short, the one that replaces counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from pyarrow import fs

from ...storage.filesystem import list_files, read_bytes

#: Name of the folder below ``<checkpointLocation>/mixedmode``.
HISTORY = "history"
_RUN = re.compile(r"(\d{8}T\d{9}Z)-([0-9A-Za-z-]+)")
_PART = re.compile(r"part-(\d{6,})(?:-(\d{6,})-l(\d+))?\.jsonl")
#: How often a folder is listed anew whose parts are being replaced while they are read.
_TRIES = 20


@dataclass(frozen=True, order=True)
class EventFile:
    """A file of events."""

    #: The first and the last of the parts whose events it has.
    first: int
    last: int
    #: How often it was made of several; 0: never.
    level: int
    path: str
    size_bytes: int
    #: When it was last written; 0: the store does not say.
    written_ms: int = 0

    def covers(self, other: EventFile) -> bool:
        """Whether it was made of the other one."""
        return self.level > other.level and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    filesystem: fs.FileSystem
    path: str
    #: When the run was started, as in the folder's name.
    started: str
    run_id: str

    def part(self, first: int, last: int | None = None, level: int = 0) -> str:
        """Path of a part.

        Args:
            first: its number, or the first of those that it replaces.
            last: the last of those.
            level: how often it was made of several.
        """
        numbers = f"{first:06d}" if last is None else f"{first:06d}-{last:06d}-l{level}"
        return f"{self.path}/part-{numbers}.jsonl"

    def parts(self) -> list[EventFile]:
        """The parts that count, oldest first."""
        found = self.all_parts()
        return [part for part in found if not any(other.covers(part) for other in found)]

    def all_parts(self) -> list[EventFile]:
        """All parts that are there, oldest first."""
        found = []
        for info in list_files(self.filesystem, self.path):
            match = _PART.fullmatch(info.base_name)
            if match is not None and info.type == fs.FileType.File:
                first = int(match[1])
                last, level = (first, 0) if match[2] is None else (int(match[2]), int(match[3]))
                written_ms = 0 if info.mtime_ns is None else info.mtime_ns // 1_000_000
                found.append(EventFile(first, last, level, info.path, info.size or 0, written_ms))
        return sorted(found)

    def read(self, since_ms: int | None = None, since_part: int = 0) -> list[tuple[EventFile, bytes]]:
        """The content of the parts that count, oldest first.

        Args:
            since_ms: parts that were last written before this moment are left out; None: none is.
            since_part: parts before this number are left out.

        Raises:
            OSError: it cannot be read.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                return [
                    (part, read_bytes(self.filesystem, part.path))
                    for part in self.parts()
                    if part.last >= since_part
                    and (since_ms is None or not part.written_ms or part.written_ms >= since_ms)
                ]
            except FileNotFoundError:  # it was replaced since the folder was listed
                if not tries_left:
                    raise
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class HistoryFolder:
    """The folder of all runs."""

    filesystem: fs.FileSystem
    #: The folder ``mixedmode`` of the checkpoint location.
    root: str

    @property
    def path(self) -> str:
        return f"{self.root}/{HISTORY}"

    def runs(self) -> list[RunFolder]:
        """The runs that have left something, oldest first."""
        found = []
        for info in list_files(self.filesystem, self.path):
            match = _RUN.fullmatch(info.base_name)
            if match is not None and info.type == fs.FileType.Directory:
                found.append(RunFolder(self.filesystem, info.path, match[1], match[2]))
        return sorted(found, key=lambda run: (run.started, run.run_id))

    def sizes(self) -> dict[str, int]:
        """Bytes by path of the run's folder."""
        found: dict[str, int] = {}
        for info in list_files(self.filesystem, self.path, recursive=True):
            if info.type == fs.FileType.File:
                folder = info.path.rpartition("/")[0]
                found[folder] = found.get(folder, 0) + (info.size or 0)
        return found

    def run(self, run_id: str, started_ms: int) -> RunFolder:
        """The folder of a run that begins."""
        moment = datetime.fromtimestamp(started_ms / 1000, timezone.utc)
        started = f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}Z"
        return RunFolder(self.filesystem, f"{self.path}/{started}-{run_id}", started, run_id)


def whole_lines(data: bytes) -> Sequence[bytes]:
    """The lines of a part that have an end; what a killed driver has left behind the last one is none."""
    return data[: data.rfind(b"\n") + 1].splitlines()
