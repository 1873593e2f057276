"""Rows that a processor starts from: each key's come before its input rows, in the very first epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...catalyst.columns import quoted
from ..keyed.keyed_rows import INITIAL_STATE_COLUMN, KIND_COLUMN


@dataclass(frozen=True)
class InitialState:
    """The rows of ``initialState``."""

    schema: StructType
    #: The columns that hold the key, in the order of the stage's.
    key_columns: tuple[str, ...] = ()
    #: None: who reads them here does not have Spark.
    frame: DataFrame | None = None

    def before(self, rows: DataFrame, key_columns: Sequence[str], *, first: bool) -> DataFrame:
        """Input rows with a column that tells them from those of the initial state, and one for the latter.

        Args:
            rows: the input.
            key_columns: those of the input.
            first: whether the initial state's own rows are to come before them.
        """
        assert self.frame is not None, "rows are prepared on the driver"
        nothing = F.lit(None).cast(self.schema)
        rows_after = rows.select(F.lit(1).alias(KIND_COLUMN), "*", nothing.alias(INITIAL_STATE_COLUMN))
        if not first:
            return rows_after
        columns = dict(zip(key_columns, self.key_columns, strict=True))
        initial = self.frame.select(
            F.lit(0).alias(KIND_COLUMN),
            *[
                (F.col(quoted(columns[field.name])) if field.name in columns else F.lit(None))
                .cast(field.dataType)
                .alias(field.name)
                for field in rows.schema.fields
            ],
            F.struct(*map(quoted, self.frame.columns)).alias(INITIAL_STATE_COLUMN),
        )
        return initial.unionByName(rows_after)

    def without_rows(self) -> InitialState:
        """The same for tasks, which get them with the input."""
        return replace(self, frame=None)
