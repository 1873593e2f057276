"""Writes the event log of one run below its checkpoint location, so that what happened last night is there tomorrow.

Invariants:
- Nothing here can fail a job, nor is waited for by one: it runs on a thread of its own, what it cannot write is lost,
  and that is logged.
- A file of another run is only ever removed, and the oldest ones are first.
- It stays within its size: of epochs that come often one line a second is written; parts that have grown old are
  folded into fewer lines, again and again, so a month of a stream is told by the hour and its last minutes by the
  second; what is still too much goes, the oldest first.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from ...storage.filesystem import delete_quietly, is_local_disk, write_atomically
from .event_files import EventFile, HistoryFolder, RunFolder, whole_lines
from .event_fold import Folder, folded
from .event_json import of_line, to_line
from .events import RunBegan, RunEvent
from .run_listener import is_routine

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LogLimits:
    """How large the log may become, and how much detail it has."""

    #: Of all runs of a location together.
    total_bytes: int = 64 << 20
    #: Of one part; where files cannot grow, and are written anew instead, of a smaller one.
    part_bytes: int = 1 << 20
    rewritten_part_bytes: int = 256 << 10
    #: Parts of one level that are kept before the oldest ones become one of the next level, and how many do.
    parts_of_a_level: int = 8
    parts_in_one: int = 4
    #: The stretches of time in which there is one line of each kind: of a part as it is written, and by level of those
    #: that were made of several.
    window_ms: int = 1_000
    windows_ms: tuple[int, ...] = (60_000, 900_000, 3_600_000)
    #: Runs whose folders are kept.
    runs: int = 200
    #: Where files are written anew: how long news waits, and how long news that comes often does.
    news_s: float = 1.0
    routine_s: float = 15.0

    def window_of(self, level: int) -> int:
        """The stretch of a level."""
        if level == 0:
            return self.window_ms
        known = self.windows_ms
        return known[level - 1] if level <= len(known) else known[-1] * self.parts_in_one ** (level - len(known))


class EventLog:
    """The log of one run; every method is called on one thread.

    Args:
        folder: of all runs.
        run: that of this run.
        limits: how large it may become.
        now_ms: the wall clock.
        clock_s: a monotonic clock.
    """

    def __init__(
        self,
        folder: HistoryFolder,
        run: RunFolder,
        limits: LogLimits | None = None,
        *,
        now_ms: Callable[[], int] = lambda: round(time.time() * 1000),
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._run, self._limits = folder, run, limits or LogLimits()
        self._now_ms, self._clock_s = now_ms, clock_s
        self._filesystem = folder.filesystem
        self._grows = is_local_disk(self._filesystem)
        self._fold = Folder(self._limits.window_ms)
        self._began: bytes = b""
        self._number = 0
        self._file: BinaryIO | None = None
        #: Lines of the current part (of one that is written anew), and its size.
        self._lines: list[bytes] = []
        self._size = 0
        #: When the current part is to be written, by the monotonic clock; None: it is as it should be.
        self._due_s: float | None = None
        self._failures = 0

    # -- what the mailbox calls --------------------------------------------------------------------------------------

    def take(self, event: RunEvent) -> None:
        """Another event."""
        if isinstance(event, RunBegan):
            self._began = to_line(event)
        self._guarded(lambda: self._write(self._fold.take(event)))

    def idle(self) -> float | None:
        """Write what has waited long enough; returns the seconds until the next such moment, None: there is none."""
        self._guarded(lambda: self._write(self._fold.flush(self._now_ms())))
        if self._due_s is not None and self._clock_s() >= self._due_s:
            self._guarded(self._put)
        waits = []
        if (next_ms := self._fold.next_ms) is not None:
            waits.append((next_ms - self._now_ms()) / 1000)
        if self._due_s is not None:
            waits.append(self._due_s - self._clock_s())
        return max(min(waits), 0.01) if waits else None

    def flush(self) -> None:
        """Write all there is."""
        self._guarded(lambda: self._write(self._fold.flush()))
        if self._due_s is not None:
            self._guarded(self._put)

    def close(self) -> None:
        """The run has ended."""
        self.flush()
        self._close_part()

    def _close_part(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    # -- writing -----------------------------------------------------------------------------------------------------

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._failures += 1
            if self._failures == 1:
                logger.warning(
                    "events of the run cannot be written to %s; the job continues without them: %s",
                    self._run.path,
                    error,
                )
            self._begin_anew()

    def _begin_anew(self) -> None:
        """What comes next goes to another part: the last line of this one may be torn."""
        self._close_part()
        self._due_s = None
        # Where nothing was written, the next try has it all, unless it has become too much.
        if self._grows or self._size >= self._part_bytes:
            self._lines, self._size = [], 0
        elif self._lines:
            self._due_s = self._clock_s() + self._limits.routine_s

    @property
    def _part_bytes(self) -> int:
        return self._limits.part_bytes if self._grows else self._limits.rewritten_part_bytes

    def _write(self, events: list[RunEvent]) -> None:
        if not events:
            return
        if self._size >= self._part_bytes:
            self._rotate()
        if self._size == 0:
            self._begin_part()
        lines = [to_line(event) for event in events if not (self._size and isinstance(event, RunBegan))]
        data = b"".join(lines)
        self._size += len(data)
        if self._grows:
            if self._file is None:
                self._file = open(self._run.part(self._number), "ab")  # noqa: SIM115
            self._file.write(data)
            self._file.flush()
            return
        self._lines += lines
        patience_s = self._limits.routine_s if all(map(is_routine, events)) else self._limits.news_s
        due_s = self._clock_s() + patience_s
        self._due_s = due_s if self._due_s is None else min(self._due_s, due_s)

    def _begin_part(self) -> None:
        """Each part begins with what the run is, so that it can be read without those before."""
        if self._number == 0:
            self._filesystem.create_dir(self._run.path, recursive=True)
            self._remove_old_runs()
        self._number += 1
        self._size, self._lines = len(self._began), [self._began]
        if self._grows:
            self._file = open(self._run.part(self._number), "ab")  # noqa: SIM115
            self._file.write(self._began)

    def _put(self) -> None:
        """Write the current part anew."""
        write_atomically(self._filesystem, self._run.part(self._number), b"".join(self._lines))
        self._due_s = None

    def _rotate(self) -> None:
        if self._due_s is not None:
            self._put()
        if self._file is not None:
            self._file.close()
        self._file, self._lines, self._size = None, [], 0
        self._thin_out()
        self._remove_old_runs()

    # -- staying small -----------------------------------------------------------------------------------------------

    def _thin_out(self) -> None:
        """Fold old parts of this run into fewer."""
        found = self._run.all_parts()
        parts = [part for part in found if not any(other.covers(part) for other in found)]
        for part in found:
            if part not in parts:
                delete_quietly(self._filesystem, part.path)  # left by a fold that was cut short
        level = 0
        while any(part.level >= level for part in parts):
            same = [part for part in parts if part.level == level]
            if len(same) > self._limits.parts_of_a_level:
                old = same[: self._limits.parts_in_one]
                self._fold_parts(old, level + 1)
                parts = self._run.parts()
            level += 1
        total = sum(part.size_bytes for part in parts)
        for part in parts[:-1]:
            if total <= self._limits.total_bytes // 2:
                break
            delete_quietly(self._filesystem, part.path)
            total -= part.size_bytes

    def _fold_parts(self, parts: list[EventFile], level: int) -> None:
        """Make one part of several that follow each other."""
        contents = [self._filesystem.open_input_stream(part.path).read() for part in parts]
        read = [event for data in contents for line in whole_lines(data) if (event := of_line(line)) is not None]
        rest = [event for event in read if not isinstance(event, RunBegan)]
        lines = [self._began, *map(to_line, folded(rest, self._limits.window_of(level)))]
        path = self._run.part(parts[0].first, parts[-1].last, level)
        write_atomically(self._filesystem, path, b"".join(lines))
        for part in parts:
            delete_quietly(self._filesystem, part.path)

    def _remove_old_runs(self) -> None:
        """Remove the oldest runs while there are too many, or too large ones; this one and later ones stay."""
        runs = [run for run in self._folder.runs() if (run.started, run.run_id) < (self._run.started, self._run.run_id)]
        sizes = self._folder.sizes() if runs else {}
        total, count = sum(sizes.values()), len(runs) + 1
        for run in runs:
            if count <= self._limits.runs and total <= self._limits.total_bytes:
                break
            delete_quietly(self._filesystem, run.path)
            total, count = total - sizes.get(run.path, 0), count - 1
