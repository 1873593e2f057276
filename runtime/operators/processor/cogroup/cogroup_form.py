"""The form in which a processor behind ``cogroup`` gets its rows: those of both inputs, side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ...join.columns import SIDE_COLUMN
from ...join.late_rows import by_side
from ..rows.row_form import Form, ProcessorInput, ProcessorOutput
from .cogroup_input import CogroupInput


class Cogrouped(Form):
    """Another form, of two inputs: ``handleInputRows(key, left, right, timerValues)``.

    Args:
        form: of each input's rows, and of those that are yielded.
        left: the columns of left rows, as users know them.
        right: those of right rows.
    """

    side_column: ClassVar[str | None] = SIDE_COLUMN

    def __init__(self, form: Form, left: StructType, right: StructType) -> None:
        self._form = form
        self.schemas = (left, right)

    @property
    def label(self) -> str:
        return " ".join(filter(None, ("of two inputs", self._form.label)))

    @property
    def facts(self) -> str:
        return " ".join([*(schema.json() for schema in self.schemas), self._form.facts])

    def input(
        self, schema: StructType, initial_schema: StructType | None, folder: str, *, first: bool = False
    ) -> ProcessorInput:
        return CogroupInput(lambda each: self._form.input(each, None, folder), self.schemas, initial_schema, folder)

    def output(self, schema: StructType, write: Callable[[pa.RecordBatch], None]) -> ProcessorOutput:
        return self._form.output(schema, write)

    def late(self, rows: DataFrame) -> DataFrame:
        return by_side(rows, *self.schemas)

    def key(self, schema: pa.Schema) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
        return self._form.key(schema)
