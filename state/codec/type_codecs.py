"""Converts each type of a state value to what MessagePack can hold, and back."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from ...errors import StateSchemaError
from .conversions import (
    MisfitError,
    binary_value,
    bool_of,
    date_days,
    days_date,
    decimal_of,
    delta_micros,
    float32_of,
    float_of,
    int_of,
    is_missing,
    is_nan_decimal,
    micros_delta,
    micros_wall,
    nanos_time,
    same,
    str_of,
    time_nanos,
    unless_none,
    unscaled_of,
    wall_micros,
)
from .local_datetimes import LocalMoments
from .row_plans import RowPlans, TypeCodec, compiled_reader
from .stored_types import StoredType, stored_type
from .structs import StructClass, struct_values


def type_codecs_of(fields: Any, struct_class: StructClass) -> list[TypeCodec]:
    """The codecs of a schema's fields."""
    moments = LocalMoments()
    return [_type_codec(field.type, field.name, struct_class, moments) for field in fields]


def _only_none(value: Any) -> Any:
    raise MisfitError("only None")


#: Types whose values travel in one way, whatever their column.
_CODECS = {
    StoredType.NULL: TypeCodec(Any, _only_none),
    StoredType.BOOLEAN: TypeCodec(bool, bool_of, plain=bool),
    StoredType.DOUBLE: TypeCodec(float, float_of, plain=float),
    StoredType.FLOAT: TypeCodec(float, float32_of, exact=(float,)),
    StoredType.STRING: TypeCodec(str, str_of, plain=str),
    StoredType.BINARY: TypeCodec(bytes, binary_value, plain=bytes),
    StoredType.DATE: TypeCodec(int, date_days, days_date, exact=(date,)),
    StoredType.TIMESTAMP_NTZ: TypeCodec(int, wall_micros, micros_wall, exact=(datetime,)),
    StoredType.DURATION: TypeCodec(int, delta_micros, micros_delta, exact=(timedelta,)),
    StoredType.TIME: TypeCodec(int, time_nanos, nanos_time, exact=(time,)),
}


def _type_codec(data_type: pa.DataType, name: str, struct_class: StructClass, moments: LocalMoments) -> TypeCodec:
    kind = stored_type(data_type)
    if kind is None:
        raise StateSchemaError(f"state field {name!r} has type {data_type}, which state cannot hold")
    if kind in _NESTED:
        return _NESTED[kind](data_type, name, struct_class, moments)
    if kind is StoredType.INTEGER:
        return _int_codec(data_type.bit_width)
    if kind is StoredType.DECIMAL:
        return _decimal_codec(data_type.precision, data_type.scale)
    if kind is StoredType.TIMESTAMP:
        return TypeCodec(int, moments.micros, moments.naive, exact=(datetime,))
    return _CODECS[kind]


def _int_codec(bits: int) -> TypeCodec:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    allowed = Annotated[int, msgspec.Meta(ge=low, le=high)]

    def pack(value: Any) -> int:
        return int_of(value, low, high)

    return TypeCodec(allowed, pack, plain=int, bounds=(low, high))


def _decimal_codec(precision: int, scale: int) -> TypeCodec:
    # Digits as text: MessagePack numbers end at 64 bits.
    def pack(value: Any) -> str | None:
        # A Decimal that is no number is Spark's null; a float is of another type, even that which is none.
        return None if is_nan_decimal(value) else str(unscaled_of(value, precision, scale))

    def fast(value: Decimal) -> str:
        return str(unscaled_of(value, precision, scale))  # of a NaN a misfit

    return TypeCodec(str, pack, lambda text: decimal_of(int(text), scale), exact=(Decimal,), fast=fast)


def _nested(codec: TypeCodec, nullable: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Both conversions of an element, with None allowed or not."""

    def to_packed(value: Any) -> Any:
        packed = None if is_missing(value) else codec.to_packed(value)
        if packed is None and not nullable:
            raise MisfitError("no None inside")
        return packed

    return to_packed, unless_none(codec.from_packed) if codec.from_packed is not None else same


def _elements(codec: TypeCodec, nullable: bool) -> Callable[[Collection[Any]], Any]:
    """The fast conversion of many elements."""
    bounds, convert = codec.bounds, codec.fast or codec.to_packed
    careful, _ = _nested(codec, nullable)

    def fast(values: Collection[Any]) -> Any:
        kinds = set(map(type, values))
        if len(kinds) == 1:
            (kind,) = kinds
            if kind is codec.plain:
                if bounds is None or (bounds[0] <= min(values) and max(values) <= bounds[1]):
                    return values
            elif issubclass(kind, codec.exact):
                return [convert(value) for value in values]
        return [careful(value) for value in values]

    return fast


def _list_codec(data_type: pa.DataType, name: str, struct_class: StructClass, moments: LocalMoments) -> TypeCodec:
    element = data_type.value_field
    codec = _type_codec(element.type, f"{name}[]", struct_class, moments)
    to_packed, from_packed = _nested(codec, element.nullable)
    elements = _elements(codec, element.nullable)

    def pack(value: Any) -> list[Any]:
        if isinstance(value, (np.ndarray, array)):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            raise MisfitError(f"a list of {element.type}")
        return [to_packed(part) for part in value]

    def unpack(parts: list[Any]) -> list[Any]:
        return [from_packed(part) for part in parts]

    return TypeCodec(list, pack, None if codec.from_packed is None else unpack, exact=(list,), fast=elements)


def _map_codec(data_type: pa.DataType, name: str, struct_class: StructClass, moments: LocalMoments) -> TypeCodec:
    key, item = data_type.key_field, data_type.item_field
    key_codec = _type_codec(key.type, f"{name} key", struct_class, moments)
    item_codec = _type_codec(item.type, f"{name} value", struct_class, moments)
    key_to, key_from = _nested(key_codec, False)
    item_to, item_from = _nested(item_codec, item.nullable)
    keys, items = _elements(key_codec, False), _elements(item_codec, item.nullable)

    def pack(value: Any) -> list[Any]:
        if not isinstance(value, dict):
            raise MisfitError(f"a dict of {key.type} to {item.type}")
        return [(key_to(one), item_to(part)) for one, part in value.items()]

    def fast(value: dict[Any, Any]) -> list[Any]:
        return list(zip(keys(value.keys()), items(value.values()), strict=True))

    def unpack(pairs: list[Any]) -> dict[Any, Any]:
        return {key_from(one): item_from(part) for one, part in pairs}

    # Pairs, not a MessagePack map: keys may be structs.
    is_plain = key_codec.from_packed is None and item_codec.from_packed is None
    return TypeCodec(list, pack, dict if is_plain else unpack, exact=(dict,), fast=fast)


def _struct_codec(data_type: pa.DataType, name: str, struct_class: StructClass, moments: LocalMoments) -> TypeCodec:
    fields = [data_type.field(i) for i in range(data_type.num_fields)]
    names = [field.name for field in fields]
    codecs = [_type_codec(field.type, f"{name}.{field.name}", struct_class, moments) for field in fields]
    all_to_packed = [_nested(codec, field.nullable)[0] for codec, field in zip(codecs, fields, strict=True)]

    def slowly(value: Any) -> list[Any]:
        parts = struct_values(value, names)
        packed = [to_packed(part) for to_packed, part in zip(all_to_packed, parts, strict=True)]
        plans.learn(parts)
        return packed

    plans = RowPlans(codecs, same, slowly)
    unpack = compiled_reader(codecs, struct_class(names))
    return TypeCodec(list, slowly, unpack, exact=(tuple, list, dict), fast=plans.convert)


_NESTED = {StoredType.LIST: _list_codec, StoredType.MAP: _map_codec, StoredType.STRUCT: _struct_codec}
