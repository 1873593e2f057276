"""Casts, as Spark has them; texts that are not written in the plain form of a type are Spark's to read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..decimal_words import of_unscaled, unscaled_or_zero
from ..parquet_scan import NotTakenError
from .numbers import array_of, numbers_of
from .values import FUNCTIONS, Function, Value

_WHOLE = r"^-?[0-9]{1,18}$"
_REAL = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
_DATE = r"^[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
_TIME = _DATE[:-1] + r"[ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?$"
#: The same in UTC.
_UTC_TIME = _TIME[:-1] + "Z$"


def _check_form(texts: pa.Array, form: str, data_type: pa.DataType) -> None:
    if not pc.all(pc.fill_null(pc.match_substring_regex(texts, form), True)).as_py():
        raise NotTakenError(f"a text is not written as a plain {data_type}")


def _whole_numbers(value: Value, one: pa.Array) -> pa.Array:
    """Between whole numbers; with options ``("checked",)`` an overflow is Spark's to find, else numbers wrap around."""
    if value.options == ("checked",):
        return pc.cast(one, value.type)
    return _to_real(value, one)


def _to_real(value: Value, one: pa.Array) -> pa.Array:
    numbers, nulls = numbers_of(one, one.type.to_pandas_dtype())
    with np.errstate(over="ignore"):
        return pa.array(numbers.astype(value.type.to_pandas_dtype()), mask=nulls)


def _real_to_whole(value: Value, one: pa.Array) -> pa.Array:
    numbers, nulls = numbers_of(one, np.float64)
    numbers = np.trunc(numbers)
    limit = min(2.0 ** (value.type.bit_width - 1), 2.0**62)
    if not (np.abs(numbers) < limit).all():
        raise NotTakenError(f"a number does not fit into {value.type}")
    return pa.array(numbers.astype(value.type.to_pandas_dtype()), mask=nulls)


def _text_to_whole(value: Value, texts: pa.Array) -> pa.Array:
    _check_form(texts, _WHOLE, value.type)
    return texts.cast(value.type)


def _text_to_real(value: Value, texts: pa.Array) -> pa.Array:
    _check_form(texts, _REAL, value.type)
    return texts.cast(value.type)


def _text_to_date(value: Value, texts: pa.Array) -> pa.Array:
    _check_form(texts, _DATE, value.type)
    return texts.cast(pa.date32())


def _text_to_time(value: Value, texts: pa.Array) -> pa.Array:
    in_utc = pc.match_substring_regex(texts, _UTC_TIME).fill_null(False)
    if value.type.tz is None or not in_utc.true_count:
        return _local_to_time(value, texts)
    of_utc = pc.if_else(in_utc, texts, None).cast(pa.timestamp("us", "UTC"))
    others = _local_to_time(value, pc.if_else(in_utc, None, texts))
    return pc.coalesce(others, of_utc.cast(value.type))


def _local_to_time(value: Value, texts: pa.Array) -> pa.Array:
    _check_form(texts, _TIME, value.type)
    numbers, nulls = numbers_of(texts.cast(pa.timestamp("us")))
    return array_of(value.options[0].instants(numbers, nulls), nulls, value.type)


def _to_boolean(value: Value, one: pa.Array) -> pa.Array:
    return pc.not_equal(one, pa.scalar(0, one.type))


def _date_to_text(value: Value, dates: pa.Array) -> pa.Array:
    days, nulls = numbers_of(dates)
    wrong = (days < -354_285) | (days > 2_932_896)  # years with another number of digits than four
    if (wrong if nulls is None else wrong & ~nulls).any():
        raise NotTakenError("a date is outside of the years 1000 to 9999")
    return dates.cast(pa.string())


def _wider_decimal(value: Value, one: pa.Array) -> pa.Array:
    """As many digits before the point and behind it, or more; or of whole numbers that have room."""
    data_type = value.type
    if pa.types.is_integer(one.type):
        numbers, nulls = numbers_of(one)
        factor = 10**data_type.scale
        most = max(abs(int(numbers.min())), abs(int(numbers.max()))) if len(numbers) else 0
        if most * factor < 1 << 63:
            return of_unscaled(numbers * np.int64(factor), data_type, nulls)
        return one.cast(pa.decimal128(19, 0)).cast(data_type)
    return one.cast(data_type)


def _decimal_to_double(value: Value, one: pa.Array) -> pa.Array:
    """Quotients of numbers that are exact as doubles are rounded as Java rounds."""
    numbers, nulls = unscaled_or_zero(one)
    if numbers is None or (len(numbers) and np.abs(numbers).max() >= 1 << 53) or one.type.scale > 22:
        raise NotTakenError("a decimal has too many digits for a double")
    return pa.array(numbers / np.float64(10.0**one.type.scale), mask=nulls)


def _decimal_to_whole(value: Value, one: pa.Array) -> pa.Array:
    numbers, nulls = unscaled_or_zero(one)
    if numbers is None:
        raise NotTakenError("a decimal has too many digits for a long")
    factor = np.int64(10 ** min(one.type.scale, 18))
    found = numbers // factor
    found += (numbers < 0) & (found * factor != numbers)  # towards zero
    return pc.cast(pa.array(found, mask=nulls), value.type)


def _micros_to_seconds(value: Value, one: Any) -> Any:
    numbers, nulls = numbers_of(one)
    return pa.array(numbers // 1_000_000, mask=nulls)


FUNCTIONS |= {
    "whole_numbers": Function(_whole_numbers, can_fail=True),
    "to_real": Function(_to_real),
    "real_to_whole": Function(_real_to_whole, can_fail=True),
    "text_to_whole": Function(_text_to_whole, can_fail=True),
    "text_to_real": Function(_text_to_real, can_fail=True),
    "text_to_date": Function(_text_to_date, can_fail=True),
    "text_to_time": Function(_text_to_time, can_fail=True),
    "to_boolean": Function(_to_boolean),
    "to_text": Function(lambda value, one: pc.cast(one, pa.string())),
    "date_to_text": Function(_date_to_text, can_fail=True),
    "wider_decimal": Function(_wider_decimal, can_fail=True),
    "decimal_to_double": Function(_decimal_to_double, can_fail=True),
    "decimal_to_whole": Function(_decimal_to_whole, can_fail=True),
    "time_to_seconds": Function(_micros_to_seconds),
    "boolean_to_whole": Function(lambda value, one: one.cast(value.type)),
}
