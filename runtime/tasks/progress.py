"""What a query tells about itself: progress records with Spark's field names plus ours, and live backlog counts."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

#: How often a task reports its row count while a sorted pass runs.
_REPORT_EVERY_S = 0.5


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
        self._counts = {"read": 0, "rows": 0, "spilledBytes": 0, "done": 0}

    def reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, counted as rows that the task has taken in."""
        return self._counted(batches, "read")

    def processing(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, counted as rows that the operator is done with."""
        return self._counted(batches, "rows")

    def _counted(self, batches: Iterator[pa.RecordBatch], what: str) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.num_rows
            if self._rows_column is not None:
                rows = pc.sum(batch.column(self._rows_column)).as_py() or 0
            yield batch
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
        with contextlib.suppress(OSError):
            self._filesystem.create_dir(self._folder, recursive=True)
            with self._filesystem.open_output_stream(self._path) as stream:
                stream.write(json.dumps(self._counts).encode())
