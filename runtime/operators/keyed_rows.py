"""Cuts a shard's sorted record batches into keys.

Rows arrive sorted by (key group, key); a key's rows may span any number of batches.  They are handed over lazily, so a
key with half of all rows streams through in the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.keys import KeyCodec

KEY_GROUP_COLUMN = "__kg"


@dataclass(frozen=True)
class KeySlice:
    """Consecutive rows of one key inside one batch."""

    key_group: int
    key: bytes
    batch: int
    start: int
    stop: int


class KeySlices:
    """Finds the key slices of each batch; a new slice starts wherever key group or encoded key changes."""

    def __init__(self, codec: KeyCodec, key_columns: tuple[str, ...]) -> None:
        self._codec = codec
        self._key_columns = key_columns

    def of(self, batch: pa.RecordBatch, number: int) -> list[KeySlice]:
        if batch.num_rows == 0:
            return []
        groups = batch.column(KEY_GROUP_COLUMN).to_numpy(zero_copy_only=False)
        changed = np.empty(batch.num_rows, dtype=bool)
        changed[0] = True
        np.not_equal(groups[1:], groups[:-1], out=changed[1:])
        if self._key_columns:
            keys = self._codec.encode_columns([batch.column(name) for name in self._key_columns])
            changed[1:] |= pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
            starts = np.flatnonzero(changed)
            encoded = keys.take(pa.array(starts)).to_pylist()
        else:
            starts = np.flatnonzero(changed)
            encoded = [b""] * len(starts)
        stops = [*starts[1:].tolist(), batch.num_rows]
        heads = groups[starts].tolist()
        return [
            KeySlice(group, key, number, start, stop)
            for group, key, start, stop in zip(heads, encoded, starts.tolist(), stops, strict=True)
        ]


class KeyedRows:
    """Iterates over ``(key_group, key, row pieces)``, one entry per key, in the order of the input.

    The pieces iterator of a key must be used before the next key is asked for; what is left of it is skipped.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], slices: KeySlices) -> None:
        self._batches = batches
        self._slices = slices

    def __iter__(self) -> Iterator[tuple[int, bytes, Iterator[tuple[pa.RecordBatch, int, int, int]]]]:
        """Pieces are ``(batch, batch number, start, stop)``."""
        stream = self._pieces()
        pending = next(stream, None)
        while pending is not None:
            head = pending
            follower: list[tuple[pa.RecordBatch, KeySlice] | None] = [None]

            def rest(
                head: tuple[pa.RecordBatch, KeySlice] = head,
                follower: list[tuple[pa.RecordBatch, KeySlice] | None] = follower,
            ) -> Iterator[tuple[pa.RecordBatch, int, int, int]]:
                for batch, piece in stream:
                    if (piece.key_group, piece.key) != (head[1].key_group, head[1].key):
                        follower[0] = (batch, piece)
                        return
                    yield batch, piece.batch, piece.start, piece.stop

            tail = rest()
            first = (head[0], head[1].batch, head[1].start, head[1].stop)
            yield head[1].key_group, head[1].key, chain([first], tail)
            for _ in tail:  # the consumer may leave rows unread
                pass
            pending = follower[0]

    def _pieces(self) -> Iterator[tuple[pa.RecordBatch, KeySlice]]:
        for number, batch in enumerate(self._batches):
            for piece in self._slices.of(batch, number):
                yield batch, piece
