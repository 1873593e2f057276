"""Output columns that Spark computes of the rows that an operator writes: which they are, and over which rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from ..platform.arrow_types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Column of a task's report.
REPORT_COLUMN = "report"


@dataclass(frozen=True)
class Projection:
    """How output rows are made of an operator's rows."""

    #: Schema of the rows that the operator writes; names that are plain and distinct.
    row_schema: StructType
    #: The output's columns over them, in the output schema's order; they cannot leave the driver.
    columns: tuple[Column, ...]
    #: For each of them the same column over others of the operator's rows, by their names; None: it is not to be had.
    renamers: tuple[Renamer | None, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {"row_schema": self.row_schema, "columns": (), "renamers": ()}

    def over(self, row_schema: StructType, names: Sequence[Mapping[str, str]]) -> Projection:
        """The same output columns over other rows.

        Args:
            row_schema: the rows.
            names: for each output column the columns of the rows that it reads from now on, by those it has read.
        """
        columns = list(self.columns)
        for place, (renamer, its) in enumerate(zip(self.renamers, names, strict=True)):
            if its and renamer is not None:
                columns[place] = renamer(its)
        return Projection(row_schema, tuple(columns), self.renamers)

    def report_row(self, report: bytes) -> pa.RecordBatch:
        """A row that carries a report and no values."""
        schema = arrow_schema(self.row_schema)
        columns = [pa.array([report], pa.binary()), *[pa.nulls(1, field.type) for field in schema]]
        return pa.RecordBatch.from_arrays(columns, schema=_with_report(schema))


def _with_report(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(REPORT_COLUMN, pa.binary()), *schema])


#: Makes a column over columns with other names, given by those that it has read.
Renamer = Callable[[Mapping[str, str]], "Column"]
