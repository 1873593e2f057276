"""How far a backlog has come, from what its tasks report while they run."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from typing import Any

from pyarrow import fs

from ..platform.filesystem import delete_quietly, list_files, read_bytes


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
        """Rows read, rows done, rows/s, shards done, bytes spilled; fraction and ETA where the total is known."""
        sums: Counter[str] = Counter()
        with contextlib.suppress(OSError, ValueError):  # a file that is being replaced: the next look will see it
            for info in list_files(self._filesystem, self.folder):
                sums.update(json.loads(read_bytes(self._filesystem, info.path)))
        elapsed_s = max(time.monotonic() - self._started, 1e-3)
        fraction, eta_s = None, None
        if self.total_rows:
            # A sorting task reads all of its rows before the first is done: both halves count.
            fraction = min((sums["read"] + sums["rows"]) / (2 * self.total_rows), 1.0)
            eta_s = elapsed_s * (1 - fraction) / fraction if fraction else None
        return {
            "rowsRead": sums["read"],
            "rows": sums["rows"],
            "totalRows": self.total_rows,
            "fraction": fraction,
            "rowsPerSecond": sums["rows"] / elapsed_s,
            "etaSeconds": eta_s,
            "shardsDone": sums["done"],
            "shards": self.shards,
            "spilledBytes": sums["spilledBytes"],
            "elapsedSeconds": elapsed_s,
        }
