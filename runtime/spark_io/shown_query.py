"""A query of Spark's own that stands for a job: its listeners, ``spark.streams`` and the Streaming tab show that one.

A job is worked off by parts of which Spark does not know that they belong together: batch jobs, and the live source's
query, which is started more than once.  So Spark gets a query with the job's id and name that reads nothing.  It is
there from the job's start to its end, fails if the job fails, and tells the progress that it is given.  What the job
itself starts is hidden in sessions of its own (:class:`HiddenSession`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructType

from ..catalyst.spark_plans import analyzed, frame_of
from ..catalyst.spark_session import cloned
from ..jvm.gateway import java_array, java_class, java_session, java_type, scala_map, scala_object
from ..jvm.log_levels import changed

logger = logging.getLogger(__name__)

#: What calls raise where Spark, or the JVM, is gone or going; the last two where another version has other names.
GONE = (Py4JError, Py4JNetworkError, PySparkException, OSError, AttributeError, TypeError)

#: Its one trigger is at the start.
_NEVER = "36500 days"
_LONG_MAX = 2**63 - 1
_ADAPTIVE = "spark.sql.adaptive.enabled"
#: How Hadoop reads from S3.  By default, since 3.4.2, in a way that does not try again where an answer is cut off: the
#: query would die of one file of its log.
_S3_STREAM, _S3_STREAM_THAT_GOES_ON = "fs.s3a.input.stream.type", "classic"
_STREAMING = "org.apache.spark.sql.streaming"
_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
#: Spark's warning that streaming queries have no adaptive execution, which is not about the user's.
_UNWARNED = {f"{_RUNTIME}.ResolveWriteToStream": "ERROR"}
_LOCK = threading.Lock()

#: How the name of a live source's own query ends.
LIVE_SOURCE = "(live source)"


class ShownQuery:
    """A query of Spark's that reads nothing, and tells what it is given.

    Args:
        spark: the session in which it is seen.
        name: its name; None: it has none.
        query_id: its id, a UUID.

    Raises:
        PySparkException, Py4JError, OSError: Spark does not start it.
    """

    def __init__(self, spark: SparkSession, name: str | None, query_id: str) -> None:
        self._spark = spark
        self._folder = _folder(spark)
        started: StreamingQuery | None = None
        try:
            self._query = started = self._started(name, query_id)
            self._execution = self._query._jsq.streamingQuery()
            self._reporter = self._execution.progressReporter()
            # It would tell once that it is idle.
            getattr(self._reporter, "lastNoExecutionProgressEventTime_$eq")(_LONG_MAX)
            self._progress_class = scala_object(spark, f"{_STREAMING}.StreamingQueryProgress")
        except BaseException:
            if started is not None:
                with contextlib.suppress(*GONE):
                    started.stop()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.run_id = str(self._query.runId)

    def _started(self, name: str | None, query_id: str) -> StreamingQuery:
        checkpoint, nothing = self._folder / "checkpoint", self._folder / "nothing"
        # Spark would make them by other processes, and take an id of its own.
        for made in (nothing, *(checkpoint / one for one in ("offsets", "commits", "sources/0"))):
            made.mkdir(parents=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": query_id}))
        rows = self._spark.readStream.schema("nothing string").text(nothing.as_uri())
        writer = rows.writeStream.format("noop").trigger(processingTime=_NEVER)
        writer = writer.option("checkpointLocation", checkpoint.as_uri())
        if name:
            writer = writer.queryName(name)
        with changed(self._spark, _UNWARNED):
            return writer.start()

    def report(self, progress: Mapping[str, Any], observed: Mapping[str, Mapping[str, Any]]) -> None:
        """Hand a progress record to listeners, the UI, and whoever asks for ``lastProgress``.

        Args:
            progress: as the JSON of Spark's ``StreamingQueryProgress``, without observed metrics.
            observed: those, as plain values by their names.
        """
        found = self._progress_class.fromJson(json.dumps({**progress, "observedMetrics": {}}))
        for name, values in observed.items():
            found.observedMetrics().put(name, self._row(values))
        self._reporter.updateProgress(found)

    def _row(self, values: Mapping[str, Any]) -> Any:
        schema = StructType()
        for name, value in values.items():
            schema = schema.add(name, _type(value))
        cells = [
            json.dumps(value) if isinstance(value, (dict, list)) else _cell(self._spark, value, field.dataType)
            for value, field in zip(values.values(), schema, strict=True)
        ]
        row = java_class(self._spark, "org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema")
        return row(java_array(self._spark, cells), java_type(self._spark, schema))

    def wait(self) -> None:
        """Wait until it has ended, or Spark is gone."""
        with contextlib.suppress(StreamingQueryException, *GONE):
            self._query.awaitTermination()

    def end(self, error: str | None) -> None:
        """It ends as the job does.

        Args:
            error: why the job has failed; None: it has not.
        """
        try:
            if self._query.isActive:
                if error is not None:
                    getattr(self._execution, "streamDeathCause_$eq")(self._failure(error))
                _end_thread(self._spark, self._execution)
        except GONE as gone:
            logger.debug("the query that stands for the job in Spark's UI was not ended: %s", gone)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _failure(self, error: str) -> Any:
        details = {"id": str(self._query.id), "runId": self.run_id, "message": error}
        cause = java_class(self._spark, "java.lang.RuntimeException")(error)
        failure = java_class(self._spark, f"{_STREAMING}.StreamingQueryException")
        return failure(error, cause, "STREAM_FAILED", scala_map(self._spark, details))


class HiddenSession:
    """A session whose queries nobody is told of: they are parts of a job that is shown as a whole.

    It has the settings that the other session has when this one is made.

    Args:
        origin: the other one.
    """

    def __init__(self, origin: SparkSession) -> None:
        self.session = cloned(origin)
        _unreported_failures(origin)
        # Streaming queries cannot have it, which Spark warns of; what is done with their rows has a session of its own.
        self.session.conf.set(_ADAPTIVE, "false")
        if all(self.session.conf.get(name, None) is None for name in (_S3_STREAM, f"spark.hadoop.{_S3_STREAM}")):
            self.session.conf.set(_S3_STREAM, _S3_STREAM_THAT_GOES_ON)
        # Listeners of the user's session are not here; the UI's is, and those that the configuration names.
        streams = java_session(self.session).streams()
        for listener in streams.listListeners():
            streams.removeListener(listener)

    def adopt(self, frame: DataFrame) -> DataFrame:
        """The same stream, to be started in this session."""
        return frame_of(self.session, analyzed(frame))

    def close(self) -> None:
        """Let go of the session; the Spark application would keep it for as long as it has its listener bus."""
        try:
            streams = java_session(self.session).streams()
            bus = streams.getClass().getDeclaredField("listenerBus")
            bus.setAccessible(True)
            self.session.sparkContext._jsc.sc().listenerBus().removeListener(bus.get(streams))
        except GONE as gone:
            logger.debug("a session of the live source was not let go of: %s", gone)


def stop_query(spark: SparkSession, query: StreamingQuery) -> None:
    """Stop a query as ``query.stop()`` does, which warns of it where there are no Spark jobs to be cancelled.

    Args:
        spark: a session of the same Spark application.
        query: the query; its next micro-batch is kept from beginning.
    """
    try:
        if _has_jobs(spark, str(query.runId)):
            query.stop()
        else:
            _end_thread(spark, query._jsq.streamingQuery())
    except (Py4JError, AttributeError):  # another version of Spark has other names for it
        query.stop()


def _has_jobs(spark: SparkSession, group: str) -> bool:
    """True if Spark jobs of a group are running."""
    tracker, arrays = spark.sparkContext._jsc.sc().statusTracker(), java_class(spark, "java.util.Arrays")
    active = json.loads(arrays.toString(tracker.getActiveJobIds()))
    return bool(active) and not set(active).isdisjoint(json.loads(arrays.toString(tracker.getJobIdsForGroup(group))))


def _end_thread(spark: SparkSession, execution: Any) -> None:
    execution.state().set(scala_object(spark, f"{_RUNTIME}.TERMINATED"))
    execution.interruptAndAwaitExecutionThreadTermination()


def _folder(spark: SparkSession) -> Path:
    """A new folder that the JVM removes when it ends: where the driver is killed nobody else does."""
    utils = java_class(spark, "org.apache.spark.util.Utils")
    return Path(str(utils.createTempDir(tempfile.gettempdir(), "mixedmode-shown").getPath()))


def _unreported_failures(spark: SparkSession) -> None:
    """Have Spark's log leave out, once for each JVM, that a live source's query has failed.

    These are sixty lines of Java that say that we have told it so; the job's own error says why.
    """
    try:
        context = java_class(spark, "org.apache.logging.log4j.LogManager").getContext(False)
        root = context.getConfiguration().getRootLogger()
        result = java_class(spark, "org.apache.logging.log4j.core.Filter$Result")
        regex = java_class(spark, "org.apache.logging.log4j.core.filter.RegexFilter")
        with _LOCK:
            if LIVE_SOURCE not in str(root.getFilter()):
                text = rf"(?s)Query .*{re.escape(LIVE_SOURCE)} \[id = .*terminated with error.*"
                root.addFilter(regex.createFilter(text, None, False, result.DENY, result.NEUTRAL))
    except GONE as gone:  # another version, or another log
        logger.debug("Spark's log tells of failed live sources: %s", gone)


def _type(value: Any) -> DataType:
    kinds: dict[type, DataType] = {bool: BooleanType(), int: LongType(), float: DoubleType()}
    return kinds.get(type(value), StringType())


def _cell(spark: SparkSession, value: Any, data_type: DataType) -> Any:
    """The value; Py4J would hand over a small number as an int."""
    return java_class(spark, "java.lang.Long").valueOf(value) if isinstance(data_type, LongType) else value
