"""MessagePack by column: one value after the other would be a call for each; this is some calls for each column.

The bytes are those of :mod:`msgspec`, which takes the shortest form of a number and of a length.  What it reads beyond
what it writes is not read here: :class:`UnreadError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .byte_arrays import binary_array, binary_from_matrix, ends_of, joined, offsets_of, stretches_of, validity_of
from .stored_types import StoredType, stored_type

_NONE, _FALSE, _TRUE, _FLOAT = 0xC0, 0xC2, 0xC3, 0xCB
#: Bytes behind the last value, so that eight can be read wherever one begins.
_MARGIN = bytes(9)


class UnreadError(Exception):
    """Some value is not as :mod:`msgspec` writes those of the column."""


class Messages:
    """Values end to end, to be read column by column."""

    def __init__(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        self.data = np.frombuffer(data.tobytes() + _MARGIN, dtype=np.uint8)
        #: Where the next column of each value begins.
        self.at = starts
        self._ends = ends
        # Eight bytes from any place on.
        self._words = np.ndarray((len(self.data) - 7,), dtype=">u8", buffer=self.data, strides=(1,))

    def bytes_here(self) -> np.ndarray:
        """The next byte of each value, which remains the next one."""
        if (self.at >= self._ends).any():
            raise UnreadError
        return self.data[self.at]

    def words_behind(self) -> np.ndarray:
        """The eight bytes behind it, as numbers."""
        return self._words[self.at + 1].astype(np.uint64)

    def skip(self, count: np.ndarray | int) -> None:
        """Go on by so many bytes."""
        self.at = self.at + count

    def take(self, lengths: np.ndarray) -> np.ndarray:
        """So many bytes of each value, one after the other."""
        if (lengths > self._ends - self.at).any():
            raise UnreadError
        found = stretches_of(self.data, self.at, lengths)
        self.at = self.at + lengths
        return found

    def check_end(self) -> None:
        """Raise unless all have been read to their ends."""
        if not np.array_equal(self.at, self._ends):
            raise UnreadError


@dataclass(frozen=True)
class Packed:
    """A column, each value at the beginning of a row of bytes."""

    matrix: np.ndarray
    #: How much of each row counts; None: all of it.
    lengths: np.ndarray | None = None
    #: What follows it.
    tail: pa.BinaryArray | None = None


class MessageColumn(ABC):
    """One column; nulls are nil."""

    @abstractmethod
    def pack(self, array: pa.Array, nulls: np.ndarray | None) -> Packed:
        """The bytes of each value.

        Args:
            array: at least one value.
            nulls: which of them are null; None: none is.
        """

    @abstractmethod
    def read(self, messages: Messages) -> pa.Array:
        """Inverse of :meth:`pack`; goes on to the next column."""


class _Head:
    """A number that says by its first byte how many more there are: an int, or the length of a string.

    Args:
        bounds: where each form begins but the first.
        tags: first byte of each form.
        sizes: bytes behind it.
        small: the form in which the number is part of the first byte; None: there is none.
        base: what is added to it there.
        spread: the least number of that form, and behind the greatest.
    """

    def __init__(
        self,
        bounds: Sequence[int],
        tags: Sequence[int],
        sizes: Sequence[int],
        small: int | None,
        base: int = 0,
        spread: tuple[int, int] = (0, 0),
        signed: Sequence[int] = (),
    ) -> None:
        # Nil is the last form.
        self._bounds = np.array(bounds, dtype=np.int64)
        self._tags = np.array([*tags, _NONE], dtype=np.uint8)
        self._sizes = np.array([*sizes, 0], dtype=np.int64)
        self._small, self._base = small, np.uint8(base)
        self._nil = len(tags)
        form_of = np.full(256, -1, dtype=np.int8)
        for form, tag in enumerate([*tags, _NONE]):
            if form != small:
                form_of[tag] = form
        if small is not None:
            form_of[[(number + base) % 256 for number in range(*spread)]] = small
        self._form_of = form_of
        self._shifts = np.uint64(64) - self._sizes.astype(np.uint64) * np.uint64(8)
        self._shifts[self._sizes == 0] = 0
        self._is_signed = np.isin(np.arange(len(self._tags)), signed)

    def pack(self, numbers: np.ndarray, nulls: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """First bytes and what follows, as rows of a matrix, and how much of each counts."""
        low, high = (int(form) for form in np.searchsorted(self._bounds, [numbers.min(), numbers.max()], "right"))
        if low == high and nulls is None:
            return self._rows(numbers, low, int(self._sizes[low]), np.uint64(self._shifts[low])), None
        forms = np.searchsorted(self._bounds, numbers, "right")
        if nulls is not None:
            forms[nulls] = self._nil
        sizes = self._sizes[forms]
        return self._rows(numbers, forms, int(sizes.max()), self._shifts[forms]), sizes + 1

    def _rows(
        self, numbers: np.ndarray, forms: np.ndarray | int, size: int, shifts: np.ndarray | np.uint64
    ) -> np.ndarray:
        rows = np.empty((len(numbers), 1 + size), dtype=np.uint8)
        first = self._tags[forms]
        if self._small is not None:
            first = np.where(forms == self._small, numbers.astype(np.uint8) + self._base, first)
        rows[:, 0] = first
        if size:
            words = (numbers.view(np.uint64) << shifts).astype(">u8")
            rows[:, 1:] = words.view(np.uint8).reshape(-1, 8)[:, :size]
        return rows

    def read(self, messages: Messages) -> tuple[np.ndarray, np.ndarray]:
        """The numbers, and which are null."""
        first = messages.bytes_here()
        forms = self._form_of[first]
        if (forms < 0).any():
            raise UnreadError
        words, shifts = messages.words_behind(), self._shifts[forms]
        numbers = (words >> shifts).view(np.int64)
        if self._is_signed.any():
            is_signed = self._is_signed[forms]
            if (numbers[~is_signed & (self._sizes[forms] == 8)] < 0).any():
                raise UnreadError
            numbers = np.where(is_signed, words.view(np.int64) >> shifts.view(np.int64), numbers)
        if self._small is not None:
            numbers = np.where(forms == self._small, (first - self._base).view(np.int8), numbers)
        nulls = forms == self._nil
        messages.skip(1 + self._sizes[forms])
        return np.where(nulls, 0, numbers), nulls


_INTS = _Head(
    (-(2**31), -(2**15), -(2**7), -(2**5), 2**7, 2**8, 2**16, 2**32),
    (0xD3, 0xD2, 0xD1, 0xD0, 0, 0xCC, 0xCD, 0xCE, 0xCF),
    (8, 4, 2, 1, 0, 1, 2, 4, 8),
    4,
    spread=(-(2**5), 2**7),
    signed=(0, 1, 2, 3),
)
_TEXT = _Head((2**5, 2**8, 2**16), (0, 0xD9, 0xDA, 0xDB), (0, 1, 2, 4), 0, base=0xA0, spread=(0, 2**5))
_BYTES = _Head((2**8, 2**16), (0xC4, 0xC5, 0xC6), (1, 2, 4), None)


class Ints(MessageColumn):
    """Whole numbers, and what is counted in some unit: times, dates, durations.

    Args:
        data_type: of the column.
        number: signed ints of the same width.
    """

    def __init__(self, data_type: pa.DataType, number: pa.DataType) -> None:
        self._type, self._number = data_type, number
        self._width = np.dtype(number.to_pandas_dtype())

    def pack(self, array: pa.Array, nulls: np.ndarray | None) -> Packed:
        numbers = array.view(self._number)
        if nulls is not None:
            numbers = numbers.fill_null(0)
        return Packed(*_INTS.pack(numbers.to_numpy(zero_copy_only=False).astype(np.int64), nulls))

    def read(self, messages: Messages) -> pa.Array:
        numbers, nulls = _INTS.read(messages)
        narrow = numbers.astype(self._width)
        if not np.array_equal(narrow, numbers):
            raise UnreadError
        return pa.Array.from_buffers(self._type, len(narrow), [validity_of(nulls), pa.py_buffer(narrow)])


class Floats(MessageColumn):
    """Of either width; they travel in the greater one."""

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type

    def pack(self, array: pa.Array, nulls: np.ndarray | None) -> Packed:
        numbers = array if nulls is None else array.fill_null(0.0)
        rows = np.empty((len(array), 9), dtype=np.uint8)
        rows[:, 0] = _FLOAT
        stored = numbers.to_numpy(zero_copy_only=False).astype(">f8")
        rows[:, 1:] = stored.view(np.uint8).reshape(-1, 8)
        if nulls is None:
            return Packed(rows)
        rows[nulls, 0] = _NONE
        return Packed(rows, np.where(nulls, 1, 9))

    def read(self, messages: Messages) -> pa.Array:
        first = messages.bytes_here()
        nulls = first == _NONE
        if ((first != _FLOAT) & ~nulls).any():
            raise UnreadError
        numbers = messages.words_behind().view(np.float64)
        messages.skip(np.where(nulls, 1, 9))
        if nulls.any():
            numbers = np.where(nulls, 0.0, numbers)
        return pa.array(numbers, mask=nulls if nulls.any() else None, from_pandas=False).cast(self._type, safe=False)


class Bools(MessageColumn):
    """One byte each."""

    def pack(self, array: pa.Array, nulls: np.ndarray | None) -> Packed:
        values = array if nulls is None else array.fill_null(False)
        rows = values.to_numpy(zero_copy_only=False).astype(np.uint8) + np.uint8(_FALSE)
        if nulls is not None:
            rows[nulls] = _NONE
        return Packed(rows.reshape(-1, 1))

    def read(self, messages: Messages) -> pa.Array:
        first = messages.bytes_here()
        nulls, values = first == _NONE, first == _TRUE
        if not (nulls | values | (first == _FALSE)).all():
            raise UnreadError
        messages.skip(1)
        return pa.array(values, mask=nulls if nulls.any() else None)


class Strings(MessageColumn):
    """Strings and bytes."""

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type
        self._head = _TEXT if pa.types.is_string(data_type) else _BYTES

    def pack(self, array: pa.Array, nulls: np.ndarray | None) -> Packed:
        values = array.cast(pa.binary())
        if nulls is not None:
            values = values.fill_null(b"")
        return Packed(*self._head.pack(np.diff(offsets_of(values)), nulls), values)

    def read(self, messages: Messages) -> pa.Array:
        lengths, nulls = self._head.read(messages)
        data = messages.take(lengths)
        offsets = ends_of(lengths, np.int32)
        buffers = [validity_of(nulls), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
        try:
            return pa.Array.from_buffers(pa.binary(), len(lengths), buffers).cast(self._type)
        except pa.ArrowInvalid as error:  # no UTF-8
            raise UnreadError from error


class Decimals(MessageColumn):
    """Their digits, as text."""

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type
        self._digits = pa.decimal128(data_type.precision, 0)
        self._text = Strings(pa.string())

    def pack(self, array: pa.Array, nulls: np.ndarray | None) -> Packed:
        return self._text.pack(_relabelled(array, self._digits).cast(pa.string()), nulls)

    def read(self, messages: Messages) -> pa.Array:
        text = self._text.read(messages)
        found = np.frombuffer(text.buffers()[2] or b"", dtype=np.uint8)
        # Arrow also takes points, exponents and a plus for a number.
        if not ((found - ord("0") < 10) | (found == ord("-"))).all():
            raise UnreadError
        try:
            return _relabelled(text.cast(self._digits), self._type)
        except pa.ArrowInvalid as error:
            raise UnreadError from error


def _relabelled(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The same digits with another scale."""
    return pa.Array.from_buffers(data_type, len(array), array.buffers(), offset=array.offset)


_COLUMNS: dict[StoredType, Callable[[pa.DataType], MessageColumn]] = {
    StoredType.BOOLEAN: lambda _: Bools(),
    StoredType.INTEGER: lambda data_type: Ints(data_type, data_type),
    StoredType.FLOAT: Floats,
    StoredType.DOUBLE: Floats,
    StoredType.STRING: Strings,
    StoredType.BINARY: Strings,
    StoredType.DECIMAL: Decimals,
    StoredType.DATE: lambda data_type: Ints(data_type, pa.int32()),
    StoredType.TIMESTAMP: lambda data_type: Ints(data_type, pa.int64()),
    StoredType.TIMESTAMP_NTZ: lambda data_type: Ints(data_type, pa.int64()),
    StoredType.DURATION: lambda data_type: Ints(data_type, pa.int64()),
    StoredType.TIME: lambda data_type: Ints(data_type, pa.int64()),
}


def column_of(data_type: pa.DataType) -> MessageColumn | None:
    """How a column of a type is coded; None: there is no such form."""
    kind = stored_type(data_type)
    if kind not in _COLUMNS or pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type):
        return None
    return _COLUMNS[kind](data_type)


def packed_rows(head: bytes, columns: Sequence[Packed], rows: int) -> pa.BinaryArray:
    """The bytes of each row: those that all have in front, then column by column."""
    parts: list[bytes | pa.BinaryArray] = []
    run: list[Packed] = []
    for column in columns:
        run.append(column)
        if column.tail is not None:
            parts += [_end_to_end(b"" if parts else head, run, rows), column.tail]
            run = []
    if run or not parts:
        parts.append(_end_to_end(b"" if parts else head, run, rows))
    return parts[0] if len(parts) == 1 else joined(*parts)


def _end_to_end(head: bytes, run: Sequence[Packed], rows: int) -> pa.BinaryArray:
    """The counting bytes of some columns, row by row."""
    matrix = np.empty((rows, len(head) + sum(column.matrix.shape[1] for column in run)), dtype=np.uint8)
    matrix[:, : len(head)] = np.frombuffer(head, dtype=np.uint8)
    counts = None if all(column.lengths is None for column in run) else np.ones(matrix.shape, dtype=bool)
    offsets, at = np.full(rows + 1, len(head), dtype=np.int64), len(head)
    for column in run:
        width = column.matrix.shape[1]
        matrix[:, at : at + width] = column.matrix
        if column.lengths is None:
            offsets += width
        else:
            assert counts is not None
            np.less(np.arange(width), column.lengths[:, np.newaxis], out=counts[:, at : at + width])
            offsets[1:] += column.lengths
        at += width
    if counts is None:
        return binary_from_matrix(matrix)
    offsets[0] = 0
    return binary_array(matrix[counts], np.cumsum(offsets))
