"""Builds the values of Spark's expressions, class by class; see :mod:`.translations`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...catalyst.spark_expressions import calendar_interval, class_name
from .translator import Build, Translator, mode_of, not_known, type_of
from .values import Value
from .zones import WALL, Zone, zone_of

_BOOLEAN, _INT, _LONG, _DOUBLE, _TEXT = pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string()
_DAY = 86_400_000_000
_FORMATS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_UNITS = {
    "year": ("year", "yyyy", "yy"),
    "quarter": ("quarter",),
    "month": ("month", "mon", "mm"),
    "week": ("week",),
    "day": ("day", "dd"),
    "hour": ("hour",),
    "minute": ("minute",),
    "second": ("second",),
}


def plain(name: str, data_type: pa.DataType | None = None) -> Build:
    """A function of the arguments; ``data_type``: None for that of the expression."""

    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        return Value(name, data_type or type_of(expression), to.values(children))

    return build


def compared(name: str, *, mirrored: bool = False) -> Build:
    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        one, other = to.values(children)
        if one.type != other.type:
            raise not_known(expression, f"a comparison of {one.type} with {other.type}")
        return Value(name, _BOOLEAN, (other, one) if mirrored else (one, other))

    return build


def is_in(to: Translator, expression: Any, children: list[Any]) -> Value:
    one, *others = to.values(children)
    if pa.types.is_floating(one.type) or any(other.function != "constant" for other in others):
        found = Value("equal", _BOOLEAN, (one, others[0]))
        for other in others[1:]:
            found = Value("or", _BOOLEAN, (found, Value("equal", _BOOLEAN, (one, other))))
        return found
    known = [other.options[0] for other in others]
    return Value(
        "is_in", _BOOLEAN, (one,), (tuple(value for value in known if value is not None), any(v is None for v in known))
    )


def arithmetic(name: str) -> Build:
    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        data_type = type_of(expression)
        arguments = to.values(children)
        if pa.types.is_decimal(data_type):
            scales = [one.type.scale for one in arguments]
            exact = sum(scales) if name == "multiply" else max(scales)
            # Of less than 38 digits the type has room for all results.
            if name not in ("add", "subtract", "multiply") or data_type.scale != exact or data_type.precision >= 38:
                raise not_known(expression, f"of type {data_type}, which may be rounded")
        elif any(one.type != data_type for one in arguments):
            raise not_known(expression, f"a {class_name(expression)} of other types")
        return Value(name, data_type, arguments, mode_of(expression))

    return build


def divide(to: Translator, expression: Any, children: list[Any]) -> Value:
    data_type = type_of(expression)
    if data_type == _DOUBLE:
        return arithmetic("divide")(to, expression, children)
    one, other = arguments = to.values(children)
    if not all(pa.types.is_decimal(its.type) for its in arguments) or not pa.types.is_decimal(data_type):
        raise not_known(expression, f"of type {data_type}")
    if not 0 <= data_type.scale - one.type.scale + other.type.scale <= 18:
        raise not_known(expression, "a quotient of many digits")
    return Value("divide_decimals", data_type, arguments, mode_of(expression))


def round_half_up(to: Translator, expression: Any, children: list[Any]) -> Value:
    one, scale, data_type = to.value(children[0]), int(to.literal(children[1])), type_of(expression)
    if not 0 <= scale <= 15:
        raise not_known(expression, "to other digits than 0 to 15 behind the point")
    if pa.types.is_integer(data_type) and one.type == data_type:
        return one
    if data_type == _DOUBLE and one.type == _DOUBLE:
        return Value("round_real", data_type, (one,), (scale,))
    if not pa.types.is_decimal(data_type) or not pa.types.is_decimal(one.type):
        raise not_known(expression, f"of type {data_type}")
    return Value("round_decimal", data_type, (one,))


def remainder(to: Translator, expression: Any, children: list[Any]) -> Value:
    if pa.types.is_decimal(type_of(expression)):
        raise not_known(expression, "a remainder of decimals")
    return arithmetic("remainder")(to, expression, children)


def whole_divide(to: Translator, expression: Any, children: list[Any]) -> Value:
    arguments = to.values(children)
    if any(one.type != _LONG for one in arguments):
        raise not_known(expression, "a division of decimals")
    return Value("whole_divide", _LONG, arguments, mode_of(expression))


def of_sign(name: str) -> Build:
    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        data_type = type_of(expression)
        checked = ("checked",) if bool(expression.failOnError()) else ()
        return Value(name, data_type, to.values(children), checked)

    return build


def rounded(name: str) -> Build:
    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        (one,) = to.values(children)
        if type_of(expression) != _LONG or pa.types.is_decimal(one.type):
            raise not_known(expression, "a decimal that is rounded")
        return Value(name, _LONG, (one,))

    return build


def extreme(name: str) -> Build:
    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        data_type = type_of(expression)
        if pa.types.is_floating(data_type) or pa.types.is_boolean(data_type):
            raise not_known(expression, f"of type {data_type}")
        return Value(name, data_type, to.values(children))

    return build


def case(to: Translator, expression: Any, children: list[Any]) -> Value:
    arguments = to.values(children)
    data_type = type_of(expression)
    if len(arguments) % 2 == 0:
        arguments += (Value("constant", data_type, (), (None,)),)
    if any(one.type != data_type for one in (*arguments[1:-1:2], arguments[-1])):
        raise not_known(expression, "of several types")
    return Value("case", data_type, arguments)


def null_if(to: Translator, expression: Any, children: list[Any]) -> Value:
    condition, value = to.values(children)
    return Value("case", value.type, (condition, Value("constant", value.type, (), (None,)), value))


def coalesce(to: Translator, expression: Any, children: list[Any]) -> Value:
    arguments, data_type = to.values(children), type_of(expression)
    if any(one.type != data_type for one in arguments):
        raise not_known(expression, "of several types")
    return Value("coalesce", data_type, arguments)


def substring(to: Translator, expression: Any, children: list[Any]) -> Value:
    one, (start, length) = to.value(children[0]), map(to.literal, children[1:])
    if start >= 0:
        first = max(start - 1, 0)
        options: tuple[Any, ...] = (first, min(first + max(length, 0), 2**31 - 1))
    elif length >= -start:
        options = (start, None)
    else:
        raise not_known(expression, "a substring that ends before its text does")
    return Value("substring", _TEXT, (one,), options)


def trim(name: str) -> Build:
    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        if len(children) > 1 and str(to.literal(children[1])) != " ":
            raise not_known(expression, "a trim of other characters than spaces")
        return Value(name, _TEXT, (to.value(children[0]),))

    return build


def concat_ws(to: Translator, expression: Any, children: list[Any]) -> Value:
    return Value("concat_ws", _TEXT, to.values(children[1:]), (str(to.literal(children[0])),))


def matched(name: str) -> Build:
    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        return Value(name, _BOOLEAN, (to.value(children[0]),), (to.text(children[1]),))

    return build


def like(to: Translator, expression: Any, children: list[Any]) -> Value:
    pattern = str(to.literal(children[1]))
    parts = pattern.split("%")
    is_other = len(parts) > 3 or (len(parts) == 3 and (parts[0] or parts[2] or not parts[1]))
    if not pattern or is_other or any(one in pattern for one in ("_", "\\", str(expression.escapeChar()))):
        raise not_known(expression, "a pattern of another form than text%, %text, %text% or text%text")
    one = to.value(children[0])
    if len(parts) == 1:
        return Value("equal", _BOOLEAN, (one, Value("constant", _TEXT, (), (pattern,))))
    if len(parts) == 3:
        return Value("contains", _BOOLEAN, (one,), (parts[1],))
    return Value("begins_and_ends", _BOOLEAN, (one,), tuple(parts))


def replace(to: Translator, expression: Any, children: list[Any]) -> Value:
    return Value("replace", _TEXT, (to.value(children[0]),), (to.text(children[1]), str(to.literal(children[2]))))


def position(to: Translator, expression: Any, children: list[Any]) -> Value:
    return Value("position", _INT, (to.value(children[0]),), (to.text(children[1]),))


def clock(name: str) -> Build:
    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        (one,) = to.values(children)
        return Value(name, _INT, (one,), (clock_zone(expression, one),))

    return build


def clock_zone(expression: Any, one: Value) -> Zone:
    """The zone in which a clock shows a time; wall time is as it is."""
    if not pa.types.is_timestamp(one.type):
        raise not_known(expression, f"of {one.type}")
    return zone_of(expression.zoneId()) if one.type.tz else WALL


def _unit(to: Translator, expression: Any, known: Sequence[str]) -> str:
    asked = str(to.literal(expression)).lower()
    found = next((unit for unit in known if asked in _UNITS[unit]), None)
    if found is None:
        raise not_known(expression, "another unit")
    return found


def truncated_date(to: Translator, expression: Any, children: list[Any]) -> Value:
    unit = _unit(to, children[1], ("year", "quarter", "month", "week"))
    return Value("truncated_date", pa.date32(), (to.value(children[0]),), (unit,))


def truncated_time(to: Translator, expression: Any, children: list[Any]) -> Value:
    return Value(
        "truncated_time",
        type_of(expression),
        (to.value(children[1]),),
        (_unit(to, children[0], tuple(_UNITS)), zone_of(expression.zoneId())),
    )


def days_added(name: str) -> Build:
    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        return Value("days_added", pa.date32(), to.values(children), (name,))

    return build


def time_added(to: Translator, expression: Any, children: list[Any]) -> Value:
    interval = children[1]
    if not to.is_constant(interval):
        raise not_known(expression, "an interval that is no constant")
    kind, value = str(interval.dataType().simpleString()), interval.eval(None)
    if kind == "interval":
        months, days, micros = calendar_interval(value)
        if months:
            raise not_known(expression, "an interval of months")
    elif isinstance(value, int) and not {"year", "month"} & set(kind.split()):
        # Towards zero.
        days, micros = (1 if value >= 0 else -1) * (abs(value) // _DAY), (1 if value >= 0 else -1) * (abs(value) % _DAY)
    else:
        raise not_known(expression, f"of {kind}")
    one = to.value(children[0])
    return Value("time_added", one.type, (one,), (days, micros, clock_zone(expression, one)))


def seconds(*options: str) -> Build:
    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        one = to.value(children[0])
        if not pa.types.is_timestamp(one.type) or not one.type.tz:
            raise not_known(expression, f"of {one.type}")
        return Value("seconds", _LONG, (one,), options)

    return build


def formatted(to: Translator, expression: Any, children: list[Any]) -> Value:
    made = ""
    for found in re.finditer(r"([a-zA-Z])\1*|.", str(to.literal(children[1])), re.DOTALL):
        letters = found[0]
        if letters not in _FORMATS and letters not in tuple("-/: ._"):
            raise not_known(expression, "a pattern with other letters than yyyy, MM, dd, HH, mm and ss")
        made += _FORMATS.get(letters, letters)
    one = to.value(children[0])
    return Value("formatted", _TEXT, (one,), (made, clock_zone(expression, one)))


def cast(to: Translator, expression: Any, children: list[Any]) -> Value:
    mode, one, data_type = mode_of(expression), to.value(children[0]), type_of(expression)
    if one.type == data_type:
        return one
    if one.function == "constant" and one.options[0] is None:
        return Value("constant", data_type, (), (None,))
    name, options = _cast_of(one.type, data_type)
    if not name:
        raise not_known(expression, f"a cast of {one.type} to {data_type}")
    chosen: tuple[Any, ...] = ()
    if options == "mode":
        chosen = mode
    elif options == "zone":
        source = one.type if pa.types.is_timestamp(one.type) else data_type
        chosen = (zone_of(expression.zoneId()) if source.tz else WALL,)
    elif options == "in zone":
        chosen = (zone_of(expression.zoneId()),)
    return Value(name, data_type, (one,), chosen)


def _cast_of(one: pa.DataType, other: pa.DataType) -> tuple[str, str]:
    """The function that casts a type to another, and what it needs to know; nothing: it is Spark's."""
    is_ = pa.types
    whole, real = is_.is_integer, is_.is_floating
    if whole(one) and whole(other):
        return "whole_numbers", "mode"
    if (whole(one) or real(one)) and real(other):
        return "to_real", ""
    if real(one) and whole(other):
        return "real_to_whole", ""
    if is_.is_boolean(one) and whole(other):
        return "boolean_to_whole", ""
    if whole(one) and is_.is_boolean(other):
        return "to_boolean", ""
    if is_.is_string(other) and (whole(one) or is_.is_boolean(one)):
        return "to_text", ""
    if is_.is_string(other) and is_.is_date32(one):
        return "date_to_text", ""
    if is_.is_string(one) and whole(other):
        return "text_to_whole", ""
    if is_.is_string(one) and other == _DOUBLE:
        return "text_to_real", ""
    if is_.is_string(one) and is_.is_date32(other):
        return "text_to_date", ""
    if is_.is_string(one) and is_.is_timestamp(other):
        return "text_to_time", "zone"
    if is_.is_timestamp(one) and is_.is_date32(other):
        return "date_of", "zone"
    if is_.is_date32(one) and is_.is_timestamp(other):
        return "begin_of", "zone"
    if is_.is_timestamp(one) and is_.is_timestamp(other):
        return ("wall_of" if one.tz else "time_of"), "in zone"
    if is_.is_timestamp(one) and one.tz and other == _LONG:
        return "time_to_seconds", ""
    if is_.is_decimal(other):
        precision, scale = (_DIGITS.get(str(one), 99), 0) if not is_.is_decimal(one) else (one.precision, one.scale)
        if other.scale >= scale and other.precision - other.scale >= precision - scale:
            return "wider_decimal", ""
    if is_.is_decimal(one) and other == _DOUBLE:
        return "decimal_to_double", ""
    if is_.is_decimal(one) and whole(other):
        return "decimal_to_whole", ""
    return "", ""


_DIGITS = {"int8": 3, "int16": 5, "int32": 10, "int64": 19}
