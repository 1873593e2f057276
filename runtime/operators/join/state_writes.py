"""Writes the cells and timers of some keys to the state, in stored order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...protocols.event_time import MIN_WATERMARK
from .join_context import JoinContext
from .kept_rows import KeptRows
from .loaded_keys import LoadedKeys
from .state.blocks import decode_blocks
from .state.chunks import CHUNK_SLOT, MARK_SLOT, Spool


def write_kept(hand: LoadedKeys, tools: JoinContext, kept: KeptRows, spool: Spool | None) -> None:
    """Write the changes of some keys.

    Args:
        hand: the keys.
        tools: the execution's.
        kept: what they have from now on.
        spool: of the one key whose rows have come in parts; None: they have not.
    """
    existed, timers_ms = hand.exists, hand.timers_ms
    if spool is not None:
        existed = np.array([spool.stored is not None])
        if spool.stored is not None:
            data = np.frombuffer(spool.stored, dtype=np.uint8)
            timers_ms = decode_blocks(data, np.array([0, len(data)])).timers_ms
    _count_fired(tools, existed, timers_ms)
    changed = (kept.timers_ms != timers_ms) | ~existed
    index: list[tuple[bytes, bytes | None]] = []
    for where, times_ms, is_put in (
        (kept.present & changed, kept.timers_ms, True),
        (existed & (~kept.present | changed), timers_ms, False),
    ):
        at = np.flatnonzero(where)
        keys = hand.work.keys.take(pa.array(at))
        index += tools.cells.index_changes(hand.work.groups[at], keys, times_ms[at], is_put)
    places = np.flatnonzero(kept.present | existed)
    heads: list[bytes | None] = [None] * len(places)
    for place, value in zip(np.flatnonzero(kept.present[places]).tolist(), kept.heads, strict=True):
        heads[place] = value
    groups = hand.work.groups[places]
    names = tools.cells.names(groups, hand.work.keys.take(pa.array(places)))
    cells = _chunk_cells(hand, kept, spool)
    if spool is not None:
        _write_from(spool, tools, int(hand.work.groups[0]), cells)
    elif cells:
        cells.update(zip(names, heads, strict=True))
        names = sorted(cells)
        heads = [cells[name] for name in names]
        groups = np.frombuffer(b"".join([name[:2] for name in names]), dtype=">u2").astype(np.int64)
    tools.cells.write(groups, names, heads, index)


def _chunk_cells(hand: LoadedKeys, kept: KeptRows, spool: Spool | None) -> dict[bytes, bytes | None]:
    """The cells of chunks that are new or have changed, or go."""
    cells: dict[bytes, bytes | None] = dict(zip(kept.chunk_names, kept.chunk_values, strict=True))
    if spool is not None:
        cells.update(spool.marks)
    cells.update(hand.marks)
    has_marks = kept.dropped[hand.directory.entries["marked"][kept.dropped] != 0]
    cells.update(dict.fromkeys(hand.cell_names(kept.dropped, CHUNK_SLOT)))
    cells.update(dict.fromkeys(hand.cell_names(has_marks, MARK_SLOT)))
    return cells


def _write_from(spool: Spool, tools: JoinContext, group: int, cells: dict[bytes, bytes | None]) -> None:
    """Write the chunks of a key that wait in its spool, one at a time, and what else there is of them."""
    own = np.array([group])
    for name in sorted({*spool.names, *cells}):
        if spool.has(name) and name in cells and cells[name] is None:
            continue  # it has come and gone
        value = cells[name] if name in cells else spool.read([name])[0]
        tools.cells.write(own, [name], [value], [])


def _count_fired(tools: JoinContext, existed: np.ndarray, timers_ms: np.ndarray) -> None:
    firing_ms = tools.epoch.firing_watermark_ms
    if firing_ms > MIN_WATERMARK:
        tools.context.counters.timers_fired += int((existed & (timers_ms <= firing_ms)).sum())
