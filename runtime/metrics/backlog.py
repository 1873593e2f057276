"""How far a backlog has come, from what its tasks report while they run, and Spark says of them."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from pyarrow import fs

from ..platform.filesystem import delete_quietly, list_files, read_bytes
from .listeners import BacklogMoved, FactListener

logger = logging.getLogger(__name__)

#: Time between two looks at what tasks report: on this machine's disks, and elsewhere, where looking costs requests.
_PERIOD_S, _PERIOD_ELSEWHERE_S = 1.0, 5.0


class BacklogProgress:
    """The driver's side: sums what the tasks of the current sorted pass report.

    Args:
        filesystem: of the folder.
        folder: where tasks leave what they report.
        listener: is told while a pass runs, from a thread of its own, and at its end; None: nobody is.
    """

    def __init__(self, filesystem: fs.FileSystem, folder: str, listener: FactListener | None = None) -> None:
        self._filesystem = filesystem
        self.folder = folder
        self._listener = listener
        self._lock = threading.Lock()
        #: Ends the telling of the pass that runs; None: none runs.
        self._over: threading.Event | None = None
        self._told: dict[str, Any] = {}
        self._stage = ""
        self.total_rows: int | None = None
        self.shards = 0
        self._spark_tasks: Callable[[], tuple[int, int]] | None = None
        self._reached = 0.0
        self._started = time.monotonic()

    def begin(
        self,
        total_rows: int | None,
        shards: int,
        spark_tasks: Callable[[], tuple[int, int]] | None = None,
        *,
        stage: str = "",
    ) -> None:
        """A sorted pass starts.

        Args:
            total_rows: that it has; None: that is not known.
            shards: how many tasks report.
            spark_tasks: asked for the tasks that Spark has done for the pass, and for all that it knows of, where it
                does a part of the work itself.
            stage: whose pass it is.
        """
        delete_quietly(self._filesystem, self.folder)
        self.total_rows, self.shards, self._spark_tasks = total_rows, shards, spark_tasks
        self._reached = 0.0
        self._started = time.monotonic()
        self._stage, self._told = stage, {}
        if self._listener is not None:
            self._over = threading.Event()
            threading.Thread(target=self._tell, args=(self._over,), name="mixedmode-backlog", daemon=True).start()

    @property
    def has_begun(self) -> bool:
        """Whether a task of the pass has begun with its shard."""
        return bool(list_files(self._filesystem, self.folder))

    def end(self, *, succeeded: bool = True) -> None:
        """The sorted pass is over."""
        self._end_telling(succeeded)
        delete_quietly(self._filesystem, self.folder)

    def _tell(self, over: threading.Event) -> None:
        local = isinstance(self._filesystem, fs.LocalFileSystem)
        while not over.is_set():
            try:
                snapshot = self.snapshot()
            except Exception as error:  # Spark is gone, say: the run finds out by itself
                logger.info("the progress of the backlog is unknown: %s", error)
                return
            with self._lock:
                if not over.is_set() and self._listener is not None:
                    self._told = snapshot
                    self._listener.on(BacklogMoved(self._stage, snapshot))
            over.wait(_PERIOD_S if local else _PERIOD_ELSEWHERE_S)

    def _end_telling(self, succeeded: bool) -> None:
        """Tell the last of the pass, which needs no look at its files."""
        if self._listener is None or self._over is None:
            return
        with self._lock:
            self._over.set()
        self._over = None
        if succeeded:
            elapsed_s = max(time.monotonic() - self._started, 1e-3)
            rows = self._told.get("rows", 0) if self.total_rows is None else self.total_rows
            at_its_end = {
                "rowsRead": max(rows, self._told.get("rowsRead", 0)),
                "rows": rows,
                "totalRows": self.total_rows,
                "fraction": 1.0,
                "rowsPerSecond": rows / elapsed_s,
                "etaSeconds": 0.0,
                "shardsDone": self.shards,
                "shards": self.shards,
                "spilledBytes": self._told.get("spilledBytes", 0),
                "elapsedSeconds": elapsed_s,
            }
            self._listener.on(BacklogMoved(self._stage, at_its_end))

    def snapshot(self) -> dict[str, Any]:
        """Rows read, rows done, rows/s, shards done, bytes spilled; the fraction that is done, and an ETA.

        Where the number of rows is not known the fraction is told by tasks, and no ETA is made up.
        """
        sums: Counter[str] = Counter()
        has_begun = False
        with contextlib.suppress(OSError, ValueError):  # a file that is being replaced: the next look will see it
            for info in list_files(self._filesystem, self.folder):
                sums.update(json.loads(read_bytes(self._filesystem, info.path)))
                has_begun = True
        elapsed_s = max(time.monotonic() - self._started, 1e-3)
        fraction, eta_s = None, None
        if self.total_rows:
            # A sorting task reads all of its rows before the first is done: both halves count.
            fraction = min((sums["read"] + sums["rows"]) / (2 * self.total_rows), 1.0)
            eta_s = elapsed_s * (1 - fraction) / fraction if fraction else None
        elif self.shards:
            fraction = self._told_by_tasks(sums["done"], has_begun)
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

    def _told_by_tasks(self, shards_done: int, has_begun: bool) -> float:
        """What comes before the shards is one half, these are the other; what Spark knows of grows, a fraction may not
        fall."""
        spark_tasks, fraction = self._spark_tasks, min(shards_done / self.shards, 1.0)
        if spark_tasks is not None:
            done, known = (1, 1) if has_begun else spark_tasks()
            fraction = (fraction + (done / known if known else 0.0)) / 2
        self._reached = max(self._reached, fraction)
        return self._reached
