"""Keys as bytes: self-delimiting, and in byte order exactly where Spark's ``ORDER BY`` (nulls first) puts them.

One order everywhere: the sort before a keyed stage, the walk of the batch backend, the files and RocksDB.  The encoding
is part of the on-disk contract; see :mod:`.key_fields` for the bytes of each type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import StateSchemaError
from ..codec.byte_arrays import binary_from_matrix, joined
from ..codec.code_generation import made_function
from ..codec.conversions import (
    MisfitError,
    date_days,
    days_date,
    delta_micros,
    int_of,
    micros_delta,
    micros_wall,
    nanos_time,
    time_nanos,
    wall_micros,
)
from ..codec.local_datetimes import LocalMoments
from ..codec.row_plans import REFUSALS
from ..codec.stored_types import StoredType, stored_type
from ..codec.structs import StructClass, plain_tuple
from .key_fields import (
    BoolField,
    BytesField,
    DecimalField,
    FixedField,
    FloatField,
    KeyField,
    NullField,
    NumberField,
)
from .key_nested import FixedStructField, ListField, StructField


class KeyCodec:
    """Codec of key tuples with the given Arrow schema; ``struct_class`` makes what structs in them come back as."""

    def __init__(self, schema: pa.Schema, struct_class: StructClass = plain_tuple) -> None:
        self.schema = schema
        self._struct_class = struct_class
        self._names = list(schema.names)
        self._fields = [_field(column.type, column.name, struct_class) for column in schema]
        self._widths = [field.width for field in self._fields]
        #: Bytes of every key; None: it varies.
        self.width: int | None = None if None in self._widths else sum(width or 0 for width in self._widths)
        #: The bytes of one key; a value that does not fit its column is a StateSchemaError.
        self.encode: Callable[[tuple[Any, ...]], bytes] = _compiled(self._fields, self._encode_slowly)
        #: Whether nothing that can be changed is inside a key that is a tuple.
        self.is_flat = all(field.exact is not None and field.exact is not bytes for field in self._fields)

    def _encode_slowly(self, key: tuple[Any, ...]) -> bytes:
        try:
            return b"".join([field.encode(value) for field, value in zip(self._fields, key, strict=True)])
        except MisfitError:
            raise self._misfit(key) from None
        except (TypeError, ValueError):
            if isinstance(key, (tuple, list)) and len(key) == len(self._fields):
                raise
            raise StateSchemaError(
                f"a key needs {len(self._fields)} values ({', '.join(self._names)}), got {key!r}"
            ) from None

    def _misfit(self, key: tuple[Any, ...]) -> StateSchemaError:
        for field, name, value in zip(self._fields, self._names, key, strict=True):
            try:
                field.encode(value)
            except MisfitError as misfit:
                return StateSchemaError(
                    f"key field {name!r} ({field.type}) got {value!r} of type {type(value).__name__}; it takes {misfit}"
                )
        raise AssertionError("the second attempt to encode the same key found no misfit")

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The key's values as PySpark puts them into a Row."""
        values, position = [], 0
        for field in self._fields:
            value, position = field.read(data, position, False)
            values.append(value)
        return tuple(values)

    def end_of(self, data: bytes, start: int = 0) -> int:
        """Where the key that starts at ``start`` ends inside a longer byte string."""
        if self.width is not None:
            return start + self.width
        for field in self._fields:
            start = field.skip(data, start)
        return start

    def encode_columns(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.BinaryArray:
        """Encode whole key columns; one value per row, never null."""
        if len(columns) != len(self._fields):
            raise ValueError(f"expected {len(self._fields)} key columns ({', '.join(self._names)}), got {len(columns)}")
        if not columns:
            raise ValueError("a key without columns has no rows to count; its encoding is b''")
        arrays = [_plain(column, field.type) for column, field in zip(columns, self._fields, strict=True)]
        parts: list[bytes | pa.Array] = []
        run: list[tuple[FixedField, pa.Array]] = []
        for field, array in zip(self._fields, arrays, strict=True):
            if isinstance(field, FixedField):
                run.append((field, array))
                continue
            if run:
                parts.append(_encode_run(run))
                run = []
            parts += field.encoded_parts(array)
        if run:
            parts.append(_encode_run(run))
        return joined(*parts)

    def decode_columns(self, keys: Sequence[bytes]) -> list[pa.Array]:
        """The key columns of many keys; nothing per row in Python for fixed-width keys."""
        varying = [i for i, width in enumerate(self._widths) if width is None]
        if not varying:
            matrix = _matrix(keys, self.width or 0)
            return self._take(matrix, range(len(self._fields)), 0)[0]
        if len(varying) > 1:
            return self._decode_rows(keys)
        # One varying column: cut the fixed-width columns before and after it off as matrices.
        middle = varying[0]
        before = sum(width or 0 for width in self._widths[:middle])
        after = sum(width or 0 for width in self._widths[middle + 1 :])
        field = self._fields[middle]
        values = [field.read(key, before, True)[0] for key in keys]
        fixed = _matrix([key[:before] + key[len(key) - after :] for key in keys], before + after)
        head, position = self._take(fixed, range(middle), 0)
        tail, _ = self._take(fixed, range(middle + 1, len(self._fields)), position)
        return [*head, field.build(values), *tail]

    def _take(self, matrix: np.ndarray, fields: range, position: int) -> tuple[list[pa.Array], int]:
        columns = []
        for i in fields:
            field = self._fields[i]
            assert isinstance(field, FixedField)
            columns.append(field.take(matrix[:, position : position + field.width]))
            position += field.width
        return columns, position

    def _decode_rows(self, keys: Sequence[bytes]) -> list[pa.Array]:
        columns: list[list[Any]] = [[] for _ in self._fields]
        for key in keys:
            position = 0
            for field, column in zip(self._fields, columns, strict=True):
                value, position = field.read(key, position, True)
                column.append(value)
        return [field.build(column) for field, column in zip(self._fields, columns, strict=True)]

    def __reduce__(self) -> tuple[type[KeyCodec], tuple[pa.Schema, StructClass]]:
        return KeyCodec, (self.schema, self._struct_class)


def _compiled(fields: Sequence[KeyField], slowly: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Encodes keys, those whose values have just the types of their columns without a loop."""
    if not fields or any(field.exact is None for field in fields):
        return slowly
    scope: dict[str, Any] = {"slowly": slowly}
    for i, field in enumerate(fields):
        scope[f"t{i}"], scope[f"c{i}"] = field.exact, field.encode_exact
    source = f"""
def encode(key):
    if key.__class__ is tuple or isinstance(key, (tuple, list)):
        try:
            {"".join(f"v{i}, " for i in range(len(fields)))}= key
            if {" and ".join(f"type(v{i}) is t{i}" for i in range(len(fields)))}:
                return {" + ".join(f"c{i}(v{i})" for i in range(len(fields)))}
        except refusals:
            pass
    return slowly(key)
"""
    scope["refusals"] = REFUSALS
    encode: Callable[[Any], bytes] = made_function("encode", source, scope)
    return encode


def _matrix(keys: Sequence[bytes], width: int) -> np.ndarray:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), width)


def _plain(column: pa.Array | pa.ChunkedArray, data_type: pa.DataType) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if array.type == data_type else array.cast(data_type)


def _encode_run(run: list[tuple[FixedField, pa.Array]]) -> pa.Array:
    matrix = np.zeros((len(run[0][1]), sum(field.width for field, _ in run)), dtype=np.uint8)
    position = 0
    for field, array in run:
        field.fill(array, matrix[:, position : position + field.width])
        position += field.width
    return binary_from_matrix(matrix)


#: Types whose values have one form in keys, whatever their column.
_FIELDS: dict[StoredType, Callable[[pa.DataType], KeyField]] = {
    StoredType.NULL: NullField,
    StoredType.BOOLEAN: BoolField,
    StoredType.FLOAT: lambda data_type: FloatField(data_type, 4),
    StoredType.DOUBLE: lambda data_type: FloatField(data_type, 8),
    StoredType.DECIMAL: DecimalField,
    StoredType.STRING: BytesField,
    StoredType.BINARY: BytesField,
    StoredType.DATE: lambda data_type: NumberField(data_type, 4, date_days, days_date, date),
    StoredType.TIMESTAMP_NTZ: lambda data_type: NumberField(data_type, 8, wall_micros, micros_wall, datetime),
    StoredType.DURATION: lambda data_type: NumberField(data_type, 8, delta_micros, micros_delta, timedelta),
    StoredType.TIME: lambda data_type: NumberField(data_type, 8, time_nanos, nanos_time, time),
}
#: Units in which Spark has them.
_UNITS = {
    StoredType.TIMESTAMP: "us",
    StoredType.TIMESTAMP_NTZ: "us",
    StoredType.DURATION: "us",
    StoredType.TIME: "ns",
}


def _field(data_type: pa.DataType, name: str, struct_class: StructClass) -> KeyField:
    """The codec of one type, by its Arrow type."""
    kind = stored_type(data_type)
    if kind is None or (kind in _UNITS and data_type.unit != _UNITS[kind]):
        raise StateSchemaError(f"key column {name!r} has type {data_type}, which cannot be part of a key")
    if kind is StoredType.MAP:
        raise StateSchemaError(
            f"key column {name!r} is a map ({data_type}); maps have no order and cannot be part of a key, "
            "use map_entries() sorted into an array of structs, or a field of the map"
        )
    if kind is StoredType.STRUCT:
        children = [_field(part.type, f"{name}.{part.name}", struct_class) for part in data_type]
        fixed = [child for child in children if isinstance(child, FixedField)]
        if len(fixed) == len(children):
            return FixedStructField(data_type, fixed, struct_class)
        return StructField(data_type, children, struct_class)
    if kind is StoredType.LIST:
        return ListField(data_type, _field(data_type.value_type, f"{name}[]", struct_class))
    if kind is StoredType.INTEGER:
        bits = data_type.bit_width
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return NumberField(data_type, bits // 8, lambda value: int_of(value, low, high), exact=int)
    if kind is StoredType.TIMESTAMP:
        moments = LocalMoments()
        return NumberField(data_type, 8, moments.micros, moments.naive, datetime)
    return _FIELDS[kind](data_type)
