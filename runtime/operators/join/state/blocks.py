"""Rows of both sides as they are stored: in blocks, each the value of one cell.

A block is ``head | directory | times (8 bytes each) | flags (1) | sizes (4) | records``.  Its rows are in the order of
their event times.  The head of a key has a directory of the key's chunks, which are blocks of their own without one.
All little-endian; part of the on-disk contract.

Nothing is done per row in Python, and a record is only decoded if it goes out: it is copied from block to block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .....errors import CorruptStateError
from .....state.codec.byte_arrays import data_of, ends_of, large_binary, offsets_of, ragged

_FORMAT = 1
_HEAD = np.dtype([("format", "u1"), ("timer", "<i8"), ("next", "<u4"), ("chunks", "<u4"), ("rows", "<u4")])
#: What a key knows of one of its chunks.
ENTRY = np.dtype(
    [
        ("chunk", "<u4"),  # its number within the key
        ("side", "u1"),
        ("marked", "u1"),  # 1: which of its rows have had a partner is in a cell beside it
        ("rows", "<u4"),
        ("least", "<i8"),  # event times, in microseconds
        ("greatest", "<i8"),
        ("open", "<i8"),  # of the first row that has to go out if no partner comes; NEVER: there is none
    ]
)
#: As an event time: later than all.
NEVER = 2**63 - 1
#: Flags of a row.
_SIDE, _MATCHED = 1, 2


@dataclass(frozen=True)
class Blocks:
    """Decoded blocks, end to end."""

    #: The timer of each block's key, in ms, and the number of its next chunk.
    timers_ms: np.ndarray
    nexts: np.ndarray
    #: The directories, and the block that each entry is of.
    entries: np.ndarray
    entry_blocks: np.ndarray
    #: For each row its block, event time in microseconds, side, and whether it has had a partner.
    blocks: np.ndarray
    times_us: np.ndarray
    sides: np.ndarray
    matched: np.ndarray
    #: Its record's place in ``records``, which has other things in between.
    places: np.ndarray
    records: pa.LargeBinaryArray


def decode_blocks(data: np.ndarray, offsets: np.ndarray) -> Blocks:
    """The blocks that lie one after the other in ``data`` (bytes)."""
    count = len(offsets) - 1
    if count and int(np.diff(offsets).min()) < _HEAD.itemsize:
        raise _misfit("too short")
    head = _gathered(data, offsets[:-1], np.full(count, _HEAD.itemsize), _HEAD)
    if (head["format"] != _FORMAT).any():
        raise _misfit(f"of format {int(head['format'].max())}, this version reads {_FORMAT}")
    chunks, rows = head["chunks"].astype(np.int64), head["rows"].astype(np.int64)
    at = offsets[:-1] + _HEAD.itemsize
    ends = at + chunks * ENTRY.itemsize + rows * 13
    if (ends > offsets[1:]).any():
        raise _misfit("cut off")
    entries = _gathered(data, at, chunks * ENTRY.itemsize, ENTRY)
    at = at + chunks * ENTRY.itemsize
    times_us = _gathered(data, at, rows * 8, np.dtype("<i8"))
    at = at + rows * 8
    flags = _gathered(data, at, rows, np.dtype("u1"))
    sizes = _gathered(data, at + rows, rows * 4, np.dtype("<u4")).astype(np.int64)
    blocks = np.repeat(np.arange(count), rows)
    places = np.arange(len(blocks)) + blocks + 1
    # Between the records of two blocks lies the rest of the second one, here as an element like them.
    lengths = np.zeros(count + len(blocks), dtype=np.int64)
    before = np.arange(count) + np.cumsum(rows) - rows
    lengths[before] = ends - offsets[:-1]
    lengths[places] = sizes
    bounds = ends_of(lengths)
    if not np.array_equal(bounds[before + 1 + rows], offsets[1:]):
        raise _misfit("longer or shorter than its sizes say")
    return Blocks(
        head["timer"].astype(np.int64),
        head["next"].astype(np.int64),
        entries,
        np.repeat(np.arange(count), chunks),
        blocks,
        times_us.astype(np.int64),
        flags & _SIDE,
        (flags & _MATCHED) != 0,
        places,
        large_binary(data, bounds),
    )


@dataclass(frozen=True)
class BlockRows:
    """Rows to be stored, in the order of their blocks and event times."""

    #: How many are in each block.
    counts: np.ndarray
    times_us: np.ndarray
    sides: np.ndarray
    matched: np.ndarray
    records: pa.LargeBinaryArray


def encode_blocks(
    rows: BlockRows,
    timers_ms: np.ndarray | None = None,
    nexts: np.ndarray | None = None,
    entries: np.ndarray | None = None,
    entry_counts: np.ndarray | None = None,
) -> list[bytes]:
    """One value per block.

    Args:
        rows: what is in them.
        timers_ms: the timer of each block's key; None: they are chunks.
        nexts: the number of its next chunk.
        entries: the directories, in the order of the blocks.
        entry_counts: how many entries each block has.
    """
    count = len(rows.counts)
    head = np.zeros(count, dtype=_HEAD)
    head["format"] = _FORMAT
    head["rows"] = rows.counts
    if timers_ms is not None:
        head["timer"] = timers_ms
        head["next"] = nexts
        head["chunks"] = entry_counts
    bounds = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(rows.counts, out=bounds[1:])
    offsets = offsets_of(rows.records)
    flags = rows.sides.astype(np.uint8) | (rows.matched.astype(np.uint8) * np.uint8(_MATCHED))
    parts = [_cut(head, np.arange(count + 1))]
    if entries is not None and len(entries) and entry_counts is not None:
        parts.append(_cut(entries, np.concatenate([[0], np.cumsum(entry_counts)])))
    parts += [
        _cut(rows.times_us.astype("<i8"), bounds),
        _cut(flags, bounds),
        _cut(np.diff(offsets).astype("<u4"), bounds),
        large_binary(data_of(rows.records), offsets[bounds]),
    ]
    values = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))
    return list(values.to_numpy(zero_copy_only=False))


def _gathered(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, kind: np.dtype) -> np.ndarray:
    return np.frombuffer(data[ragged(starts, lengths)].tobytes(), dtype=kind)


def _cut(values: np.ndarray, bounds: np.ndarray) -> pa.LargeBinaryArray:
    """Stretches of values as bytes."""
    data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
    return large_binary(data, bounds.astype(np.int64) * values.dtype.itemsize)


def _misfit(what: str) -> CorruptStateError:
    return CorruptStateError(f"a join's state entry is {what}: its file is damaged, or of another version")
