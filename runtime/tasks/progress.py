"""What a query tells about itself: progress records with Spark's field names plus ours, and live backlog counts."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from ..platform.filesystem import delete_quietly, list_files, read_bytes
from ..platform.frozen import FrozenDict

#: How often a task reports its row count while a sorted pass runs.
_REPORT_EVERY_S = 0.5


class QueryProgress(FrozenDict):
    """One finished epoch, as a dictionary whose entries are also attributes (like Spark's StreamingQueryProgress).

    A record that was handed out stays what it was, and cannot be changed, nor can what is in it.  What becomes known of
    its epoch later (a checkpoint, a delivery) is in the record that the query hands out from then on.

    Field names are Spark's where Spark has the thing:

    ``id runId name timestamp batchId batchDuration observedMetrics``
        as in Spark; a batch is an epoch.
    ``mode phase isBacklog``
        ``backlog`` (sorted, one key at a time) or ``streaming``; the plan's phase; whether any source is in backlog.
    ``numInputRows inputRowsPerSecond processedRowsPerSecond``
        rows of the epoch, per second since the last epoch began, per second that the epoch took.
    ``durationMs``
        ``triggerExecution`` (all), ``addBatch`` (the epoch's Spark jobs), ``deliver`` (a sink that shows rows at once).
        Of ``addBatch``: ``keyedStage``, from the first shard task's start to the last one's end, and ``outsideTasks``,
        the rest: planning, reading and shuffling the input, scheduling.  Of the slowest shard in each: ``restore``
        (bring the state to the task), ``read`` (take in rows), ``sort`` (if the task sorts), ``process`` (the
        operator), ``publish`` (make the epoch's files durable).
    ``eventTime watermarkLagMs``
        ``watermark`` and ``max`` (greatest event time) after the epoch; how far the watermark is behind the clock.
    ``stateOperators``
        one entry: ``operatorName numRowsTotal`` (entries), ``numRowsUpdated`` (keys touched), ``numRowsRemoved``,
        ``allUpdatesTimeMs commitTimeMs`` (process and publish of all shards together), ``numRowsDroppedByWatermark``,
        ``numShufflePartitions`` (shards), ``numStateStoreInstances`` (shards that the epoch visited), and in
        ``customMetrics``: ``numExpiredTimers`` (timers fired), ``numIgnoredTimers`` (registered by timers when all
        input had ended, so they never fire); ``replicaCacheHits`` and ``replicaCacheMisses``, the shards with state
        that found it in place and those that had to build it from files, with ``stateFilesRead stateBytesRead`` for
        what either brought in; ``stateEntriesWritten stateFilesWritten stateBytesWritten``; ``inputBytes`` that the
        tasks took in, ``spilledBytes`` that their sorters wrote to disk.
    ``sources``
        ``description isBacklog finished``, and of a live input its own ``eventTime`` and ``isIdle``.
    ``sink``
        ``description`` with its guarantee, ``numOutputRows``, and ``outputBytes outputFiles`` in ``metrics``.
    ``coordinator``
        None if the job has none; otherwise ``eventsSent`` to shards in this run, ``eventsDelivered`` of them,
        ``eventsReceived`` from shards, and ``eventsBuffered``, those that wait for an epoch or a checkpoint.
    ``checkpoint``
        the last complete one, None before the first: see :class:`~.checkpointer.CheckpointReport`.
    """

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
