"""The Spark query of a live phase in Real-Time Mode: how it is started, what it says of its batches, how it ends.

Each run has a folder of its own for Spark's log, in which it finds the committed position and nothing else.  A thread
of an older query may still write to the folder of its run, where nobody reads it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....errors import MixedModeError, QueryError
from ...catalyst.spark_cluster import active_tasks
from ...catalyst.types.arrow_functions import mapped_in_arrow
from ...checkpoints.metadata import SparkPosition
from ...jvm.log_levels import changed
from ...jvm.spark_errors import what_happened
from ...jvm.worker_errors import translate
from ...spark_io.query_log_writes import started
from ...spark_io.query_progress import executed_batches
from ...spark_io.shown_query import LIVE_SOURCE, HiddenSession
from ...storage.filesystem import write_atomically
from ...support.ids import BatchId
from ...tasks.realtime.realtime_task import NOTHING_COLUMN, RealTimeTask

if TYPE_CHECKING:
    from pyarrow import fs
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

#: Settings of the query's own session.
_SETTINGS = {
    # Python behind a shuffle is not on Spark's list of what has been tried.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    # The position must be in Spark's log before Spark says that a batch has succeeded.
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
    # The marker of the row before, and the row; and such a batch goes through the pipe as soon as it is there.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2",
    "spark.sql.execution.pandas.udf.buffer.size": "16",
    # monotonically_increasing_id() tells the first row of a task, and is not allowed in queries otherwise.
    "spark.sql.streaming.unsupportedOperationCheck": "false",
    # Each batch is planned while rows wait: without a check behind each rule, and with the short text for Spark's UI.
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",
}
#: How Spark's log has a position for a query in Real-Time Mode, which refuses to go on behind a log of micro-batches.
_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_METADATA = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {_STORE: _ROCKSDB}})
_COMMITTED = b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}'
#: The metadata of a position that no micro-batch has made.
_NO_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0}'

#: What tells on a hundred lines that tasks were cancelled, which is how a query in this mode is stopped.
_EXECUTION = "org.apache.spark.sql.execution"
_UNSAID = {
    f"{_EXECUTION}.datasources.v2.WriteToDataSourceV2Exec": "OFF",
    f"{_EXECUTION}.datasources.v2.DataWritingSparkTask": "OFF",
    "org.apache.spark.util.ErrorNotifier": "OFF",
    "org.apache.spark.util.Utils": "OFF",
    "org.apache.spark.scheduler.TaskSetManager": "ERROR",
    "org.apache.spark.scheduler.DAGScheduler": "ERROR",
}
#: How long cancelled tasks are waited for, and how often is asked.
_TASKS_END_S, _ASK_EVERY_S = 10, 0.02

#: What Spark calls it.
_TOO_FEW_SLOTS = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"

Offsets = dict[int, int]


@dataclass(frozen=True)
class SourcePosition:
    """Offsets of one topic, by partition."""

    topic: str
    offsets: Offsets

    @classmethod
    def of(cls, offset: Any) -> SourcePosition | None:
        """The position that Spark tells; None: it tells none."""
        told = json.loads(offset) if isinstance(offset, str) else offset
        if not told:
            return None
        ((topic, offsets),) = told.items()
        return cls(topic, {int(partition): int(at) for partition, at in offsets.items()})

    @property
    def text(self) -> str:
        """As Spark's log has it."""
        return json.dumps({self.topic: {str(key): at for key, at in self.offsets.items()}}, separators=(",", ":"))

    def entry(self, before: SparkPosition | None) -> str:
        """The entry of a log of micro-batches; ``before``: one of that log, whose settings go on."""
        lines = [] if before is None else before.offset_entry.splitlines()[:2]
        version, metadata = lines if len(lines) == 2 else ("v1", _NO_METADATA)
        return "\n".join([version, metadata, self.text])


@dataclass(frozen=True)
class BatchEnd:
    """A batch that has succeeded, as Spark says."""

    start: SourcePosition | None
    end: SourcePosition


def write_log(filesystem: fs.FileSystem, folder: str, batch: BatchId, position: SourcePosition) -> None:
    """Make the log of a query that has read up to a position, and nothing since.

    Args:
        filesystem: of the folder.
        folder: the log's; nobody has written to it.
        batch: that the position is behind.
        position: where the query goes on.
    """
    for name in ("offsets", "commits"):
        filesystem.create_dir(f"{folder}/{name}", recursive=True)
    write_atomically(filesystem, f"{folder}/metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
    entry = "\n".join(["v1", _METADATA, position.text]).encode()
    # Spark insists on the entry before the newest.
    for number in range(max(0, batch - 1), batch + 1):
        write_atomically(filesystem, f"{folder}/offsets/{number}", entry)
    write_atomically(filesystem, f"{folder}/commits/{batch}", _COMMITTED)


class RealTimeQuery:
    """One run of the query.

    Args:
        origin: the session of the live source.
        log: folder of Spark's log, as a URI.
        name: of the job.
        interval_ms: length of a batch.
    """

    def __init__(self, origin: SparkSession, log: str, name: str | None, interval_ms: int) -> None:
        self._origin, self._log, self._interval_ms = origin, log, interval_ms
        self._name = f"{name or 'mixedmode'} {LIVE_SOURCE}"
        self._hidden = HiddenSession(origin)
        for setting, value in _SETTINGS.items():
            self._hidden.session.conf.set(setting, value)
        self._query: StreamingQuery | None = None

    def start(self, rows: Callable[[SparkSession], DataFrame], task: RealTimeTask) -> None:
        """Start it.

        Args:
            rows: gives the rows of all shards, in a session.
            task: works on them.
        """
        mapped = mapped_in_arrow(rows(self._hidden.session), task, f"{NOTHING_COLUMN} boolean")
        writer = mapped.writeStream.format("noop").outputMode("update").queryName(self._name)
        writer = writer.option("checkpointLocation", self._log)
        writer = writer.trigger(realTime=f"{self._interval_ms} milliseconds")  # type: ignore[call-overload]
        self._query = started(writer, [self._origin, self._hidden.session], self._log)

    @property
    def query(self) -> StreamingQuery:
        """Spark's."""
        assert self._query is not None, "start() comes first"
        return self._query

    @property
    def is_active(self) -> bool:
        """False once it has ended."""
        return self.query.isActive

    def succeeded(self, batch: BatchId) -> BatchEnd | None:
        """What Spark says of a batch that has succeeded; None: it has not, so far."""
        sources = executed_batches(self.query, batch).get(batch)
        if sources is None:
            return None
        (source,) = sources
        end = SourcePosition.of(source["endOffset"])
        assert end is not None, "a batch of Kafka has an end"
        return BatchEnd(SourcePosition.of(source.get("startOffset")), end)

    @property
    def lacks_slots(self) -> bool:
        """Whether it has ended as its tasks, which run together, found too few slots: none of them has begun."""
        error = self.query.exception()
        return error is not None and _TOO_FEW_SLOTS in str(error)

    @property
    def failure(self) -> MixedModeError:
        """What has ended it."""
        error = self.query.exception()
        if error is None:
            return QueryError("the live source's query has ended, and Spark does not say why")
        translated = translate(error)
        if not isinstance(translated, MixedModeError):
            where = f"in Spark's query of the live input, whose log is {self._log}"
            translated = QueryError(f"{what_happened(error)}\n{where}")
            translated.__cause__ = error
        return translated

    def stop(self) -> None:
        """Stop it, and wait until its tasks have ended; what it has begun is read again by the next run."""
        if self._query is None or not self._query.isActive:
            return
        with changed(self._origin, _UNSAID):
            # Its tasks would go on to the end of the epoch if its job were not cancelled.
            self._query.stop()
            until_s = time.monotonic() + _TASKS_END_S
            while active_tasks(self._origin, str(self._query.runId)) and time.monotonic() < until_s:
                time.sleep(_ASK_EVERY_S)

    def close(self) -> None:
        """Let go of its session."""
        self._hidden.close()
