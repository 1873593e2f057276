"""Records of an aggregate's state in another layout: columns that are gone are left out, new ones are empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ....state.codec.byte_arrays import end_to_end
from ..columnar.record_codec import RecordCodec, RecordListCodec


@dataclass(frozen=True)
class RecordRewrite:
    """Takes the values of some cells to the new layout; see :data:`....state.store.compaction.StateRewrite`."""

    old: pa.Schema
    new: pa.Schema
    #: For each new column the old one; None: it is null, which is what no row has been merged into.
    sources: tuple[int | None, ...]
    #: True if a cell holds a list of records.
    sessions: bool

    def __call__(self, values: Sequence[bytes]) -> list[bytes]:
        data, offsets = end_to_end(values)
        old, new = RecordCodec(list(self.old)), RecordCodec(list(self.new))
        if self.sessions:
            columns, lengths = RecordListCodec(old).decode(data, offsets)
            encoded = RecordListCodec(new).encode(self._moved(columns), lengths)
        else:
            encoded = new.encode(self._moved(old.decode(data, offsets)))
        rewritten: list[bytes] = encoded.to_pylist()
        return rewritten

    def _moved(self, columns: list[pa.Array]) -> list[pa.Array]:
        rows = len(columns[0])
        return [
            pa.nulls(rows, item.type) if source is None else columns[source]
            for item, source in zip(self.new, self.sources, strict=True)
        ]
