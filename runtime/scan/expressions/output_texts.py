"""Texts and decimals of values, as Spark casts them and as its ``to_json`` writes them, made one by one: for few rows.

They give what Spark gives for all values but times outside of the years 1 to 9999, or raise where Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from ..parquet_scan import NotTakenError
from .java_floats import java_text
from .numbers import numbers_of, same_length
from .times import checked_days
from .values import FUNCTIONS, Function, Value
from .zones import Zone

#: What Jackson writes for characters that JSON does not have.
_ESCAPED = {code: f"\\u{code:04X}" for code in range(32)}
_ESCAPED |= {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
#: More digits than any value has.
_EXACT = Context(prec=400, Emin=-9999, Emax=9999)
_SECOND = 1_000_000


def json_string(text: str) -> str:
    """A text as JSON has it."""
    return f'"{text.translate(_ESCAPED)}"'


def _each(write: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function of one argument that is done to each value but null."""

    def compute(value: Value, one: pa.Array) -> pa.Array:
        return pa.array([None if each is None else write(each) for each in one.to_pylist()], value.type)

    return compute


def _dates(one: pa.Array) -> list[str | None]:
    days, nulls = numbers_of(one)
    texts = checked_days(days, nulls).astype("M8[D]").astype(str).tolist()
    return _with_nulls(texts, nulls)


def _with_nulls(texts: list[str], nulls: np.ndarray | None) -> list[str | None]:
    return list(texts) if nulls is None else [None if null else one for one, null in zip(texts, nulls, strict=True)]


def _date_to_text(value: Value, one: pa.Array) -> pa.Array:
    return pa.array(_dates(one), value.type)


def _clock(one: pa.Array, zone: Zone) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """What clocks show, the offsets from UTC, both in µs, and where times are null."""
    times, nulls = numbers_of(one)
    local = zone.local(times, nulls)
    return local, local - times, nulls


def _time_to_text(value: Value, one: pa.Array) -> pa.Array:
    """With as many digits behind the second as are not zero."""
    local, _, nulls = _clock(one, value.options[0])
    texts = [each.replace("T", " ").rstrip("0").rstrip(".") for each in _written(local.view("M8[us]"))]
    return pa.array(_with_nulls(texts, nulls), value.type)


def _written(local: np.ndarray) -> list[str]:
    found: list[str] = np.datetime_as_string(local).tolist()
    return found


def _real_to_text(value: Value, one: pa.Array) -> pa.Array:
    (before_19,) = value.options
    return pa.array(_reals(one, before_19=before_19), value.type)


def _reals(one: pa.Array, *, before_19: bool) -> list[str | None]:
    is_float = pa.types.is_float32(one.type)
    return [
        None if each is None else java_text(each, is_float=is_float, before_19=before_19) for each in one.to_pylist()
    ]


def _rounded_real(value: Value, one: pa.Array) -> pa.Array:
    """Java rounds the decimal that it writes a double as."""
    scale, before_19 = value.options
    found = []
    for number, text in zip(one.to_pylist(), _reals(one, before_19=before_19), strict=True):
        if number is None or not np.isfinite(number):
            found.append(number)
        else:
            rounded = Decimal(text or "").quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, context=_EXACT)
            found.append(abs(float(rounded)) if rounded == 0 else float(rounded))
    return pa.array(found, value.type)


def _json(value: Value, *arguments: Any) -> pa.Array:
    """Options: a field for each name, which is a place among the arguments or fields of its own; whether nulls are left
    out; by place the zone of a time; whether Java is older than 19."""
    fields, leaves_out, zones, before_19 = value.options
    arrays = [one for one in arguments if isinstance(one, pa.Array)]
    rows = len(arrays[0]) if arrays else 1
    columns = [
        _json_values(one if isinstance(one, pa.Array) else pa.repeat(one, rows), zone, before_19=before_19)
        for one, zone in zip(arguments, zones, strict=True)
    ]
    texts = [_json_object(fields, [column[row] for column in columns], leaves_out=leaves_out) for row in range(rows)]
    return pa.array(texts, value.type) if arrays else pa.scalar(texts[0], value.type)


def _json_object(fields: Any, values: list[str | None], *, leaves_out: bool) -> str:
    parts = []
    for name, content in fields:
        if isinstance(content, tuple):
            parts.append(f"{name}:{_json_object(content, values, leaves_out=leaves_out)}")
        elif values[content] is not None:
            parts.append(f"{name}:{values[content]}")
        elif not leaves_out:
            parts.append(f"{name}:null")
    return "{" + ",".join(parts) + "}"


def _json_values(one: pa.Array, zone: Zone | None, *, before_19: bool) -> list[str | None]:
    """Values as JSON; null stays null."""
    is_ = pa.types
    if is_.is_string(one.type):
        return [None if each is None else json_string(each) for each in one.to_pylist()]
    if is_.is_boolean(one.type):
        return [None if each is None else "true" if each else "false" for each in one.to_pylist()]
    if is_.is_floating(one.type):
        texts = _reals(one, before_19=before_19)
        return [f'"{text}"' if text is not None and text[-1] in "Ny" else text for text in texts]
    if is_.is_date32(one.type):
        return [None if each is None else f'"{each}"' for each in _dates(one)]
    if is_.is_timestamp(one.type):
        assert zone is not None, "the translation gives times a zone"
        local, offsets, nulls = _clock(one, zone)
        ends = [_offset(offset) for offset in offsets.tolist()] if one.type.tz else [""] * len(local)
        return _with_nulls(
            [f'"{a}{b}"' for a, b in zip(_written((local // 1000).view("M8[ms]")), ends, strict=True)], nulls
        )
    return [None if each is None else str(each) for each in one.to_pylist()]


def _offset(micros: int) -> str:
    """Hours and minutes, and seconds where there are some: clocks went by the sun once."""
    if micros == 0:
        return "Z"
    minutes, seconds = divmod(abs(micros) // _SECOND, 60)
    text = f"{'-' if micros < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{seconds:02d}" if seconds else text


def _decimal_to_whole(value: Value, one: pa.Array) -> pa.Array:
    """Towards zero; one that does not fit is an error with options ``("checked",)``, as in Spark, else wraps around."""
    most = 1 << (value.type.bit_width - 1)
    found = [None if each is None else int(each) for each in one.to_pylist()]
    if value.options and any(each is not None and not -most <= each < most for each in found):
        raise NotTakenError(f"a decimal does not fit into {value.type}")
    wrapped = [None if each is None else (each + most) % (2 * most) - most for each in found]
    return pa.array(wrapped, value.type)


def _to_decimal(value: Value, one: pa.Array) -> pa.Array:
    """Rounded half up, of numbers and of doubles as Java writes them; options: those of the mode, and Java's age."""
    *mode, before_19 = value.options
    if not pa.types.is_floating(one.type):
        return _fitting(value.type, [None if each is None else Decimal(each) for each in one.to_pylist()], mode)
    texts = _reals(one.cast(pa.float64()), before_19=before_19)
    # What is no number is null in each mode.
    return _fitting(value.type, [None if text is None or text[-1] in "Ny" else Decimal(text) for text in texts], mode)


def _fitting(data_type: pa.DataType, numbers: Sequence[Decimal | None], mode: Sequence[str]) -> pa.Array:
    """Numbers rounded to a type; what does not fit is an error with mode ``("checked",)``, else null."""
    unit, most = Decimal(1).scaleb(-data_type.scale), 10**data_type.precision
    found: list[Decimal | None] = []
    for number in numbers:
        # A number with so many digits has no room, and to round it might take long.
        fits = number is not None and number.adjusted() <= data_type.precision
        rounded = None if number is None or not fits else number.quantize(unit, ROUND_HALF_UP, context=_EXACT)
        if rounded is not None and abs(rounded.scaleb(data_type.scale, context=_EXACT)) >= most:
            rounded = None
        if rounded is None and number is not None and mode:
            raise NotTakenError(f"a number does not fit into {data_type}")
        found.append(rounded)
    return pa.array(found, data_type)


def _quotients(value: Value, one: Any, other: Any) -> pa.Array:
    """Spark rounds to 38 digits behind the point first, and then to the type."""
    one, other = same_length(one, other)
    found: list[Decimal | None] = []
    for dividend, divisor in zip(one.to_pylist(), other.to_pylist(), strict=True):
        if dividend is None or divisor is None:
            found.append(None)
        elif divisor == 0:
            if value.options:
                raise NotTakenError("division by zero")
            found.append(None)
        else:
            found.append(_quotient(dividend, divisor))
    return _fitting(value.type, found, value.options)


def _quotient(dividend: Decimal, divisor: Decimal) -> Decimal:
    """To 38 digits behind the point, the middle to the even one."""
    exact = Fraction(dividend) / Fraction(divisor)
    return Decimal(round(exact * 10**38)).scaleb(-38, context=_EXACT)


FUNCTIONS |= {
    "decimal_written": Function(_each(lambda number: f"{number:f}")),
    "decimal_to_string": Function(_each(str)),
    "date_written": Function(_date_to_text, can_fail=True),
    "time_written": Function(_time_to_text, can_fail=True),
    "real_written": Function(_real_to_text),
    "round_written": Function(_rounded_real),
    "decimal_as_double": Function(_each(float)),
    "decimal_as_whole": Function(_decimal_to_whole, can_fail=True),
    "to_decimal": Function(_to_decimal, can_fail=True),
    "decimal_quotient": Function(_quotients, can_fail=True),
    "json": Function(_json, can_fail=True),
}
