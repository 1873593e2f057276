"""How one column of a key becomes bytes whose order is Spark's ``ORDER BY column ASC NULLS FIRST``.

Every value starts with a marker: 0x00 null, 0x01 value.  Numbers, dates and times follow as an unsigned big-endian
number of fixed width (a null is padded with zeros, so that a column of numbers has one width and can be coded as a
matrix).  Strings and bytes follow with 0x00 escaped as 0x00 0xFF and end in 0x00 0x01.  A list is 0x01 before each
element and 0x00 at its end.  Self-delimiting: no encoded value is a prefix of another one.
"""

from __future__ import annotations

import calendar
import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_SECOND_US = 1_000_000
#: Decimal arithmetic that never rounds a 38-digit number.
_DECIMAL = Context(prec=80, rounding=ROUND_HALF_UP)
_ESCAPED_ZERO = b"\x00\xff"
_END = b"\x00\x01"


class MisfitError(Exception):
    """A value does not fit a field; the codec turns it into an error that names the field."""


def int_of(value: Any, low: int, high: int) -> int:
    """A Python or numpy integer within the range; bool is not an integer."""
    if type(value) is not int:
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            raise MisfitError(f"an int between {low} and {high}")
        value = int(value)
    if not low <= value <= high:
        raise MisfitError(f"an int between {low} and {high}")
    return value


def bool_of(value: Any) -> bool:
    """A Python or numpy bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise MisfitError("a bool")
    return bool(value)


def float_of(value: Any) -> float:
    """A float, or an integer that a float represents exactly."""
    if type(value) is float:
        return value
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        try:
            converted = float(value)
        except OverflowError:
            converted = math.inf
        if converted == value:
            return converted
    raise MisfitError("a float (or an int that a float can represent exactly)")


def float32_of(value: Any) -> float:
    """The nearest 32-bit float, as Spark stores it; beyond its range infinity."""
    number = float_of(value)
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def str_of(value: Any) -> str:
    """A str that UTF-8 can encode."""
    if not isinstance(value, str):
        raise MisfitError("a str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise MisfitError("a str without lone surrogates") from None
    return str(value)


def bytes_of(value: Any) -> bytes:
    """bytes, bytearray or memoryview."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise MisfitError("bytes")
    return bytes(value)


def date_days(value: Any) -> int:
    """Days since 1970-01-01; a datetime counts as its day, as in PySpark."""
    if not isinstance(value, date):
        raise MisfitError("a datetime.date")
    return value.toordinal() - _EPOCH_ORDINAL


def days_date(days: int) -> date:
    """Inverse of :func:`date_days`."""
    return date.fromordinal(days + _EPOCH_ORDINAL)


def local_micros(value: Any) -> int:
    """Microseconds since the epoch; a naive datetime is local time, as in PySpark's ``TimestampType``."""
    if not isinstance(value, datetime):
        raise MisfitError("a datetime.datetime")
    if value.tzinfo is not None:
        seconds = calendar.timegm(value.utctimetuple())
    else:
        seconds = int(value.replace(microsecond=0).timestamp())
    return seconds * _SECOND_US + value.microsecond


def micros_local(micros: int) -> datetime:
    """Naive datetime in local time, as PySpark's ``TimestampType.fromInternal`` gives it."""
    return datetime.fromtimestamp(micros // _SECOND_US).replace(microsecond=micros % _SECOND_US)


def wall_micros(value: Any) -> int:
    """Microseconds of a naive datetime without a zone (``TimestampNTZType``)."""
    if not isinstance(value, datetime) or value.tzinfo is not None:
        raise MisfitError("a naive datetime.datetime")
    return (value - _EPOCH) // timedelta(microseconds=1)


def micros_wall(micros: int) -> datetime:
    """Inverse of :func:`wall_micros`."""
    return _EPOCH + timedelta(microseconds=micros)


def delta_micros(value: Any) -> int:
    """Microseconds of a timedelta."""
    if not isinstance(value, timedelta):
        raise MisfitError("a datetime.timedelta")
    return value // timedelta(microseconds=1)


def micros_delta(micros: int) -> timedelta:
    """Inverse of :func:`delta_micros`."""
    return timedelta(microseconds=micros)


def time_nanos(value: Any) -> int:
    """Nanoseconds since midnight."""
    if not isinstance(value, time) or value.tzinfo is not None:
        raise MisfitError("a naive datetime.time")
    return (((value.hour * 60 + value.minute) * 60 + value.second) * _SECOND_US + value.microsecond) * 1000


def nanos_time(nanos: int) -> time:
    """Inverse of :func:`time_nanos`, to the microsecond."""
    return (datetime.min + timedelta(microseconds=nanos // 1000)).time()


def unscaled_of(value: Any, precision: int, scale: int) -> int:
    """The digits of a Decimal at the given scale, rounded half up as Spark does; too many digits are a misfit."""
    allowed = f"a decimal.Decimal of at most {precision} digits, {scale} of them after the point"
    if not isinstance(value, Decimal):
        raise MisfitError(allowed)
    try:
        unscaled = int(_DECIMAL.to_integral_value(_DECIMAL.scaleb(value, scale)))
    except (InvalidOperation, ValueError, OverflowError):
        raise MisfitError(allowed) from None
    if abs(unscaled) >= 10**precision:
        raise MisfitError(allowed)
    return unscaled


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """Inverse of :func:`unscaled_of`."""
    return _DECIMAL.scaleb(Decimal(unscaled), -scale)


class KeyField(ABC):
    """One column (or nested field) of a key."""

    #: Bytes of every encoded value including the marker; None: it varies.
    width: int | None

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

    @abstractmethod
    def build(self, values: Sequence[Any]) -> pa.Array:
        """An array of this field's type from raw values."""

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


def binary_from_matrix(matrix: np.ndarray) -> pa.Array:
    """Each row of a byte matrix as one value of a binary array."""
    rows, width = matrix.shape
    if rows * width >= 2**31:
        raise pa.ArrowInvalid(f"{rows} keys of {width} bytes do not fit one binary array; encode smaller batches")
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    data = np.ascontiguousarray(matrix)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def valid_mask(array: pa.Array) -> np.ndarray | None:
    """Boolean mask of the values that are not null; None: all of them."""
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


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

    def build(self, values: Sequence[Any]) -> pa.Array:
        return pa.nulls(len(values))


class NumberField(FixedField):
    """A value that maps to an unsigned number of 1, 2, 4 or 8 bytes in the same order."""

    def __init__(
        self,
        data_type: pa.DataType,
        size: int,
        to_raw: Callable[[Any], Any],
        from_raw: Callable[[Any], Any] | None = None,
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
        super().__init__(data_type, size, float_of if size == 8 else float32_of)
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

    def build(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self.type)


class BytesField(KeyField):
    """Strings in UTF-8 order (Spark's binary collation) and binary values."""

    width = None

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(data_type)
        self._text = pa.types.is_string(data_type) or pa.types.is_large_string(data_type)

    def encode(self, value: Any) -> bytes:
        if value is None:
            return b"\x00"
        data = str_of(value).encode() if self._text else bytes_of(value)
        if 0 in data:
            data = data.replace(b"\x00", _ESCAPED_ZERO)
        return b"\x01" + data + _END

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
        plain = array.cast(pa.binary())
        data = plain.buffers()[2]
        # A look at the whole buffer is far cheaper than a replacement that finds nothing to do.
        if data is not None and np.frombuffer(data, dtype=np.uint8).min(initial=1) == 0:
            plain = pc.replace_substring(plain, b"\x00", _ESCAPED_ZERO)
        joined = pc.binary_join_element_wise(b"\x01", plain, _END, b"")
        return pc.coalesce(joined, pa.scalar(b"\x00")) if array.null_count else joined

    def build(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self.type)


class StructField(KeyField):
    """Fields one after the other."""

    def __init__(self, data_type: pa.DataType, children: Sequence[KeyField]) -> None:
        super().__init__(data_type)
        self._children = list(children)
        self._names = [data_type.field(i).name for i in range(data_type.num_fields)]
        self.width = None

    def encode(self, value: Any) -> bytes:
        if value is None:
            return b"\x00"
        return b"\x01" + b"".join(
            child.encode(part) for child, part in zip(self._children, self._parts(value), strict=True)
        )

    def _parts(self, value: Any) -> Sequence[Any]:
        parts: Any = [value.get(name) for name in self._names] if isinstance(value, dict) else value
        if not isinstance(parts, (tuple, list)) or len(parts) != len(self._children):
            raise MisfitError(f"a tuple of {len(self._children)} values ({', '.join(self._names)})")
        return parts

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        if data[position] == 0:
            return None, position + 1
        position += 1
        parts = []
        for child in self._children:
            part, position = child.read(data, position, raw)
            parts.append(part)
        return tuple(parts), position

    def encode_array(self, array: pa.Array) -> pa.Array:
        parts = [child.encode_array(part) for child, part in zip(self._children, array.flatten(), strict=True)]
        joined = pc.binary_join_element_wise(pa.scalar(b"\x01"), *parts, pa.scalar(b""))
        if not isinstance(joined, pa.Array):  # a struct without fields
            joined = pa.array([b"\x01"] * len(array), pa.binary())
        return pc.if_else(array.is_valid(), joined, pa.scalar(b"\x00")) if array.null_count else joined

    def build(self, values: Sequence[Any]) -> pa.Array:
        nulls = np.fromiter((value is None for value in values), dtype=bool, count=len(values))
        columns = [
            child.build([None if value is None else value[i] for value in values])
            for i, child in enumerate(self._children)
        ]
        return _struct_array(self.type, columns, nulls)


class FixedStructField(FixedField, StructField):
    """A struct of fixed-width fields, such as a window; a null is padded."""

    def __init__(self, data_type: pa.DataType, children: Sequence[FixedField]) -> None:
        StructField.__init__(self, data_type, children)
        self._fixed = list(children)
        self.width = 1 + sum(child.width for child in children)

    def encode(self, value: Any) -> bytes:
        return bytes(self.width) if value is None else StructField.encode(self, value)

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        if data[position] == 0:
            return None, position + self.width
        return StructField.read(self, data, position, raw)

    def fill(self, array: pa.Array, matrix: np.ndarray) -> None:
        mask = valid_mask(array)
        matrix[:, 0] = 1 if mask is None else mask
        position = 1
        for child, part in zip(self._fixed, array.flatten(), strict=True):
            child.fill(part, matrix[:, position : position + child.width])
            position += child.width

    def take(self, matrix: np.ndarray) -> pa.Array:
        columns, position = [], 1
        for child in self._fixed:
            columns.append(child.take(matrix[:, position : position + child.width]))
            position += child.width
        return _struct_array(self.type, columns, matrix[:, 0] == 0)


class ListField(KeyField):
    """Elements in order; a list sorts before its continuations."""

    width = None

    def __init__(self, data_type: pa.DataType, element: KeyField) -> None:
        super().__init__(data_type)
        self._element = element

    def encode(self, value: Any) -> bytes:
        if value is None:
            return b"\x00"
        if not isinstance(value, (list, tuple)):
            raise MisfitError("a list")
        return b"\x01" + b"".join([b"\x01" + self._element.encode(part) for part in value]) + b"\x00"

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        if data[position] == 0:
            return None, position + 1
        position += 1
        parts = []
        while data[position] == 1:
            part, position = self._element.read(data, position + 1, raw)
            parts.append(part)
        return parts, position + 1

    def encode_array(self, array: pa.Array) -> pa.Array:
        parts = self._element.encode_array(_one_array(pc.list_flatten(array))).to_pylist()
        lengths = pc.list_value_length(array).to_pylist()
        encoded, position = [], 0
        for length in lengths:
            if length is None:
                encoded.append(b"\x00")
                continue
            elements = parts[position : position + length]
            encoded.append(b"\x01" + b"".join([b"\x01" + element for element in elements]) + b"\x00")
            position += length
        return pa.array(encoded, pa.binary())

    def build(self, values: Sequence[Any]) -> pa.Array:
        elements = self._element.build([part for value in values if value is not None for part in value])
        offsets, position = [], 0
        for value in values:
            offsets.append(None if value is None else position)
            position += len(value or ())
        plain = pa.ListArray.from_arrays(pa.array([*offsets, position], pa.int32()), elements)
        return plain.cast(self.type)


def _struct_array(data_type: pa.DataType, columns: list[pa.Array], nulls: np.ndarray) -> pa.Array:
    fields = [data_type.field(i) for i in range(data_type.num_fields)]
    if not fields:
        return pa.array([None if null else {} for null in nulls.tolist()], data_type)
    mask = pa.array(nulls) if nulls.any() else None
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
