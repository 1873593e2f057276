"""Represents many keys at once with changes of their cells, where :mod:`.keyed` has one key and one cell."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..codec.gather import gathered
from ..keys.key_space import CELL_SECTION, stored_keys


@dataclass(frozen=True)
class BlockKeys:
    """Keys that are handled at once, ascending by group and key."""

    groups: np.ndarray
    #: Encoded.
    keys: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, place: int) -> tuple[int, bytes]:
        """Group and encoded form of one key."""
        return int(self.groups[place]), self.keys[place].as_py()

    def slice(self, start: int, stop: int) -> BlockKeys:
        """Some of them, one after the other."""
        if stop - start == len(self):
            return self
        return BlockKeys(self.groups[start:stop], self.keys.slice(start, stop - start))

    def cells(self, *suffix: bytes | pa.BinaryArray) -> pa.BinaryArray:
        """The stored keys of a cell of each."""
        return stored_keys(self.groups, CELL_SECTION, self.keys, *suffix)

    def take(self, places: np.ndarray) -> BlockKeys:
        """Those at some places."""
        return BlockKeys(self.groups[places], self.keys.take(pa.array(places)))

    def place_of(self, group: int, key: bytes) -> int:
        """Where a key is, or would be."""
        low, high = (int(place) for place in np.searchsorted(self.groups, [group, group + 1]))
        return low + bisect_left(range(low, high), key, key=lambda place: self.keys[place].as_py())


@dataclass(frozen=True)
class BlockCells:
    """What becomes of cells of some keys of a block, all of one variable, or timers of one kind."""

    #: What their stored keys have behind the key.
    suffix: bytes
    #: Places of the keys whose cells change, ascending.
    places: np.ndarray
    #: What they become, one for each place; null: it is deleted.
    values: pa.BinaryArray
    #: What their stored keys have behind the suffix, ascending within a key; None: nothing, and no place comes twice.
    subs: pa.BinaryArray | None = None

    def slice(self, start: int, stop: int) -> BlockCells:
        """What becomes of those of the keys from ``start`` to ``stop``."""
        low, high = (int(place) for place in np.searchsorted(self.places, [start, stop]))
        subs = None if self.subs is None else self.subs.slice(low, high - low)
        return BlockCells(self.suffix, self.places[low:high] - start, self.values.slice(low, high - low), subs)

    def that_stay(self) -> BlockCells:
        """Those that are not deleted."""
        if not self.values.null_count:
            return self
        there = self.values.is_valid()
        subs = None if self.subs is None else self.subs.filter(there)
        places = self.places[there.to_numpy(zero_copy_only=False)]
        return BlockCells(self.suffix, places, self.values.drop_null(), subs)

    def names(self, keys: BlockKeys) -> pa.BinaryArray:
        """Their stored keys; ``keys``: of the block."""
        if self.subs is not None:
            return keys.take(self.places).cells(self.suffix, self.subs)
        return (keys if len(self.places) == len(keys) else keys.take(self.places)).cells(self.suffix)


def entries_of(keys: BlockKeys, cells: Sequence[BlockCells], fresh: bool) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Stored keys and values of what changes, in stored order.

    Args:
        keys: of a block.
        cells: what becomes of theirs, those of each suffix once.
        fresh: there is nothing from before that could be deleted.
    """
    changed = sorted((one for one in cells if len(one.places)), key=lambda one: one.suffix)
    if not changed:
        return pa.array([], pa.binary()), pa.array([], pa.binary())
    names, values = changed[0].names(keys), changed[0].values
    if len(changed) > 1:
        # Stable: what is of one key stays in the order of the suffixes.
        order = pa.array(np.argsort(np.concatenate([one.places for one in changed]), kind="stable"))
        names = gathered(pa.concat_arrays([one.names(keys) for one in changed]), order)
        values = gathered(pa.concat_arrays([one.values for one in changed]), order)
    if fresh and values.null_count:
        return names.filter(values.is_valid()), values.drop_null()
    return names, values
