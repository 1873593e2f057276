"""One record of a query's progress, with Spark's field names and ours."""

from __future__ import annotations

import base64
import json
import time
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

from ..support.frozen_collections import FrozenDict


class QueryProgress(FrozenDict):
    """One finished epoch, as a dictionary whose entries are also attributes (like Spark's StreamingQueryProgress).

        progress = query.lastProgress
        print(progress.numInputRows, progress["numInputRows"], progress.durationMs["addBatch"], progress.prettyJson)

    A record that was handed out stays what it was, and cannot be changed, nor can what is in it.  What becomes known of
    its epoch later (a checkpoint, a delivery) is in the record that the query hands out from then on.

    Field names are Spark's where Spark has the thing:

    ``id runId name timestamp batchId batchDuration observedMetrics``
        as in Spark; a batch is an epoch.
        ``observedMetrics`` has a ``Row`` for each ``observe()`` by its name, of the rows that the epoch's own jobs have
        read, each once; where no row came, what the expressions are of no rows.
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
    ``latencyMs``
        in Real-Time Mode ``p50 p99 max`` of the epoch's messages, from the time that Kafka has for a message until what
        came of it was handed to the producer; None in other modes.
    ``stateOperators``
        one entry: ``operatorName numRowsTotal`` (entries, values and timers; about, as files are counted and what
        they replace in others is not looked up), ``numRowsUpdated`` (keys touched), ``numRowsRemoved`` (entries),
        ``allUpdatesTimeMs commitTimeMs`` (process and publish of all shards together), ``allRemovalsTimeMs`` (0: to
        remove is part of processing), ``memoryUsedBytes`` (of the local copies that the tasks have used, with their
        share of cached blocks; a sorted pass over no earlier state has none), ``numRowsDroppedByWatermark``,
        ``numShufflePartitions`` (shards), ``numStateStoreInstances`` (shards that the epoch visited), and in
        ``customMetrics``: ``numExpiredTimers`` (timers fired), ``numIgnoredTimers`` (registered by timers when all
        input had ended, so they never fire); ``replicaCacheHits`` and ``replicaCacheMisses``, the shards with state
        that found it in place and those that had to build it from files, with ``stateFilesRead stateBytesRead`` for
        what either brought in; ``stateEntriesWritten stateFilesWritten stateBytesWritten``; ``inputBytes`` that the
        tasks took in, ``spilledBytes`` that their sorters wrote to disk.
    ``sources``
        ``description isBacklog finished``; ``numInputRows inputRowsPerSecond processedRowsPerSecond``, None if several
        sources are read, as rows are counted for all together; and of a live input its own ``eventTime`` and
        ``isIdle``.  Soon after the epoch, when Spark has told them: ``startOffset endOffset latestOffset metrics`` as
        in Spark (offsets as JSON values), and of a source with partitions ``lag``, how many messages of each wait.
        ``dataLost``, if there are any: ranges of messages that the source has forgotten and the epoch has not read
        (``failOnDataLoss = false``).
    ``sink``
        ``description`` with its guarantee, ``numOutputRows``, and ``outputBytes outputFiles`` in ``metrics``.
    ``coordinator``
        None if the job has none; otherwise ``eventsSent`` to shards in this run, ``eventsDelivered`` of them,
        ``eventsReceived`` from shards, and ``eventsBuffered``, those that wait for an epoch or a checkpoint.
    ``checkpoint``
        the last complete one, None before the first: see :func:`~.epoch_records.checkpoint_entry`.
    """

    id: str
    runId: str
    name: str | None
    timestamp: str
    batchId: int
    batchDuration: int
    observedMetrics: dict[str, Row]
    mode: str
    phase: str
    isBacklog: bool
    numInputRows: int
    inputRowsPerSecond: float
    processedRowsPerSecond: float
    durationMs: dict[str, int]
    eventTime: dict[str, str]
    watermarkLagMs: int | None
    latencyMs: dict[str, int] | None
    stateOperators: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    sink: dict[str, Any]
    coordinator: dict[str, int] | None
    checkpoint: dict[str, Any] | None

    if not TYPE_CHECKING:  # so that a checker of types finds names that are not there

        def __getattr__(self, name: str) -> Any:
            try:
                return self[name]
            except KeyError:
                raise AttributeError(name) from None

    @property
    def json(self) -> str:
        return json.dumps(json_value(self))

    @property
    def prettyJson(self) -> str:
        return json.dumps(json_value(self), indent=2)

    def __str__(self) -> str:
        return self.prettyJson

    __repr__ = __str__


def json_value(value: Any) -> Any:
    """The value as JSON has it, that of a metric as Spark writes it."""
    if isinstance(value, Row):
        return {name: json_value(one) for name, one in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        if all(isinstance(name, str) for name in value):
            return {name: json_value(one) for name, one in value.items()}
        return [{"key": json_value(key), "value": json_value(one)} for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [json_value(one) for one in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def timestamp(ms: int | None = None) -> str:
    """ISO-8601 with milliseconds in UTC, as Spark prints them."""
    moment = datetime.fromtimestamp((time.time() * 1000 if ms is None else ms) / 1000, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
