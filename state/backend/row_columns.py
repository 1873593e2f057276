"""Values of a state variable for many keys at once, as Arrow columns.

The bytes are those of :class:`~..codec.codec.RowCodec`: what is written here is read there, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...errors import CorruptStateError, StateSchemaError
from ..codec.byte_arrays import data_of, null_mask, offsets_of
from ..codec.codec import RowCodec
from ..codec.message_columns import MessageColumn, Messages, UnreadError, column_of, packed_rows
from ..keys.key_space import TS_BYTES, decode_all_ts, encode_ts, without_expiry
from ..keys.registry import StateDescriptor

#: Rows of fewer fields say how many in one byte.
_FEW_FIELDS = 16


class RowColumns:
    """Encodes and decodes columns of values.

    Args:
        codec: of the variable's values.
        name: the variable, for errors.
        ttl_ms: how long a value lives; None: for ever.

    Raises:
        StateSchemaError: a field is a list, a map or a struct, of which there is no such form.
    """

    def __init__(self, codec: RowCodec, name: str, ttl_ms: int | None = None) -> None:
        self._codec = codec
        self._name = name
        self._ttl_ms = ttl_ms
        self.type = pa.struct(list(codec.schema))
        self._columns = [_column(field, name) for field in codec.schema]
        count = len(self._columns)
        fields = bytes([0x90 | count]) if count < _FEW_FIELDS else b"\xdc" + count.to_bytes(2, "big")
        self._head = codec.version + fields

    def encode(self, columns: Sequence[pa.Array], now_ms: int = 0) -> pa.BinaryArray:
        """What is stored of each value.

        Args:
            columns: one for each field, of its type.
            now_ms: when their time to live begins.

        Raises:
            StateSchemaError: null in a field that is not nullable.
        """
        rows = len(columns[0])
        if not rows:
            return pa.array([], pa.binary())
        packed = []
        for coded, array, field in zip(self._columns, columns, self._codec.schema, strict=True):
            if array.null_count and not field.nullable:
                raise StateSchemaError(
                    f"state field {field.name!r} of {self._name!r} got nulls; it is declared as not nullable"
                )
            packed.append(coded.pack(array, null_mask(array)))
        expiry = b"" if self._ttl_ms is None else encode_ts(min(now_ms + self._ttl_ms, 2**63 - 1))
        try:
            return packed_rows(expiry + self._head, packed, rows)
        except (pa.lib.ArrowCapacityError, pa.ArrowInvalid) as error:
            raise StateSchemaError(
                f"the values of {rows} keys for state {self._name!r} are too large: {error}"
            ) from error

    def decode(self, stored: pa.BinaryArray, now_ms: int = 0) -> pa.StructArray:
        """Inverse of :meth:`encode`; null is null, and so is what has expired by now."""
        nulls = null_mask(stored)
        there = stored if nulls is None else stored.drop_null()
        offsets, data = offsets_of(there), data_of(there)
        starts, ends = offsets[:-1], offsets[1:]
        lives: np.ndarray | None = None
        if self._ttl_ms is not None and len(there):
            shortest = int((ends - starts).min())
            if shortest < TS_BYTES:
                raise without_expiry(shortest)
            lives = decode_all_ts(data, starts) > now_ms
            starts, ends = starts[lives] + TS_BYTES, ends[lives]
        if not len(starts):
            return pa.nulls(len(stored), self.type)
        found = self._decoded(data, starts, ends)
        if len(starts) == len(stored):
            return found
        places = np.arange(len(stored)) if nulls is None else np.flatnonzero(~nulls)
        return _spread(found, places if lives is None else places[lives], len(stored))

    def _decoded(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> pa.StructArray:
        try:
            return self._read(data, starts, ends)
        except UnreadError:
            # Of an older schema, or damaged, which is said here.
            codec, held = self._codec, data.tobytes()
            values = [_again(codec, held[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        newest = pa.array(values, pa.binary())
        offsets = offsets_of(newest)
        return self._read(data_of(newest), offsets[:-1], offsets[1:])

    def _read(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> pa.StructArray:
        messages = Messages(data, starts, ends)
        for byte in self._head:
            if (messages.bytes_here() != byte).any():
                raise UnreadError
            messages.skip(1)
        arrays = [column.read(messages) for column in self._columns]
        messages.check_end()
        if any(array.null_count and not field.nullable for array, field in zip(arrays, self.type, strict=True)):
            raise UnreadError
        return pa.StructArray.from_arrays(arrays, fields=list(self.type))


def may_be_large(variable: StateDescriptor) -> bool:
    """Whether a variable's values have a form of columns, and are as large as users make them."""
    if variable.kind != "value" or any(column_of(field.type) is None for field in variable.schema):
        return False
    return any(pa.types.is_string(field.type) or pa.types.is_binary(field.type) for field in variable.schema)


def _again(codec: RowCodec, value: bytes) -> bytes:
    """A value as it would be written today."""
    row = codec.decode(value)
    try:
        return codec.encode(row)
    except StateSchemaError as error:
        raise CorruptStateError(f"a state value does not fit its schema: {error}") from error


def _spread(found: pa.StructArray, places: np.ndarray, rows: int) -> pa.StructArray:
    """The values at their places, null elsewhere."""
    source = np.full(rows, -1, dtype=np.int64)
    source[places] = np.arange(len(places))
    return found.take(pa.array(source, mask=source < 0))


def _column(field: pa.Field, name: str) -> MessageColumn:
    column = column_of(field.type)
    if column is None:
        raise StateSchemaError(
            f"field {field.name!r} of state {name!r} is {field.type}: values with lists, maps or structs inside have no"
            " form of columns; use the state one key at a time, in handleInputRows"
        )
    return column
