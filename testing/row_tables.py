"""Rows that a test writes down, as Arrow tables of the input's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import StructType

from ..errors import OutputSchemaError, PlanError
from ..runtime.catalyst.types.arrow_types import arrow_schema
from ..runtime.operators.processor.rows.row_reader import RowReader
from ..runtime.operators.processor.rows.row_writer import RowWriter

if TYPE_CHECKING:
    import pandas as pd

#: One row: by names, or the values in the order of the schema.
GivenRow: TypeAlias = Row | tuple[Any, ...] | Mapping[str, Any]
#: Some rows; of a pandas frame those that it has.
GivenRows: TypeAlias = "Iterable[GivenRow] | pd.DataFrame"


class Output(list[Row]):
    """Rows that a processor has given, in order.

    Args:
        rows: the rows.
        schema: their columns.
    """

    def __init__(self, rows: Iterable[Row], schema: StructType) -> None:
        super().__init__(rows)
        self.schema = schema

    def toPandas(self) -> pd.DataFrame:
        """The same as a pandas frame."""
        import pandas as pd

        return pd.DataFrame([tuple(row) for row in self], columns=self.schema.fieldNames())


def plain_rows(rows: Any, what: str) -> list[GivenRow]:
    """The rows as a list; raises PlanError for what is none, ``what`` names it."""
    if hasattr(rows, "itertuples"):
        names = [str(name) for name in rows.columns]
        return [dict(zip(names, map(_plain, row), strict=True)) for row in rows.itertuples(index=False, name=None)]
    if isinstance(rows, (str, bytes, Mapping, Row)) or not hasattr(rows, "__iter__"):
        raise PlanError(f"{what} takes a list of rows, or a pandas frame, got {rows!r:.80}")
    return list(rows)


def _plain(value: Any) -> Any:
    """A value of a pandas frame as PySpark makes it one of a row."""
    if hasattr(value, "to_pydatetime"):
        return None if value != value else value.to_pydatetime(warn=False)
    if value is not None and type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value


def table_of(rows: Sequence[GivenRow], schema: StructType, what: str) -> pa.Table:
    """Rows as a table.

    Args:
        rows: the rows; those that are dicts have all columns.
        schema: the columns.
        what: what they were given to, for errors.

    Raises:
        PlanError: one does not fit.
    """
    writer = RowWriter(schema)
    values = [_values(row, schema, f"row {place} of {what}") for place, row in enumerate(rows)]
    if not values:
        return pa.Table.from_batches([], arrow_schema(schema))
    try:
        batch = writer.batch(list(zip(*values, strict=True)), lambda place: place)
    except OutputSchemaError as error:
        raise _misfit(values, schema, what) or error from error
    return pa.Table.from_batches([batch])


def _values(row: Any, schema: StructType, what: str) -> tuple[Any, ...]:
    names, told = schema.fieldNames(), schema.simpleString()
    if isinstance(row, Row) and hasattr(row, "__fields__"):
        row = dict(zip(row.__fields__, row, strict=True))
    if isinstance(row, Mapping):
        unknown, missing = [name for name in row if name not in names], [name for name in names if name not in row]
        if unknown:
            left = {name.lower(): name for name in missing or names}
            near = [left[name] for name in get_close_matches(str(unknown[0]).lower(), left, n=1)]
            hint = f"; did you mean {near[0]}?" if near else f": {told}"
            raise PlanError(f"{what} has {', '.join(map(repr, unknown))}, which the schema has not{hint}")
        if missing:
            raise PlanError(
                f"{what} lacks column {', '.join(map(repr, missing))}; give each column of the schema, None for null"
            )
        return tuple(row[name] for name in names)
    if not isinstance(row, (tuple, list)):
        raise PlanError(f"{what} is {row!r:.80}; give a Row, a dict, or a tuple that fits {told}")
    if len(row) != len(names):
        raise PlanError(f"{what} has {len(row)} values, {tuple(row)!r:.80}; the schema has {len(names)}: {told}")
    return tuple(row)


def _misfit(rows: Sequence[tuple[Any, ...]], schema: StructType, what: str) -> PlanError | None:
    for at, field in enumerate(schema.fields):
        one = RowWriter(StructType([field]))
        for place, row in enumerate(rows):
            try:
                one.batch([(row[at],)], lambda _: None)
            except OutputSchemaError:
                kind = f"{field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
                value = row[at]
                return PlanError(
                    f"row {place} of {what} has {value!r} ({type(value).__name__}) in column {field.name}, which is"
                    f" {kind}"
                )
    return None


def rows_of(tables: Iterable[pa.Table], schema: StructType) -> Output:
    """The rows of some tables of one schema, as a processor would get them."""
    reader = RowReader(schema)
    found = [row for table in tables for batch in table.to_batches() for row in reader.rows(batch)]
    return Output([_row(row) for row in found], schema)


def _row(row: Row) -> Row:
    return Row(*row.__fields__)(*row) if isinstance(row, Row) and hasattr(row, "__fields__") else row


def moment_ms(value: int | datetime, what: str) -> int:
    """A moment in milliseconds; a datetime without a time zone is local time, as in PySpark."""
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000 // 1)
    if isinstance(value, bool) or not isinstance(value, int):
        raise PlanError(f"{what} got {value!r}; give milliseconds since 1970, or a datetime")
    return value
