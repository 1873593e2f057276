"""Partial aggregates of Arrow tables by Acero: those that give what Spark's do, to the bit, in any order of rows.

Whole numbers and decimals are summed only where no sum can leave its type, so that there is no overflow to be found; a
sum of whole numbers as doubles only while it stays exact, unless sums may be rounded as Spark's are, in any order. Of
floats the least and the greatest are taken as numbers in the order that Spark has them in, NaN above all; not where a
zero has a sign, as then Spark's answer depends on which came first.  Strings are in the order of their bytes, as
Spark's are unless they have a collation, which is another type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.codec.byte_arrays import null_mask
from ..support.arrow_columns import unchunked
from .decimal_words import of_unscaled, unscaled
from .parquet_scan import NotTakenError

#: Of lists that are put together Acero knows nothing: they are merged in the shard's task.
_MERGED = {"count_all": "sum", "count": "sum", "sum": "sum", "min": "min", "max": "max"}
#: Whole numbers up to here are exact as doubles.
_EXACT = 1 << 53
_LONG = 1 << 63


@dataclass(frozen=True)
class PartialCall:
    """One partial aggregate."""

    #: The column that it becomes.
    name: str
    function: Literal["count_all", "count", "sum", "min", "max", "set"]
    #: What it is of; None: rows.
    column: str | None
    #: Its type.
    type: pa.DataType
    #: True for a sum of doubles that are added in any order; a sum of whole numbers as doubles stays exact.
    is_rounded: bool = False


def is_whole_number(data_type: pa.DataType) -> bool:
    """Whether columns of a type are whole numbers."""
    return bool(pa.types.is_signed_integer(data_type))


def is_sum(data_type: pa.DataType) -> bool:
    """Whether columns of a type can be summed; of more than 28 digits there may be an overflow to be found."""
    return is_whole_number(data_type) or bool(pa.types.is_decimal128(data_type) and data_type.precision <= 28)


def is_element(data_type: pa.DataType) -> bool:
    """Whether values of a type are the same if and only if they are equal."""
    types = pa.types
    return bool(
        is_whole_number(data_type)
        or types.is_string(data_type)
        or types.is_date32(data_type)
        or types.is_timestamp(data_type)
        or types.is_boolean(data_type)
        or types.is_decimal128(data_type)
    )


def are_merged(calls: Sequence[PartialCall]) -> bool:
    """Whether partial aggregates can be merged before they are with their shard."""
    return all(call.function in _MERGED for call in calls)


def is_extreme(data_type: pa.DataType) -> bool:
    """Whether columns of a type have a least and a greatest."""
    if pa.types.is_string(data_type):
        return _has_extremes_of_text()
    return is_element(data_type) or bool(pa.types.is_floating(data_type))


@cache
def _has_extremes_of_text() -> bool:
    """Whether this version of Arrow finds the least and the greatest string of a group."""
    try:
        pa.table({"key": [0], "text": [""]}).group_by("key").aggregate([("text", "max")])
    except pa.ArrowNotImplementedError:
        return False
    return True


@dataclass
class Sums:
    """How far the sums of some rows can go."""

    #: By the sum's column the greatest absolute value that any part of it can have.
    bounds: dict[str, int] = field(default_factory=dict)

    def note(self, call: PartialCall, values: pa.ChunkedArray) -> None:
        """Count values in.

        Raises:
            NotTakenError: a sum may leave its type.
        """
        if call.function != "sum" or pa.types.is_decimal(call.type) or call.is_rounded:
            return
        extremes = pc.min_max(values)
        greatest = max((abs(extremes[side].as_py() or 0) for side in ("min", "max")), default=0)
        self.add(call, greatest * len(values))

    def add(self, call: PartialCall, bound: int) -> None:
        """Count in what other rows can add up to."""
        whole = self.bounds[call.name] = self.bounds.get(call.name, 0) + bound
        if whole >= (_EXACT if pa.types.is_floating(call.type) else _LONG):
            raise NotTakenError(f"the sum of {call.column} may leave what {call.type} holds exactly")


def aggregated(
    table: pa.Table, keys: Sequence[str], calls: Sequence[PartialCall], sums: Sums, *, again: bool = False
) -> pa.Table:
    """The partial aggregates of a table: its keys, then a column for each call, by its name.

    Args:
        table: the rows; with ``again`` partial aggregates.
        keys: the columns to group by.
        calls: the aggregates.
        sums: is told how far sums can go.
        again: merge partial aggregates.

    Raises:
        NotTakenError: the values are not among those that are known to give the same.
    """
    columns = {name: table[name] for name in keys}
    wanted: list[tuple[Any, ...]] = []
    for place, call in enumerate(calls):
        values = None if call.column is None and not again else table[call.name if again else str(call.column)]
        if values is None:
            wanted.append(([], "count_all"))
            continue
        if not again:
            sums.note(call, values)
        name = f"__v{place}"
        columns[name] = comparable(call, values)
        if call.function == "set":
            wanted.append((name, "distinct", pc.CountOptions(mode="only_valid")))
            continue
        wanted.append((name, _MERGED[call.function] if again else call.function))
    found = pa.table(columns).group_by(list(keys), use_threads=False).aggregate(wanted)
    made = {name: found.column(at) for at, name in enumerate(keys)}
    # Keys come first, whatever they are called.
    for at, call in enumerate(calls, len(keys)):
        made[call.name] = restored(call, found.column(at))
    return pa.table(made)


def comparable(call: PartialCall, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that Acero treats as Spark treats the originals."""
    if call.function in ("sum", "min", "max") and pa.types.is_decimal(values.type):
        numbers = _unscaled(call, values)
        if numbers is not None:
            return numbers
    if call.function == "sum" and pa.types.is_decimal(values.type):
        return values.cast(pa.decimal128(38, values.type.scale))
    if call.is_rounded:
        return pc.add(values, 0.0)  # no negative zero, as Spark's sums begin with zero
    if call.function == "sum" and pa.types.is_floating(values.type):
        return values.cast(pa.int64())  # partial sums of whole numbers, which are exact
    if call.function in ("min", "max") and pa.types.is_boolean(values.type):
        return values.cast(pa.int8())
    if call.function in ("min", "max") and pa.types.is_floating(values.type):
        return _in_order(values, str(call.column))
    return values


def in_float_order(bits: np.ndarray) -> np.ndarray:
    """The bits of floats as whole numbers in their order; twice, as they were."""
    return np.where(bits < 0, bits ^ bits.dtype.type(np.iinfo(bits.dtype).max), bits)


def _unscaled(call: PartialCall, values: pa.ChunkedArray) -> pa.Array | None:
    """Decimals as whole numbers; None: a sum of them may need more than 64 bits."""
    array = unchunked(values)
    numbers = unscaled(array)
    if numbers is None:
        return None
    nulls = null_mask(array)
    found = pa.array(numbers, mask=nulls)
    extremes = pc.min_max(found)
    greatest = max(abs(extremes[side].as_py() or 0) for side in ("min", "max"))
    return None if call.function == "sum" and greatest * len(found) >= _LONG else found


def _in_order(values: pa.ChunkedArray, column: str) -> pa.Array:
    """Floats as whole numbers in their order, NaN the greatest."""
    array = unchunked(values)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    _refuse_negative_zeros(numbers, column)
    numbers = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers)
    bits = numbers.view(np.int64 if numbers.dtype.itemsize == 8 else np.int32)
    return pa.array(in_float_order(bits), mask=~valid)


def refuse_negative_zeros(values: pa.ChunkedArray, column: str) -> None:
    """Raise if there is a negative zero among floats, of which the least or the greatest is looked for.

    Args:
        values: the floats.
        column: where they are from.

    Raises:
        NotTakenError: there is one.
    """
    for chunk in values.chunks:
        _refuse_negative_zeros(np.asarray(chunk.fill_null(0.0)), column)


def _refuse_negative_zeros(numbers: np.ndarray, column: str) -> None:
    if (np.signbit(numbers) & (numbers == 0)).any():
        raise NotTakenError(f"column {column} has a negative zero")


def restored(call: PartialCall, found: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Values of a call's type of those that :func:`comparable` has made, or of what they have come to."""
    if isinstance(found, pa.Array):
        return restored(call, pa.chunked_array([found])).chunk(0)
    if call.function == "set":
        lists = [
            pa.ListArray.from_arrays(chunk.offsets, chunk.values.cast(call.type.value_type), type=call.type)
            for chunk in found.chunks
        ]
        return pa.chunked_array(lists, call.type)
    if call.function in ("min", "max") and pa.types.is_floating(call.type) and not pa.types.is_floating(found.type):
        valid = found.is_valid().to_numpy()
        bits = in_float_order(found.fill_null(0).to_numpy())
        return pa.chunked_array([pa.array(np.ascontiguousarray(bits).view(f"f{bits.dtype.itemsize}"), mask=~valid)])
    if pa.types.is_decimal(call.type) and pa.types.is_int64(found.type):
        nulls = found.is_null().to_numpy()
        return pa.chunked_array([of_unscaled(found.fill_null(0).to_numpy(), call.type, nulls if nulls.any() else None)])
    return found if found.type == call.type else found.cast(call.type)
