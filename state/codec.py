"""State values as bytes: exact for every Spark type, strict about what goes in.

A value is one version byte (which schema of the variable wrote it) and the row as MessagePack.  A row of ints, floats,
strings, bytes and bools is packed as it is after a look at its types, which a set lookup does for the whole row; other
types (decimals, dates, times, lists, maps, structs) are converted by functions that are chosen once per schema.

Strict: a wrong number of fields, a wrong Python type and an int out of range are StateSchemaErrors at the moment of
the write, not surprises at the next read.  Numpy scalars are taken; an int is taken for a float if it is exact;
decimals are rounded half up to the declared scale, as Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa

from ..errors import CorruptStateError, StateSchemaError
from .conversions import (
    MisfitError,
    bool_of,
    bytes_of,
    date_days,
    days_date,
    decimal_of,
    delta_micros,
    float32_of,
    float_of,
    int_of,
    local_micros,
    micros_delta,
    micros_local,
    micros_wall,
    nanos_time,
    str_of,
    time_nanos,
    unscaled_of,
    wall_micros,
)

#: The version is one byte; 0xFF is kept for a longer form.
MAX_VERSIONS = 255

#: MessagePack's mark of a number that needs 64 bits without a sign.
_UNSIGNED_64 = 0xCF
#: Longer values are decoded without a copy, which costs more than copying a few bytes.
_COPIED_BYTES = 4096

_encoder = msgspec.msgpack.Encoder()


class _Wire(NamedTuple):
    """How one type travels: the type MessagePack decodes to, and the conversions to and from it."""

    type: Any
    to_wire: Callable[[Any], Any]
    #: None: what MessagePack decodes to is the value.
    from_wire: Callable[[Any], Any] | None = None
    #: Python type whose instances are packed without conversion; None: always convert.
    plain: type | None = None


class RowCodec:
    """Codec of the values of one state variable.

    ``history`` holds the older schemas of the variable, oldest first; values that they wrote are decoded and then
    adapted by field name: fields that are gone are dropped, new ones are None (also those that take up an old name).
    """

    def __init__(self, schema: pa.Schema, history: Sequence[pa.Schema] = ()) -> None:
        self.schema = schema
        self.history = tuple(history)
        if len(self.history) >= MAX_VERSIONS:
            raise StateSchemaError(f"a state variable can change its schema {MAX_VERSIONS - 1} times, not more")
        self._version = bytes([len(self.history)])
        self._names = tuple(schema.names)
        self._width = len(self._names)
        self._nullable = [field.nullable for field in schema]
        self._wires = [_wire(field.type, field.name) for field in schema]
        self._from_wire = [
            (i, _optional(wire.from_wire)) for i, wire in enumerate(self._wires) if wire.from_wire is not None
        ]
        wire_types = [
            wire.type if not nullable else (wire.type | None if wire.type is not Any else Any)
            for wire, nullable in zip(self._wires, self._nullable, strict=True)
        ]
        self._decoder = msgspec.msgpack.Decoder(tuple.__class_getitem__(tuple(wire_types)))
        #: Type tuples of rows that can be packed as they are.
        self._plain_types: set[tuple[type, ...]] = set()
        self._types_of = _TYPES_OF.get(self._width, _types_of_any)
        ints = [field.type.bit_width for field in schema if pa.types.is_signed_integer(field.type)]
        #: The ranges of narrow ints are checked by decoding what was packed.  64 bits can be missed only by a number
        #: that MessagePack marks as unsigned.
        self._has_narrow_ints = any(bits < 64 for bits in ints)
        self._has_longs = 64 in ints
        #: Bytes of a tuple, list or Row with one value per field.
        self.encode = self._encoder()
        self._older: dict[int, _Older] = {}
        # A field that was removed and came back is a new one: what older values hold under its name is not its.
        kept = set(self._names)
        for version in reversed(range(len(self.history))):
            kept &= set(self.history[version].names)
            self._older[version] = _Older(RowCodec(self.history[version]), self._names, kept)

    def _encoder(self) -> Callable[[Any], bytes]:
        """:attr:`encode`, with all that it needs at hand: a processor calls it for every key."""
        version, plain_types, types_of = self._version, self._plain_types, self._types_of
        pack, decode, slowly = _encoder.encode, self._decoder.decode, self._encode_slowly
        narrow, longs = self._has_narrow_ints, self._has_longs

        def encode(values: Any) -> bytes:
            try:
                if values.__class__ is not tuple and not isinstance(values, (tuple, list)):
                    return version + slowly(values)
                if types_of(values) in plain_types:
                    packed = pack(tuple(values))
                    if narrow or (longs and _UNSIGNED_64 in packed):
                        decode(packed)
                    return version + packed
            except (TypeError, ValueError, OverflowError, msgspec.ValidationError):
                pass
            return version + slowly(values)

        return encode

    def _encode_slowly(self, values: Any) -> bytes:
        if not isinstance(values, (tuple, list)) or len(values) != self._width:
            got = f"{len(values)} values: {values!r}" if isinstance(values, (tuple, list)) else repr(values)
            raise StateSchemaError(
                f"a state value needs a tuple of {self._width} values ({', '.join(self._names)}), got {got}"
            )
        row: list[Any] = []
        for wire, nullable, name, value in zip(self._wires, self._nullable, self._names, values, strict=True):
            if value is None:
                if not nullable:
                    raise StateSchemaError(f"state field {name!r} got None; it is declared as not nullable")
                row.append(None)
                continue
            try:
                row.append(wire.to_wire(value))
            except MisfitError as misfit:
                field = self.schema.field(self._names.index(name))
                raise StateSchemaError(
                    f"state field {name!r} ({field.type}) got {value!r} of type {type(value).__name__}; "
                    f"it takes {misfit}"
                ) from None
        if all(value is None or wire.plain is type(value) for wire, value in zip(self._wires, values, strict=True)):
            self._plain_types.add(tuple(map(type, values)))
        return _encoder.encode(tuple(row))

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Inverse of :meth:`encode`; bytes that no version of the schema wrote are a CorruptStateError."""
        if not data.startswith(self._version):
            return self._decode_older(data)
        try:
            row: tuple[Any, ...] = self._decoder.decode(
                data[1:] if len(data) <= _COPIED_BYTES else memoryview(data)[1:]
            )
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptStateError(f"a state value does not fit its schema {self._names}: {error}") from error
        if not self._from_wire:
            return row
        values = list(row)
        for i, convert in self._from_wire:
            values[i] = convert(values[i])
        return tuple(values)

    def _decode_older(self, data: bytes) -> tuple[Any, ...]:
        older = self._older.get(data[0]) if data else None
        if older is None:
            found = data[0] if data else "none (the value is empty)"
            raise CorruptStateError(
                f"a state value with fields {self._names} has schema version {found}, "
                f"known are 0 to {len(self.history)}"
            )
        return older.decode(data)

    def __reduce__(self) -> tuple[type[RowCodec], tuple[Any, ...]]:
        return RowCodec, (self.schema, self.history)


def _types_of_any(values: Any) -> tuple[type, ...]:
    return tuple(map(type, values))


def _types_of_one(values: Any) -> tuple[type, ...]:
    (a,) = values
    return (type(a),)


def _types_of_two(values: Any) -> tuple[type, ...]:
    a, b = values
    return (type(a), type(b))


def _types_of_three(values: Any) -> tuple[type, ...]:
    a, b, c = values
    return (type(a), type(b), type(c))


#: The types of a row by its width: most states are narrow, and written out this takes half the time.
_TYPES_OF = {1: _types_of_one, 2: _types_of_two, 3: _types_of_three}


class _Older:
    """Decodes with an older schema and adapts by name."""

    def __init__(self, codec: RowCodec, names: tuple[str, ...], kept: set[str]) -> None:
        self._codec = codec
        older = list(codec.schema.names)
        self._places = [older.index(name) if name in kept else None for name in names]

    def decode(self, data: bytes) -> tuple[Any, ...]:
        row = self._codec.decode(b"\x00" + data[1:])
        return tuple([None if place is None else row[place] for place in self._places])


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _wire(data_type: pa.DataType, name: str) -> _Wire:
    """The wire form of one Arrow type."""
    types = pa.types
    if types.is_null(data_type):
        return _Wire(Any, _only_none)
    if types.is_boolean(data_type):
        return _Wire(bool, bool_of, plain=bool)
    if types.is_signed_integer(data_type):
        return _int_wire(data_type.bit_width)
    if types.is_float64(data_type):
        return _Wire(float, float_of, plain=float)
    if types.is_float32(data_type):
        return _Wire(float, float32_of)
    if types.is_string(data_type) or types.is_large_string(data_type):
        return _Wire(str, str_of, plain=str)
    if types.is_binary(data_type) or types.is_large_binary(data_type):
        return _Wire(bytes, bytes_of, plain=bytes)
    if types.is_decimal128(data_type):
        return _decimal_wire(data_type.precision, data_type.scale)
    if types.is_date32(data_type):
        return _Wire(int, date_days, days_date)
    if types.is_timestamp(data_type):
        if data_type.tz is None:
            return _Wire(int, wall_micros, micros_wall)
        return _Wire(int, local_micros, micros_local)
    if types.is_duration(data_type):
        return _Wire(int, delta_micros, micros_delta)
    if types.is_time64(data_type):
        return _Wire(int, time_nanos, nanos_time)
    if types.is_list(data_type) or types.is_large_list(data_type):
        return _list_wire(data_type, name)
    if types.is_map(data_type):
        return _map_wire(data_type, name)
    if types.is_struct(data_type):
        return _struct_wire(data_type, name)
    raise StateSchemaError(f"state field {name!r} has type {data_type}, which state cannot hold")


def _only_none(value: Any) -> Any:
    raise MisfitError("only None")


def _int_wire(bits: int) -> _Wire:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    allowed = Annotated[int, msgspec.Meta(ge=low, le=high)]
    return _Wire(allowed, lambda value: int_of(value, low, high), plain=int)


def _decimal_wire(precision: int, scale: int) -> _Wire:
    # Digits as text: MessagePack numbers end at 64 bits.
    return _Wire(
        str, lambda value: str(unscaled_of(value, precision, scale)), lambda text: decimal_of(int(text), scale)
    )


def _nested(wire: _Wire, nullable: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Both conversions of an element, with None allowed or not."""

    def to_wire(value: Any) -> Any:
        if value is None:
            if not nullable:
                raise MisfitError("no None inside")
            return None
        return wire.to_wire(value)

    return to_wire, _optional(wire.from_wire) if wire.from_wire is not None else _same


def _same(value: Any) -> Any:
    return value


def _list_wire(data_type: pa.DataType, name: str) -> _Wire:
    element = data_type.value_field
    to_wire, from_wire = _nested(_wire(element.type, f"{name}[]"), element.nullable)

    def pack(value: Any) -> list[Any]:
        if hasattr(value, "tolist"):  # numpy arrays and array.array
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            raise MisfitError(f"a list of {element.type}")
        return [to_wire(part) for part in value]

    return _Wire(list, pack, lambda parts: [from_wire(part) for part in parts])


def _map_wire(data_type: pa.DataType, name: str) -> _Wire:
    key_to, key_from = _nested(_wire(data_type.key_type, f"{name} key"), False)
    item = data_type.item_field
    item_to, item_from = _nested(_wire(item.type, f"{name} value"), item.nullable)

    def pack(value: Any) -> list[Any]:
        if not isinstance(value, dict):
            raise MisfitError(f"a dict of {data_type.key_type} to {data_type.item_type}")
        return [(key_to(key), item_to(part)) for key, part in value.items()]

    # Pairs, not a MessagePack map: keys may be structs.
    return _Wire(list, pack, lambda pairs: {key_from(key): item_from(part) for key, part in pairs})


def _struct_wire(data_type: pa.DataType, name: str) -> _Wire:
    fields = [data_type.field(i) for i in range(data_type.num_fields)]
    names = [field.name for field in fields]
    converters = [_nested(_wire(field.type, f"{name}.{field.name}"), field.nullable) for field in fields]

    def pack(value: Any) -> list[Any]:
        parts = [value.get(part) for part in names] if isinstance(value, dict) else value
        if not isinstance(parts, (tuple, list)) or len(parts) != len(names):
            raise MisfitError(f"a tuple of {len(names)} values ({', '.join(names)})")
        return [to_wire(part) for (to_wire, _), part in zip(converters, parts, strict=True)]

    def unpack(parts: list[Any]) -> tuple[Any, ...]:
        return tuple([from_wire(part) for (_, from_wire), part in zip(converters, parts, strict=True)])

    return _Wire(list, pack, unpack)
