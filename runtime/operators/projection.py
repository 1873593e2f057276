"""Output columns that Spark computes of the rows that an operator writes: which they are, and over which rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from ..catalyst.struct_fields import known_again, recast, with_own_fields


@dataclass(frozen=True)
class Projection:
    """How output rows are made of an operator's rows."""

    #: Schema of the rows that the operator writes; names that are plain and distinct.
    row_schema: StructType
    #: The output's columns.
    output_schema: StructType
    #: The same over the rows, in this order; they cannot leave the driver.
    columns: tuple[Column, ...]
    #: For each of them the same column over others of the operator's rows, by their names; None: it is not to be had.
    renamers: tuple[Renamer | None, ...] = ()
    #: What the rows' columns are cast to for these expressions, which know Spark's names of fields; None: nothing.
    known: StructType | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {
            "row_schema": self.row_schema,
            "output_schema": self.output_schema,
            "columns": (),
            "renamers": (),
            "known": None,
        }

    def with_own_fields(self, fold: Callable[[str], str]) -> Projection:
        """The same with a name of its own for each field of a struct, in the rows and in the output.

        Args:
            fold: makes names equal that count as one.
        """
        rows, output = with_own_fields(self.row_schema, fold), with_own_fields(self.output_schema, fold)
        if rows is self.row_schema and output is self.output_schema:
            return self
        return replace(self, row_schema=rows, output_schema=output, known=known_again(self.row_schema, rows.fields))

    def made_of(self, rows: DataFrame, more: Sequence[str] = ()) -> DataFrame:
        """The output.

        Args:
            rows: the operator's rows.
            more: columns behind these that stay.
        """
        if self.known is not None:
            rows = recast(rows, self.known.fields)
        fields = self.output_schema.fields
        columns = [
            column.alias(field.name, metadata=field.metadata or {})
            for column, field in zip(self.columns, fields, strict=True)
        ]
        output = rows.select(*columns, *more)
        return output if self.known is None else recast(output, fields)

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
        return replace(self, row_schema=row_schema, columns=tuple(columns))


#: Makes a column over columns with other names, given by those that it has read.
Renamer = Callable[[Mapping[str, str]], "Column"]
