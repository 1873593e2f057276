"""Cutting and joining record batches to a size in rows and bytes, without copying where it can be avoided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def split(batch: pa.RecordBatch, max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Slices of at most ``max_rows`` rows and ``max_bytes`` bytes, in order; a single row may have more bytes."""
    if batch.num_rows == 0:
        return
    size_bytes = batch.nbytes
    if batch.num_rows == 1 or (batch.num_rows <= max_rows and size_bytes <= max_bytes):
        yield batch
        return
    rows = min(max_rows, max(1, batch.num_rows * max_bytes // max(size_bytes, 1)))
    for start in range(0, batch.num_rows, rows):
        # Rows differ in size, so a slice of average length may still be too large.
        yield from split(batch.slice(start, rows), max_rows, max_bytes)


def regroup(batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are as full as the two limits allow."""
    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        while batch.num_rows:
            room = max_rows - rows
            part = next(split(batch, room, max(max_bytes - size_bytes, 0)))
            if held and size_bytes + part.nbytes > max_bytes:
                yield join(held)
                held, rows, size_bytes = [], 0, 0
                continue
            held.append(part)
            rows, size_bytes = rows + part.num_rows, size_bytes + part.nbytes
            batch = batch.slice(part.num_rows)
            if rows == max_rows:
                yield join(held)
                held, rows, size_bytes = [], 0, 0
    if held:
        yield join(held)


def join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch with the rows of all, copied only if there are several."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
