"""Some keys of a shard with all that is known of them: their new rows, their stored ones, and their chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...protocols.event_time import MIN_WATERMARK
from ..columnar.key_batches import Work
from ..keyed.keyed_rows import micros_of
from .columns import MATCHED_COLUMN, SIDE_COLUMN, TIME_COLUMN
from .join_context import JoinContext
from .pairing import PairingRows
from .state.blocks import decode_blocks
from .state.chunks import cell_name
from .state.row_pool import RowPool


@dataclass
class Directory:
    """The chunks of some keys."""

    #: The place of each one's key, ascending.
    keys: np.ndarray
    entries: np.ndarray

    def where(self, kept: np.ndarray) -> Directory:
        """Some of them; ``kept``: a mask."""
        return Directory(self.keys[kept], self.entries[kept])

    def with_more(self, more: Directory) -> Directory:
        """And others, behind those of the same keys."""
        if not len(more.keys):
            return self
        keys = np.concatenate([self.keys, more.keys])
        order = np.argsort(keys, kind="stable")
        return Directory(keys[order], np.concatenate([self.entries, more.entries])[order])


class LoadedKeys:
    """Keys, and what they have.

    Args:
        tools: the execution's.
        work: the keys, and their new rows.
        exists: which of them have state.
        data: the values of their heads, end to end.
        offsets: where each begins in it.
    """

    def __init__(
        self, tools: JoinContext, work: Work, exists: np.ndarray, data: np.ndarray, offsets: np.ndarray
    ) -> None:
        self.work = work
        self.count = len(work)
        self.exists = exists
        #: What fires; MIN: nothing goes yet.
        self.firing_ms = MIN_WATERMARK
        blocks = decode_blocks(data, offsets)
        at = np.flatnonzero(exists)
        self.pool = RowPool(tools.forms, work.batch, blocks.records)
        self.new = _new_rows(work)
        numbers = blocks.places + self.pool.first_record
        self.old = PairingRows(at[blocks.blocks], blocks.times_us, blocks.sides, blocks.matched, numbers)
        self.timers_ms = np.full(self.count, MIN_WATERMARK)
        self.timers_ms[at] = blocks.timers_ms
        #: The number of each key's next chunk.
        self.nexts = np.zeros(self.count, dtype=np.int64)
        self.nexts[at] = blocks.nexts
        self.directory = Directory(at[blocks.entry_blocks], blocks.entries.copy())
        #: Marks of chunks that have changed, by the name of their cell.
        self.marks: dict[bytes, bytes] = {}
        #: Which keys have a null; None: none has.
        self.has_null = _with_null(work, tools.operator.key_columns)

    def cell_names(self, at: np.ndarray, slot: int) -> list[bytes]:
        """Stored keys of chunks, or of their marks, by the chunks' places in the directory."""
        chunks = self.directory.entries["chunk"][at].tolist()
        return self.names_of(self.directory.keys[at], chunks, slot)

    def names_of(self, places: np.ndarray, chunks: list[int], slot: int) -> list[bytes]:
        """Stored keys of chunks, or of their marks, by their keys' places and their numbers."""
        groups, keys = self.work.groups, self.work.keys
        return [
            cell_name(int(groups[place]), keys[place].as_py(), slot, chunk)
            for place, chunk in zip(places.tolist(), chunks, strict=True)
        ]


def _new_rows(work: Work) -> PairingRows:
    batch = work.batch
    if batch is None:
        nothing = np.zeros(0, dtype=np.int64)
        return PairingRows(nothing, nothing, nothing.astype(np.uint8), nothing.astype(bool), nothing)
    matched = np.zeros(batch.num_rows, dtype=bool)
    if MATCHED_COLUMN in batch.schema.names:
        matched |= batch.column(MATCHED_COLUMN).fill_null(False).to_numpy(zero_copy_only=False)
    return PairingRows(
        np.repeat(work.touched, np.diff(work.starts, append=batch.num_rows)),
        micros_of(batch.column(TIME_COLUMN)),
        batch.column(SIDE_COLUMN).to_numpy(zero_copy_only=False).astype(np.uint8),
        matched,
        np.arange(batch.num_rows),
    )


def _with_null(work: Work, key_columns: tuple[str, ...]) -> np.ndarray | None:
    batch = work.batch
    if batch is None or not any(batch.column(name).null_count for name in key_columns):
        return None
    found = np.zeros(len(work), dtype=bool)
    starts = pa.array(work.starts)
    for name in key_columns:
        found[work.touched] |= batch.column(name).take(starts).is_null().to_numpy(zero_copy_only=False)
    return found
