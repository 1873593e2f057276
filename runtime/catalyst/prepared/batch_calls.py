"""Replaces PySpark's callback for ``foreachBatch`` by one that costs fewer calls to the JVM.

PySpark wraps the query's session anew for each call, which is some six calls to the JVM; it is the same one as long
as the query runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.utils import ForeachBatchFunction

from ...jvm.gateway import java_class
from ...support.ids import BatchId
from .unread_batches import UnreadBatch, UnreadSink, note_function

_HELPER = "org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper"


class BatchFunction(ForeachBatchFunction):
    """As PySpark's own; it keeps the session of the query that it is for, of which there is one."""

    _found: SparkSession | None = None
    #: Hands over micro-batches that Spark has not read; None: it has read them.
    unread: UnreadSink | None = None

    def call(self, jdf: Any, batch_id: int) -> None:
        try:
            if self.unread is not None and self.unread.takes(jdf):
                return
            if self._found is None:
                self._found = SparkSession(self.session.sparkContext, jdf.sparkSession())
            number, found = BatchId(batch_id), self._found
            batch = DataFrame(jdf, found) if self.unread is None else UnreadBatch(jdf, found, self.unread, number)
            note_function(batch, self)
            self.func(batch, number)
        except Exception as error:
            self.error = error
            raise


def handing_over(
    writer: DataStreamWriter, spark: SparkSession, function: Callable[[DataFrame, BatchId], None]
) -> DataStreamWriter:
    """``writer.foreachBatch``.

    Args:
        writer: of a query that is started once.
        spark: its session.
        function: takes the micro-batches.
    """
    found = writer.foreachBatch(function)  # type: ignore[arg-type]  # it also starts what takes calls from the JVM
    try:
        java_class(spark, _HELPER).callForeachBatch(found._jwrite, BatchFunction(spark, function))  # type: ignore[arg-type]
    except (AttributeError, Py4JError, TypeError):  # another version of Spark: PySpark's own stays
        return found
    return found
