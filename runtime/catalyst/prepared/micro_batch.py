"""Keeps what is known, without asking the JVM, of the micro-batch that Spark hands over and of its frames.

Spark calls ``foreachBatch`` on the thread of its query, within the query's SQL execution.  PySpark's calls from there
come back on that very thread.  So what runs in there has the settings of the query's session in its tasks and as the
thread's session, and how its jobs are described is overwritten with the next micro-batch.

Invariant: :func:`is_handed_over` is true only on such a thread, and :func:`plan_behind` knows a plan only there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.clientserver import ClientServer  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from ...jvm.gateway import java_session, logical_plan
from ..spark_expressions import class_name, items

_ALIKE = "_mixedmode_alike"
_RDD = "_mixedmode_rdd"
_PARTITIONS = "_mixedmode_partitions"
#: What Spark calls, on that thread, the query and the micro-batch.
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
#: What stands above the plan of a stream whose micro-batches are handed over.
_SINK = "WriteToMicroBatchDataSourceV1"
_thread = threading.local()


@contextmanager
def handed_over(batch: DataFrame, started_in: SparkSession) -> Iterator[None]:
    """Around what is done with a micro-batch, on the thread that was called with it.

    Args:
        batch: its rows, as Spark has handed them over.
        started_in: the session that its query was started in.
    """
    gateway: Any = batch.sparkSession.sparkContext._gateway
    _thread.hands_over = isinstance(gateway, ClientServer)  # of others calls come back on any thread
    _thread.batch = (batch, started_in) if _thread.hands_over else None
    try:
        yield
    finally:
        _thread.hands_over, _thread.batch = False, None


def is_handed_over() -> bool:
    """Whether a micro-batch is being handed over to this thread."""
    return getattr(_thread, "hands_over", False)


@contextmanager
def job_label(spark: SparkSession, tag: str, description: str) -> Iterator[None]:
    """Spark jobs in here bear a tag, and say in Spark's UI what they are.

    Args:
        spark: the session.
        tag: they can be cancelled by it.
        description: for Spark's UI.
    """
    context = spark.sparkContext
    context.addJobTag(tag)
    context.setJobDescription(description)
    try:
        yield
    finally:
        context.removeJobTag(tag)
        if not is_handed_over():
            context.setJobDescription(None)  # type: ignore[arg-type]


class AlikeFrames:
    """What is the same of all micro-batches' frames in one run of a query: columns, and the shape of their plan."""

    def __init__(self) -> None:
        self._schema: Any = None
        #: What :class:`.prepared_logical_plan.PlanShape` has found of one of them.
        self.shape: Any = None
        #: One of them that has no rows, in one partition; None: nobody has asked for it.
        self.no_rows: DataFrame | None = None

    def add(self, frame: DataFrame) -> None:
        """Have a micro-batch's frame known as one of them."""
        frame.__dict__[_ALIKE] = self
        if self._schema is None:
            self._schema = frame.schema
        else:
            frame.__dict__.setdefault("schema", self._schema)  # PySpark keeps it there once it has been asked for

    @staticmethod
    def of(frame: DataFrame) -> AlikeFrames | None:
        """Those that a frame is one of; None: of no such."""
        found = frame.__dict__.get(_ALIKE)
        return found if isinstance(found, AlikeFrames) else None


def rdd_of(frame: DataFrame) -> Any:
    """The RDD of a frame that is nothing else, as a micro-batch is; asked for once."""
    known = frame.__dict__
    if _RDD not in known:
        known[_RDD] = logical_plan(frame).rdd()
    return known[_RDD]


def partitions_of(frame: DataFrame) -> int | None:
    """How many partitions a micro-batch's rows have, asked once; None: the frame is not Spark's, as it came."""
    if AlikeFrames.of(frame) is None:
        return None
    known = frame.__dict__
    if _PARTITIONS not in known:
        known[_PARTITIONS] = int(rdd_of(frame).getNumPartitions())
    found: int = known[_PARTITIONS]
    return found


def note_partitions(frame: DataFrame, partitions: int) -> None:
    """Have it known how many partitions a micro-batch's rows have."""
    frame.__dict__[_PARTITIONS] = partitions


def plan_behind(leaf: Any) -> Any:
    """What the RDD that a micro-batch comes as was made of: the stream's own plan, over what the micro-batch reads.

    Args:
        leaf: of a logical plan.

    Returns:
        The plan, resolved, with the leaf's columns in their order; None: the leaf is no micro-batch that is handed over
        to this thread, or Spark does not tell.
    """
    handed: tuple[DataFrame, SparkSession] | None = getattr(_thread, "batch", None)
    if handed is None or class_name(leaf) != "LogicalRDD":
        return None
    batch, started_in = handed
    if not leaf.rdd().equals(rdd_of(batch)):
        return None
    batch_id = batch.sparkSession.sparkContext.getLocalProperty(_BATCH_ID)
    try:
        query = _query(batch, started_in)
        execution = None if query is None else query.lastExecution()
        if execution is None or str(execution.currentBatchId()) != batch_id:
            return None
        plan = execution.analyzed()
        plan = plan.child() if class_name(plan) == _SINK else plan
    except Py4JError:  # another version of Spark
        return None
    return plan if _columns(plan) == _columns(leaf) else None


def query_behind(batch: DataFrame) -> Any:
    """Spark's query whose micro-batch is being handed over to this thread; None: it is not that one."""
    handed: tuple[DataFrame, SparkSession] | None = getattr(_thread, "batch", None)
    return None if handed is None or handed[0] is not batch else _query(*handed)


def _query(batch: DataFrame, started_in: SparkSession) -> Any:
    query_id = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    query = None if query_id is None else java_session(started_in).streams().get(query_id)
    return None if query is None else query.streamingQuery()


def _columns(plan: Any) -> list[tuple[str, str]]:
    return [(str(one.name()), str(one.dataType().json())) for one in items(plan.output())]
