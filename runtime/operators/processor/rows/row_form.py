"""Defines the forms in which a processor takes and gives rows: PySpark's ``Row`` is one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ....support.arrow_columns import unpacked
from ...keyed.keyed_rows import INITIAL_STATE_COLUMN, KIND_COLUMN, HandedOver, HandedOverRows
from .row_reader import RowReader
from .row_writer import RowBuffer


class ProcessorInput(HandedOver, Protocol):
    """What handlers get; with an initial state in pairs: first those with what is of it, then (None, the others)."""

    def last_read(self, column: str) -> Any:
        """The value of an input column in the row that was handed over last; None: there is none."""


class ProcessorOutput(Protocol):
    """Takes what handlers yield."""

    def extend(self, rows: Iterable[Any], key: Any) -> None:
        """Take all that the handler of a key yields, as it is at this moment."""

    def flush(self) -> None:
        """Write what is waiting."""


class Form(ABC):
    """The form in which rows are handed over and taken; everything else of a processor's run is the same."""

    #: Column that says of which input a row is, if handlers get the rows of each by themselves; None: they do not.
    side_column: ClassVar[str | None] = None

    @property
    def label(self) -> str:
        """How explain() tells the form; empty: as everybody expects."""
        return ""

    @property
    def facts(self) -> str:
        """All that results may depend on besides the rows."""
        return ""

    @abstractmethod
    def input(
        self, schema: StructType, initial_schema: StructType | None, folder: str, *, first: bool = False
    ) -> ProcessorInput:
        """Hands over rows of a schema, and of an initial state if there is one.

        Args:
            schema: the rows.
            initial_schema: those of the initial state; None: there is none.
            folder: on the local disk.
            first: this is the epoch in which the initial state is handed over.
        """

    @abstractmethod
    def output(self, schema: StructType, write: Callable[[pa.RecordBatch], None]) -> ProcessorOutput:
        """Takes rows of a schema."""

    def late(self, rows: DataFrame) -> DataFrame:
        """Late rows, of the columns of the input, as they are handed out."""
        return rows

    def key(self, schema: pa.Schema) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
        """What makes a key's values those that handlers get; None: they are."""
        return None


class RowsForm(Form):
    """``transformWithState``: rows."""

    def input(
        self, schema: StructType, initial_schema: StructType | None, folder: str, *, first: bool = False
    ) -> ProcessorInput:
        return RowInput(schema, initial_schema)

    def output(self, schema: StructType, write: Callable[[pa.RecordBatch], None]) -> ProcessorOutput:
        return RowBuffer(schema, write)


class RowInput(HandedOverRows):
    """``Row`` objects of a schema; with an initial state pairs of (initial-state row or None, row).

    Args:
        schema: the input rows.
        initial_schema: the rows of the initial state; None: there is none.
    """

    def __init__(self, schema: StructType, initial_schema: StructType | None) -> None:
        self._reader = RowReader(schema)
        self._initial_schema = initial_schema
        super().__init__(self._reader.rows if initial_schema is None else self._pairs)

    def last_read(self, column: str) -> Any:
        return self._reader.last_read(column)

    def _pairs(self, batch: pa.RecordBatch) -> Iterator[Any]:
        rows = self._reader.rows(batch)
        initial = batch.column(INITIAL_STATE_COLUMN)
        if self._initial_schema is None or initial.null_count == len(initial):
            return zip(repeat(None), rows)
        packed = unpacked(initial)
        initial_rows = RowReader(self._initial_schema).rows(packed)
        kinds = batch.column(KIND_COLUMN).to_pylist()
        return ((first if kind == 0 else None, row) for kind, first, row in zip(kinds, initial_rows, rows, strict=True))
