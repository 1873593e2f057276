"""Micro-batches that come before Spark has begun to read them, for tasks that read their one small file themselves.

Spark's ``foreachBatch`` makes an RDD of a micro-batch before it calls: it tells the tasks anew how Hadoop is set, opens
a scan, and makes a frame of the RDD.  Of few rows that takes as long as all that is done to them.

Invariant: whoever asks such a frame for anything that needs Spark gets what ``foreachBatch`` would have handed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame as AnyDataFrame
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from ...jvm.compiled_class import compiled_class
from ...jvm.gateway import new
from ..spark_session import frame_without_rows
from .micro_batch import AlikeFrames, note_partitions, query_behind

if TYPE_CHECKING:
    from ...support.ids import BatchId

_FUNCTION = "_mixedmode_function"
_STREAMING = "org.apache.spark.sql.execution.streaming"
_SINK = "MicroBatchesUnread"
#: Tells of a plan that gives all rows of one file, whatever their columns become, the size and the URI of that.
_SOURCE = f"""
import org.apache.spark.sql.execution.*;

public class {_SINK} extends {_STREAMING}.sources.ForeachBatchSink {{
    private {_STREAMING}.sources.PythonForeachBatchFunction function;

    public {_SINK}() {{ super(null, null); }}

    public void setFunction({_STREAMING}.sources.PythonForeachBatchFunction function) {{ this.function = function; }}

    public void addBatch(long id, org.apache.spark.sql.Dataset rows) {{ function.call(rows, id); }}

    public String file(org.apache.spark.sql.Dataset rows) {{
        SparkPlan plan = ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().executedPlan();
        while (plan instanceof WholeStageCodegenExec || plan instanceof ProjectExec
                || plan instanceof ColumnarToRowExec || plan instanceof InputAdapter) {{
            plan = (SparkPlan) plan.children().head();
        }}
        if (!(plan instanceof FileSourceScanExec)) return null;
        FileSourceScanExec scan = (FileSourceScanExec) plan;
        if (!scan.partitionFilters().isEmpty() || !scan.dataFilters().isEmpty()) return null;
        org.apache.spark.sql.execution.datasources.FileIndex files =
            ((org.apache.spark.sql.execution.datasources.HadoopFsRelation) scan.relation()).location();
        String[] found = files.inputFiles();
        return found.length == 1 ? files.sizeInBytes() + " " + found[0] : null;
    }}
}}
"""
#: Larger files are Spark's, which reads them by several tasks: it never has one for less than this.
_MOST_BYTES = 4 << 20


class TakesBatches(Protocol):
    """What takes micro-batches."""

    #: Hands over micro-batches that Spark has not read; None: it has read them.
    unread: UnreadSink | None


class UnreadSink:
    """The sink of a query whose micro-batches come unread, in place of its own.

    Args:
        sink: it.
        own: the query's own, which reads them.
        execution: the query.
        function: what takes micro-batches.
    """

    def __init__(self, sink: Any, own: Any, execution: Any, function: TakesBatches) -> None:
        self.sink = sink
        self._own = own
        self._execution = execution
        self._function = function
        self._asks, self._read = False, None

    def file(self, planned: Any) -> tuple[str, int] | None:
        """The URI and the size of the one small file that a micro-batch reads as it is; None: there is none.

        Args:
            planned: as of :meth:`read`.
        """
        size, _, uri = str(self.sink.file(planned) or "").partition(" ")
        return (uri, int(size)) if uri and 0 < int(size) <= _MOST_BYTES else None

    def begin(self) -> None:
        """From the next one on they come unread."""
        _set_sink(self._execution, self.sink)
        self._function.unread = self

    def end(self) -> None:
        """From the next one on Spark reads them."""
        _set_sink(self._execution, self._own)
        self._function.unread = None

    def takes(self, read: Any) -> bool:
        """Take what the query's own sink hands over, if that was asked for; False: it comes from Spark."""
        if self._asks:
            self._read = read
        return self._asks

    def read(self, planned: Any, batch_id: BatchId) -> Any:
        """Have the query's own sink hand a micro-batch over; as it says what is wrong.

        Args:
            planned: the micro-batch, as Spark has planned it.
            batch_id: its number.
        """
        self._asks = True
        try:
            self._own.addBatch(batch_id, planned)
        finally:
            self._asks = False
        return self._read


class UnreadBatch(DataFrame):
    """The frame of a micro-batch that Spark reads when it is first needed.

    Args:
        planned: the micro-batch, as Spark has planned it.
        session: the query's.
        sink: hands it over.
        batch_id: its number.
    """

    def __init__(self, planned: Any, session: SparkSession, sink: UnreadSink, batch_id: BatchId) -> None:
        self._handed_over: Any = None
        super().__init__(None, session)
        self._planned, self._sink, self._batch_id = planned, sink, batch_id
        #: The URI and the size of the one small file that it reads as it is; None: it reads others, or does more.
        self.file = sink.file(planned)
        if self.file is not None:
            note_partitions(self, 1)

    @property
    def _jdf(self) -> Any:
        if self._handed_over is None:
            self._handed_over = self._sink.read(self._planned, self._batch_id)
        return self._handed_over

    @_jdf.setter
    def _jdf(self, frame: Any) -> None:
        self._handed_over = frame


def note_function(batch: AnyDataFrame, function: TakesBatches) -> None:
    """Have it known of a micro-batch who takes it."""
    batch.__dict__[_FUNCTION] = function


def begin_unread(batch: AnyDataFrame) -> bool:
    """Have those behind a micro-batch come unread; False: that cannot be had.

    Args:
        batch: it, while it is being handed over.
    """
    function: TakesBatches | None = batch.__dict__.get(_FUNCTION)
    if function is None:
        return False
    if function.unread is not None:
        return True
    try:
        execution = query_behind(batch)
        if execution is None:
            return False
        sink = new(batch.sparkSession, compiled_class(batch.sparkSession, _SINK, _SOURCE))
        sink.setFunction(function)
        UnreadSink(sink, execution.sink(), execution, function).begin()
    except (Py4JError, PySparkException, TypeError):  # another version of Spark
        return False
    return True


def end_unread(batch: AnyDataFrame) -> None:
    """Have Spark read those behind a micro-batch."""
    function: TakesBatches | None = batch.__dict__.get(_FUNCTION)
    if function is not None and function.unread is not None:
        function.unread.end()


def without_rows(batch: AnyDataFrame) -> AnyDataFrame:
    """A frame with the columns of a micro-batch: one partition without rows, the same one for all that are alike."""
    alike = AlikeFrames.of(batch)
    assert alike is not None, "a micro-batch is one of those of its query"
    if alike.no_rows is None:
        alike.no_rows = frame_without_rows(batch.sparkSession, batch.schema)
        alike.add(alike.no_rows)
    found: AnyDataFrame = alike.no_rows
    return found


def _set_sink(execution: Any, sink: Any) -> None:
    kind = execution.getClass()
    while str(kind.getSimpleName()) != "StreamExecution":
        kind = kind.getSuperclass()
    field = kind.getDeclaredField("sink")
    field.setAccessible(True)
    field.set(execution, sink)
