"""Cuts blocks of keys where the state that they load passes a budget: rows say nothing of how much is kept of a key.

Values that may be large are read before the handler is called, some keys at a time, until the budget is spent: there
the block ends, and the next one begins.  All others take a few bytes, and are read when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from .....errors import StateSchemaError
from .....state.backend.blocks import BlockKeys
from .....state.backend.keyed import KeyedState
from .....state.backend.row_columns import may_be_large
from .....state.codec.byte_arrays import offsets_of
from ...columnar.key_batches import KeyRows
from ..definition import BLOCK_HANDLER

#: State that is loaded for one block, unless one key alone has more.
_BUDGET_BYTES = 32 * 1024 * 1024
#: Keys that are read at a time, at first and at most: what is read before anybody knows how large it is.
_FIRST_KEYS, _MOST_KEYS = 8, 128

#: What is stored of a block's keys, by the variable's suffix.
Cells = dict[bytes, pa.BinaryArray]


class BlockState:
    """Reads large values of one shard ahead.

    Args:
        state: of the shard; its variables are declared.
    """

    def __init__(self, state: KeyedState) -> None:
        self._state = state
        self._names = {bytes([item.slot]): item.name for item in state.registry if may_be_large(item)}
        self._at_a_time = _FIRST_KEYS
        #: What a key has taken at most, of late.
        self._largest_bytes = 1

    def blocks(self, piece: KeyRows) -> Iterator[tuple[KeyRows, Cells]]:
        """The piece in blocks, each with what was read ahead of its keys, when the one before is done."""
        if not (self._names and self._state.has_base):
            yield piece, {}
            return
        keys, start = BlockKeys(piece.groups[piece.starts], piece.keys), 0
        while start < len(keys):
            self._state.begin_block()
            stop, cells = self._read(keys, start)
            yield piece.slice(start, stop), cells
            start = stop

    def _read(self, keys: BlockKeys, start: int) -> tuple[int, Cells]:
        """Where a block ends that begins here, and what is stored of its keys."""
        parts: list[Cells] = []
        at, left_bytes = start, _BUDGET_BYTES
        while at < len(keys) and (at == start or left_bytes >= self._largest_bytes):
            cells = self._read_some(keys, at, min(self._at_a_time, max(1, left_bytes // self._largest_bytes)))
            sizes = np.sum([np.diff(offsets_of(array)) for array in cells.values()], axis=0)
            fits = int(np.searchsorted(np.cumsum(sizes), left_bytes, "right"))
            self._learn(int(sizes.max()))
            if fits < len(sizes):
                fits = fits or int(at == start)  # of a key that is larger than the budget there is a block, too
                parts.append({suffix: array.slice(0, fits) for suffix, array in cells.items()})
                at += fits
                break
            parts.append(cells)
            at, left_bytes = at + len(sizes), left_bytes - int(sizes.sum())
        return at, {suffix: pa.concat_arrays([part[suffix] for part in parts]) for suffix in self._names}

    def _learn(self, largest_bytes: int) -> None:
        self._largest_bytes = max(largest_bytes, self._largest_bytes // 2, 1)
        self._at_a_time = min(2 * self._at_a_time, _MOST_KEYS)

    def _read_some(self, keys: BlockKeys, at: int, most: int) -> Cells:
        """What is stored of some keys, as many as Arrow can hold."""
        some = keys.slice(at, min(at + most, len(keys)))
        read: Cells = {}
        for suffix, name in self._names.items():
            try:
                read[suffix] = self._state.read_cells(some, suffix)
            except pa.lib.ArrowCapacityError as error:
                if len(some) > 1:
                    return self._read_some(keys, at, len(some) // 2)
                group, key = some.at(0)
                raise StateSchemaError(
                    f"the value of state {name!r} that is stored of one key (key group {group}, encoded {key.hex()}) is"
                    f" too large for {BLOCK_HANDLER}: {error}; a processor without it, with"
                    " handleInputRows, can read it and make it smaller"
                ) from error
        return read
