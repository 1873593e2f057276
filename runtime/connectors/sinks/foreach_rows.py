"""A user's writer of single rows, as ``DataStreamWriter.foreach`` takes it, in the tasks that have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


class ForeachRows:
    """Takes deliveries as ``foreachBatch`` does, and gives each row to the writer.

    Args:
        writer: a function of a row, or an object with ``process(row)``, and perhaps ``open(partition_id, epoch_id)``,
            which says whether the rows of the partition are wanted, and ``close(error)``.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        #: As logs and errors call it.
        self.__qualname__ = str(getattr(writer, "__qualname__", type(writer).__qualname__))

    def __call__(self, rows: DataFrame, number: int) -> None:
        rows.foreachPartition(partial(_taken_by, self._writer, number))


def _taken_by(writer: Any, number: int, rows: Iterator[Row]) -> None:
    """Give the rows of one partition to a writer, in the order in which Spark's own sink calls it."""
    if callable(writer):
        for row in rows:
            writer(row)
        return
    error: Exception | None = None
    try:
        if _opened(getattr(writer, "open", None), number):
            for row in rows:
                writer.process(row)
    except Exception as raised:
        error = raised
        raise
    finally:
        if hasattr(writer, "close"):
            writer.close(error)


def _opened(open: Callable[[int, int], Any] | None, number: int) -> bool:
    if open is None:
        return True
    context = TaskContext.get()
    return bool(open(0 if context is None else context.partitionId(), number))
