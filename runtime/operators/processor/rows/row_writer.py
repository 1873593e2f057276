"""Rows that a processor yields: checked against the output schema, and turned into record batches.

A row costs a look at its form when it is yielded; its values are converted by the column, and an error names the row's
key all the same.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    IntegralType,
    MapType,
    Row,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .....errors import OutputSchemaError
from .....state.codec.local_datetimes import local_zone_is_utc
from ....catalyst.types.arrow_types import NUMBERS, arrow_schema

#: Types that ``pa.array(values, type)`` checks and converts exactly as PySpark would.
_PLAIN = (*NUMBERS, BooleanType, StringType, BinaryType, DateType, TimestampNTZType)
#: Types whose values are whole numbers inside, for which Arrow takes any number, cut off.
_COUNTED = (IntegralType, DateType, TimestampNTZType)
_WHOLE = frozenset({int, date, datetime, type(None)})
_DATETIMES = frozenset({datetime, type(None)})
#: Rows per output record batch: large enough to amortise Arrow, small enough to hold many columns.
_BATCH_ROWS = 10_000


class RowBuffer:
    """Rows of many keys on their way to the output; remembers which key each came from, for errors.

    It holds their values, not the rows: row objects that live on by the ten thousand cost more in the garbage collector
    than all that is done here.
    """

    def __init__(self, schema: StructType, write: Callable[[pa.RecordBatch], None]) -> None:
        self._writer = RowWriter(schema)
        self._write = write
        self._width = len(schema.fields)
        self._full = _BATCH_ROWS * self._width
        #: The values of all rows, one row after the other.
        self._values: list[Any] = []
        #: Each key that yielded rows, and where its values end.
        self._keys: list[Any] = []
        self._ends: list[int] = []
        # A list or dict that a row holds may change after it was yielded; what counts is what was yielded.
        self._mutable = any(is_mutable(field) for field in schema.fields)

    def extend(self, rows: Iterable[Any], key: Any) -> None:
        """Take all rows that the handler of a key yields, as they are at this moment."""
        values, width, check = self._values, self._width, self._writer.check
        before = len(values)
        for row in rows:
            fitting = row if type(row) is tuple and len(row) == width else check(row, key)
            values.extend(map(frozen_value, fitting) if self._mutable else fitting)
            if len(values) >= self._full:
                self._flush_within(key)
                before = 0
        if len(values) > before:
            self._keys.append(key)
            self._ends.append(len(values))

    def _flush_within(self, key: Any) -> None:
        self._keys.append(key)
        self._ends.append(len(self._values))
        self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        if self._values:
            width = self._width
            columns = [self._values[place::width] for place in range(width)]
            self._write(self._writer.batch(columns, lambda row: self._keys[bisect_right(self._ends, row * width)]))
            for waiting in (self._values, self._keys, self._ends):
                waiting.clear()


def is_mutable(field: StructField) -> bool:
    """True if a value of the field may be changed by whoever holds it."""
    return not isinstance(field.dataType, AtomicType) or isinstance(field.dataType, BinaryType)


def frozen_value(value: Any) -> Any:
    """A value of an output row without anything that its owner could still change."""
    if isinstance(value, tuple):
        parts = [frozen_value(part) for part in value]
        if all(part is old for part, old in zip(parts, value, strict=True)):
            return value
        names = getattr(value, "__fields__", None)
        return tuple(parts) if names is None else Row(*names)(*parts)
    if isinstance(value, list):
        return [frozen_value(part) for part in value]
    if isinstance(value, dict):
        return {key: frozen_value(part) for key, part in value.items()}
    if isinstance(value, bytearray):
        return bytes(value)
    return value.copy() if isinstance(value, np.ndarray) else value


class RowWriter:
    """Turns output rows of a processor into record batches of the output schema."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        self.arrow_schema = arrow_schema(schema)
        self._width = len(schema.fields)
        self._names = schema.fieldNames()
        self._columns = [
            _column_writer(field, self.arrow_schema.field(i).type) for i, field in enumerate(schema.fields)
        ]

    def check(self, row: Any, key: Any) -> tuple[Any, ...]:
        """The row as a tuple in the schema's order; anything that does not fit is an error that names the key.

        A row with names goes by its names, as in stock ``transformWithState``; names that it leaves out are null.
        """
        if isinstance(row, Row) and (fields := getattr(row, "__fields__", None)) is not None:
            if fields != self._names or len(row) != self._width:
                return self._by_name(dict(zip(fields, row, strict=False)), row, key)
            return row
        elif isinstance(row, dict):
            return self._by_name(row, row, key)
        if not isinstance(row, (tuple, list)):
            raise OutputSchemaError(
                f"the processor yielded {row!r} ({type(row).__name__}) for key {key!r}; "
                f"yield a Row or tuple that fits the output schema ({self.schema.simpleString()})"
            )
        if len(row) != self._width:
            raise OutputSchemaError(
                f"the processor yielded {len(row)} values {tuple(row)!r} for key {key!r}, "
                f"but the output schema has {self._width} fields: {self.schema.simpleString()}"
            )
        return tuple(row)

    def _by_name(self, values: dict[str, Any], row: Any, key: Any) -> tuple[Any, ...]:
        unknown = [name for name in values if name not in self._names]
        if unknown:
            raise OutputSchemaError(
                f"the processor yielded {row!r} for key {key!r}, but the output schema has no field "
                f"{', '.join(map(repr, unknown))}: {self.schema.simpleString()}"
            )
        return tuple(values.get(name) for name in self._names)

    def batch(self, columns: Sequence[Sequence[Any]], key_of: Callable[[int], Any]) -> pa.RecordBatch:
        """One record batch of the columns; ``key_of(i)`` names the key of row ``i`` in an error."""
        arrays = []
        for index, (convert, values) in enumerate(zip(self._columns, columns, strict=True)):
            try:
                array = convert(values)
            except Exception as error:
                raise self._misfit(index, values, key_of) from error
            if array.null_count and not self.schema.fields[index].nullable:
                raise self._misfit(index, values, key_of)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _misfit(self, index: int, values: Sequence[Any], key_of: Callable[[int], Any]) -> OutputSchemaError:
        field = self.schema.fields[index]
        for position, value in enumerate(values):
            try:
                if value is None and not field.nullable:
                    raise ValueError("null")
                self._columns[index]((value,))
            except Exception:
                return misfit(field, value, key_of(position))
        return OutputSchemaError(f"field {field.name!r} of the output schema does not take the values {values[:5]!r}…")


def misfit(field: StructField, value: Any, key: Any, where: str = "") -> OutputSchemaError:
    """The error for a value that an output field cannot hold.

    Args:
        field: of the output schema.
        value: what was yielded.
        key: of the handler that did.
        where: more of the value's place.
    """
    return OutputSchemaError(
        f"field {field.name!r} of the output schema is {field.dataType.simpleString()}"
        f"{'' if field.nullable else ' not null'}, but the processor yielded {value!r} "
        f"({type(value).__name__}){where} for key {key!r}"
    )


def _column_writer(field: StructField, arrow: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    if isinstance(field.dataType, _COUNTED):

        def counted(values: Sequence[Any]) -> pa.Array:
            check_whole(values)
            return pa.array(values, type=arrow)

        return counted
    if isinstance(field.dataType, _PLAIN):
        return lambda values: pa.array(values, type=arrow)
    if isinstance(field.dataType, TimestampType):
        naive_is_utc = local_zone_is_utc()

        def moments(values: Sequence[Any]) -> pa.Array:
            if not naive_is_utc or not set(map(type, values)) <= _DATETIMES:
                values = [_utc(value) for value in values]
            return pa.array(values, type=arrow)

        return moments
    schema = StructType([StructField("value", field.dataType)])

    def convert(values: Sequence[Any]) -> pa.Array:
        table = LocalDataToArrowConversion.convert(
            [(_by_names(value, field.dataType),) for value in values], schema, False
        )
        return table.column(0).combine_chunks().cast(arrow)

    return convert


def check_whole(values: Iterable[Any]) -> None:
    """Raise ValueError if Arrow would cut one of the values off to a whole number, as it does without a word."""
    if frozenset(map(type, values)) <= _WHOLE:
        return
    for value in values:
        if isinstance(value, (float, np.floating, Decimal)) and value != value // 1:
            raise ValueError(f"{value!r} is no whole number")


def _by_names(value: Any, data_type: DataType) -> Any:
    """The value with its named structs as dicts: the conversion takes those by name, but rows by position."""
    if isinstance(data_type, StructType) and isinstance(value, Row) and hasattr(value, "__fields__"):
        types = {field.name: field.dataType for field in data_type.fields}
        # A name that the struct does not have is a KeyError, and so a misfit.
        return {name: _by_names(item, types[name]) for name, item in zip(value.__fields__, value, strict=True)}
    if isinstance(data_type, StructType) and isinstance(value, tuple) and len(value) == len(data_type.fields):
        return tuple(_by_names(item, field.dataType) for item, field in zip(value, data_type.fields, strict=True))
    if isinstance(data_type, StructType) and isinstance(value, dict):
        types = {field.name: field.dataType for field in data_type.fields}
        return {name: _by_names(item, types[name]) if name in types else item for name, item in value.items()}
    if isinstance(data_type, ArrayType) and isinstance(value, (list, array)):
        if isinstance(data_type.elementType, _COUNTED):
            check_whole(value)
            return value
        return [_by_names(item, data_type.elementType) for item in value]
    if isinstance(data_type, MapType) and isinstance(value, dict):
        if isinstance(data_type.keyType, _COUNTED):
            check_whole(value)
        return {key: _by_names(item, data_type.valueType) for key, item in value.items()}
    if isinstance(data_type, _COUNTED):
        check_whole((value,))
    return value


def _utc(value: datetime | None) -> datetime | None:
    """Naive datetimes are local wall clock, as everywhere in PySpark."""
    return None if value is None else value.astimezone(timezone.utc)
