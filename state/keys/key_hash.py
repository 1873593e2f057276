"""Spark's ``hash`` of key columns (Murmur3, seed 42) and the key groups it gives, over whole Arrow columns.

For rows that reach their shards without Spark; by the rules of :mod:`.keygroups`, and so part of the on-disk contract.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .key_fields import valid_mask
from .keygroups import bit_reversed, is_power_of_two

_SEED = 42
_U32 = np.uint32


def is_hashable(data_type: pa.DataType) -> bool:
    """Whether columns of a type can be hashed here."""
    types = pa.types
    if types.is_struct(data_type):
        return all(is_hashable(field.type) for field in data_type)
    return (
        types.is_boolean(data_type)
        or types.is_signed_integer(data_type)
        or types.is_date32(data_type)
        or (types.is_timestamp(data_type) and data_type.unit == "us")
        or types.is_string(data_type)
        or (types.is_decimal128(data_type) and data_type.precision <= 18)
    )


def key_groups(columns: Sequence[pa.Array], max_parallelism: int, rows: int) -> np.ndarray:
    """The key group of each row, as int32.

    Args:
        columns: the key columns whose hash decides, of types that :func:`is_hashable`.
        max_parallelism: number of key groups.
        rows: number of rows; without columns they all are in group 0.
    """
    if not columns or max_parallelism == 1:
        return np.zeros(rows, dtype=np.int32)
    hashes = np.full(rows, _SEED, dtype=_U32)
    for column in columns:
        hashes = _hashed(column, hashes)
    groups = hashes.view(np.int32) % np.int32(max_parallelism)
    if not is_power_of_two(max_parallelism):
        return groups
    reverse = np.array([bit_reversed(group, max_parallelism) for group in range(max_parallelism)], dtype=np.int32)
    return reverse[groups]


def spark_hash(columns: Sequence[pa.Array]) -> np.ndarray:
    """Spark's ``hash`` of some columns, row by row, as int32; there is at least one."""
    hashes = np.full(len(columns[0]), _SEED, dtype=_U32)
    for column in columns:
        hashes = _hashed(column, hashes)
    return hashes.view(np.int32)


def _hashed(array: pa.Array, seeds: np.ndarray) -> np.ndarray:
    """The hash of a column, each row seeded by that of the columns before; a null leaves the seed as it is."""
    types = pa.types
    if types.is_struct(array.type):
        found = seeds
        for field in array.flatten():  # a field of a null struct is null
            found = _hashed(field, found)
        return found
    if types.is_string(array.type):
        found = _of_bytes(array, seeds)
    elif types.is_decimal128(array.type):
        words = np.frombuffer(array.buffers()[1], dtype=np.int64, count=2 * (array.offset + len(array)))
        found = _of_longs(words.reshape(-1, 2)[array.offset :, 0].copy(), seeds)
    elif types.is_boolean(array.type):
        found = _of_ints(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int32), seeds)
    elif array.type.bit_width == 64:
        found = _of_longs(_numbers(array, pa.int64()), seeds)
    elif types.is_date32(array.type):
        found = _of_ints(_numbers(array, pa.int32()), seeds)
    else:
        found = _of_ints(array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32), seeds)
    valid = valid_mask(array)
    return found if valid is None else np.where(valid, found, seeds)


def _numbers(array: pa.Array, data_type: pa.DataType) -> np.ndarray:
    numbers: np.ndarray = array.view(data_type).fill_null(0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(numbers)


def _of_ints(numbers: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return _finished(_mixed(seeds, numbers.view(_U32)), _U32(4))


def _of_longs(numbers: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    words = numbers.view(_U32).reshape(-1, 2)
    return _finished(_mixed(_mixed(seeds, words[:, 0]), words[:, 1]), _U32(8))


def _of_bytes(array: pa.Array, seeds: np.ndarray) -> np.ndarray:
    """Words of four bytes, then each byte that is left as a number of its own, with its sign, as Spark does it."""
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[array.offset : array.offset + len(array) + 1].astype(
        np.int64
    )
    data = np.zeros(0, dtype=np.uint8) if data_buffer is None else np.frombuffer(data_buffer, dtype=np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = seeds.copy()
    if len(lengths) and lengths[0] and not lengths[0] % 4 and (lengths == lengths[0]).all():
        # Texts of one length, as UUIDs are: their words are the columns of a table, and nothing need be looked up.
        table = data[offsets[0] : offsets[-1]].copy().view(_U32).reshape(len(lengths), -1)
        for words in np.ascontiguousarray(table.T):
            hashes = _mixed(hashes, words)
        return _finished(hashes, _U32(int(lengths[0])))
    for word in range(int(lengths.max(initial=0)) // 4):
        rows = np.flatnonzero(lengths >= 4 * (word + 1))
        places = starts[rows] + 4 * word
        value = data[places].astype(_U32)
        for byte in (1, 2, 3):
            value |= data[places + byte].astype(_U32) << _U32(8 * byte)
        hashes[rows] = _mixed(hashes[rows], value)
    whole = lengths - lengths % 4
    for byte in range(3):
        rows = np.flatnonzero(lengths - whole > byte)
        if len(rows):
            value = data[starts[rows] + whole[rows] + byte].view(np.int8).astype(np.int32).view(_U32)
            hashes[rows] = _mixed(hashes[rows], value)
    return _finished(hashes, lengths.astype(_U32))


def _rotated(numbers: np.ndarray, bits: int) -> np.ndarray:
    return (numbers << _U32(bits)) | (numbers >> _U32(32 - bits))


def _mixed(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    mixed = _rotated(words * _U32(0xCC9E2D51), 15) * _U32(0x1B873593)
    return _rotated(hashes ^ mixed, 13) * _U32(5) + _U32(0xE6546B64)


def _finished(hashes: np.ndarray, length: np.ndarray | np.uint32) -> np.ndarray:
    hashes = hashes ^ length
    hashes = (hashes ^ (hashes >> _U32(16))) * _U32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> _U32(13))) * _U32(0xC2B2AE35)
    return hashes ^ (hashes >> _U32(16))
