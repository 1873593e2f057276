"""Prepares rows that tasks read without Spark for a stage: which columns it needs, and what its operator gets of them.

The operator gets what Spark would have made of the rows for it (``KeyedOperator.prepare`` or ``first_pass``), in the
same columns, so all behind that is the same, the state above all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN


@dataclass(frozen=True)
class RowWork(ABC):
    """One stage's work in one epoch; goes to the tasks.

    Args:
        key_columns: columns of a run that are the key.
        group_columns: those of them that decide the key group.
        sides: by side the columns of the input that are wanted, with their types.
    """

    key_columns: tuple[str, ...]
    group_columns: tuple[str, ...]
    sides: tuple[tuple[tuple[str, pa.DataType], ...], ...]

    #: Whether it matters where a row stands in the files.
    has_places: ClassVar[bool] = False
    #: Whether rows can be left out before they come to their shards.
    reduces: ClassVar[bool] = False
    #: Column of the input that says which side a part of it is; None: there is one.
    side_column: ClassVar[str | None] = None

    def type_of(self, side: int, name: str) -> pa.DataType:
        """The type of a column that is wanted."""
        return dict(self.sides[side])[name]

    def run_schema(self, side: int) -> pa.Schema:
        """The columns of a side's runs, the key group first."""
        return pa.schema([pa.field(KEY_GROUP_COLUMN, pa.int32()), *[pa.field(*one) for one in self.sides[side]]])

    def run_rows(
        self, side: int, arrays: Mapping[str, pa.Array], places: pa.Array | None, rank: int | None
    ) -> pa.RecordBatch:
        """Rows as they are in a run.

        Args:
            side: of the rows.
            arrays: key group, and the columns that are wanted.
            places: the number of each row in its file; None: it does not matter.
            rank: of the file.
        """
        schema = self.run_schema(side)
        return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)

    def reduced(self, side: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a run without those that change nothing; also of rows that are left of others."""
        raise NotImplementedError

    @abstractmethod
    def of_shard(self, sides: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the operator gets of all rows of some key groups, by side; in the order of key groups and keys."""
