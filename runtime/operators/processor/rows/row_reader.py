"""Rows that a processor gets: Arrow record batches as PySpark ``Row`` tuples.

This is the hottest Python of a processor job, so columns are converted as a whole wherever the type allows it, and a
row is one ``tuple.__new__``, made when it is asked for.  Types whose Python form has rules of its own (nested,
decimal, variant…) go through PySpark's own converters, so that a processor sees what ``DataFrame.collect`` hands out:
timestamps are naive local time, structs rows, maps dicts.  (Stock ``transformWithState`` differs: aware timestamps,
dicts, lists of pairs.)
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from itertools import repeat
from operator import length_hint
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import (
    BooleanType,
    DateType,
    Row,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .....state.codec.local_datetimes import LocalMoments, local_zone_is_utc
from ....catalyst.types.arrow_types import NUMBERS


def row_class(names: Sequence[str]) -> type[Row]:
    """A ``Row`` subclass whose fields are descriptors in C instead of a scan over ``__fields__``.

    Instances pickle, print and compare as plain ``Row`` objects.  A field named like a method of rows (``count``,
    ``asDict``) keeps the method, as in PySpark.
    """
    positions = {name: index for index, name in reversed(list(enumerate(names)))}
    position, get = positions.get, tuple.__getitem__

    def getitem(self: Row, item: Any) -> Any:
        try:
            return get(self, position(item, item))
        except TypeError:  # an unknown name, or a slice, which cannot be looked up
            return Row.__getitem__(self, item)

    def contains(self: Row, item: Any) -> bool:
        return item in positions

    # The getters of a named tuple read any tuple, and unlike itemgetter without a detour over our __getitem__.
    getters = namedtuple("getters", [f"c{index}" for index in range(len(names))])  # type: ignore[misc]
    body = {
        name: vars(getters)[f"c{index}"]
        for name, index in positions.items()
        if name.isidentifier() and not hasattr(Row, name)
    }
    return type("Row", (Row,), {**body, "__fields__": list(names), "__getitem__": getitem, "__contains__": contains})


class RowReader:
    """Turns the columns of a record batch into ``Row`` objects of one schema."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        self._names = schema.fieldNames()
        self._row_class = row_class(self._names)
        self._converters = [_column_reader(field) for field in schema.fields]
        #: The batches that were begun last, each with what counts its rows down; the newer one first.
        self._begun: list[tuple[pa.RecordBatch, Iterator[Any]]] = []

    def last_read(self, name: str) -> Any:
        """The value of a column in the row that was handed out last; None: there is none."""
        for batch, rest in self._begun:
            read = batch.num_rows - length_hint(rest)
            if read:
                return batch.column(name)[read - 1].as_py()
        return None

    def rows(self, batch: pa.RecordBatch) -> Iterator[Row]:
        """All rows of the batch, whose columns are found by name; each row is made when it is asked for.

        Rows that live on by the ten thousand would cost several times as much: in the garbage collector.
        """
        if not self._converters:
            return map(tuple.__new__, repeat(self._row_class, batch.num_rows), repeat(()))
        columns = [
            convert(batch.column(batch.schema.get_field_index(name)))
            for name, convert in zip(self._names, self._converters, strict=True)
        ]
        first = iter(columns[0])
        self._begun = [(batch, first), *self._begun[:1]]
        return map(tuple.__new__, repeat(self._row_class), zip(first, *columns[1:], strict=True))


def _column_reader(field: StructField) -> Callable[[pa.Array], list[Any]]:
    data_type = field.dataType
    if isinstance(data_type, (*NUMBERS, BooleanType)):
        return _numbers
    if isinstance(data_type, StringType):
        return pa.Array.to_pylist
    if isinstance(data_type, DateType):
        return _days
    if isinstance(data_type, TimestampNTZType) or (isinstance(data_type, TimestampType) and local_zone_is_utc()):
        return _instants
    if isinstance(data_type, TimestampType):
        moments = LocalMoments()
        return lambda column: _with_nulls(column, moments.naive_column(timestamp_micros(column)))
    schema = StructType([StructField("value", data_type)])

    def convert(column: pa.Array) -> list[Any]:
        if len(column) == 0:
            return []
        return [row[0] for row in ArrowTableToRowsConversion.convert(pa.table({"value": column}), schema)]

    return convert


def _numbers(column: pa.Array) -> list[Any]:
    filled = column.fill_null(False if pa.types.is_boolean(column.type) else 0) if column.null_count else column
    return _with_nulls(column, filled.to_numpy(zero_copy_only=False).tolist())


def _days(column: pa.Array) -> list[Any]:
    days = column.cast(pa.date32()).view(pa.int32())
    filled = days.fill_null(0) if column.null_count else days
    return _with_nulls(column, _times(filled.to_numpy().astype("datetime64[D]"), date))


def _instants(column: pa.Array) -> list[Any]:
    """Microsecond timestamps as naive datetimes (their UTC wall clock)."""
    return _with_nulls(column, _times(timestamp_micros(column).astype("datetime64[us]"), datetime))


def _times(values: np.ndarray, wanted: type[date]) -> list[Any]:
    """Dates or datetimes; beyond the years 1 to 9999 numpy would hand out numbers instead."""
    if len(values) and not (values.min() >= np.datetime64(wanted.min) and values.max() <= np.datetime64(wanted.max)):
        raise OverflowError(
            f"{values.min()} to {values.max()} are not all within the years 1 to 9999 of Python's {wanted}"
        )
    times: list[Any] = values.tolist()
    return times


def timestamp_micros(column: pa.Array) -> np.ndarray:
    """Microseconds since the epoch of a timestamp column; nulls are 0."""
    micros = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    return (micros.fill_null(0) if column.null_count else micros).to_numpy()


def _with_nulls(column: pa.Array, values: list[Any]) -> list[Any]:
    if column.null_count:
        for index in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[index] = None
    return values
