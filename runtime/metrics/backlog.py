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

from ..catalyst.spark_cluster import JobWork
from ..storage.filesystem import delete_quietly, list_files, read_bytes
from ..tasks.progress import SCAN
from .events.facts import BacklogMoved, FactListener

logger = logging.getLogger(__name__)

#: Time between two looks at what tasks report: on this machine's disks, and elsewhere, where looking costs requests.
_PERIOD_S, _PERIOD_ELSEWHERE_S = 1.0, 5.0
#: How long a pass runs before anybody looks.
_FIRST_S = 0.5
#: The share of a pass's time that reading and shuffling take, until more is known: where Spark aggregates or joins
#: before the shards, or tasks that scan files aggregate, and elsewhere.
_SHARE_EARLY, _SHARE = 0.7, 0.4


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
        #: What each task that scans files reports: rows read and kept, and its part of the whole scan that is done.
        self._scanned: dict[str, dict[str, float]] = {}
        self._stage = ""
        self.total_rows: int | None = None
        self.shards = 0
        self._work: Callable[[], JobWork] | None = None
        self._by_spark = False
        self._pace = Pace(by_spark=False)
        self._started = time.monotonic()

    def begin(
        self,
        total_rows: int | None,
        shards: int,
        work: Callable[[], JobWork] | None = None,
        *,
        by_spark: bool = False,
        stage: str = "",
    ) -> None:
        """A sorted pass starts.

        Args:
            total_rows: that it has; None: that is not known.
            shards: how many tasks report.
            work: asked for what Spark's tasks have done for the pass; None: Spark does not tell.
            by_spark: Spark does a part of the stage's work before rows come to their shards.
            stage: whose pass it is.
        """
        delete_quietly(self._filesystem, self.folder)
        self.total_rows, self.shards, self._work, self._by_spark = total_rows, shards, work, by_spark
        self._pace = Pace(by_spark=by_spark)
        self._started = time.monotonic()
        self._stage, self._told, self._scanned = stage, {}, {}
        if self._listener is not None:
            self._over = threading.Event()
            threading.Thread(target=self._tell, args=(self._over,), name="mixedmode-backlog", daemon=True).start()

    @property
    def has_begun(self) -> bool:
        """Whether a task of the pass has begun with its shard."""
        return any(not info.base_name.startswith(SCAN) for info in list_files(self._filesystem, self.folder))

    def end(self, *, succeeded: bool = True) -> None:
        """The sorted pass is over."""
        self._end_telling(succeeded)
        delete_quietly(self._filesystem, self.folder)

    def _tell(self, over: threading.Event) -> None:
        local = isinstance(self._filesystem, fs.LocalFileSystem)
        over.wait(_FIRST_S)  # a pass that is over by then is not disturbed by some forty calls to the JVM
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
                "rowsShuffled": self._told.get("rowsShuffled", 0),
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
        """Rows read, shuffled and done, rows/s, shards done, bytes spilled; the fraction that is done, and an ETA.

        Both are None until something has been measured: no bar stands at 0 %, and no ETA is made up.
        """
        sums, self._scanned = self._reported()
        has_begun = bool(sums)
        if self._scanned:
            self._pace.scans()
        work = JobWork() if self._work is None else self._work()
        elapsed_s = max(time.monotonic() - self._started, 1e-3)
        inside = self._inside(sums, work) if has_begun else None
        fraction, eta_s = self._pace.at(elapsed_s, self._before(work), inside)
        return {
            "rowsRead": max(sums["read"], work.rows_read, round(self._of_scans("read"))),
            "rowsShuffled": work.rows_shuffled,
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

    def _reported(self) -> tuple[Counter[str], dict[str, dict[str, float]]]:
        """The sums of what the shards' tasks report, empty if none has begun; what each task that scans files does."""
        sums: Counter[str] = Counter()
        scanned = dict(self._scanned)
        with contextlib.suppress(OSError, ValueError):  # a file that is being replaced: the next look will see it
            for info in list_files(self._filesystem, self.folder):
                counts = json.loads(read_bytes(self._filesystem, info.path))
                if info.base_name.startswith(SCAN):
                    scanned[info.base_name] = counts
                else:
                    sums.update(counts)
        return sums, scanned

    def _of_scans(self, what: str) -> float:
        return sum(counts[what] for counts in self._scanned.values())

    def _before(self, work: JobWork) -> float | None:
        """The part of reading and shuffling that is done; None: nothing tells."""
        if self._scanned:  # such tasks tell Spark nothing before they end
            return min(self._of_scans("part"), 1.0)
        if self.total_rows and work.rows_read:
            return min(work.rows_read / self.total_rows, 1.0)
        return work.tasks_done / work.tasks if work.tasks_done else None

    def _inside(self, sums: Counter[str], work: JobWork) -> float:
        """The part of the shards' work that is done."""
        by_shards = min(sums["done"] / self.shards, 1.0) if self.shards else 0.0
        # What Spark has aggregated are fewer rows, which stand for those that it has read.
        total = self.total_rows or (work.rows_read if self._by_spark else work.rows_shuffled)
        if self._scanned:
            total = round(self._of_scans("kept")) + work.rows_read
        if not total:
            return by_shards
        # A sorting task reads all of its rows before the first is done: both halves count.
        return max(by_shards, min((sums["read"] + sums["rows"]) / (2 * total), 1.0))


class Pace:
    """The time that a pass will take yet, from how far its two parts are: what is done before the shards, and they.

    The first part is timed until the shards begin; how long those will take is then a guess by the kind of the stage.
    From there on their own pace counts.

    Args:
        by_spark: Spark does a part of the stage's work in the first part.
    """

    def __init__(self, *, by_spark: bool) -> None:
        self._share = _SHARE_EARLY if by_spark else _SHARE
        #: When the first part and the shards began; None: they have not.
        self._first_s: float | None = None
        self._begun_s: float | None = None
        #: What was done of both parts, and since when.
        self._done: tuple[float | None, float | None] = None, None
        self._moved_s = 0.0
        self._seen_s = 0.0
        self._reached = 0.0

    def scans(self) -> None:
        """Tasks scan the files by themselves, and say so as soon as they begin."""
        self._share = _SHARE_EARLY

    def at(self, elapsed_s: float, before: float | None, inside: float | None) -> tuple[float | None, float | None]:
        """The fraction of the whole that is done, which never falls, and the seconds to its end; None: not known.

        Args:
            elapsed_s: since the pass began.
            before: the part of the first part that is done, 0 if it has just begun; None: not known.
            inside: the part of the shards' work that is done; None: they have not begun.
        """
        if inside is not None and self._begun_s is None:
            # Between two looks; at the first one nothing is known of a first part.
            self._begun_s = (self._seen_s + elapsed_s) / 2 if self._seen_s else 0.0
        if before is not None and self._first_s is None:
            # Until workers run, which takes seconds, nothing is done: their pace does not begin before.
            self._first_s = 0.0 if before else elapsed_s
        if (before, inside) != self._done:
            self._done, self._moved_s = (before, inside), elapsed_s
        self._seen_s = elapsed_s
        eta_s = (
            self._before_the_shards(elapsed_s, before) if self._begun_s is None else self._in_them(elapsed_s, inside)
        )
        if eta_s is None:
            return self._reached or None, None
        self._reached = max(self._reached, min(elapsed_s / (elapsed_s + eta_s), 1.0))
        return self._reached, eta_s

    def _before_the_shards(self, elapsed_s: float, before: float | None) -> float | None:
        if not before:
            return None
        now_s, moved_s = (at_s - (self._first_s or 0.0) for at_s in (elapsed_s, self._moved_s))
        # Between two reports tasks go on as before.
        whole_s = moved_s / before / self._share
        return max(whole_s - now_s, whole_s * (1 - self._share) / 2)

    def _in_them(self, elapsed_s: float, inside: float | None) -> float:
        inside, begun_s = inside or 0.0, self._begun_s or 0.0
        first_s = max(begun_s - (self._first_s or 0.0), 0.0)
        whole_s = first_s * (1 - self._share) / self._share
        guess_s = max(whole_s - (elapsed_s - begun_s), whole_s * (1 - inside) / 2)
        if not inside:
            return guess_s
        paced_s = (self._moved_s - begun_s) / inside * (1 - inside)
        paced_s = max(paced_s - (elapsed_s - self._moved_s), paced_s / 2)
        if not whole_s:
            return paced_s
        # The more is done, the better is it known.
        return inside * paced_s + (1 - inside) * guess_s
