"""What a query tells about itself: progress records with Spark's field names plus ours, and live backlog counts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from pyarrow import fs

from .filesystem import delete_quietly, list_files, read_bytes

#: How often a task reports its row count while a sorted pass runs.
_REPORT_EVERY_S = 0.5


class QueryProgress(dict[str, Any]):
    """One finished epoch, as a dictionary whose entries are also attributes (like Spark's StreamingQueryProgress)."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def json(self) -> str:
        return json.dumps(self)

    @property
    def prettyJson(self) -> str:
        return json.dumps(self, indent=2)


def timestamp(ms: int | None = None) -> str:
    """ISO-8601 with milliseconds in UTC, as Spark prints them."""
    moment = datetime.fromtimestamp((time.time() * 1000 if ms is None else ms) / 1000, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class TaskProgress:
    """A task's side of live progress: a small file per attempt with the number of rows taken so far.

    Files, not sockets: they work wherever the checkpoint location works, and losing one costs nothing.
    """

    def __init__(self, filesystem: fs.FileSystem, folder: str, attempt: str) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._path = f"{folder}/{attempt}"
        self.rows = 0
        self._written_at = 0.0

    def counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, counted as they are taken."""
        for batch in batches:
            yield batch
            self.rows += batch.num_rows
            if time.monotonic() - self._written_at > _REPORT_EVERY_S:
                self.write()

    def write(self, done: bool = False) -> None:
        """Report now; never raises, since progress must not fail a task."""
        self._written_at = time.monotonic()
        try:
            self._filesystem.create_dir(self._folder, recursive=True)
            with self._filesystem.open_output_stream(self._path) as stream:
                stream.write(json.dumps({"rows": self.rows, "done": done}).encode())
        except OSError:
            pass


class BacklogProgress:
    """The driver's side: sums what the tasks of the current sorted pass report."""

    def __init__(self, filesystem: fs.FileSystem, folder: str) -> None:
        self._filesystem = filesystem
        self.folder = folder
        self.total_rows: int | None = None
        self.shards = 0
        self._started = time.monotonic()

    def begin(self, total_rows: int | None, shards: int) -> None:
        """A sorted pass starts."""
        delete_quietly(self._filesystem, self.folder)
        self.total_rows, self.shards = total_rows, shards
        self._started = time.monotonic()

    def end(self) -> None:
        """The sorted pass is over."""
        delete_quietly(self._filesystem, self.folder)

    def snapshot(self) -> dict[str, Any]:
        """Rows so far, rows/s, total and ETA where known, shards done."""
        rows, done = 0, 0
        try:
            for info in list_files(self._filesystem, self.folder):
                body = json.loads(read_bytes(self._filesystem, info.path))
                rows += body["rows"]
                done += body["done"]
        except (OSError, ValueError):
            pass  # a file that is being replaced: the next look will see it
        elapsed_s = max(time.monotonic() - self._started, 1e-3)
        rate = rows / elapsed_s
        eta_s = None
        if self.total_rows is not None and rate > 0:
            eta_s = max(self.total_rows - rows, 0) / rate
        return {
            "rows": rows,
            "totalRows": self.total_rows,
            "rowsPerSecond": rate,
            "etaSeconds": eta_s,
            "shardsDone": done,
            "shards": self.shards,
            "elapsedSeconds": elapsed_s,
        }
