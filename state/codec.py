"""State values as bytes: exact for every Spark type, strict about what goes in.

A value is one version byte (which schema of the variable wrote it) and the row as MessagePack.  A row of ints, floats,
strings, bytes and bools is packed as it is after a look at its types, which a set lookup does for the whole row; other
types (decimals, dates, times, lists, maps, structs) are converted by functions that are chosen once per schema.

What Spark's own encoder takes is taken, with the same result (see :mod:`.conversions`): rows and structs go by place,
whatever names a ``Row`` has, a dict or an object for a struct goes by name.  What it would lose without a word (a wrong
Python type, an int out of range) is a StateSchemaError at the moment of the write, not a null at the next read.
An int is taken for a float if it is exact.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
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
    is_missing,
    is_nan,
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
from .structs import StructClass, plain_tuple, struct_values
from .widening import fields_reader

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
    adapted by field name: fields that are gone are dropped, new ones are None (also those that take up an old name),
    and the values of those whose type has become wider follow (see :mod:`.widening`).
    ``struct_class`` makes what structs inside values come back as; the value itself is always a tuple.
    """

    def __init__(
        self, schema: pa.Schema, history: Sequence[pa.Schema] = (), struct_class: StructClass = plain_tuple
    ) -> None:
        self.schema = schema
        self.history = tuple(history)
        self.struct_class = struct_class
        if len(self.history) >= MAX_VERSIONS:
            raise StateSchemaError(f"a state variable can change its schema {MAX_VERSIONS - 1} times, not more")
        self._version = bytes([len(self.history)])
        self._names = tuple(schema.names)
        self._width = len(self._names)
        self._nullable = [field.nullable for field in schema]
        self._wires = [_wire(field.type, field.name, struct_class) for field in schema]
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
        #: Bytes of a tuple, list, Row or other sequence with one value per field.
        self.encode = self._encoder()
        # Version by version: a field that was removed and came back is a new one, and what older values hold under its
        # name is not its.
        self._older: dict[int, _Older] = {}
        newer: _Older | None = None
        for version in reversed(range(len(self.history))):
            after = self.schema if newer is None else self.history[version + 1]
            newer = _Older(RowCodec(self.history[version], struct_class=struct_class), after, newer)
            self._older[version] = newer

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
        values = self._values_of(values)
        row: list[Any] = []
        for wire, nullable, name, value in zip(self._wires, self._nullable, self._names, values, strict=True):
            try:
                packed = None if is_missing(value) else wire.to_wire(value)
                if packed is None and not nullable:
                    raise StateSchemaError(f"state field {name!r} got {value!r}; it is declared as not nullable")
                row.append(packed)
            except MisfitError as misfit:
                field = self.schema.field(self._names.index(name))
                raise StateSchemaError(
                    f"state field {name!r} ({field.type}) got {value!r} of type {type(value).__name__}; "
                    f"it takes {misfit}"
                ) from None
        if all(value is None or wire.plain is type(value) for wire, value in zip(self._wires, values, strict=True)):
            self._plain_types.add(tuple(map(type, values)))
        return _encoder.encode(tuple(row))

    def _values_of(self, row: Any) -> Sequence[Any]:
        """One value per field, of any sequence or iterator."""
        values: Sequence[Any] | None = None
        if isinstance(row, (tuple, list)):
            values = row
        elif isinstance(row, Iterable) and not isinstance(row, (str, bytes, Mapping, Set)):
            values = list(row)
        if values is not None and len(values) == self._width:
            return values
        got = repr(row) if values is None else f"{len(values)} values: {row!r}"
        hint = "; a dict has no order that says which value is which" if isinstance(row, Mapping) else ""
        raise StateSchemaError(
            f"a state value needs a tuple of {self._width} values ({', '.join(self._names)}), got {got}{hint}"
        )

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
        return RowCodec, (self.schema, self.history, self.struct_class)


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
    """Decodes with an older schema and brings what it finds to the newest, one version after the other."""

    def __init__(self, codec: RowCodec, after: pa.Schema, newer: _Older | None) -> None:
        self._codec = codec
        self._step = fields_reader(list(codec.schema), list(after), codec.struct_class)
        self._newer = newer

    def decode(self, data: bytes) -> tuple[Any, ...]:
        row: Sequence[Any] = self._codec.decode(b"\x00" + data[1:])
        step: _Older | None = self
        while step is not None:
            row, step = step._step(row), step._newer
        return tuple(row)


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _wire(data_type: pa.DataType, name: str, struct_class: StructClass) -> _Wire:
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
        return _list_wire(data_type, name, struct_class)
    if types.is_map(data_type):
        return _map_wire(data_type, name, struct_class)
    if types.is_struct(data_type):
        return _struct_wire(data_type, name, struct_class)
    raise StateSchemaError(f"state field {name!r} has type {data_type}, which state cannot hold")


def _only_none(value: Any) -> Any:
    raise MisfitError("only None")


def _int_wire(bits: int) -> _Wire:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    allowed = Annotated[int, msgspec.Meta(ge=low, le=high)]
    return _Wire(allowed, lambda value: None if is_nan(value) else int_of(value, low, high), plain=int)


def _decimal_wire(precision: int, scale: int) -> _Wire:
    # Digits as text: MessagePack numbers end at 64 bits.
    def pack(value: Any) -> str | None:
        return None if is_nan(value) else str(unscaled_of(value, precision, scale))

    return _Wire(str, pack, lambda text: decimal_of(int(text), scale))


def _nested(wire: _Wire, nullable: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Both conversions of an element, with None allowed or not."""

    def to_wire(value: Any) -> Any:
        packed = None if is_missing(value) else wire.to_wire(value)
        if packed is None and not nullable:
            raise MisfitError("no None inside")
        return packed

    return to_wire, _optional(wire.from_wire) if wire.from_wire is not None else _same


def _same(value: Any) -> Any:
    return value


def _list_wire(data_type: pa.DataType, name: str, struct_class: StructClass) -> _Wire:
    element = data_type.value_field
    to_wire, from_wire = _nested(_wire(element.type, f"{name}[]", struct_class), element.nullable)

    def pack(value: Any) -> list[Any]:
        if isinstance(value, (np.ndarray, array)):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            raise MisfitError(f"a list of {element.type}")
        return [to_wire(part) for part in value]

    return _Wire(list, pack, lambda parts: [from_wire(part) for part in parts])


def _map_wire(data_type: pa.DataType, name: str, struct_class: StructClass) -> _Wire:
    key_to, key_from = _nested(_wire(data_type.key_type, f"{name} key", struct_class), False)
    item = data_type.item_field
    item_to, item_from = _nested(_wire(item.type, f"{name} value", struct_class), item.nullable)

    def pack(value: Any) -> list[Any]:
        if not isinstance(value, dict):
            raise MisfitError(f"a dict of {data_type.key_type} to {data_type.item_type}")
        return [(key_to(key), item_to(part)) for key, part in value.items()]

    # Pairs, not a MessagePack map: keys may be structs.
    return _Wire(list, pack, lambda pairs: {key_from(key): item_from(part) for key, part in pairs})


def _struct_wire(data_type: pa.DataType, name: str, struct_class: StructClass) -> _Wire:
    fields = [data_type.field(i) for i in range(data_type.num_fields)]
    names = [field.name for field in fields]
    converters = [_nested(_wire(field.type, f"{name}.{field.name}", struct_class), field.nullable) for field in fields]

    def pack(value: Any) -> list[Any]:
        parts = struct_values(value, names)
        return [to_wire(part) for (to_wire, _), part in zip(converters, parts, strict=True)]

    made = struct_class(names)

    def unpack(parts: list[Any]) -> tuple[Any, ...]:
        return tuple.__new__(made, [from_wire(part) for (_, from_wire), part in zip(converters, parts, strict=True)])

    return _Wire(list, pack, unpack)
