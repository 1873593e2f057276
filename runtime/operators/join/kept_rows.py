"""Chooses the rows that become state: in the head of their key, and for keys with many rows in chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....state.codec.byte_arrays import offsets_of
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..keyed.keyed_rows import NO_TIME
from .definition import Sizes
from .join_context import JoinContext
from .loaded_keys import Directory, LoadedKeys
from .pairing import PairingRows, merged_places
from .state.blocks import ENTRY, NEVER, BlockRows, encode_blocks
from .state.chunks import CHUNK_SLOT

#: A key with many rows has so many chunks at least before these are of full size.
_CHUNKS = 32


@dataclass(frozen=True)
class KeptRows:
    """What the keys of a hand have from now on."""

    #: Which of them have anything.
    present: np.ndarray
    #: The values of the heads of these.
    heads: list[bytes]
    #: For all: when something is to be done; of those that have nothing it means nothing.
    timers_ms: np.ndarray
    #: New chunks: their cells, and the values of these.
    chunk_names: list[bytes]
    chunk_values: list[bytes]
    #: Chunks that go, by their place in the directory of all.
    dropped: np.ndarray


def keep(
    hand: LoadedKeys, tools: JoinContext, stays_old: np.ndarray, stays_new: np.ndarray, *, is_part: bool
) -> KeptRows:
    """Put together what stays.

    Args:
        hand: the keys.
        tools: the execution's.
        stays_old: which of the stored rows stay.
        stays_new: which of those that have come.
        is_part: the keys' timers stay as they are, and nothing of them goes.
    """
    sizes = tools.sizes
    rows = _merged(hand, stays_old, stays_new)
    records = hand.pool.records(rows.numbers, rows.sides)
    dropped = np.zeros(len(hand.directory.entries), dtype=bool)
    if not is_part and hand.firing_ms > MIN_WATERMARK:
        entries = hand.directory.entries
        dropped = tools.due_ms(entries["greatest"], entries["side"]) <= hand.firing_ms
    directory = hand.directory.where(~dropped)
    sealed = _sealed(rows, records, directory, hand.count, sizes, is_part)
    made, values = Directory(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=ENTRY)), list[bytes]()
    nexts = hand.nexts
    if len(sealed.places):
        made, values, nexts = _chunks(hand, tools, rows, records, sealed)
        left = np.ones(len(rows), dtype=bool)
        left[sealed.places] = False
        rows, records = rows.where(left), records.filter(pa.array(left))
        directory = directory.with_more(made)
    counts = np.bincount(rows.keys, minlength=hand.count)
    entry_counts = np.bincount(directory.keys, minlength=hand.count)
    present = (counts > 0) | (entry_counts > 0)
    timers_ms = hand.timers_ms if is_part else _timers_ms(hand, tools, rows, directory)
    heads = encode_blocks(
        BlockRows(counts[present], rows.times_us, rows.sides, rows.matched, records),
        timers_ms[present],
        nexts[present],
        directory.entries,
        entry_counts[present],
    )
    names = hand.names_of(made.keys, made.entries["chunk"].tolist(), CHUNK_SLOT)
    return KeptRows(present, heads, timers_ms, names, values, np.flatnonzero(dropped))


def _merged(hand: LoadedKeys, stays_old: np.ndarray, stays_new: np.ndarray) -> PairingRows:
    """The rows that stay, by key and event time."""
    old = hand.old if stays_old.all() else hand.old.where(stays_old)
    new = hand.new if stays_new.all() else hand.new.where(stays_new)
    if not len(new):
        return old
    if not len(old):
        return new
    at_old, at_new = merged_places(old, new, hand.count)

    def both(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        found = np.empty(len(one) + len(other), dtype=one.dtype)
        found[at_old], found[at_new] = one, other
        return found

    return PairingRows(
        both(old.keys, new.keys),
        both(old.times_us, new.times_us),
        both(old.sides, new.sides),
        both(old.matched, new.matched),
        both(old.numbers, new.numbers),
    )


@dataclass(frozen=True)
class _Sealed:
    """Rows that leave their heads, chunk after chunk."""

    #: Which rows, by key, side and event time.
    places: np.ndarray
    #: Where each chunk begins in ``places``.
    starts: np.ndarray


def _sealed(
    rows: PairingRows, records: pa.LargeBinaryArray, directory: Directory, count: int, sizes: Sizes, is_part: bool
) -> _Sealed:
    nothing = np.zeros(0, dtype=np.int64)
    ids = rows.keys * 2 + rows.sides
    counts = np.bincount(ids, minlength=2 * count)
    lengths = np.diff(offsets_of(records))
    in_bytes = np.bincount(ids, weights=lengths, minlength=2 * count)
    entry_ids = directory.keys * 2 + directory.entries["side"]
    totals = counts + np.bincount(entry_ids, weights=directory.entries["rows"], minlength=2 * count)
    most = np.full(2 * count, sizes.chunk_rows)
    if not is_part:
        most = np.clip(totals // _CHUNKS, min(sizes.inline_rows, sizes.chunk_rows), sizes.chunk_rows)
    too_many = (counts > most) | (in_bytes > sizes.inline_bytes)
    if not too_many.any():
        return _Sealed(nothing, nothing)
    at = np.flatnonzero(too_many[ids])
    at = at[np.argsort(ids[at], kind="stable")]
    own, times_us = ids[at], rows.times_us[at]
    is_first = np.ones(len(at), dtype=bool)
    is_first[1:] = own[1:] != own[:-1]
    # What has no event time is never over: it is not to keep others.
    timed = np.zeros(len(at), dtype=bool)
    timed[1:] = (times_us[1:] != NO_TIME) & (times_us[:-1] == NO_TIME)
    stretches = np.flatnonzero(is_first | timed)
    within = np.arange(len(at)) - np.repeat(stretches, np.diff(stretches, append=len(at)))
    average = np.maximum(in_bytes[own] / counts[own], 1)
    size = np.clip(sizes.chunk_bytes // average, 1, sizes.chunk_rows).astype(np.int64)
    return _Sealed(at, np.flatnonzero(within % size == 0))


def _chunks(
    hand: LoadedKeys, tools: JoinContext, rows: PairingRows, records: pa.LargeBinaryArray, sealed: _Sealed
) -> tuple[Directory, list[bytes], np.ndarray]:
    """New chunks: what their keys know of them, their values, and the numbers that come next."""
    places, starts = sealed.places, sealed.starts
    part = rows.where(places)
    counts = np.diff(starts, append=len(places))
    values = encode_blocks(BlockRows(counts, part.times_us, part.sides, part.matched, records.take(pa.array(places))))
    keys = part.keys[starts]
    rank = np.arange(len(keys)) - np.searchsorted(keys, keys)
    entries = np.zeros(len(keys), dtype=ENTRY)
    entries["chunk"] = hand.nexts[keys] + rank
    entries["side"] = part.sides[starts]
    entries["rows"] = counts
    entries["least"] = part.times_us[starts]
    entries["greatest"] = part.times_us[starts + counts - 1]
    waits = ~part.matched & tools.is_outer[part.sides]
    entries["open"] = np.minimum.reduceat(np.where(waits, part.times_us, NEVER), starts)
    return Directory(keys, entries), values, hand.nexts + np.bincount(keys, minlength=hand.count)


def _timers_ms(hand: LoadedKeys, tools: JoinContext, rows: PairingRows, directory: Directory) -> np.ndarray:
    """When each key has something to do: a row without a partner is over, or at last all are."""
    last_ms, first_ms = np.full(hand.count, MIN_WATERMARK), np.full(hand.count, MAX_WATERMARK)
    due_ms = tools.due_ms(rows.times_us, rows.sides)
    np.maximum.at(last_ms, rows.keys, due_ms)
    waits = ~rows.matched & tools.is_outer[rows.sides]
    np.minimum.at(first_ms, rows.keys[waits], due_ms[waits])
    entries = directory.entries
    if len(entries):
        np.maximum.at(last_ms, directory.keys, tools.due_ms(entries["greatest"], entries["side"]))
        waits = (entries["open"] != NEVER) & tools.is_outer[entries["side"]]
        np.minimum.at(first_ms, directory.keys[waits], tools.due_ms(entries["open"], entries["side"])[waits])
    return np.minimum(last_ms, first_ms)
