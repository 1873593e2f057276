"""The sorted input in pieces: many whole keys at once, or a part of one key that has too many rows to be held."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ....state.keys import KeyCodec
from ..aggregate.key_batches import KeyRows, key_rows


@dataclass(frozen=True)
class Piece:
    """Some rows."""

    #: None: the key whose parts have come has ended.
    rows: KeyRows | None
    #: True: they are part of one key.
    is_part: bool


_END = Piece(None, True)


def key_pieces(
    batches: Iterator[pa.RecordBatch], key_columns: tuple[str, ...], codec: KeyCodec, most: int
) -> Iterator[Piece]:
    """Cut the sorted input so that no key straddles two pieces, but for those with many rows.

    Args:
        batches: all rows.
        key_columns: what they are ordered by.
        codec: of these columns.
        most: a key with so many rows, or more, comes in parts.
    """
    waiting: list[pa.RecordBatch] = []
    count = 0
    last: tuple[int, bytes] | None = None
    in_parts = False

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
            count += batch.num_rows
            if count >= most:
                yield Piece(whole(waiting), True)
                waiting, count, in_parts = [], 0, True
            continue
        first = 0
        if in_parts:
            if goes_on:
                first = starts[1]
                waiting.append(batch.slice(0, first))
            if waiting:
                yield Piece(whole(waiting), True)
            yield _END
            waiting, in_parts = [], False
        cut = starts[-1]
        if waiting:
            yield Piece(whole([*waiting, batch.slice(first, cut - first)] if cut > first else waiting), False)
        elif cut > first:
            yield Piece(whole([batch.slice(first, cut - first)]), False)
        waiting, count = [batch.slice(cut)], batch.num_rows - cut
        last = int(rows.groups[cut]), rows.keys[cut].as_py()
        if count >= most:
            yield Piece(whole(waiting), True)
            waiting, count, in_parts = [], 0, True
    if waiting:
        yield Piece(whole(waiting), in_parts)
    if in_parts:
        yield _END
