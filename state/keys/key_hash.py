"""Spark's ``hash`` of key columns (Murmur3, seed 42) and the key groups it gives, over whole Arrow columns.

For rows that reach their shards without Spark; by the rules of :mod:`.keygroups`, and so part of the on-disk contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ..codec.byte_arrays import decimal_words, valid_mask
from .keygroups import bit_reversed, is_power_of_two

_SEED = 42
_U32 = np.uint32
#: Rows that are hashed at once: few enough for all of their numbers to stay in the processor's cache.
_BLOCK_ROWS = 8192


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
    hashes = spark_hash(columns)
    if not is_power_of_two(max_parallelism):
        return hashes % np.int32(max_parallelism)
    return _reversed(max_parallelism)[hashes & np.int32(max_parallelism - 1)]


@lru_cache(maxsize=8)
def _reversed(max_parallelism: int) -> np.ndarray:
    """By number its bits in reverse order."""
    return np.array([bit_reversed(group, max_parallelism) for group in range(max_parallelism)], dtype=np.int32)


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
        found = _of_longs(decimal_words(array)[:, 0].copy(), seeds)
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
    return _of_words(numbers.view(_U32).reshape(-1, 1), seeds)


def _of_longs(numbers: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return _of_words(numbers.view(_U32).reshape(-1, 2), seeds)


def _of_words(table: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Values of as many words each."""
    hashes = seeds.copy()
    rotated = np.empty(_BLOCK_ROWS, dtype=_U32)
    for at in range(0, len(hashes), _BLOCK_ROWS):
        block = hashes[at : at + _BLOCK_ROWS]
        for words in table[at : at + _BLOCK_ROWS].T:
            _mix(block, words.copy(), rotated[: len(block)])
    return _finished(hashes, _U32(4 * table.shape[1]))


def _of_bytes(array: pa.Array, seeds: np.ndarray) -> np.ndarray:
    """Words of four bytes, then each byte that is left as a number of its own, with its sign, as Spark does it."""
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array):
        return _finished(seeds, _U32(0))
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.zeros(0, dtype=np.uint8) if data_buffer is None else np.frombuffer(data_buffer, dtype=np.uint8)
    lengths = np.diff(offsets)
    if lengths[0] and not lengths[0] % 4 and (lengths == lengths[0]).all():
        # Texts of one length, as UUIDs are: their words are the columns of a table, and nothing need be looked up.
        return _of_words(data[offsets[0] : offsets[-1]].copy().view(_U32).reshape(len(lengths), -1), seeds)
    hashes = seeds.copy()
    # The four bytes from each place on.
    words = np.ndarray(max(len(data) - 3, 0), np.dtype("<u4"), data if len(data) else None, 0, (1,))
    for at in range(0, len(hashes), _BLOCK_ROWS):
        block = slice(at, at + _BLOCK_ROWS)
        _mix_texts(hashes[block], offsets[:-1][block].astype(np.int64), lengths[block], data, words)
    return _finished(hashes, lengths.astype(_U32))


def _mix_texts(
    hashes: np.ndarray, starts: np.ndarray, lengths: np.ndarray, data: np.ndarray, words: np.ndarray
) -> None:
    """Mix some texts of different lengths into hashes."""

    def mix(rows: np.ndarray, values: np.ndarray) -> None:
        if len(rows) == len(hashes):
            _mix(hashes, values, np.empty_like(hashes))
        elif len(rows):
            some = hashes[rows]
            _mix(some, values, np.empty_like(some))
            hashes[rows] = some

    for word in range(int(lengths.max()) // 4):
        rows = np.flatnonzero(lengths >= 4 * (word + 1))
        mix(rows, words[starts[rows] + 4 * word])
    ends, rest = starts + (lengths & ~3), lengths & 3
    for byte in range(3):
        rows = np.flatnonzero(rest > byte)
        mix(rows, data[ends[rows] + byte].view(np.int8).astype(np.int32).view(_U32))


def _mix(hashes: np.ndarray, words: np.ndarray, scratch: np.ndarray) -> None:
    """Mix a word into each hash, in place; ``words`` and ``scratch`` are written over."""
    words *= _U32(0xCC9E2D51)
    _rotate(words, 15, scratch)
    words *= _U32(0x1B873593)
    hashes ^= words
    _rotate(hashes, 13, scratch)
    hashes *= _U32(5)
    hashes += _U32(0xE6546B64)


def _rotate(numbers: np.ndarray, bits: int, scratch: np.ndarray) -> None:
    np.right_shift(numbers, _U32(32 - bits), out=scratch)
    numbers <<= _U32(bits)
    numbers |= scratch


def _finished(hashes: np.ndarray, length: np.ndarray | np.uint32) -> np.ndarray:
    hashes = hashes ^ length
    hashes = (hashes ^ (hashes >> _U32(16))) * _U32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> _U32(13))) * _U32(0xC2B2AE35)
    return hashes ^ (hashes >> _U32(16))
