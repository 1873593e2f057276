"""Rows in and out of a processor: Arrow record batches to PySpark ``Row`` tuples and back.

This is the hottest Python of a processor job, so columns are converted as a whole wherever the type allows it, and a
row is one ``tuple.__new__``.  Types whose Python form has rules of its own (nested, decimal, variant…) go through
PySpark's own converters, so that a processor sees what ``DataFrame.collect`` hands out: timestamps are naive local
time, structs rows, maps dicts.  (Stock ``transformWithState`` differs: aware timestamps, dicts, lists of pairs.)
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    Row,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..errors import OutputSchemaError

_NUMBERS = (ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType)
#: Types that ``pa.array(values, type)`` checks and converts exactly as PySpark would.
_PLAIN = (*_NUMBERS, BooleanType, StringType, BinaryType, DateType, TimestampNTZType)

#: How to_arrow_type is told to make UTC timestamps: until Spark 4.2 that is what it does by itself.
_UTC_TIMESTAMPS: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
)


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of a Spark type; timestamps are ``timestamp('us', 'UTC')``."""
    return to_arrow_type(data_type, **_UTC_TIMESTAMPS)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema, every field nullable as rows cross process borders."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def row_class(names: Sequence[str]) -> type[Row]:
    """A ``Row`` subclass whose fields are C-speed properties instead of a scan over ``__fields__``.

    Instances pickle, print and compare as plain ``Row`` objects.  A field named like a tuple method (``count``,
    ``index``) keeps the method, as in PySpark.
    """
    positions = {name: index for index, name in reversed(list(enumerate(names)))}

    def getitem(self: Row, item: Any) -> Any:
        if isinstance(item, str):
            if item not in positions:
                raise ValueError(item)
            return tuple.__getitem__(self, positions[item])
        return tuple.__getitem__(self, item)

    def contains(self: Row, item: Any) -> bool:
        return item in positions

    body: dict[str, Any] = {"__fields__": list(names), "__getitem__": getitem, "__contains__": contains}
    body.update(
        {name: property(itemgetter(index)) for name, index in positions.items() if not hasattr(tuple, name)},
    )
    body = {name: value for name, value in body.items() if name.isidentifier()}
    return type("Row", (Row,), body)


class RowReader:
    """Turns the columns of a record batch into ``Row`` objects of one schema."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        self._names = schema.fieldNames()
        self._row_class = row_class(self._names)
        self._converters = [_column_reader(field) for field in schema.fields]

    def rows(self, batch: pa.RecordBatch) -> list[Row]:
        """All rows of the batch, whose columns are found by name."""
        if not self._converters:
            return [tuple.__new__(self._row_class, ()) for _ in range(batch.num_rows)]
        columns = [
            convert(batch.column(batch.schema.get_field_index(name)))
            for name, convert in zip(self._names, self._converters, strict=True)
        ]
        new, cls = tuple.__new__, self._row_class
        return [new(cls, values) for values in zip(*columns, strict=True)]


def _column_reader(field: StructField) -> Callable[[pa.Array], list[Any]]:
    data_type = field.dataType
    if isinstance(data_type, (*_NUMBERS, BooleanType)):
        return _numbers
    if isinstance(data_type, (StringType, DateType)):
        return pa.Array.to_pylist
    if isinstance(data_type, TimestampNTZType) or (isinstance(data_type, TimestampType) and _local_zone_is_utc()):
        return _instants
    schema = StructType([StructField("value", data_type)])

    def convert(column: pa.Array) -> list[Any]:
        if len(column) == 0:
            return []
        return [row[0] for row in ArrowTableToRowsConversion.convert(pa.table({"value": column}), schema)]

    return convert


def _numbers(column: pa.Array) -> list[Any]:
    if column.null_count or pa.types.is_boolean(column.type):
        return list(column.to_pylist())
    return list(column.to_numpy().tolist())


def _instants(column: pa.Array) -> list[Any]:
    """Microsecond timestamps as naive datetimes (their UTC wall clock)."""
    micros = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    values = micros.fill_null(0).to_numpy().astype("datetime64[us]").tolist()
    if column.null_count:
        for index in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)):
            values[index] = None
    return list(values)


def _local_zone_is_utc() -> bool:
    """True if naive local datetimes equal UTC ones on this machine, now and in the past."""
    return time.timezone == 0 and not time.daylight and set(time.tzname) <= {"UTC", "GMT", "Etc/UTC"}


class RowWriter:
    """Collects output rows of a processor and turns them into record batches of the output schema."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        self.arrow_schema = arrow_schema(schema)
        self._width = len(schema.fields)
        self._names = tuple(schema.fieldNames())
        self._columns = [
            _column_writer(field, self.arrow_schema.field(i).type) for i, field in enumerate(schema.fields)
        ]

    def check(self, row: Any, key: Any) -> tuple[Any, ...]:
        """The row as a tuple in the schema's order; anything that does not fit is an error that names the key.

        A row with names goes by its names, as in stock ``transformWithState``; names that it leaves out are null.
        """
        if isinstance(row, Row) and (fields := getattr(row, "__fields__", None)) is not None:
            names = tuple(fields)
            if names != self._names or len(row) != self._width:
                return self._by_name(dict(zip(names, row, strict=False)), row, key)
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

    def batch(self, rows: list[tuple[Any, ...]], key_of: Callable[[int], Any]) -> pa.RecordBatch:
        """One record batch of the rows; ``key_of(i)`` names the key of row ``i`` in an error."""
        columns = list(zip(*rows, strict=True))
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
                return OutputSchemaError(
                    f"field {field.name!r} of the output schema is {field.dataType.simpleString()}"
                    f"{'' if field.nullable else ' not null'}, but the processor yielded {value!r} "
                    f"({type(value).__name__}) for key {key_of(position)!r}"
                )
        return OutputSchemaError(f"field {field.name!r} of the output schema does not take the values {values[:5]!r}…")


def _column_writer(field: StructField, arrow: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    if isinstance(field.dataType, _PLAIN):
        return lambda values: pa.array(values, type=arrow)
    if isinstance(field.dataType, TimestampType):
        return lambda values: pa.array([_utc(value) for value in values], type=arrow)
    schema = StructType([StructField("value", field.dataType)])

    def convert(values: Sequence[Any]) -> pa.Array:
        table = LocalDataToArrowConversion.convert(
            [(_by_names(value, field.dataType),) for value in values], schema, False
        )
        return table.column(0).combine_chunks().cast(arrow)

    return convert


def _by_names(value: Any, data_type: DataType) -> Any:
    """The value with its named structs as dicts: the conversion takes those by name, but rows by position."""
    if isinstance(data_type, StructType) and isinstance(value, Row) and hasattr(value, "__fields__"):
        types = {field.name: field.dataType for field in data_type.fields}
        # A name that the struct does not have is a KeyError, and so a misfit.
        return {name: _by_names(item, types[name]) for name, item in zip(value.__fields__, value, strict=True)}
    if isinstance(data_type, ArrayType) and isinstance(value, list):
        return [_by_names(item, data_type.elementType) for item in value]
    if isinstance(data_type, MapType) and isinstance(value, dict):
        return {key: _by_names(item, data_type.valueType) for key, item in value.items()}
    return value


def _utc(value: datetime | None) -> datetime | None:
    """Naive datetimes are local wall clock, as everywhere in PySpark."""
    return None if value is None else value.astimezone(timezone.utc)
