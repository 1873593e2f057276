"""Computes the progress of a backlog from what its tasks report while they run, and from Spark's metrics of them."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyarrow import fs

from ..catalyst.spark_cluster import JobWork
from ..storage.filesystem import delete_quietly, list_files, progress_interval_s, read_bytes
from ..tasks.progress import SCAN
from .events.facts import BacklogMoved, FactListener
from .pass_costs import Rows
from .remaining_time import Pace, PassSeen

logger = logging.getLogger(__name__)

#: So long after a look that failed comes the next.
_RETRY_S = 1.0
#: So many looks in a row may fail: one asks Spark for stages that it may just be forgetting.
_MOST_FAILURES = 5
#: How long a pass runs before anybody looks.
_FIRST_S = 0.5


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
        #: Held by whoever looks: the thread that tells of the pass, or somebody who asks for the status.
        self._looking = threading.Lock()
        #: Ends the telling of the pass that runs; None: none runs.
        self._over: threading.Event | None = None
        self._reported: dict[str, Any] = {}
        #: What each task that scans files reports: rows read and kept, and its part of the whole scan that is done.
        self._scanned: dict[str, dict[str, float]] = {}
        #: What each attempt on a shard reports: rows taken in and processed, bytes spilled, whether it is done.
        self._shard_reports: dict[str, dict[str, int]] = {}
        self._stage = ""
        self.total_rows: int | None = None
        self.shards = 0
        self._work: Callable[[], JobWork] | None = None
        self._is_aggregated = self._by_spark = False
        self._kind = ""
        #: Whether shards wait until others are done.
        self._waits = False
        self._pace = Pace()
        self._started = time.monotonic()

    def begin(
        self,
        total_rows: int | None,
        shards: int,
        work: Callable[[], JobWork] | None = None,
        *,
        is_aggregated: bool = False,
        by_spark: bool = False,
        stage: str = "",
        kind: str = "",
        rows: Rows = "sorted",
    ) -> None:
        """A sorted pass starts.

        Args:
            total_rows: that it has; None: that is not known.
            shards: how many tasks report.
            work: asked for what Spark's tasks have done for the pass; None: Spark does not tell.
            is_aggregated: a row that a shard gets stands for some of the rows that are read.
            by_spark: shards get what Spark has made of the rows; how many that will be nobody knows.
            stage: whose pass it is.
            kind: of its operator.
            rows: who brings them to it, unless tasks scan files.
        """
        delete_quietly(self._filesystem, self.folder)
        self.total_rows, self.shards, self._work = total_rows, shards, work
        self._is_aggregated, self._by_spark = is_aggregated, by_spark
        self._kind, self._pace = kind, Pace(rows, kind)
        self._started = time.monotonic()
        self._stage, self._reported, self._scanned, self._shard_reports = stage, {}, {}, {}
        self._waits = False
        if self._listener is not None:
            self._over = threading.Event()
            threading.Thread(target=self._report, args=(self._over,), name="mixedmode-backlog", daemon=True).start()

    @property
    def has_begun(self) -> bool:
        """Whether a task of the pass has begun with its shard."""
        return any(not info.base_name.startswith(SCAN) for info in list_files(self._filesystem, self.folder))

    def end(self, *, succeeded: bool = True) -> None:
        """The sorted pass is over."""
        self._end_telling(succeeded)
        delete_quietly(self._filesystem, self.folder)

    def _report(self, over: threading.Event) -> None:
        over.wait(_FIRST_S)  # a pass that is over by then is not disturbed by some forty calls to the JVM
        failures = 0
        while not over.is_set():
            try:
                snapshot = self.snapshot()
                failures = 0
            except Exception as error:  # Spark is gone, say: the run finds out by itself
                failures += 1
                if failures == _MOST_FAILURES:
                    logger.info("the progress of the backlog is unknown: %s: %s", type(error).__name__, error)
                    return
                over.wait(_RETRY_S)
                continue
            with self._lock:
                if not over.is_set() and self._listener is not None:
                    self._reported = snapshot
                    self._listener.on(BacklogMoved(self._stage, snapshot))
            over.wait(progress_interval_s(self._filesystem))

    def _end_telling(self, succeeded: bool) -> None:
        """Tell the last of the pass, which needs no look at its files."""
        if self._listener is None or self._over is None:
            return
        with self._lock:
            self._over.set()
        self._over = None
        if succeeded:
            elapsed_s = max(time.monotonic() - self._started, 1e-3)
            rows = self._reported.get("rows", 0) if self.total_rows is None else self.total_rows
            at_its_end = {
                "rowsRead": max(rows, self._reported.get("rowsRead", 0)),
                "rowsShuffled": self._reported.get("rowsShuffled", 0),
                "rows": rows,
                "totalRows": self.total_rows,
                "fraction": 1.0,
                "rowsPerSecond": rows / elapsed_s,
                "etaSeconds": 0.0,
                "etaRangeSeconds": (0.0, 0.0),
                "shardsDone": self.shards,
                "shards": self.shards,
                "spilledBytes": self._reported.get("spilledBytes", 0),
                "elapsedSeconds": elapsed_s,
            }
            self._listener.on(BacklogMoved(self._stage, at_its_end))

    def snapshot(self) -> dict[str, Any]:
        """Rows read, shuffled and done, rows/s, shards done, bytes spilled; the fraction that is done, and an ETA.

        They are None until something has been measured: no bar stands at 0 %, and no ETA is made up.  As long as one
        number for the ETA would often be more than 30 % wrong there is a range, and none where that is too wide.
        """
        with self._looking:
            self._read_reports()
            reports = list(self._shard_reports.values())
            sums: Counter[str] = Counter()
            for report in reports:
                sums.update(report)
            if self._scanned:
                self._pace.rows = "scanned"
            work = JobWork() if self._work is None else self._work()
            elapsed_s = max(time.monotonic() - self._started, 1e-3)
            fraction, left = self._pace.at(elapsed_s, self._seen(reports, work))
        return {
            "rowsRead": max(sums["read"], work.rows_read, round(self._of_scans("read"))),
            "rowsShuffled": work.rows_shuffled,
            "rows": sums["rows"],
            "totalRows": self.total_rows,
            "fraction": fraction,
            "rowsPerSecond": sums["rows"] / elapsed_s,
            "etaSeconds": None if left is None else left.eta_s,
            "etaRangeSeconds": None if left is None else left.range_s,
            "shardsDone": sums["done"],
            "shards": self.shards,
            "spilledBytes": sums["spilledBytes"],
            "elapsedSeconds": elapsed_s,
        }

    def _read_reports(self) -> None:
        """Take what tasks report; what is being replaced is as it was at the last look, what is gone is forgotten."""
        with contextlib.suppress(OSError):
            found = list_files(self._filesystem, self.folder)
            names = {info.base_name for info in found}
            for kept in (self._scanned, self._shard_reports):
                for gone in kept.keys() - names:
                    del kept[gone]
            for info in found:
                with contextlib.suppress(OSError, ValueError):
                    its: dict[str, Any] = self._scanned if info.base_name.startswith(SCAN) else self._shard_reports
                    its[info.base_name] = json.loads(read_bytes(self._filesystem, info.path))

    def _of_scans(self, what: str) -> float:
        return sum(counts[what] for counts in self._scanned.values())

    def _seen(self, reports: Sequence[Mapping[str, int]], work: JobWork) -> PassSeen:
        """How far the pass is."""
        written, handed = None, 1.0
        if self._scanned:  # such tasks tell Spark nothing before they end
            before: float | None = min(self._of_scans("part"), 1.0)
            written = min(self._of_scans("writtenPart"), 1.0)
            handed = self._of_scans("handed") / max(self._of_scans("read"), 1)
        else:
            before = work.tasks_done / work.tasks if work.tasks else None
            if work.tasks_done and work.rows_read:
                # Spark counts the rows of a task's shuffle when it ends.
                handed = work.rows_shuffled * work.tasks / work.tasks_done / work.rows_read
            if self.total_rows and work.rows_read:
                before = min(work.rows_read / self.total_rows, 1.0)
        if not reports or not self.shards:
            return PassSeen(before, written, handed)
        return PassSeen(before, written, handed, min(len(reports) / self.shards, 1.0), *self._of_shards(reports, work))

    def _of_shards(self, reports: Sequence[Mapping[str, int]], work: JobWork) -> tuple[float, float]:
        """The parts of the rows that shards have taken in, and that the operator is done with."""
        total = self.total_rows
        if self._scanned and self._kind == "join":
            total = None  # what shards get of runs is the rows that it gives
        elif self._scanned:
            total = round(self._of_scans("kept")) + work.rows_read
        elif not total and not self._by_spark:
            # Rows that are aggregated are fewer, and stand for those that were read.
            total = work.rows_read if self._is_aggregated else work.rows_shuffled
        self._waits |= len(reports) < self.shards and any(report["done"] for report in reports)
        are_all_in = all(report.get("all") for report in reports)
        if are_all_in and len(reports) >= self.shards:
            total = sum(report["read"] for report in reports)
        if not total:
            return 0.0, 0.0
        of_all = [min(sum(report[what] for report in reports) / total, 1.0) for what in ("read", "rows")]
        if self._waits or len(reports) < self.shards or not all(report["rows"] for report in reports):
            return of_all[0], of_all[1]
        # All work at once: the one with most to do decides when the pass ends, but gets what the others leave.
        each = total / self.shards
        wholes = [report["read"] if report.get("all") else max(report["read"], each) for report in reports]
        most = max(max(wholes), 1)
        rests = [
            max(whole - report[what] for whole, report in zip(wholes, reports, strict=True)) / most
            for what in ("read", "rows")
        ]
        return (of_all[0] + 1 - rests[0]) / 2, (of_all[1] + 1 - rests[1]) / 2
