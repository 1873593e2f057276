"""Sinks that show rows at once: memory, console, noop.  At-least-once: a failed epoch's rows may be shown again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from ....errors import OptionError
from ...platform.spark_tables import check_view_name
from ..output_place import OutputPlace
from ..staging import StagedFile
from .base import Sink
from .deliveries import WholeResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class MemorySink(Sink):
    """A temporary view named like the query, holding all rows so far on the driver (for tests and notebooks)."""

    name = "memory"
    guarantee = "at-least-once"
    shows_at_once = True

    def __init__(self, schema: StructType, view: str, whole: WholeResult | None = None) -> None:
        super().__init__(schema)
        self.view = view
        self._whole = whole
        self._rows: DataFrame | None = None

    def describe(self) -> str:
        return f"memory table {self.view}: at-least-once, visible at once, gone with the driver"

    def check(self, spark: SparkSession) -> None:
        super().check(spark)
        try:
            check_view_name(spark, self.view)
        except PySparkException as error:
            raise OptionError(
                f'queryName is {self.view!r}, which format "memory" cannot use as the name of its table; use letters,'
                " digits and _"
            ) from error

    def open(self, *args: object) -> None:
        super().open(*args)  # type: ignore[arg-type]
        assert self._spark is not None
        self._rows = self._spark.createDataFrame([], self.schema)
        self._rows.createOrReplaceTempView(self.view)

    def deliver(self, epoch: int, files: Sequence[StagedFile]) -> None:
        if files:
            assert self._spark is not None and self._rows is not None
            rows = self.frame(files)
            if self._whole is not None:
                rows = self._whole.arranged(rows)
            # Collected on purpose: the staged files go away, and a memory sink is meant for few rows.
            fresh = self._spark.createDataFrame(rows.collect(), self.schema)
            self._rows = fresh if self._whole is not None else self._rows.unionAll(fresh)
            self._rows.createOrReplaceTempView(self.view)
        self.discard(files)


class ConsoleSink(Sink):
    """Prints each epoch's rows."""

    name = "console"
    guarantee = "at-least-once"
    shows_at_once = True

    def __init__(self, schema: StructType, rows: int, truncate: bool, whole: WholeResult | None = None) -> None:
        super().__init__(schema)
        self._whole = whole
        self._shown_rows = rows
        self._truncate = truncate

    def describe(self) -> str:
        return "console: at-least-once, visible at once"

    def deliver(self, epoch: int, files: Sequence[StagedFile]) -> None:
        if files:
            rule = "-" * 43
            print(f"{rule}\nEpoch: {epoch}\n{rule}")
            rows = self.frame(files)
            (rows if self._whole is None else self._whole.arranged(rows)).show(self._shown_rows, self._truncate)
        self.discard(files)


class NoopSink(Sink):
    """Rows are computed, counted and dropped (benchmarks)."""

    name = "noop"
    guarantee = "at-least-once"
    shows_at_once = True
    takes_rows = False

    def check(self, spark: SparkSession) -> None:
        """Nothing is written, so every type is as good as another."""

    def describe(self) -> str:
        return "noop: at-least-once, rows are dropped"

    @property
    def output(self) -> OutputPlace:
        """Nowhere: tasks drop the rows themselves."""
        return OutputPlace(self._filesystem, None)
