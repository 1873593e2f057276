"""Stored values whose type has become wider since: which types may follow which, and how a value follows.

The rules are those of Avro, in which Spark stores state whose schema may change: an integer becomes a wider one or a
float, a float a double, text bytes; structs inside go by name and may gain and lose nullable fields, lists and maps go
by their elements.  A decimal may grow on both sides of its point, which is more than Spark lets it.  Nothing narrows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from .conversions import decimal_of, float32_of, same, unless_none, unscaled_of
from .structs import StructClass

Convert = Callable[[Any], Any]


def obstacle(old: pa.DataType, new: pa.DataType) -> str | None:
    """Why values of the old type cannot become values of the new one, in words; None: they can."""
    types = pa.types
    if old == new or _widens(old, new):
        return None
    if types.is_decimal128(old) and types.is_decimal128(new):
        if new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale:
            return None
        return f"changed from {old} to {new}, which has fewer digits before or after the point"
    if types.is_struct(old) and types.is_struct(new):
        return _struct_obstacle(old, new)
    if types.is_list(old) and types.is_list(new):
        return _inside("its elements", old.value_field, new.value_field)
    if types.is_map(old) and types.is_map(new):
        return _inside("its keys", old.key_field, new.key_field) or _inside(
            "its values", old.item_field, new.item_field
        )
    return f"changed from {old} to {new}"


def converter(old: pa.DataType, new: pa.DataType, struct_class: StructClass) -> Convert | None:
    """Makes a decoded value of the old type one of the new; None: it is one.  There must be no :func:`obstacle`."""
    types = pa.types
    if old == new:
        return None
    if types.is_float32(new):
        return unless_none(lambda value: float32_of(float(value)))
    if types.is_float64(new):
        return unless_none(float)
    if types.is_binary(new):
        return unless_none(str.encode)
    if types.is_decimal128(new):
        precision, scale = new.precision, new.scale
        return unless_none(lambda value: decimal_of(unscaled_of(value, precision, scale), scale))
    if types.is_struct(new):
        made = struct_class([field.name for field in new])
        read = fields_reader(list(old), list(new), struct_class)
        return unless_none(lambda value: tuple.__new__(made, read(value)))
    if types.is_list(new):
        part = converter(old.value_type, new.value_type, struct_class)
        return None if part is None else unless_none(lambda value: [part(element) for element in value])
    if types.is_map(new):
        key = converter(old.key_type, new.key_type, struct_class) or same
        item = converter(old.item_type, new.item_type, struct_class) or same
        return unless_none(lambda value: {key(name): item(element) for name, element in value.items()})
    return None  # an integer


def fields_reader(old: list[pa.Field], new: list[pa.Field], struct_class: StructClass) -> Callable[[Any], list[Any]]:
    """Reads the new fields, by name, of the values of the old ones; a field that was not there is None."""
    places = {field.name: place for place, field in enumerate(old)}
    steps: list[tuple[int | None, Convert]] = []
    for field in new:
        place = places.get(field.name)
        if place is None:
            steps.append((None, same))
        else:
            steps.append((place, converter(old[place].type, field.type, struct_class) or same))
    return lambda values: [None if place is None else convert(values[place]) for place, convert in steps]


def _widens(old: pa.DataType, new: pa.DataType) -> bool:
    types = pa.types
    if types.is_signed_integer(old):
        if types.is_signed_integer(new):
            return bool(new.bit_width > old.bit_width)
        return bool(types.is_float32(new) or types.is_float64(new))
    return bool(types.is_float32(old) and types.is_float64(new)) or bool(types.is_string(old) and types.is_binary(new))


def _struct_obstacle(old: pa.StructType, new: pa.StructType) -> str | None:
    before, after = {field.name: field for field in old}, {field.name: field for field in new}
    if len(before) != old.num_fields or len(after) != new.num_fields:
        return f"changed from {old} to {new}, which have fields of the same name"
    for name, field in after.items():
        known = before.get(name)
        if known is None:
            if not field.nullable:
                return f"gained field {name!r} inside, which is not nullable"
        elif (found := _inside(f"its field {name!r}", known, field)) is not None:
            return found
    return None


def _inside(what: str, old: pa.Field, new: pa.Field) -> str | None:
    if old.nullable and not new.nullable:
        return f"has changed inside: {what} may no longer be None"
    found = obstacle(old.type, new.type)
    return None if found is None else f"has changed inside: {what} {found}"
