"""Runs ``handleArrowRows`` of a processor over one shard: blocks of keys instead of one key after the other.

State is the same as that of the other handlers, cell by cell; timers fire one by one, in ``handleExpiredTimer``, where
they do without blocks: in a sorted pass at the end of their key, else behind all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import TimerValues
from pyspark.sql.types import StructType

from ....errors import OutputSchemaError
from ....state.keyed import BlockCells, BlockKeys, KeyedState
from ....state.layout import CELL_SECTION, TimerKind
from ....state.row_columns import RowColumns
from ...platform.arrow_types import arrow_schema
from ..columnar.key_batches import KeyRows, prefixed
from .definition import BLOCK_HANDLER
from .key_block import KeyBlock


class BlockRun:
    """Blocks of one shard in one epoch.

    Args:
        handler: the user's.
        state: of the shard.
        key_columns: names of the key columns.
        input_schema: what rows the handler gets.
        output_schema: what it yields.
        timer_kind: of its timers; None: it can have none.
        write: takes output.
    """

    def __init__(
        self,
        handler: Callable[[KeyBlock, TimerValues], Any],
        state: KeyedState,
        key_columns: tuple[str, ...],
        input_schema: StructType,
        output_schema: StructType,
        timer_kind: TimerKind | None,
        write: Callable[[pa.RecordBatch], None],
    ) -> None:
        self._handler = handler
        self._state = state
        self._key_columns = list(key_columns)
        self._input = input_schema.fieldNames()
        self._output = arrow_schema(output_schema)
        self._kind = timer_kind
        self._write = write
        self._columns: dict[str, RowColumns] = {}

    def sorted_pass(
        self,
        pieces: Iterator[KeyRows],
        times: TimerValues,
        due: Iterator[tuple[int, bytes]],
        settle: Callable[[int, bytes, bool], None],
    ) -> int:
        """All blocks of a sorted pass; returns how many keys had rows or were due.

        Args:
            pieces: the shard's rows, no key in two of them.
            times: what the handler is told.
            due: keys whose timers from before this pass are due, ascending.
            settle: called at the end of each key that has timers, as the current one; told whether it was due.
        """
        state, keys = self._state, 0
        head = next(due, None)
        for piece in pieces:
            first = (int(piece.groups[0]), piece.keys[0].as_py())
            last = (int(piece.groups[-1]), piece.keys[-1].as_py())
            while head is not None and head < first:
                head, keys = self._settled(head, due, settle), keys + 1
            block, cells = self._handled(piece, times)
            keys += len(block)
            if not block.timers and (head is None or head > last):
                state.write_cells(block.stored, cells)
                state.end_block()
                continue
            state.end_block()
            changes, timers = self._by_key(block, cells)
            for place, here in enumerate(zip(block.stored.groups, block.stored.keys, strict=True)):
                while head is not None and head < here:
                    head, keys = self._settled(head, due, settle), keys + 1
                state.set_current_key(*here)
                state.changes.update(changes.get(place, {}))
                self._set_timers(timers.get(place, ()))
                settle(*here, head == here)
                if head == here:
                    head = next(due, None)
        while head is not None:
            head, keys = self._settled(head, due, settle), keys + 1
        return keys

    def _settled(
        self, key: tuple[int, bytes], due: Iterator[tuple[int, bytes]], settle: Callable[[int, bytes, bool], None]
    ) -> tuple[int, bytes] | None:
        """Settle a key without rows; returns the next one that is due."""
        self._state.set_current_key(*key)
        settle(*key, True)
        return next(due, None)

    def live_epoch(self, pieces: Iterator[KeyRows], times: TimerValues) -> int:
        """All blocks of a live epoch; returns how many keys had rows."""
        state, keys = self._state, 0
        for piece in pieces:
            block, cells = self._handled(piece, times)
            keys += len(block)
            state.write_cells(block.stored, cells)
            state.end_block()
            for place, timers in self._by_key(block, [])[1].items():
                state.set_current_key(block.stored.groups[place], block.stored.keys[place])
                self._set_timers(timers)
        return keys

    def _handled(self, piece: KeyRows, times: TimerValues) -> tuple[KeyBlock, list[BlockCells]]:
        """Call the handler for the keys of a piece; what it has changed is not written yet."""
        groups, keys = piece.groups[piece.starts], piece.keys
        stored = BlockKeys(groups.tolist(), keys.to_pylist(), prefixed(groups, bytes([CELL_SECTION]), keys))
        block = KeyBlock(
            self._state,
            stored,
            piece.batch.select(self._key_columns).take(pa.array(piece.starts)),
            piece.batch.select(self._input),
            np.append(piece.starts, piece.batch.num_rows),
            self._kind,
            self._columns,
        )
        self._state.begin_block()
        self._call(block, times)
        return block, block.close()

    def _call(self, block: KeyBlock, times: TimerValues) -> None:
        rows = self._handler(block, times)
        if rows is None:
            return
        for part in [rows] if isinstance(rows, (pa.RecordBatch, pa.Table)) else rows:
            for batch in self._fitting(part):
                if batch.num_rows:
                    self._write(batch)

    def _fitting(self, part: Any) -> Iterator[pa.RecordBatch]:
        """What the handler has yielded, in the output's columns."""
        if not isinstance(part, (pa.RecordBatch, pa.Table)):
            raise OutputSchemaError(
                f"{BLOCK_HANDLER} yielded {part!r} ({type(part).__name__}); it yields RecordBatches or Tables with the"
                f" columns {', '.join(self._output.names)}"
            )
        names = part.schema.names
        if sorted(names) != sorted(self._output.names):
            raise OutputSchemaError(
                f"{BLOCK_HANDLER} yielded columns {', '.join(names)}; the output schema has"
                f" {', '.join(self._output.names)}"
            )
        for batch in part.to_batches() if isinstance(part, pa.Table) else [part]:
            yield pa.RecordBatch.from_arrays(
                [_cast(batch.column(field.name), field) for field in self._output], schema=self._output
            )

    @staticmethod
    def _by_key(
        block: KeyBlock, cells: list[BlockCells]
    ) -> tuple[dict[int, dict[bytes, bytes | None]], dict[int, list[tuple[int, bool]]]]:
        """What changes, and which timers do, by the place of the key."""
        changes: dict[int, dict[bytes, bytes | None]] = {}
        for one in cells:
            for place in one.changed:
                changes.setdefault(place, {})[one.suffix] = one.values[place]
        timers: dict[int, list[tuple[int, bool]]] = {}
        for place, ts_ms, registered in block.timers:
            timers.setdefault(place, []).append((ts_ms, registered))
        return changes, timers

    def _set_timers(self, timers: Iterable[tuple[int, bool]]) -> None:
        """Register and delete timers of the current key, in the order in which the handler has."""
        for ts_ms, registered in timers:
            assert self._kind is not None
            (self._state.register_timer if registered else self._state.delete_timer)(self._kind, ts_ms)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column if column.type == field.type else column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise OutputSchemaError(
            f"field {field.name!r} of the output schema is {field.type}, but {BLOCK_HANDLER} yielded {column.type}:"
            f" {error}"
        ) from error
