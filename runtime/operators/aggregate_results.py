"""From merged buffers to the values that the user asked for, in Spark's types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .aggregate_buffers import AggregateOverflowError
from .aggregate_lists import list_from_lengths, list_lengths


@dataclass(frozen=True)
class Result:
    """One output column of an aggregate.

    ``kind`` is one of: ``value`` (the first buffer column as it is), ``count``, ``mean``, ``decimal_mean``, ``list``,
    ``size`` (number of elements of a list), ``stddev_samp``, ``stddev_pop``, ``var_samp``, ``var_pop``.
    """

    name: str
    kind: str
    #: Places of the buffer columns that it is computed from.
    columns: tuple[int, ...]
    type: pa.DataType
    ansi: bool = True

    def compute(self, buffers: list[pa.Array]) -> pa.Array:
        """The column of results."""
        values = _KINDS[self.kind](self, [buffers[i] for i in self.columns])
        return values if values.type == self.type else values.cast(self.type)


def _value(result: Result, columns: list[pa.Array]) -> pa.Array:
    return columns[0]


def _count(result: Result, columns: list[pa.Array]) -> pa.Array:
    return pc.fill_null(columns[0], 0)


def _mean(result: Result, columns: list[pa.Array]) -> pa.Array:
    """Sum and count: null without values."""
    count = pc.fill_null(columns[1], 0)
    known = pc.if_else(pc.equal(count, 0), pa.scalar(None, pa.int64()), count)
    return pc.divide(columns[0], known.cast(pa.float64()))


def _decimal_mean(result: Result, columns: list[pa.Array]) -> pa.Array:
    """Rounded half up, like Spark's division; the quotient has at least 21 digits more than the sum."""
    total, count = columns
    known = pc.if_else(pc.equal(pc.fill_null(count, 0), 0), pa.scalar(None, pa.int64()), count)
    quotient = pc.divide(
        total.cast(pa.decimal256(38, total.type.scale)), known.cast(pa.decimal128(19, 0)).cast(pa.decimal256(20, 0))
    )
    rounded = pc.round(quotient, ndigits=result.type.scale, round_mode="half_towards_infinity")
    try:
        return rounded.cast(pa.decimal256(76, result.type.scale)).cast(result.type)
    except pa.ArrowInvalid as error:
        if not result.ansi:
            return _fitting(rounded, result.type)
        raise AggregateOverflowError(
            f"{result.name} does not fit {result.type}; cast its argument to a decimal with fewer digits"
        ) from error


def _fitting(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Without ANSI mode what does not fit is null; rare enough to go one by one."""
    fitting = []
    for value in values:
        try:
            fitting.append(value.cast(data_type).as_py())
        except pa.ArrowInvalid:
            fitting.append(None)
    return pa.array(fitting, data_type)


def _list(result: Result, columns: list[pa.Array]) -> pa.Array:
    lengths = list_lengths(columns[0])
    return list_from_lengths(lengths, columns[0].flatten(), columns[0].type) if columns[0].null_count else columns[0]


def _size(result: Result, columns: list[pa.Array]) -> pa.Array:
    return pa.array(list_lengths(columns[0]))


def _spread(*, sample: bool, root: bool) -> Callable[[Result, list[pa.Array]], pa.Array]:
    """Variance or standard deviation; null where the divisor would be zero, as in Spark."""

    def compute(result: Result, columns: list[pa.Array]) -> pa.Array:
        count = pc.fill_null(columns[0], 0).to_numpy(zero_copy_only=False).astype(np.float64)
        squares = pc.fill_null(columns[2], 0.0).to_numpy(zero_copy_only=False)
        divisor = count - 1 if sample else count
        nothing = divisor <= 0
        with np.errstate(all="ignore"):
            values = squares / np.where(nothing, 1.0, divisor)
            if root:
                values = np.sqrt(values)
        return pa.array(values, mask=nothing)

    return compute


_KINDS: dict[str, Callable[[Result, list[pa.Array]], pa.Array]] = {
    "value": _value,
    "count": _count,
    "mean": _mean,
    "decimal_mean": _decimal_mean,
    "list": _list,
    "size": _size,
    "stddev_samp": _spread(sample=True, root=True),
    "stddev_pop": _spread(sample=False, root=True),
    "var_samp": _spread(sample=True, root=False),
    "var_pop": _spread(sample=False, root=False),
}
