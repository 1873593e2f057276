"""State values as bytes: exact for every Spark type, strict about what goes in.

A value is one version byte (which schema of the variable wrote it) and the row as MessagePack.  A row of ints, floats,
strings, bytes and bools is packed as it is after a look at its types; other types (decimals, dates, times, lists, maps,
structs) are converted on the way, by code that is made once per schema and combination of types (:mod:`.row_plans`).

What Spark's own encoder takes is taken, with the same result (see :mod:`.conversions`): rows and structs go by place,
whatever names a ``Row`` has, a dict or an object for a struct goes by name.  What it would lose without a word (a wrong
Python type, an int out of range) is a StateSchemaError at the moment of the write, not a null at the next read.
An int is taken for a float if it is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec
import pyarrow as pa

from ...errors import CorruptStateError, StateSchemaError
from .conversions import MisfitError, is_missing
from .row_plans import RowPlans, compiled_reader
from .structs import StructClass, plain_tuple
from .type_codecs import type_codecs_of
from .widening import fields_reader

#: The version is one byte; 0xFF is kept for a longer form.
MAX_VERSIONS = 255

#: Longer values are decoded without a copy, which costs more than copying a few bytes.
_COPIED_BYTES = 4096

_encoder = msgspec.msgpack.Encoder()


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
        #: First byte of what is encoded.
        self.version = bytes([len(self.history)])
        self._names = tuple(schema.names)
        self._width = len(self._names)
        self._nullable = [field.nullable for field in schema]
        self._codecs = type_codecs_of(schema, struct_class)
        self._read = compiled_reader(self._codecs)
        wire_types = [
            codec.type if not nullable else (codec.type | None if codec.type is not Any else Any)
            for codec, nullable in zip(self._codecs, self._nullable, strict=True)
        ]
        row_type = tuple.__class_getitem__(tuple(wire_types))
        self._decoder = msgspec.msgpack.Decoder(row_type)
        head, pack = self.version, _encoder.encode
        self._plans = RowPlans(self._codecs, lambda row: head + pack(row), self._encode_slowly)
        #: Bytes of a tuple, list, Row or other sequence with one value per field.
        self.encode = self._plans.convert
        # Version by version: a field that was removed and came back is a new one, and what older values hold under its
        # name is not its.
        self._older: dict[int, _Older] = {}
        newer: _Older | None = None
        for version in reversed(range(len(self.history))):
            after = self.schema if newer is None else self.history[version + 1]
            newer = _Older(RowCodec(self.history[version], struct_class=struct_class), after, newer)
            self._older[version] = newer

    def _encode_slowly(self, values: Any) -> bytes:
        values = self._values_of(values)
        row: list[Any] = []
        for codec, nullable, name, value in zip(self._codecs, self._nullable, self._names, values, strict=True):
            try:
                packed = None if is_missing(value) else codec.to_packed(value)
                if packed is None and not nullable:
                    raise StateSchemaError(f"state field {name!r} got {value!r}; it is declared as not nullable")
                row.append(packed)
            except MisfitError as misfit:
                field = self.schema.field(self._names.index(name))
                raise StateSchemaError(
                    f"state field {name!r} ({field.type}) got {value!r} of type {type(value).__name__}; "
                    f"it takes {misfit}"
                ) from None
        self._plans.learn(values)
        return self.version + _encoder.encode(tuple(row))

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
        if not data.startswith(self.version):
            return self._decode_older(data)
        try:
            row: tuple[Any, ...] = self._decoder.decode(
                data[1:] if len(data) <= _COPIED_BYTES else memoryview(data)[1:]
            )
            return row if self._read is None else self._read(row)
        except (msgspec.DecodeError, ValueError, ArithmeticError) as error:  # also of digits that are none
            raise CorruptStateError(f"a state value does not fit its schema {self._names}: {error}") from error

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
