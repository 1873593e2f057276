"""Buffers: the mergeable middle state of an aggregate function, as Arrow columns.

A buffer is a few columns that Spark computes per key and epoch (partial aggregation) and that are merged here, column
by column, with what earlier epochs left in the state.

Invariant: a row of nulls is the neutral element of every merge; it stands for "no row of this key so far".
Merging is associative; in a call the rows of ``old`` came before those of ``new``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import AggregateOverflowError
from .list_arrays import concat_lists, distinct_lists
from .list_order import sorted_lists
from .ordering import less


@dataclass(frozen=True)
class Buffer(ABC):
    """Columns ``first``, ``first + 1``, ... of the partial rows."""

    #: What stored state calls buffers of this class; part of the on-disk contract.
    kind: ClassVar[str]

    #: Places of the buffer's columns among all buffer columns.
    columns: tuple[int, ...]

    def arrive(self, new: list[pa.Array]) -> list[pa.Array]:
        """Partial columns as Spark gives them, in the form in which they are kept."""
        return new

    @abstractmethod
    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        """Merge row by row."""


@dataclass(frozen=True)
class CountBuffer(Buffer):
    """A number of rows or values."""

    kind = "count"

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        return [pc.add(pc.fill_null(old[0], 0), pc.fill_null(new[0], 0))]


@dataclass(frozen=True)
class SumBuffer(Buffer):
    """A sum of longs, doubles or day-time intervals; null as long as there was no value."""

    kind = "sum"

    ansi: bool
    sql: str

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        data_type = new[0].type
        left, right = _as_number(old[0]), _as_number(new[0])
        try:
            add = pc.add_checked if self.ansi or pa.types.is_duration(data_type) else pc.add
            total = add(pc.fill_null(left, 0), pc.fill_null(right, 0))
        except pa.ArrowInvalid as error:
            raise _overflow(self.sql, data_type) from error
        nothing = pc.and_(pc.is_null(left), pc.is_null(right))
        return [pc.if_else(nothing, pa.scalar(None, total.type), total).cast(data_type)]


@dataclass(frozen=True)
class DecimalSumBuffer(Buffer):
    """A sum of decimals and the count of its values.

    A null sum with a count is an overflow: final without ANSI mode, where Spark's answer is null; an error with it.
    """

    kind = "decimal_sum"

    ansi: bool
    sql: str

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        data_type = new[0].type
        wide = pa.decimal256(75, data_type.scale)
        counts = [pc.fill_null(side[1], 0) for side in (old, new)]
        total = pc.add(*[pc.fill_null(side[0].cast(wide), 0) for side in (old, new)])
        bound = pa.scalar(Decimal(10).scaleb(data_type.precision - data_type.scale - 1), total.type)
        overflown = pc.or_(
            pc.or_(pc.greater_equal(total, bound), pc.less_equal(total, pc.negate(bound))),
            pc.or_(_lost(old[0], counts[0]), _lost(new[0], counts[1])),
        )
        count = pc.add(*counts)
        if self.ansi and pc.any(overflown).as_py():
            raise _overflow(self.sql, data_type)
        nothing = pc.or_(pc.equal(count, 0), overflown)
        safe = pc.if_else(nothing, pa.scalar(None, total.type), total)
        return [safe.cast(data_type), count]


@dataclass(frozen=True)
class TrySumBuffer(Buffer):
    """A sum of longs and the count of its values; a null sum with a count has left its type, for good."""

    kind = "try_sum"

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        counts = [pc.fill_null(side[1], 0) for side in (old, new)]
        left, right = (pc.fill_null(side[0], 0).to_numpy(zero_copy_only=False) for side in (old, new))
        total = left + right  # wraps around
        lost = pc.or_(_lost(old[0], counts[0]), _lost(new[0], counts[1]))
        overflown = pc.or_(pa.array(((left ^ total) & (right ^ total)) < 0), lost)
        count = pc.add(*counts)
        nothing = pc.or_(pc.equal(count, 0), overflown)
        return [pc.if_else(nothing, pa.scalar(None, pa.int64()), pa.array(total)), count]


@dataclass(frozen=True)
class ProductBuffer(Buffer):
    """A product of doubles; null as long as there was no value."""

    kind = "product"

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        product = pc.multiply(pc.fill_null(old[0], 1.0), pc.fill_null(new[0], 1.0))
        nothing = pc.and_(pc.is_null(old[0]), pc.is_null(new[0]))
        return [pc.if_else(nothing, pa.scalar(None, pa.float64()), product)]


@dataclass(frozen=True)
class ExtremeBuffer(Buffer):
    """The least or greatest value in Spark's order (NaN is the greatest)."""

    kind = "extreme"

    which: Literal["min", "max"]

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        return [pc.if_else(_better(self.which, old[0], new[0], ties=False), new[0], old[0])]


@dataclass(frozen=True)
class ExtremeByBuffer(Buffer):
    """A value and its order: the value of the row with the least or greatest order; a null order does not count."""

    kind = "extreme_by"

    which: Literal["min", "max"]
    #: Whether the later of two rows with equal order wins.
    ties: bool = False

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        take = _better(self.which, old[1], new[1], ties=self.ties)
        return [pc.if_else(take, right, left) for left, right in zip(old, new, strict=True)]


@dataclass(frozen=True)
class ArrivalBuffer(Buffer):
    """The first or last value by arrival, and how many rows were seen (a null value counts as a value)."""

    kind = "arrival"

    which: Literal["first", "last"]

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        seen = [pc.fill_null(side[1], 0) for side in (old, new)]
        take = pc.equal(seen[0], 0) if self.which == "first" else pc.greater(seen[1], 0)
        return [pc.if_else(take, new[0], old[0]), pc.add(*seen)]


@dataclass(frozen=True)
class ArrivalNotNullBuffer(Buffer):
    """The first or last value by arrival that is not null."""

    kind = "arrival_not_null"

    which: Literal["first", "last"]

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        take = pc.is_null(old[0]) if self.which == "first" else pc.is_valid(new[0])
        return [pc.if_else(take, new[0], old[0])]


@dataclass(frozen=True)
class BitsBuffer(Buffer):
    """Integers combined bit by bit."""

    kind = "bits"

    which: Literal["and", "or", "xor"]

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        combine = {"and": pc.bit_wise_and, "or": pc.bit_wise_or, "xor": pc.bit_wise_xor}[self.which]
        return [pc.coalesce(combine(old[0], new[0]), old[0], new[0])]


@dataclass(frozen=True)
class TextBuffer(Buffer):
    """Strings or binaries end to end, in order of arrival, with a delimiter between them."""

    kind = "text"

    delimiter: bytes

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        raw = [side[0].cast(pa.binary()) for side in (old, new)]
        joined = pc.binary_join_element_wise(*raw, pa.scalar(self.delimiter, pa.binary()))
        return [pc.coalesce(joined, *raw).cast(new[0].type)]


@dataclass(frozen=True)
class ListBuffer(Buffer):
    """All values, in order of arrival."""

    kind = "list"

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        return [concat_lists(old[0], new[0])]


@dataclass(frozen=True)
class TopBuffer(Buffer):
    """The rows with the greatest or least orders, as structs of order and value, in that order."""

    kind = "top"

    descending: bool
    count: int

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        return [sorted_lists(concat_lists(old[0], new[0]), [self.descending], self.count)]


@dataclass(frozen=True)
class SetBuffer(Buffer):
    """The different values; floats are compared as Spark groups them (one NaN, one zero)."""

    kind = "set"

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        return [distinct_lists(concat_lists(old[0], new[0]))]


def merge_buffers(buffers: Sequence[Buffer], old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
    """Merge all buffer columns row by row."""
    merged: list[pa.Array] = list(new)
    for buffer in buffers:
        columns = buffer.merge([old[i] for i in buffer.columns], [new[i] for i in buffer.columns])
        for place, column in zip(buffer.columns, columns, strict=True):
            merged[place] = column
    return merged


def reduce_segments(buffers: Sequence[Buffer], columns: list[pa.Array], starts: np.ndarray) -> list[pa.Array]:
    """Merge consecutive rows into one per segment; segment ``i`` begins at ``starts[i]``.

    Pairs of neighbours are merged in rounds, so a segment of n rows costs log2(n) vectorised merges.
    """
    rows = len(columns[0]) if columns else 0
    while len(starts) < rows:
        lengths = np.diff(np.append(starts, rows))
        place = np.arange(rows) - np.repeat(starts, lengths)
        left = np.flatnonzero(place % 2 == 0)
        paired = np.repeat(lengths, lengths)[left] > place[left] + 1
        # A row without a right neighbour is merged with nothing.
        right = pa.array(np.where(paired, left + 1, 0), mask=~paired)
        columns = merge_buffers(
            buffers, [column.take(pa.array(left)) for column in columns], [column.take(right) for column in columns]
        )
        lengths = (lengths + 1) // 2
        rows = len(left)
        starts = np.cumsum(lengths) - lengths
    return columns


def _better(which: str, old: pa.Array, new: pa.Array, *, ties: bool) -> pa.Array:
    """True where the new value is to be taken; never null."""
    if ties:
        worse = less(new, old) if which == "max" else less(old, new)
        better = pc.invert(worse)
    else:
        better = less(new, old) if which == "min" else less(old, new)
    return pc.and_(pc.is_valid(new), pc.or_(pc.is_null(old), pc.fill_null(better, False)))


def _lost(total: pa.Array, count: pa.Array) -> pa.Array:
    return pc.and_(pc.is_null(total), pc.greater(count, 0))


def _as_number(array: pa.Array) -> pa.Array:
    return array.cast(pa.int64()) if pa.types.is_duration(array.type) else array


def _overflow(sql: str, data_type: pa.DataType) -> AggregateOverflowError:
    return AggregateOverflowError(
        f"{sql} overflows {data_type}; cast its argument to a wider type, or set spark.sql.ansi.enabled=false"
        " to get what Spark gives then"
    )
