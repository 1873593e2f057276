"""Encodes one column of a key as bytes whose order is Spark's ``ORDER BY column ASC NULLS FIRST``.

Every value starts with a marker: 0x00 null, 0x01 value.  Numbers, dates and times follow as an unsigned big-endian
number of fixed width (a null is padded with zeros, so that a column of numbers has one width and can be coded as a
matrix).  Strings and bytes follow with 0x00 escaped as 0x00 0xFF and end in 0x00 0x01.  A list is 0x01 before each
element and 0x00 at its end.  Self-delimiting: no encoded value is a prefix of another one.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..codec.byte_arrays import binary_from_matrix, joined, valid_mask
from ..codec.conversions import (
    MisfitError,
    binary_value,
    bool_of,
    decimal_of,
    float32_of,
    float_of,
    str_of,
    unscaled_of,
)

_ESCAPED_ZERO = b"\x00\xff"
_END = b"\x00\x01"


class KeyField(ABC):
    """One column (or nested field) of a key."""

    #: Bytes of every encoded value including the marker; None: it varies.
    width: int | None
    #: Python type whose instances, and no others, :attr:`encode_exact` takes.
    exact: type | None = None
    #: :meth:`encode` in less time; what it refuses, by whatever error, is for ``encode`` to look at.
    encode_exact: Callable[[Any], bytes] | None = None

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Encode one Python value or None."""

    @abstractmethod
    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        """The value at ``position`` and where it ends; ``raw`` gives numbers for dates and times."""

    @abstractmethod
    def encode_array(self, array: pa.Array) -> pa.Array:
        """Encode a whole column into a binary array without nulls."""

    def encoded_parts(self, array: pa.Array) -> list[bytes | pa.Array]:
        """The same in parts that are yet to be joined; bytes are the same for all values."""
        return [self.encode_array(array)]

    def build(self, values: Sequence[Any]) -> pa.Array:
        """An array of this field's type from raw values."""
        return pa.array(values, self.type)

    def skip(self, data: bytes, position: int) -> int:
        """Where the value at ``position`` ends."""
        return position + self.width if self.width is not None else self.read(data, position, True)[1]


class FixedField(KeyField):
    """A value of fixed width; columns are coded as byte matrices."""

    width: int

    @abstractmethod
    def fill(self, array: pa.Array, matrix: np.ndarray) -> None:
        """Write a column into an all-zero matrix of ``len(array)`` rows and ``width`` columns."""

    @abstractmethod
    def take(self, matrix: np.ndarray) -> pa.Array:
        """The column that such a matrix encodes."""

    def encode_array(self, array: pa.Array) -> pa.Array:
        matrix = np.zeros((len(array), self.width), dtype=np.uint8)
        self.fill(array, matrix)
        return binary_from_matrix(matrix)


class NullField(FixedField):
    """A column of type void: only nulls."""

    width = 1

    def encode(self, value: Any) -> bytes:
        if value is not None:
            raise MisfitError("None")
        return b"\x00"

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        return None, position + 1

    def fill(self, array: pa.Array, matrix: np.ndarray) -> None:
        pass

    def take(self, matrix: np.ndarray) -> pa.Array:
        return pa.nulls(len(matrix))


class NumberField(FixedField):
    """A value that maps to an unsigned number of 1, 2, 4 or 8 bytes in the same order."""

    def __init__(
        self,
        data_type: pa.DataType,
        size: int,
        to_raw: Callable[[Any], Any],
        from_raw: Callable[[Any], Any] | None = None,
        exact: type | None = None,
    ) -> None:
        super().__init__(data_type)
        self.width = 1 + size
        self._size = size
        self._offset = 1 << (8 * size - 1)
        self._to_raw = to_raw
        self._from_raw = from_raw
        self._stored = np.dtype(f">u{size}")
        self._signed = np.dtype(f"i{size}")
        self._unsigned = np.dtype(f"u{size}")
        self._null = bytes(1 + size)
        self.exact = exact
        self.encode_exact = _integers(size, self._offset) if exact is int else self.encode

    def encode(self, value: Any) -> bytes:
        if value is None:
            return self._null
        return b"\x01" + (self._to_raw(value) + self._offset).to_bytes(self._size, "big")

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        end = position + self.width
        if data[position] == 0:
            return None, end
        number = int.from_bytes(data[position + 1 : end], "big") - self._offset
        return (number if raw or self._from_raw is None else self._from_raw(number)), end

    def _numbers(self, array: pa.Array) -> np.ndarray:
        numbers = array.view(pa.from_numpy_dtype(self._signed)) if array.type != self._arrow_signed else array
        return numbers.fill_null(0).to_numpy(zero_copy_only=False).view(self._unsigned) ^ self._unsigned.type(
            self._offset
        )

    @property
    def _arrow_signed(self) -> pa.DataType:
        return pa.from_numpy_dtype(self._signed)

    def _array(self, unsigned: np.ndarray, mask: np.ndarray | None) -> pa.Array:
        signed = (unsigned ^ self._unsigned.type(self._offset)).view(self._signed)
        return pa.array(signed, mask=mask).view(self.type)

    def fill(self, array: pa.Array, matrix: np.ndarray) -> None:
        mask = valid_mask(array)
        payload = self._numbers(array).astype(self._stored).view(np.uint8).reshape(-1, self._size)
        if mask is None:
            matrix[:, 0] = 1
            matrix[:, 1:] = payload
        else:
            matrix[:, 0] = mask
            matrix[mask, 1:] = payload[mask]

    def take(self, matrix: np.ndarray) -> pa.Array:
        stored = np.ascontiguousarray(matrix[:, 1:]).view(self._stored).reshape(-1)
        nulls = matrix[:, 0] == 0
        return self._array(stored.astype(self._unsigned), nulls if nulls.any() else None)

    def build(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self._arrow_signed).view(self.type)


def _integers(size: int, offset: int) -> Callable[[Any], bytes]:
    # One that is out of range is an OverflowError.
    return lambda value: b"\x01" + (value + offset).to_bytes(size, "big")


class BoolField(NumberField):
    """false < true, one byte."""

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(data_type, 1, bool_of, bool)
        self._offset = 0

    def _numbers(self, array: pa.Array) -> np.ndarray:
        return array.fill_null(False).to_numpy(zero_copy_only=False).view(np.uint8)

    def _array(self, unsigned: np.ndarray, mask: np.ndarray | None) -> pa.Array:
        return pa.array(unsigned.astype(bool), mask=mask)

    def build(self, values: Sequence[Any]) -> pa.Array:
        return pa.array([None if value is None else bool(value) for value in values], pa.bool_())


class FloatField(NumberField):
    """IEEE order with NaN greatest (one NaN) and no negative zero, as Spark groups and sorts them."""

    def __init__(self, data_type: pa.DataType, size: int) -> None:
        super().__init__(data_type, size, float_of if size == 8 else float32_of, exact=float)
        self._format = ">d" if size == 8 else ">f"
        self._float = np.dtype(f"f{size}")
        self._all = (1 << (8 * size)) - 1
        self._nan = int.from_bytes(struct.pack(self._format, math.nan), "big")

    def encode(self, value: Any) -> bytes:
        if value is None:
            return self._null
        number = self._to_raw(value)
        bits = self._nan if number != number else int.from_bytes(struct.pack(self._format, number + 0.0), "big")
        bits = bits ^ self._all if bits & self._offset else bits | self._offset
        return b"\x01" + bits.to_bytes(self._size, "big")

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        end = position + self.width
        if data[position] == 0:
            return None, end
        bits = int.from_bytes(data[position + 1 : end], "big")
        bits = bits & ~self._offset if bits & self._offset else bits ^ self._all
        return struct.unpack(self._format, bits.to_bytes(self._size, "big"))[0], end

    def _numbers(self, array: pa.Array) -> np.ndarray:
        numbers = array.fill_null(0.0).to_numpy(zero_copy_only=False) + self._float.type(0)
        bits = np.where(np.isnan(numbers), self._unsigned.type(self._nan), numbers.view(self._unsigned))
        sign = self._unsigned.type(self._offset)
        return np.where(bits & sign, ~bits, bits | sign)

    def _array(self, unsigned: np.ndarray, mask: np.ndarray | None) -> pa.Array:
        sign = self._unsigned.type(self._offset)
        bits = np.where(unsigned & sign, unsigned & ~sign, ~unsigned)
        return pa.array(bits.astype(self._unsigned).view(self._float), mask=mask)

    def build(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self.type)


class DecimalField(FixedField):
    """decimal128 as sixteen bytes, ordered by value."""

    width = 17

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(data_type)
        self._precision, self._scale = data_type.precision, data_type.scale

    def encode(self, value: Any) -> bytes:
        if value is None:
            return bytes(17)
        return b"\x01" + (unscaled_of(value, self._precision, self._scale) + (1 << 127)).to_bytes(16, "big")

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        end = position + 17
        if data[position] == 0:
            return None, end
        return decimal_of(int.from_bytes(data[position + 1 : end], "big") - (1 << 127), self._scale), end

    def fill(self, array: pa.Array, matrix: np.ndarray) -> None:
        mask = valid_mask(array)
        words = np.frombuffer(array.buffers()[1], dtype=np.uint8, count=16 * (array.offset + len(array)))
        payload = words.reshape(-1, 16)[array.offset :, ::-1].copy()
        payload[:, 0] ^= 0x80
        matrix[:, 0] = 1 if mask is None else mask
        if mask is None:
            matrix[:, 1:] = payload
        else:
            matrix[mask, 1:] = payload[mask]

    def take(self, matrix: np.ndarray) -> pa.Array:
        words = matrix[:, :0:-1].copy()
        words[:, 15] ^= 0x80
        nulls = matrix[:, 0] == 0
        words[nulls] = 0
        validity = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
        return pa.Array.from_buffers(self.type, len(matrix), [validity, pa.py_buffer(words)])


def _bytes(data: bytes) -> bytes:
    return b"\x01" + (data.replace(b"\x00", _ESCAPED_ZERO) if 0 in data else data) + _END


def _text(text: str) -> bytes:
    return _bytes(text.encode())


class BytesField(KeyField):
    """Strings in UTF-8 order (Spark's binary collation) and binary values."""

    width = None

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(data_type)
        self._text = pa.types.is_string(data_type) or pa.types.is_large_string(data_type)
        self.exact = str if self._text else bytes
        self.encode_exact = _text if self._text else _bytes

    def encode(self, value: Any) -> bytes:
        if value is None:
            return b"\x00"
        return _bytes(str_of(value).encode() if self._text else binary_value(value))

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        if data[position] == 0:
            return None, position + 1
        end = data.index(_END, position + 1)
        value = data[position + 1 : end]
        if 0 in value:
            value = value.replace(_ESCAPED_ZERO, b"\x00")
        return (value.decode() if self._text else value), end + 2

    def skip(self, data: bytes, position: int) -> int:
        return position + 1 if data[position] == 0 else data.index(_END, position + 1) + 2

    def encode_array(self, array: pa.Array) -> pa.Array:
        found = joined(*self._parts(array))
        return pc.coalesce(found, pa.scalar(b"\x00")) if array.null_count else found

    def encoded_parts(self, array: pa.Array) -> list[bytes | pa.Array]:
        return [self.encode_array(array)] if array.null_count else self._parts(array)

    def _parts(self, array: pa.Array) -> list[bytes | pa.Array]:
        plain = array.cast(pa.binary())
        data = plain.buffers()[2]
        # A look at the whole buffer is far cheaper than a replacement that finds nothing to do.
        if data is not None and np.frombuffer(data, dtype=np.uint8).min(initial=1) == 0:
            plain = pc.replace_substring(plain, b"\x00", _ESCAPED_ZERO)
        return [b"\x01", plain, _END]
