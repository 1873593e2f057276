"""Buffer rows as bytes, a column at a time.

A record is ``null bits | fixed-width fields | lengths of the others (4 bytes each) | their bytes``.  Nothing is done
per row in Python, nested types included: a list is its elements as records, a struct is a record.  All little-endian;
part of the on-disk contract.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import CorruptStateError
from ....state.codec.byte_arrays import (
    binary_array,
    binary_from_records,
    data_of,
    ends_of,
    offsets_of,
    ragged,
    stretches_of,
    validity_of,
)
from ....state.codec.stored_types import StoredType, stored_type

_LENGTH = np.dtype("<u4")


class RecordCodec:
    """Encodes rows of the given fields.

    Args:
        fields: the columns.
        normalise_floats: encode every NaN alike and -0.0 as 0.0, so that equal values have equal bytes.
    """

    def __init__(self, fields: Sequence[pa.Field], *, normalise_floats: bool = False) -> None:
        self.fields = list(fields)
        self._normalise = normalise_floats
        self._kinds = [_kind(field.type, normalise_floats) for field in self.fields]
        self._fixed = [i for i, kind in enumerate(self._kinds) if isinstance(kind, np.dtype)]
        self._varying = [i for i, kind in enumerate(self._kinds) if not isinstance(kind, np.dtype)]
        null_bytes = (len(self.fields) + 7) // 8
        self._dtype = np.dtype(
            [
                ("nulls", np.uint8, (null_bytes,)),
                *[(f"f{i}", self._kinds[i]) for i in self._fixed],
                *[(f"l{i}", _LENGTH) for i in self._varying],
            ]
        )
        #: Bytes of every record; None: it varies.
        self.width: int | None = None if self._varying else self._dtype.itemsize

    def encode(self, columns: Sequence[pa.Array]) -> pa.BinaryArray:
        """One record per row."""
        rows = len(columns[0])
        head = np.zeros(rows, dtype=self._dtype)
        nulls = np.zeros((rows, len(columns)), dtype=bool)
        for i, column in enumerate(columns):
            if column.null_count:
                nulls[:, i] = column.is_null().to_numpy(zero_copy_only=False)
        head["nulls"] = np.packbits(nulls, axis=1, bitorder="little")
        for i in self._fixed:
            kind = self._kinds[i]
            assert isinstance(kind, np.dtype)
            values = fixed_values(columns[i], kind, self._normalise)
            if columns[i].null_count:
                values = values.copy()
                values[nulls[:, i]] = 0
            head[f"f{i}"] = values
        parts = []
        for i in self._varying:
            kind = self._kinds[i]
            assert isinstance(kind, _Varying)
            payload = kind.encode(columns[i])
            head[f"l{i}"] = np.diff(offsets_of(payload))
            parts.append(payload)
        records = binary_from_records(head)
        return pc.binary_join_element_wise(records, *parts, b"") if parts else records

    def decode(self, data: np.ndarray, offsets: np.ndarray) -> list[pa.Array]:
        """Columns of the records that lie one after the other in ``data`` (bytes)."""
        rows = len(offsets) - 1
        head_width = self._dtype.itemsize
        if rows and int(np.diff(offsets).min()) < head_width:
            raise _misfit(f"shorter than {head_width} bytes")
        if self.width is not None:
            if len(data) != rows * self.width:
                raise _misfit(f"not {self.width} bytes long")
            head = np.frombuffer(data.tobytes(), dtype=self._dtype)
        else:
            gathered = data[ragged(offsets[:-1], np.full(rows, head_width))]
            head = np.frombuffer(gathered.tobytes(), dtype=self._dtype)
        bits = np.unpackbits(head["nulls"], axis=1, bitorder="little", count=len(self.fields)).astype(bool)
        columns: list[pa.Array] = [None] * len(self.fields)
        for i in self._fixed:
            columns[i] = _fixed_array(head[f"f{i}"], bits[:, i], self.fields[i].type)
        starts = offsets[:-1] + head_width
        for i in self._varying:
            kind = self._kinds[i]
            assert isinstance(kind, _Varying)
            lengths = head[f"l{i}"].astype(np.int64)
            if rows and int((starts + lengths).max()) > len(data):
                raise _misfit("cut off")
            payload = stretches_of(data, starts, lengths)
            columns[i] = kind.decode(payload, ends_of(lengths), bits[:, i])
            starts = starts + lengths
        if self._varying and not np.array_equal(starts, offsets[1:]):
            raise _misfit("longer or shorter than its lengths say")
        return columns


class RecordListCodec:
    """Encodes lists of records: back to back, behind their count and lengths unless they are all of one width."""

    def __init__(self, record: RecordCodec) -> None:
        self.record = record

    def encode(self, columns: Sequence[pa.Array], lengths: np.ndarray) -> pa.BinaryArray:
        """One value per list; list i takes the next ``lengths[i]`` rows."""
        bounds = ends_of(lengths)
        records = self.record.encode(columns)
        offsets = offsets_of(records)
        bodies = binary_array(data_of(records), offsets[bounds])
        if self.record.width is not None:
            return bodies
        sizes = np.diff(offsets).astype(_LENGTH)
        heads = binary_array(sizes.view(np.uint8), bounds * _LENGTH.itemsize)
        counts = binary_from_records(lengths.astype(_LENGTH))
        return pc.binary_join_element_wise(counts, heads, bodies, b"")

    def decode(self, data: np.ndarray, offsets: np.ndarray) -> tuple[list[pa.Array], np.ndarray]:
        """The rows of all lists, and each list's length."""
        sizes = np.diff(offsets)
        width = self.record.width
        if width is not None:
            if (sizes % width).any():
                raise _misfit(f"not a multiple of {width} bytes")
            rows = len(data) // width
            return self.record.decode(data, np.arange(rows + 1, dtype=np.int64) * width), sizes // width
        if len(sizes) and int(sizes.min()) < _LENGTH.itemsize:
            raise _misfit("without its count")
        four = _LENGTH.itemsize
        count_bytes = data[ragged(offsets[:-1], np.full(len(sizes), four))]
        lengths = np.frombuffer(count_bytes.tobytes(), dtype=_LENGTH).astype(np.int64)
        heads = four * (1 + lengths)
        if (heads > sizes).any():
            raise _misfit("cut off")
        record_sizes = np.frombuffer(data[ragged(offsets[:-1] + four, four * lengths)].tobytes(), dtype=_LENGTH)
        body = data[ragged(offsets[:-1] + heads, sizes - heads)]
        bounds = ends_of(record_sizes)
        if int(bounds[-1]) != len(body):
            raise _misfit("longer or shorter than its lengths say")
        return self.record.decode(body, bounds), lengths


class _Varying:
    """Codec of one column whose values have no fixed width."""

    def encode(self, array: pa.Array) -> pa.BinaryArray:
        raise NotImplementedError

    def decode(self, data: np.ndarray, offsets: np.ndarray, nulls: np.ndarray) -> pa.Array:
        raise NotImplementedError


class _Bytes(_Varying):
    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type

    def encode(self, array: pa.Array) -> pa.BinaryArray:
        return pc.fill_null(array.cast(pa.binary()), b"")

    def decode(self, data: np.ndarray, offsets: np.ndarray, nulls: np.ndarray) -> pa.Array:
        buffers = [validity_of(nulls), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
        plain = pa.string() if pa.types.is_string(self._type) or pa.types.is_large_string(self._type) else pa.binary()
        return pa.Array.from_buffers(plain, len(nulls), buffers).cast(self._type)


class _Void(_Varying):
    """Nulls, of which nothing is stored."""

    def encode(self, array: pa.Array) -> pa.BinaryArray:
        return pa.array([b""] * len(array), pa.binary())

    def decode(self, data: np.ndarray, offsets: np.ndarray, nulls: np.ndarray) -> pa.Array:
        return pa.nulls(len(nulls))


class _Struct(_Varying):
    def __init__(self, data_type: pa.DataType, normalise_floats: bool) -> None:
        self._fields = [data_type.field(i) for i in range(data_type.num_fields)]
        self._record = RecordCodec(self._fields, normalise_floats=normalise_floats)

    def encode(self, array: pa.Array) -> pa.BinaryArray:
        return self._record.encode(array.flatten())

    def decode(self, data: np.ndarray, offsets: np.ndarray, nulls: np.ndarray) -> pa.Array:
        columns = self._record.decode(data, offsets)
        return pa.StructArray.from_arrays(columns, fields=self._fields, mask=pa.array(nulls))


class _List(_Varying):
    """Lists, and maps as lists of their entries."""

    def __init__(self, data_type: pa.DataType, normalise_floats: bool) -> None:
        self._type = data_type
        self._is_map = pa.types.is_map(data_type)
        entries = [data_type.key_field, data_type.item_field] if self._is_map else [data_type.value_field]
        self._records = RecordListCodec(RecordCodec(entries, normalise_floats=normalise_floats))

    def encode(self, array: pa.Array) -> pa.BinaryArray:
        if self._is_map:
            entries = pa.field("entries", pa.struct([self._type.key_field, self._type.item_field]), nullable=False)
            array = array.cast(pa.list_(entries))
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        values = array.flatten()
        return self._records.encode(values.flatten() if self._is_map else [values], lengths)

    def decode(self, data: np.ndarray, offsets: np.ndarray, nulls: np.ndarray) -> pa.Array:
        columns, lengths = self._records.decode(data, offsets)
        ends = ends_of(lengths, np.int32)
        if self._is_map:
            whole = pa.MapArray.from_arrays(pa.array(ends), columns[0], columns[1], type=self._type)
            return pc.if_else(pa.array(nulls), pa.scalar(None, self._type), whole) if nulls.any() else whole
        return pa.ListArray.from_arrays(pa.array(ends), columns[0], type=self._type, mask=pa.array(nulls))


_EIGHT_BYTES = np.dtype("<i8")
#: By type: a numpy type for values of one width, a codec for the others.
_KINDS: dict[StoredType, np.dtype | Callable[[pa.DataType, bool], _Varying]] = {
    StoredType.NULL: lambda *_: _Void(),
    StoredType.BOOLEAN: np.dtype(np.uint8),
    StoredType.FLOAT: np.dtype("<f4"),
    StoredType.DOUBLE: np.dtype("<f8"),
    StoredType.STRING: lambda data_type, _: _Bytes(data_type),
    StoredType.BINARY: lambda data_type, _: _Bytes(data_type),
    StoredType.DECIMAL: np.dtype(("<i8", (2,))),
    StoredType.DATE: np.dtype("<i4"),
    StoredType.TIMESTAMP: _EIGHT_BYTES,
    StoredType.TIMESTAMP_NTZ: _EIGHT_BYTES,
    StoredType.DURATION: _EIGHT_BYTES,
    StoredType.TIME: _EIGHT_BYTES,
    StoredType.LIST: _List,
    StoredType.MAP: _List,
    StoredType.STRUCT: _Struct,
}


def _kind(data_type: pa.DataType, normalise_floats: bool) -> np.dtype | _Varying:
    """How values of a type are stored; TypeError for what cannot be."""
    if pa.types.is_integer(data_type):
        return np.dtype(data_type.to_pandas_dtype()).newbyteorder("<")
    kind = stored_type(data_type)
    if kind is None:
        raise TypeError(f"values of type {data_type} cannot be stored")
    made = _KINDS[kind]
    return made if isinstance(made, np.dtype) else made(data_type, normalise_floats)


def fixed_values(array: pa.Array, dtype: np.dtype, normalise_floats: bool = False) -> np.ndarray:
    """The raw values of a fixed-width column; what stands under a null is undefined."""
    if pa.types.is_boolean(array.type):
        return pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(np.uint8)
    base, shape = dtype.subdtype or (dtype, ())
    width = int(np.prod(shape, dtype=int)) if shape else 1
    if len(array) == 0:
        return np.zeros((0, *shape), dtype=base)
    raw = np.frombuffer(array.buffers()[1], dtype=base)
    values = raw[array.offset * width : (array.offset + len(array)) * width].reshape(len(array), *shape)
    if normalise_floats and pa.types.is_floating(array.type):
        values = np.where(np.isnan(values), np.array(np.nan, dtype=base), values + np.array(0.0, dtype=base))
    return values


def _fixed_array(values: np.ndarray, nulls: np.ndarray, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(data_type):
        return pa.array(values.astype(bool), mask=nulls)
    buffers = [validity_of(nulls), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(data_type, len(nulls), buffers)


def _misfit(what: str) -> CorruptStateError:
    return CorruptStateError(
        f"an aggregate's state entry is {what}; it was written by other aggregates, or its file is damaged"
    )
