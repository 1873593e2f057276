"""Computes the results of an aggregation from merged buffers, in Spark's types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import AggregateOverflowError
from ....state.codec.byte_arrays import decimal_words
from .distinct import distinct_mean, distinct_sum
from .list_arrays import distinct_lists, list_from_lengths, list_lengths
from .list_order import last_fields, sorted_lists
from .moments import floats
from .percentiles import modes, percentiles, ranked


@dataclass(frozen=True)
class Result:
    """One output column of an aggregate.

    ``kind`` is one of: ``value`` (the first buffer column as it is), ``count``, ``mean``, ``decimal_mean``,
    ``interval_mean``, ``list``, ``size`` (number of elements of a list), ``sum_distinct``, ``mean_distinct``,
    ``stddev_samp``, ``stddev_pop``, ``var_samp``, ``var_pop``, ``skewness``, ``kurtosis``, ``covar_samp``,
    ``covar_pop``, ``corr``, ``mode``, ``squares`` and ``products`` (sums of squared, or multiplied, differences from
    the mean), ``slope``, ``intercept`` and ``r2`` (of a regression of the first argument on the second), ``percentile``
    (argument: the shares), ``ranked`` and ``ranked_down`` (argument: the shares, and how near 0 or 1 one counts as
    that), ``registers`` (argument: an Estimator), ``last_fields`` (of each struct of a list), ``joined`` (those of
    structs in order; argument: what stands between them, and for each field before the last one whether it is
    descending).
    """

    name: str
    kind: str
    #: Places of the buffer columns that it is computed from.
    columns: tuple[int, ...]
    type: pa.DataType
    ansi: bool = True
    #: What else the kind needs to know.
    argument: Any = None
    #: The call, as Spark writes it.
    text: str = ""

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
    found = _mean_of_longs(total, count, result.type)
    if found is not None:
        return found
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


def _mean_of_longs(total: pa.Array, count: pa.Array, data_type: pa.DataType) -> pa.Array | None:
    """The same where sums, with the digits of the result, are whole numbers of 64 bits; None: one is not."""
    more_digits = data_type.scale - total.type.scale
    if not len(total) or not 0 <= more_digits <= 18:
        return None
    low, high = decimal_words(total).T
    counts = pc.fill_null(count, 0).to_numpy(zero_copy_only=False)
    nulls = counts <= 0
    if total.null_count:
        nulls = nulls | total.is_null().to_numpy(zero_copy_only=False)
    limit = (2**62) // 10**more_digits
    if ((high != low >> 63) | (low > limit) | (low < -limit))[~nulls].any():
        return None
    divisors = np.where(nulls, 1, counts)
    scaled = np.abs(np.where(nulls, 0, low)) * 10**more_digits
    quotient = _half_up(scaled, divisors)
    found = np.where(low < 0, -quotient, quotient)
    if data_type.precision < 19 and (quotient >= 10**data_type.precision).any():
        return None
    words = np.empty((len(found), 2), dtype=np.int64)
    words[:, 0], words[:, 1] = found, found >> 63
    validity = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
    return pa.Array.from_buffers(data_type, len(found), [validity, pa.py_buffer(words)])


def _half_up(dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """Quotients of whole numbers that are not negative."""
    quotient, rest = np.divmod(dividends, divisors)
    return quotient + (rest >= divisors - rest)


def _interval_mean(result: Result, columns: list[pa.Array]) -> pa.Array:
    """Whole microseconds, rounded half up, like Spark's division of a day-time interval."""
    sums = pc.fill_null(columns[0].cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    counts = pc.fill_null(columns[1], 0).to_numpy(zero_copy_only=False)
    quotient = _half_up(np.abs(sums), np.maximum(counts, 1))
    return pa.array(np.where(sums < 0, -quotient, quotient), mask=counts <= 0).cast(result.type)


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


def _last_fields(result: Result, columns: list[pa.Array]) -> pa.Array:
    """Null where there is no row."""
    found = last_fields(columns[0])
    return pc.if_else(pa.array(list_lengths(found) == 0), pa.scalar(None, found.type), found)


def _joined(result: Result, columns: list[pa.Array]) -> pa.Array:
    """Null where there is no value."""
    separator, descending = result.argument
    texts = last_fields(sorted_lists(columns[0], descending))
    kind = texts.type.value_type
    joined = pc.binary_join(texts, pa.scalar(separator if pa.types.is_binary(kind) else separator.decode(), kind))
    return pc.if_else(pa.array(list_lengths(texts) == 0), pa.scalar(None, kind), joined)


def _size(result: Result, columns: list[pa.Array]) -> pa.Array:
    """Of a set; where Spark aggregates many keys, its sets of structs and arrays have some of these twice."""
    (found,) = columns
    return pa.array(list_lengths(distinct_lists(found) if pa.types.is_nested(found.type.value_type) else found))


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


def _sum_distinct(result: Result, columns: list[pa.Array]) -> pa.Array:
    return distinct_sum(columns[0], result.name, result.ansi, result.type)[0]


def _mean_distinct(result: Result, columns: list[pa.Array]) -> pa.Array:
    if pa.types.is_decimal(result.type):
        return _decimal_mean(result, distinct_sum(columns[0], result.name, result.ansi))
    return distinct_mean(columns[0], result.name, result.ansi)


def _shape(result: Result, columns: list[pa.Array]) -> pa.Array:
    """Skewness or kurtosis; null without spread, as in Spark."""
    count, _, squares, cubes, fourths = (floats(column) for column in columns)
    with np.errstate(all="ignore"):
        if result.kind == "skewness":
            values = np.sqrt(count) * cubes / np.sqrt(squares * squares * squares)
        else:
            values = count * fourths / (squares * squares) - 3.0
    return pa.array(values, mask=squares == 0)


def _covariance(result: Result, columns: list[pa.Array]) -> pa.Array:
    count, products = floats(columns[0]), floats(columns[3])
    divisor = count - 1 if result.kind == "covar_samp" else count
    nothing = divisor <= 0
    with np.errstate(all="ignore"):
        return pa.array(products / np.where(nothing, 1.0, divisor), mask=nothing)


def _correlation(result: Result, columns: list[pa.Array]) -> pa.Array:
    """Null without spread on either side, as in Spark."""
    products, squares_x, squares_y = (floats(column) for column in columns[3:])
    with np.errstate(all="ignore"):
        divisor = np.sqrt(squares_x * squares_y)
        return pa.array(products / divisor, mask=divisor == 0)


def _squares(result: Result, columns: list[pa.Array]) -> pa.Array:
    return pa.array(floats(columns[2]), mask=floats(columns[0]) == 0)


def _products(result: Result, columns: list[pa.Array]) -> pa.Array:
    return pa.array(floats(columns[3]), mask=floats(columns[0]) == 0)


def _regression(result: Result, columns: list[pa.Array]) -> pa.Array:
    """Of the first argument on the second; null if the second has no spread, as in Spark."""
    count, mean_y, mean_x, products, squares_y, squares_x = (floats(column) for column in columns)
    with np.errstate(all="ignore"):
        if result.kind == "r2":
            correlation = products / np.sqrt(squares_x * squares_y)
            values = np.where(squares_y == 0, 1.0, correlation * correlation)
        else:
            values = products / squares_x
            if result.kind == "intercept":
                values = mean_y - values * mean_x
    return pa.array(values, mask=(count == 0) | (squares_x == 0))


def _mode(result: Result, columns: list[pa.Array]) -> pa.Array:
    return modes(columns[0], greatest=bool(result.argument))


def _percentile(result: Result, columns: list[pa.Array]) -> pa.Array:
    """One value, or one list of them if the user gave an array of shares."""
    shares = result.argument
    nothing = list_lengths(columns[0]) == 0
    found = percentiles(columns[0], shares)
    if not pa.types.is_list(result.type):
        return pa.array(found[0], mask=nothing)
    return _per_share(result, pa.array(np.stack(found, axis=1).reshape(-1) if shares else np.zeros(0)), nothing)


def _ranked(result: Result, columns: list[pa.Array]) -> pa.Array:
    """The same for values that are there."""
    shares, margin = result.argument
    nothing = list_lengths(columns[0]) == 0
    found = ranked(columns[0], shares, margin, descending=result.kind == "ranked_down")
    if not pa.types.is_list(result.type):
        return pc.if_else(pa.array(nothing), pa.scalar(None, found[0].type), found[0])
    places = np.arange(len(shares) * len(nothing)).reshape(len(shares), len(nothing)).T.reshape(-1)
    values = pa.concat_arrays(found).take(pa.array(places)) if shares else columns[0].flatten()[:0]
    return _per_share(result, values, nothing)


def _per_share(result: Result, values: pa.Array, nothing: np.ndarray) -> pa.Array:
    """Lists of equal lengths; null where there is nothing, and without shares."""
    rows = len(nothing)
    each = len(values) // rows if rows else 0
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * each)
    return pa.ListArray.from_arrays(offsets, values, type=result.type, mask=pa.array(nothing | (each == 0)))


def _registers(result: Result, columns: list[pa.Array]) -> pa.Array:
    return pa.array(result.argument.counts(columns[0]))


_KINDS: dict[str, Callable[[Result, list[pa.Array]], pa.Array]] = {
    "value": _value,
    "count": _count,
    "mean": _mean,
    "decimal_mean": _decimal_mean,
    "interval_mean": _interval_mean,
    "list": _list,
    "size": _size,
    "last_fields": _last_fields,
    "joined": _joined,
    "stddev_samp": _spread(sample=True, root=True),
    "stddev_pop": _spread(sample=False, root=True),
    "var_samp": _spread(sample=True, root=False),
    "var_pop": _spread(sample=False, root=False),
    "sum_distinct": _sum_distinct,
    "mean_distinct": _mean_distinct,
    "skewness": _shape,
    "kurtosis": _shape,
    "covar_samp": _covariance,
    "covar_pop": _covariance,
    "corr": _correlation,
    "squares": _squares,
    "products": _products,
    "slope": _regression,
    "intercept": _regression,
    "r2": _regression,
    "mode": _mode,
    "percentile": _percentile,
    "ranked": _ranked,
    "ranked_down": _ranked,
    "registers": _registers,
}
