"""Reports the progress of a sorted pass from its tasks: a small file per attempt, which the driver sums up."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

#: Names of reports of tasks that scan files, before there are shards' tasks, begin so.
SCAN = "scan-"
#: How often a task reports its row count while a sorted pass runs.
_REPORT_EVERY_S = 0.5
#: So many rows at most are handed to the operator between two counts, and so many at first.
_MOST_ROWS, _FIRST_ROWS = 1 << 18, 64
#: The next piece has at most so many times the rows of the one before.
_GROWTH = 4


class TaskProgress:
    """A task's side of live progress: a small file per attempt with what it has done so far.

    Files, not sockets: they work wherever the checkpoint location works, and losing one costs nothing.

    Args:
        filesystem: where ``folder`` is.
        folder: where the attempts of one sorted pass report.
        attempt: name of this attempt.
        rows_column: column with the number of input rows that a row stands for; None: each stands for itself.
    """

    def __init__(self, filesystem: fs.FileSystem, folder: str, attempt: str, rows_column: str | None) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._path = f"{folder}/{attempt}"
        self._rows_column = rows_column
        self._written_at = 0.0
        self._counts = {"read": 0, "rows": 0, "spilledBytes": 0, "all": 0, "done": 0}

    def reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, counted as rows that the task has taken in."""
        self.write()
        for batch in batches:
            self._count("read", batch)
            yield batch
        self._counts["all"] = 1
        self.write()

    def processing(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows, counted as those that the operator is done with.

        A shard may come as one batch, and a user's code may take a second for a row: pieces get as many rows as the
        operator processes between two reports. Health checks take a job for stalled that reports no rows.
        """
        most = _FIRST_ROWS
        for batch in batches:
            start = 0
            while True:
                piece = batch.slice(start, most)
                start += piece.num_rows
                began_at = time.monotonic()
                yield piece
                took_s = time.monotonic() - began_at
                self._count("rows", piece)
                if piece.num_rows:
                    by_time = int(piece.num_rows * _REPORT_EVERY_S / max(took_s, 1e-6))
                    most = min(max(by_time, 1), most * _GROWTH, _MOST_ROWS)
                if start >= batch.num_rows:
                    break

    def processed(self, batch: pa.RecordBatch) -> None:
        """The operator is done with these rows."""
        self._count("rows", batch)

    def _count(self, what: str, batch: pa.RecordBatch) -> None:
        rows = batch.num_rows
        if self._rows_column is not None:
            rows = pc.sum(batch.column(self._rows_column)).as_py() or 0
        self._counts[what] += rows
        if time.monotonic() - self._written_at > _REPORT_EVERY_S:
            self.write()

    def spilled(self, spilled_bytes: int) -> None:
        """The sorter has written this much to disk."""
        self._counts["spilledBytes"] = spilled_bytes

    def write(self, *, done: bool = False) -> None:
        """Report now; never raises, since progress must not fail a task."""
        self._written_at = time.monotonic()
        self._counts["done"] = int(done)
        _replace(self._filesystem, self._folder, self._path, self._counts)


class ScanProgress:
    """The same of a task that scans files by itself: rows read, and the part of all that the pass scans.

    Args:
        filesystem: where ``folder`` is.
        folder: where the tasks of the pass report; None: nobody looks.
        name: of the task, the same for each of its attempts: a later one replaces what an earlier one has reported.
        whole_bytes: of all files that the pass scans.
    """

    def __init__(self, filesystem: fs.FileSystem, folder: str | None, name: str, whole_bytes: int) -> None:
        self._filesystem, self._folder = filesystem, folder
        self._path = f"{folder}/{SCAN}{name}"
        self._whole_bytes = max(whole_bytes, 1)
        self._written_at = 0.0
        self._read = self._kept = 0
        #: Rows in runs, and that will be in them of what waits.
        self._handed, self._waiting = 0, 0.0
        #: Of the parts of files that have begun, of what is read of them, and of what is written.
        self._begun_bytes, self._bytes, self._written_bytes = 0, 0.0, 0.0

    def part_begins(self, part_bytes: int) -> Callable[[int, int, float], None]:
        """The next part of a file is read; takes rows that are done, and the share of the part that is.

        Args:
            part_bytes: its size.
        """
        before_bytes = self._begun_bytes
        self._begun_bytes += part_bytes

        def seen(read: int, kept: int, share: float) -> None:
            self._read += read
            self._kept += kept
            self._bytes = before_bytes + share * part_bytes
            if time.monotonic() - self._written_at > _REPORT_EVERY_S:
                self.write()

        return seen

    def waits(self, rows: float) -> None:
        """What came of all that is read and is in no run yet.

        Args:
            rows: that it will be in a run, as far as is known.
        """
        self._waiting = rows

    def written(self, rows: int = 0, kept: int = 0) -> None:
        """What came of all that is read is in a run, or is nothing.

        Args:
            rows: that the run has.
            kept: where only now it is known how many rows are kept, those.
        """
        self._kept += kept
        self._handed += rows
        self._waiting = 0.0
        self._written_bytes = self._bytes
        self.write()

    def write(self) -> None:
        """Report now; never raises."""
        self._written_at = time.monotonic()
        if self._folder is not None:
            counts = {
                "read": self._read,
                "kept": self._kept,
                "handed": self._handed + self._waiting,
                "part": self._bytes / self._whole_bytes,
                "writtenPart": self._written_bytes / self._whole_bytes,
            }
            _replace(self._filesystem, self._folder, self._path, counts)


def _replace(filesystem: fs.FileSystem, folder: str, path: str, counts: Mapping[str, float]) -> None:
    """Write what a task has done; never raises."""
    with contextlib.suppress(OSError):
        filesystem.create_dir(folder, recursive=True)
        with filesystem.open_output_stream(path) as stream:
            stream.write(json.dumps(counts).encode())
