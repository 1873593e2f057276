"""Sinks that show rows at once: memory, console, noop.  At-least-once: a failed epoch's rows may be shown again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ....errors import OptionError
from ...spark_io.spark_tables import is_view_name
from ...support.ids import EpochNumber
from ..output_place import OutputPlace
from ..staging import StagedFile
from .base import Sink
from .deliveries import Deliveries

if TYPE_CHECKING:
    from .sink_spec import SinkSpec


class PerEpochSink(Sink):
    """Shows an epoch's rows as soon as they are there."""

    guarantee = "at-least-once"
    shows_at_once = True

    def rows(self, epoch: EpochNumber, files: Sequence[StagedFile]) -> DataFrame:
        """What is shown of staged files."""
        return self.deliveries.rows(self.frame(files), {epoch})


class MemorySink(PerEpochSink):
    """A temporary view named like the query, holding all rows so far on the driver (for tests and notebooks)."""

    name = "memory"

    def __init__(self, schema: StructType, view: str, deliveries: Deliveries | None = None) -> None:
        super().__init__(schema, deliveries)
        self.view = view
        self._rows: DataFrame | None = None

    @classmethod
    def of(cls, spec: SinkSpec) -> MemorySink:
        """The sink that a user asked for; raises OptionError without a name."""
        if not spec.query_name:
            raise OptionError('format "memory" needs a name for its table: .queryName(…)')
        return cls(spec.schema, spec.query_name, spec.deliveries)

    def describe(self) -> str:
        return f"memory table {self.view}: at-least-once, visible at once, gone with the driver"

    def check(self, spark: SparkSession) -> None:
        super().check(spark)
        if not is_view_name(spark, self.view):
            raise OptionError(
                f'queryName is {self.view!r}, which format "memory" cannot use as the name of its table; use letters,'
                " digits and _"
            )

    def open(self, *args: object) -> None:
        super().open(*args)  # type: ignore[arg-type]
        self._rows = self._spark.createDataFrame([], self.schema)
        self._rows.createOrReplaceTempView(self.view)

    def deliver(self, epoch: EpochNumber, files: Sequence[StagedFile]) -> None:
        if files:
            assert self._rows is not None
            # Collected on purpose: the staged files go away, and a memory sink is meant for few rows.
            fresh = self._spark.createDataFrame(self.rows(epoch, files).collect(), self.schema)
            self._rows = fresh if self.deliveries.whole is not None else self._rows.unionAll(fresh)
            self._rows.createOrReplaceTempView(self.view)
        self.staging.discard(files)


class ConsoleSink(PerEpochSink):
    """Prints each epoch's rows."""

    name = "console"

    def __init__(self, schema: StructType, rows: int, truncate: bool, deliveries: Deliveries | None = None) -> None:
        super().__init__(schema, deliveries)
        self._shown_rows = rows
        self._truncate = truncate

    @classmethod
    def of(cls, spec: SinkSpec) -> ConsoleSink:
        """The sink that a user asked for; raises OptionError for a value that an option does not allow."""
        given = {name.lower(): text for name, text in spec.options.items()}
        rows, truncate = given.get("numrows", "20"), given.get("truncate", "true").lower()
        if not rows.isdecimal():
            raise OptionError(f"option numRows = {rows!r} of format console is not allowed; allowed: 0, 1, 2, …")
        if truncate not in ("true", "false"):
            raise OptionError(f"option truncate = {truncate!r} of format console is not allowed; allowed: true, false")
        return cls(spec.schema, int(rows), truncate == "true", spec.deliveries)

    def describe(self) -> str:
        return "console: at-least-once, visible at once"

    def deliver(self, epoch: EpochNumber, files: Sequence[StagedFile]) -> None:
        if files:
            rule = "-" * 43
            print(f"{rule}\nEpoch: {epoch}\n{rule}")
            self.rows(epoch, files).show(self._shown_rows, self._truncate)
        self.staging.discard(files)


class NoopSink(PerEpochSink):
    """Rows are computed, counted and dropped (benchmarks)."""

    name = "noop"
    takes_rows = False

    @classmethod
    def of(cls, spec: SinkSpec) -> NoopSink:
        """The sink that a user asked for."""
        return cls(spec.schema, spec.deliveries)

    def check(self, spark: SparkSession) -> None:
        """Nothing is written, so every type is as good as another."""

    def describe(self) -> str:
        return "noop: at-least-once, rows are dropped"

    @property
    def output(self) -> OutputPlace:
        """Nowhere: tasks drop the rows themselves."""
        return OutputPlace(self.staging.filesystem, None)
