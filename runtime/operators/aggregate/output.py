"""Results on their way out: key columns and finished aggregates as record batches of the output schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ....state.codec.gather import gathered
from ....state.keys.keys import KeyCodec
from ...support.arrow_columns import typed
from ..columnar.key_batches import Work
from ..contract import ShardContext

if TYPE_CHECKING:
    from .definition import Aggregation


class ResultWriter:
    """Finishes buffers and hands rows to the shard's output; holds rows back only to put an append in time order."""

    def __init__(self, operator: Aggregation, context: ShardContext, key_codec: KeyCodec) -> None:
        self._operator = operator
        self._context = context
        self._key_codec = key_codec
        self._schema = operator.output_arrow_schema
        self._in_time_order = (
            context.epoch.style == "random" and operator.output_mode == "append" and operator.uses_event_time
        )
        #: What rows without a time of their own are emitted at.
        self._now_ms = max(context.epoch.watermark_ms, context.epoch.firing_watermark_ms)
        self._held: list[pa.RecordBatch] = []
        self._held_times: list[np.ndarray] = []

    def write(
        self,
        work: Work,
        places: np.ndarray,
        buffers: list[pa.Array],
        times_ms: np.ndarray | None,
        sessions: tuple[np.ndarray, pa.Array] | None = None,
    ) -> None:
        """Write the rows at ``places`` of the buffers.

        Args:
            work: the keys.
            places: which rows of ``buffers`` (and of ``sessions``) to write.
            buffers: merged buffer columns; without sessions, one row per key of the work.
            times_ms: when each row of ``buffers`` fired.
            sessions: for each row of ``buffers`` the key that it belongs to, and its session.
        """
        at = pa.array(places)
        owners = places if sessions is None else sessions[0][places]
        stored = self._keys(work, owners)
        columns: list[pa.Array] = []
        for key in self._operator.row_keys:
            if key.kind == "session":
                assert sessions is not None
                columns.append(gathered(sessions[1], at))
            else:
                columns.append(stored[self._operator.key_columns.index(key.column)])
        everything = len(places) == len(buffers[0]) if buffers else False
        rows = buffers if everything else [gathered(column, at) for column in buffers]
        columns += [result.compute(rows) for result in self._operator.partials.results]
        batch = pa.RecordBatch.from_arrays(
            [typed(column, field.type) for column, field in zip(columns, self._schema, strict=True)],
            schema=self._schema,
        )
        if self._in_time_order and times_ms is not None:
            self._held.append(batch)
            self._held_times.append(times_ms[places])
        else:
            self._context.emit(batch, self._now_ms if times_ms is None else times_ms[places])

    def _keys(self, work: Work, owners: np.ndarray) -> list[pa.Array]:
        """The key columns of keys of the work: from their rows if they have any, else out of the encoded key."""
        if work.batch is not None:
            first = np.full(len(work), -1, dtype=np.int64)
            first[work.touched] = work.starts
            rows = first[owners]
            if not (rows < 0).any():
                if len(rows) == work.batch.num_rows and (np.diff(rows) == 1).all():  # each row is of a key of its own
                    return [work.batch.column(name) for name in self._operator.key_columns]
                taken = pa.array(rows)
                return [gathered(work.batch.column(name), taken) for name in self._operator.key_columns]
        encoded = work.keys.take(pa.array(owners))
        return self._key_codec.decode_columns(encoded.to_numpy(zero_copy_only=False).tolist())

    def close(self) -> None:
        """Let go of held rows, earliest first."""
        if not self._held:
            return
        times_ms = np.concatenate(self._held_times)
        order = np.argsort(times_ms, kind="stable")
        table, done = pa.Table.from_batches(self._held).take(pa.array(order)), 0
        for batch in table.combine_chunks().to_batches():
            self._context.emit(batch, times_ms[order[done : done + batch.num_rows]])
            done += batch.num_rows
