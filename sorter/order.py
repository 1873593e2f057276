"""The order of rows: encoded key, then the ``then`` columns, nulls first, as columns that Arrow can compare.

The byte order of :class:`~mixedmode.state.keys.keys.KeyCodec` is the order of its columns one after the other, nulls
first. So most types need no encoding: Arrow's own comparison of integers, dates, timestamps, booleans, decimals,
strings and binaries is the same order, and sorting the columns as they are is faster than encoding and comparing bytes.
The others (floats for NaN and -0.0, structs, lists) get one extra column each with the encoded value.  It travels with
the rows through the spill files, so that a value is encoded once.

Where the first column is a small number (the key group is), rows are put into its order without comparing them, and
each group is sorted by itself: a group fits the processor's cache, which all rows together do not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import SorterError
from ..state.codec.gather import gathered_rows
from ..state.keys.keys import KeyCodec

#: Position of a row in the order: one element per order column, ``()`` for null, so that tuples compare like the rows.
Rank = tuple[tuple[Any, ...], ...]

#: Rows that a group must have on average to be worth a sort of its own.
_GROUP_ROWS = 256

#: From this release on, Arrow wants the place of nulls for each sort key, before for all of them.
NULLS_BELONG_TO_KEYS = int(pa.__version__.partition(".")[0]) >= 25


def _is_native(kind: pa.DataType) -> bool:
    """True if Arrow's ascending order of the type is the encoded order."""
    types = pa.types
    return (
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
        or types.is_duration(kind)
        or types.is_decimal(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def _plain(column: pa.Array) -> pa.Array:
    """The same values and order in a type whose Python values are cheap and exact (no copy)."""
    kind = column.type
    if (
        pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
        or pa.types.is_date64(kind)
        or pa.types.is_time64(kind)
    ):
        return column.view(pa.int64())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.view(pa.int32())
    if pa.types.is_string(kind):
        return column.view(pa.binary())
    if pa.types.is_large_string(kind):
        return column.view(pa.large_binary())
    return column


class Ordering:
    """What the rows of ``schema`` are sorted by.

    Invariant: batches inside the sorter have :attr:`inner_schema`, the user's columns first, then the encoded ones.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str], then: Sequence[str] = ()) -> None:
        if not key:
            raise SorterError("the key is empty; name at least one column to sort by")
        for name in (*key, *then):
            if len(schema.get_all_field_indices(name)) != 1:
                raise SorterError(
                    f"sort column {name!r} must be in the schema exactly once; the columns are {schema.names}"
                )
        KeyCodec(pa.schema([schema.field(name) for name in key]))  # refuses types that have no order, by column name
        self.schema = schema
        self._positions: list[int] = []
        self._encoders: list[tuple[int, KeyCodec]] = []
        fields = list(schema)
        for name in (*key, *then):
            position = schema.get_field_index(name)
            if not _is_native(schema.field(position).type):
                self._encoders.append((position, KeyCodec(pa.schema([schema.field(position)]))))
                position = len(fields)
                fields.append(pa.field(f"__order_{name}", pa.binary(), nullable=False))
            self._positions.append(position)
        self.inner_schema = pa.schema(fields)
        self._names = [str(number) for number in range(len(self._positions))]

    def extend(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its encoded order columns."""
        encoded = [codec.encode_columns([batch.column(position)]) for position, codec in self._encoders]
        return pa.RecordBatch.from_arrays([*batch.columns, *encoded], schema=self.inner_schema)

    def strip(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The user's columns of an inner batch."""
        if not self._encoders:
            return batch
        return pa.RecordBatch.from_arrays(batch.columns[: len(self.schema)], schema=self.schema)

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The order columns of an inner batch, most significant first, in types that are cheap to compare."""
        return [_plain(batch.column(position)) for position in self._positions]

    def sort_indices(self, batch: pa.RecordBatch) -> pa.Array:
        """Row numbers in sorted order; rows that are equal keep their order (Arrow's sort is stable)."""
        columns = self.columns(batch)
        groups = _groups(columns[0]) if len(columns) > 1 else None
        if groups is None:
            return _sort_indices(pa.RecordBatch.from_arrays(columns, names=self._names))
        rows = np.argsort(groups, kind="stable")
        ends = np.cumsum(np.bincount(groups)).tolist()
        others = gathered_rows(pa.RecordBatch.from_arrays(columns[1:], names=self._names[1:]), pa.array(rows))
        for start, end in pairwise([0, *ends]):
            if end - start > 1:
                rows[start:end] = rows[start:end][_sort_indices(others.slice(start, end - start)).to_numpy()]
        return pa.array(rows)


def _sort_indices(columns: pa.RecordBatch) -> pa.Array:
    names = columns.schema.names
    if NULLS_BELONG_TO_KEYS:
        options = pc.SortOptions([(name, "ascending", "at_start") for name in names])
    else:
        options = pc.SortOptions([(name, "ascending") for name in names], null_placement="at_start")
    return pc.sort_indices(columns, options=options)


def _groups(column: pa.Array) -> np.ndarray | None:
    """The column as numbers from 0 on, if it splits the rows into few groups; else None."""
    if column.null_count or not len(column) or not pa.types.is_integer(column.type):
        return None
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if high - low >= min(len(column) // _GROUP_ROWS, 1 << 16):
        return None
    # So narrow that numpy sorts by digits.
    return (column.to_numpy() - low).astype(np.uint16)


def _elements(column: pa.Array) -> Callable[[int], tuple[Any, ...]]:
    """The function from row number to the column's element of the rank."""

    def element(row: int) -> tuple[Any, ...]:
        value = column[row].as_py()
        return () if value is None else (value,)

    return element


class SortedRows:
    """A sorted inner batch that can be asked where a rank stands in it."""

    __slots__ = ("_elements", "batch")

    def __init__(self, ordering: Ordering, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self._elements = [_elements(column) for column in ordering.columns(batch)]

    @property
    def last_rank(self) -> Rank:
        """Rank of the last row."""
        return tuple(element(self.batch.num_rows - 1) for element in self._elements)

    def count_until(self, rank: Rank, start: int, inclusive: bool) -> int:
        """First row from ``start`` on that is beyond ``rank`` (``inclusive``: rows of that rank are not beyond)."""
        rows = range(self.batch.num_rows)
        low, high = start, len(rows)
        # Column by column: those after the first are looked at only among rows that are equal so far.
        for element, value in zip(self._elements, rank, strict=True):
            low = bisect_left(rows, value, low, high, key=element)
            high = bisect_right(rows, value, low, high, key=element)
            if low == high:
                break
        return high if inclusive else low
