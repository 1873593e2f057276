"""``foreach``: a user's function, or an object with ``process``, takes the rows one by one in Spark's tasks.

The object is used as stock Spark uses it: for each partition of a call ``open(partition_id, epoch_id)``, which may say
False to leave the rows out, then ``process(row)`` for each row, then ``close(error)``.  Each task has a copy of it, and
the id is that of a call of ``foreachBatch``.  A call that has not left its marker is repeated from its first row, so a
receiver that does not know rows again gets them at least once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....errors import PlanError, UserCodeError
from ...jvm.user_frames import UserFrames
from ...jvm.worker_errors import raised_in_workers
from ...support.user_functions import ORDINARY, kind_that_waits, name_of, why_not_called_with, why_not_sent
from .foreach_batch import ForeachBatchSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

#: The methods of an object, and what they are called with.
_ARGUMENTS = {"open": ("partition_id", "epoch_id"), "process": ("row",), "close": ("error",)}


class RowByRow:
    """Gives the rows of each call to a user's function or object.

    Args:
        writer: a function of a row, or an object with ``process`` and perhaps ``open`` and ``close``.

    Raises:
        PlanError: it is neither, a call does not run it or has other arguments, or it cannot be pickled.
    """

    def __init__(self, writer: Any) -> None:
        _check(writer)
        self._writer = writer

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Have all rows taken, in the partitions of the frame."""
        with raised_in_workers():
            rows.rdd.mapPartitionsWithIndex(PartitionFunction(self._writer, number)).count()


def _check(writer: Any) -> None:
    """Raise PlanError unless tasks can call it as it is."""
    if inspect.isclass(writer) and hasattr(writer, "process"):
        raise PlanError(f"foreach was given the class {writer.__name__}; give an object of it, {writer.__name__}()")
    wrong = [name for name in _ARGUMENTS if hasattr(writer, name) and not callable(getattr(writer, name))]
    if not callable(writer) and (wrong or not hasattr(writer, "process")):
        why = f"whose {wrong[0]} is not a method" if wrong else "which has no method process"
        raise PlanError(
            f"foreach needs a function of a row, or an object with process(row), and if need be open(partition_id,"
            f" epoch_id) and close(error); got {writer!r}, {why}"
        )
    methods = [(getattr(writer, name), arguments) for name, arguments in _ARGUMENTS.items() if hasattr(writer, name)]
    for called, arguments in [(writer, ("row",))] if callable(writer) else methods:
        kind = kind_that_waits(called)
        if kind is not None:
            raise PlanError(f"foreach: {name_of(called)} is {kind}: a call does not run its body; {ORDINARY}")
        misfit = why_not_called_with(called, *arguments)
        if misfit is not None:
            raise PlanError(f"foreach calls {name_of(called)}({', '.join(arguments)}), but {misfit}")
    unsent = why_not_sent(writer)
    if unsent is not None:
        raise PlanError(
            f"foreach: {name_of(writer)} {unsent}; make what cannot be pickled (connections, say) in its open(), or in"
            " the call"
        )


@dataclass(frozen=True)
class PartitionFunction:
    """The function that takes the rows of a partition, in a Spark task."""

    writer: Any
    number: int

    def __call__(self, partition: int, rows: Iterable[Row]) -> Iterator[Any]:
        try:
            if callable(self.writer):
                for row in rows:
                    self.writer(row)
            else:
                self._take(partition, rows)
        except (Exception, SystemExit) as error:
            frames = UserFrames.since(error.__traceback__)
            raise UserCodeError(frames.description(error, f"what foreach was given, batch {self.number}")) from error
        return iter(())

    def _take(self, partition: int, rows: Iterable[Row]) -> None:
        opens: Callable[[int, int], Any] | None = getattr(self.writer, "open", None)
        closes: Callable[[BaseException | None], Any] | None = getattr(self.writer, "close", None)
        is_wanted = opens is None or opens(partition, self.number)
        failure: BaseException | None = None
        try:
            if is_wanted:
                for row in rows:
                    self.writer.process(row)
        except (Exception, SystemExit) as error:
            failure = error
        if closes is not None:
            closes(failure)
        if failure is not None:
            raise failure


class ForeachSink(ForeachBatchSink):
    """Has each row taken by a user's function or object, when the checkpoint that covers it is complete."""

    name = "foreach"
    guarantee = "at-least-once"

    def check(self, spark: SparkSession) -> None:
        self.check_columns(spark)

    def describe(self) -> str:
        return (
            "foreach: at-least-once (rows of a call may be taken again after a failure, under the same id), when a"
            f" checkpoint completes{self.what_is_called_for}"
        )
