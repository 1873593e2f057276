"""Spark's cleaners of file sources (``cleanSource``), taken out of their query: we say when they work.

Spark's query has a cleaner take the files of a micro-batch away when the next one begins.  A job that goes on from its
last checkpoint reads the files behind it again, so they must stay until a checkpoint holds their rows.  The cleaners
are private to Spark's sources; where a version keeps them elsewhere, :func:`can_be_taken` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from ...errors import QueryError
from ..catalyst.spark_expressions import class_name, items
from ..jvm.gateway import java_class, name_of_class, scala_option

_PACKAGE = "org.apache.spark.sql.execution.streaming"
#: Where versions of Spark have the source.
_PLACES = (f"{_PACKAGE}.runtime.FileStreamSource", f"{_PACKAGE}.FileStreamSource")
_FIELD = "sourceCleaner"
#: How long Spark may take to make the sources: it lists their folders.
_PATIENCE_MS = 600_000


@dataclass(frozen=True)
class FileCleaner:
    """Deletes or archives files of one source, as its options say."""

    spark: SparkSession
    cleaner: Any

    def clean(self, path: str, modified_ms: int, batch: int) -> None:
        """Take a file away; one that is gone already is no error.

        Args:
            path: its URI, as Spark's log has it.
            modified_ms: when it was last written.
            batch: of the source's log.
        """
        self.cleaner.cleanTask(self.entry(path, modified_ms, batch))

    def entry(self, path: str, modified_ms: int, batch: int) -> Any:
        """A file as Spark's log and cleaners have it; arguments are those of :meth:`clean`."""
        return java_class(self.spark, f"{name_of_class(self.spark, _PLACES)}$FileEntry")(path, modified_ms, batch)


def can_be_taken(spark: SparkSession) -> bool:
    """Whether this version of Spark keeps its cleaners where they are looked for."""
    place = name_of_class(spark, _PLACES)
    if place is None:
        return False
    try:
        java_class(spark, "java.lang.Class").forName(place).getDeclaredField(_FIELD)
    except (Py4JError, PySparkException):
        return False
    return True


def take_cleaners(spark: SparkSession, query: StreamingQuery) -> Mapping[int, FileCleaner]:
    """The cleaners of a query that has been started, by the number of the source in Spark's log; it has none any more.

    Args:
        spark: a session of the same Spark application.
        query: nothing of its first micro-batch is committed yet.
    """
    execution = query._jsq.streamingQuery()
    try:
        execution.awaitInitialization(_PATIENCE_MS)
    except (Py4JError, PySparkException):
        if query.isActive:
            raise
        return {}  # it has failed, and tells why by itself
    sources = list(items(execution.sources()))
    if not sources:
        raise QueryError(
            f"Spark has not made the live sources within {_PATIENCE_MS // 1000} s, and cleanSource must be delayed"
            " before it reads them; start the query again, or leave the option out"
        )
    found: list[Any] = []
    taken: dict[int, FileCleaner] = {}
    for source in sources:
        if any(other.equals(source) for other in found):
            continue
        found.append(source)
        if class_name(source) != "FileStreamSource":
            continue
        field = source.getClass().getDeclaredField(_FIELD)
        field.setAccessible(True)
        held = field.get(source)
        if held.isDefined():
            # Its threads are not stopped: the query may be about to give them the files of the checkpoint that it goes
            # on from, which may go, and would fail if they did not take them.  They end by themselves.
            field.set(source, scala_option(spark))
            taken[len(found) - 1] = FileCleaner(spark, held.get())
    return taken
