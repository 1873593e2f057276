"""HyperLogLog++ registers, and the estimate that Spark makes of them.

Spark computes the registers' numbers from its own hash (the partial aggregate); here the greatest rank of each register
is kept and, at the end, the count is estimated in the same steps and with the same tables as Spark's, so that the
result is the same number.

A register is one number, ``index << 6 | rank``, and only those with a rank are kept: a key with few values has a small
state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....state.codec.byte_arrays import owners_of
from .buffers import Buffer
from .list_arrays import concat_lists, list_from_lengths, list_lengths

_RANK_BITS = 6
#: Points of the bias table between which Spark interpolates.
_NEIGHBOURS = 6


@dataclass(frozen=True)
class RegisterBuffer(Buffer):
    """The registers of a key, in ascending order."""

    kind = "registers"

    def arrive(self, new: list[pa.Array]) -> list[pa.Array]:
        return [_greatest(new[0])]

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        return [_greatest(concat_lists(old[0], new[0]))]


@dataclass(frozen=True)
class Estimator:
    """Spark's estimate for ``2 ** precision`` registers."""

    precision: int
    #: Up to which count the number of empty registers says more than the others' ranks.
    threshold: float
    #: Raw estimates, and how much each is off.
    estimates: tuple[float, ...]
    biases: tuple[float, ...]

    def counts(self, registers: pa.Array) -> np.ndarray:
        """Estimated number of different values for each list of registers."""
        size = 1 << self.precision
        lengths = list_lengths(registers)
        ranks = registers.flatten().to_numpy(zero_copy_only=False).astype(np.int64) & ((1 << _RANK_BITS) - 1)
        owners = owners_of(lengths)
        empty = (size - lengths).astype(np.float64)
        inverse = empty + np.bincount(owners, np.ldexp(1.0, -ranks), len(lengths))
        raw = _alpha(self.precision) * size * size / inverse
        corrected = np.where(raw < 5.0 * size, raw - self._bias(raw), raw)
        with np.errstate(divide="ignore"):
            linear = size * np.log(size / empty)
        few = (linear <= self.threshold) | (raw <= 2.5 * size)
        return np.floor(np.where((empty > 0) & few, linear, corrected) + 0.5).astype(np.int64)

    def _bias(self, raw: np.ndarray) -> np.ndarray:
        """Mean bias of the nearest points of the table."""
        estimates, biases = np.array(self.estimates), np.array(self.biases)
        total = len(estimates)
        low = np.maximum(_search(estimates, raw) - _NEIGHBOURS + 1, 0)
        high = np.minimum(low + _NEIGHBOURS, total)
        while True:
            after = estimates[np.minimum(high, total - 1)]
            moves = (high < total) & ((raw - after) ** 2 < (raw - estimates[low]) ** 2)
            if not moves.any():
                break
            low, high = low + moves, high + moves
        bias = np.zeros(len(raw))
        for step in range(_NEIGHBOURS):
            place = low + step
            bias += np.where(place < high, biases[np.minimum(place, total - 1)], 0.0)
        return bias / (high - low)


def _alpha(precision: int) -> float:
    known = {4: 0.673, 5: 0.697, 6: 0.709}
    return known.get(precision, 0.7213 / (1.0 + 1.079 / (1 << precision)))


def _search(table: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Java's binary search, step by step: the table is not quite sorted, so the way to a place decides about it."""
    low = np.zeros(len(values), dtype=np.int64)
    high = np.full(len(values), len(table) - 1)
    found = np.full(len(values), -1)
    while (searching := (low <= high) & (found < 0)).any():
        middle = (low + high) >> 1
        there = table[np.clip(middle, 0, len(table) - 1)]
        found = np.where(searching & (there == values), middle, found)
        low, high = (
            np.where(searching & (there < values), middle + 1, low),
            np.where(searching & (there > values), middle - 1, high),
        )
    return np.where(found < 0, low, found)


def _greatest(array: pa.Array) -> pa.Array:
    """Each list with the greatest rank of every register, sorted."""
    lengths = list_lengths(array)
    codes = array.flatten()
    if not len(codes):
        return list_from_lengths(lengths, codes, array.type)
    numbers = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    owners = owners_of(lengths)
    order = np.lexsort((numbers, owners))
    owners, numbers = owners[order], numbers[order]
    last = np.ones(len(numbers), dtype=bool)
    last[:-1] = (owners[1:] != owners[:-1]) | (numbers[1:] >> _RANK_BITS != numbers[:-1] >> _RANK_BITS)
    kept = pa.array(numbers[last]).cast(codes.type)
    return list_from_lengths(np.bincount(owners[last], minlength=len(lengths)), kept, array.type)
