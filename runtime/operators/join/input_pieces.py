"""The sorted input in pieces: many whole keys at once, or a part of one key that has too many rows to be held."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ....state.keys.keys import KeyCodec
from ..columnar.key_batches import KeyRows, key_rows
from .definition import Sizes


@dataclass(frozen=True)
class KeyPiece:
    """Some rows."""

    #: None: the key whose parts have come has ended.
    rows: KeyRows | None
    #: True: they are part of one key.
    is_part: bool


_END = KeyPiece(None, True)


def small_batches(batches: Iterator[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at most so many bytes, or of one row."""
    for batch in batches:
        waiting = [batch]
        while waiting:
            batch = waiting.pop()
            if batch.nbytes <= most_bytes or batch.num_rows == 1:
                yield batch
            else:
                half = batch.num_rows // 2
                waiting += [batch.slice(half), batch.slice(0, half)]


def key_pieces(
    batches: Iterator[pa.RecordBatch], key_columns: tuple[str, ...], codec: KeyCodec, sizes: Sizes
) -> Iterator[KeyPiece]:
    """Cut the sorted input so that no key straddles two pieces, but for those with many rows.

    Args:
        batches: all rows.
        key_columns: what they are ordered by.
        codec: of these columns.
        sizes: from how many rows or bytes on a key comes in parts.
    """
    waiting: list[pa.RecordBatch] = []
    count = size_bytes = 0
    last: tuple[int, bytes] | None = None
    in_parts = False

    def is_full() -> bool:
        return count >= sizes.piece_rows or size_bytes >= sizes.piece_bytes

    def whole(batches: list[pa.RecordBatch]) -> KeyRows:
        return key_rows(pa.concat_batches(batches), key_columns, codec)

    for batch in batches:
        if batch.num_rows == 0:
            continue
        rows = key_rows(batch, key_columns, codec)
        starts = rows.starts.tolist()
        goes_on = last == (int(rows.groups[0]), rows.keys[0].as_py())
        if goes_on and len(starts) == 1:
            waiting.append(batch)
            count, size_bytes = count + batch.num_rows, size_bytes + batch.nbytes
            if is_full():
                yield KeyPiece(whole(waiting), True)
                waiting, count, size_bytes, in_parts = [], 0, 0, True
            continue
        first = 0
        if in_parts:
            if goes_on:
                first = starts[1]
                waiting.append(batch.slice(0, first))
            if waiting:
                yield KeyPiece(whole(waiting), True)
            yield _END
            waiting, in_parts = [], False
        cut = starts[-1]
        if waiting:
            yield KeyPiece(whole([*waiting, batch.slice(first, cut - first)] if cut > first else waiting), False)
        elif cut > first:
            yield KeyPiece(whole([batch.slice(first, cut - first)]), False)
        waiting, count = [batch.slice(cut)], batch.num_rows - cut
        size_bytes = waiting[0].nbytes
        last = int(rows.groups[cut]), rows.keys[-1].as_py()
        if is_full():
            yield KeyPiece(whole(waiting), True)
            waiting, count, size_bytes, in_parts = [], 0, 0, True
    if waiting:
        yield KeyPiece(whole(waiting), in_parts)
    if in_parts:
        yield _END
