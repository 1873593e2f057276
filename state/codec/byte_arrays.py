"""Many byte strings at once: Arrow's binary arrays, what they are made of, and lists of Python's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: What the values of one binary array take together at most.
MOST_BYTES = 2**31 - 1


def binary_array(data: np.ndarray, offsets: np.ndarray) -> pa.BinaryArray:
    """Bytes that lie one after the other, as an array."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def large_binary(data: np.ndarray, offsets: np.ndarray) -> pa.LargeBinaryArray:
    """The same for more than 2 GiB."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, dtype=np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def binary_from_matrix(matrix: np.ndarray) -> pa.BinaryArray:
    """Each row of a byte matrix as one value of a binary array."""
    rows, width = matrix.shape
    if rows * width >= 2**31:
        raise pa.ArrowInvalid(f"{rows} keys of {width} bytes do not fit one binary array; encode smaller batches")
    return binary_array(matrix, np.arange(rows + 1, dtype=np.int32) * np.int32(width))


def binary_from_records(records: np.ndarray) -> pa.BinaryArray:
    """Each value of any numpy type as its bytes."""
    offsets = np.arange(len(records) + 1, dtype=np.int64) * records.dtype.itemsize
    return binary_array(np.ascontiguousarray(records).view(np.uint8).reshape(-1), offsets)


def _stored_offsets(array: pa.BinaryArray | pa.LargeBinaryArray) -> np.ndarray:
    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    return np.frombuffer(array.buffers()[1], dtype=width)[array.offset : array.offset + len(array) + 1]


def offsets_of(array: pa.BinaryArray | pa.LargeBinaryArray) -> np.ndarray:
    """Where values begin and end in :func:`data_of`."""
    raw = _stored_offsets(array)
    return (raw - raw[0]).astype(np.int64, copy=False) if len(raw) else np.zeros(1, dtype=np.int64)


def decimal_words(array: pa.Decimal128Array) -> np.ndarray:
    """The unscaled values of decimals, each as its lower and its upper 64 bits; anything where they are null."""
    words = np.frombuffer(array.buffers()[1], dtype=np.int64, count=2 * (array.offset + len(array)))
    return words.reshape(-1, 2)[array.offset :]


def valid_mask(array: pa.Array) -> np.ndarray | None:
    """Boolean mask of the values that are not null; None: all of them."""
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def null_mask(array: pa.Array) -> np.ndarray | None:
    """Boolean mask of the values that are null; None: there are none."""
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None


def ends_of(lengths: np.ndarray, data_type: type = np.int64) -> np.ndarray:
    """Where values of such lengths begin and end, one after the other."""
    ends: np.ndarray = np.zeros(len(lengths) + 1, dtype=data_type)
    np.cumsum(lengths, out=ends[1:])
    return ends


def owners_of(lengths: np.ndarray) -> np.ndarray:
    """For each member of lists of such lengths, one after the other, the place of its list."""
    return np.repeat(np.arange(len(lengths)), lengths)


def end_to_end(values: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Values one after the other, and where each begins and ends."""
    return np.frombuffer(b"".join(values), dtype=np.uint8), ends_of(
        np.fromiter(map(len, values), dtype=np.int64, count=len(values))
    )


def data_of(array: pa.BinaryArray | pa.LargeBinaryArray) -> np.ndarray:
    """The bytes of all values, one after the other."""
    data, raw = array.buffers()[2], _stored_offsets(array)
    if data is None or len(raw) == 0:
        return np.zeros(0, dtype=np.uint8)
    return np.frombuffer(data, dtype=np.uint8)[raw[0] : raw[-1]]


def matrix_of(array: pa.BinaryArray) -> np.ndarray | None:
    """The values as rows of a byte matrix, without a copy; None: they are not all of one width, or some are null."""
    if array.null_count or not len(array):
        return None
    offsets = offsets_of(array)
    width = int(offsets[1])
    if int(offsets[-1]) != width * len(array) or (np.diff(offsets) != width).any():
        return None
    return data_of(array).reshape(len(array), width)


def bytes_of(array: pa.BinaryArray) -> list[Any]:
    """The values as Python has them: bytes, None where one is null."""
    matrix = matrix_of(array)
    values: Any = array
    if matrix is not None and matrix.shape[1]:
        values = pa.Array.from_buffers(pa.binary(matrix.shape[1]), len(matrix), [None, pa.py_buffer(matrix)])
    found: list[Any] = values.to_numpy(zero_copy_only=False).tolist()
    return found


def array_of(values: Sequence[bytes | None]) -> pa.BinaryArray:
    """Inverse of :func:`bytes_of`.

    Raises:
        pa.lib.ArrowCapacityError: they are more than one array holds.
    """
    _check_size(sum(map(len, filter(None, values))))  # Arrow would make several arrays of them
    return pa.array(values, pa.binary())


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise pa.lib.ArrowCapacityError(f"{size:,} bytes, and one binary array holds {MOST_BYTES:,}")


def joined(*parts: bytes | pa.BinaryArray) -> pa.BinaryArray:
    """Parts joined value by value, none of them null; bytes are the same for all values."""
    rows = len(next(part for part in parts if not isinstance(part, bytes)))
    pieces: list[bytes | pa.BinaryArray] = []
    # Arrow joins value by value, numpy much faster what has one width: Arrow gets as few parts as can be.
    for matrix_is_there, run in groupby(map(_with_matrix, parts), key=lambda pair: pair[1] is not None):
        neighbours = list(run)
        if matrix_is_there:
            pieces.append(_side_by_side(neighbours, rows))
        else:
            pieces += [part for part, _ in neighbours]
    if len(pieces) == 1 and not isinstance(pieces[0], bytes):
        return pieces[0]
    _check_size(sum(rows * len(one) if isinstance(one, bytes) else int(offsets_of(one)[-1]) for one in pieces))
    scalars = [pa.scalar(one, pa.binary()) if isinstance(one, bytes) else one for one in pieces]
    return pc.binary_join_element_wise(*scalars, b"")


def _with_matrix(part: bytes | pa.BinaryArray) -> tuple[bytes | pa.BinaryArray, np.ndarray | None]:
    return part, np.frombuffer(part, dtype=np.uint8)[np.newaxis] if isinstance(part, bytes) else matrix_of(part)


def _side_by_side(parts: Sequence[tuple[Any, Any]], rows: int) -> bytes | pa.BinaryArray:
    """Neighbours that have one width each."""
    if len(parts) == 1 or all(isinstance(part, bytes) for part, _ in parts):
        return parts[0][0] if len(parts) == 1 else b"".join(part for part, _ in parts)
    whole = np.empty((rows, sum(matrix.shape[1] for _, matrix in parts)), dtype=np.uint8)
    at = 0
    for _, matrix in parts:
        whole[:, at : at + matrix.shape[1]] = matrix
        at += matrix.shape[1]
    return binary_from_matrix(whole)


def ragged(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The positions ``starts[i], ..., starts[i] + lengths[i] - 1`` of all i, one after the other."""
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(starts - offsets, lengths) + np.arange(int(lengths.sum()))


def stretches_of(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Stretches of bytes, one after the other, without a position per byte.

    Args:
        data: the bytes.
        starts: where each stretch begins, not before the end of the one before it.
        lengths: how long each is.
    """
    if not len(starts):
        return data[:0]
    bounds = np.empty(2 * len(starts), dtype=np.int64)
    bounds[0::2], bounds[1::2] = starts, starts + lengths
    found = large_binary(data, bounds).take(pa.array(np.arange(0, len(bounds), 2)))
    return np.frombuffer(found.buffers()[2] or b"", dtype=np.uint8)[: int(lengths.sum())]


def validity_of(nulls: np.ndarray) -> pa.Buffer | None:
    """The buffer that says which values of an array are null."""
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
