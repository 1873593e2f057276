"""Runs ``handleArrowRows`` of a processor over one shard: blocks of keys instead of one key after the other.

State is the same as that of the other handlers, cell by cell; timers fire one by one, in ``handleExpiredTimer``, where
they do without blocks: in a sorted pass at the end of their key, else behind all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import TimerValues
from pyspark.sql.types import StructType

from .....errors import OutputSchemaError
from .....state.backend.blocks import BlockCells, BlockKeys
from .....state.backend.keyed import KeyedState
from .....state.backend.row_columns import RowColumns
from .....state.codec.byte_arrays import bytes_of
from .....state.keys.key_space import TimerKind
from ....catalyst.types.arrow_types import arrow_schema
from ...columnar.key_batches import KeyRows
from ..definition import BLOCK_HANDLER
from .block_state import BlockState, Cells
from .column_types import check_column_type
from .key_block import BlockTimers, KeyBlock


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
        self._block_state = BlockState(state)

    def sorted_pass(
        self,
        pieces: Iterator[KeyRows],
        times: TimerValues,
        due: Iterator[tuple[int, bytes]],
        due_upto_ms: int | None,
        settle: Callable[[int, bytes, bool], None],
    ) -> int:
        """All blocks of a sorted pass; returns how many keys had rows or were due.

        Args:
            pieces: the shard's rows, no key in two of them.
            times: what the handler is told.
            due: keys whose timers from before this pass are due, ascending.
            due_upto_ms: up to when a timer is due that is registered in this pass; None: none is.
            settle: called at the end of each key with a timer that is due, as the current one; told whether it is one
                from before.
        """
        state, keys, ahead = self._state, 0, _Ahead(due)
        for block, cells in self._blocks(pieces, times):
            timers = block.timers()
            state.end_block()
            alone, at = _Alone(block, cells, timers, due_upto_ms), 0
            if timers is not None:
                assert self._kind is not None
                cells = [*cells, timers.cells(self._kind)]
            keys += len(block)
            # Keys with due timers come one by one, those between them at once.
            for place, key, has_rows, was_due in alone.of(ahead):
                self._write_cells(block, cells, at, place)
                at = place + has_rows
                state.set_current_key(*key)
                if has_rows:
                    state.changes.update(alone.changes_of(place))
                    self._set_timers(alone.timers_of(place))
                settle(*key, was_due)
                keys += not has_rows
            self._write_cells(block, cells, at, len(block))
        for key in ahead.upto(None):
            state.set_current_key(*key)
            settle(*key, True)
            keys += 1
        return keys

    def _write_cells(self, block: KeyBlock, cells: list[BlockCells], start: int, stop: int) -> None:
        if start < stop:
            self._state.write_cells(block.stored.slice(start, stop), [one.slice(start, stop) for one in cells])

    def live_epoch(self, pieces: Iterator[KeyRows], times: TimerValues) -> int:
        """All blocks of a live epoch; returns how many keys had rows."""
        state, keys = self._state, 0
        for block, cells in self._blocks(pieces, times):
            keys += len(block)
            state.write_cells(block.stored, cells)
            state.end_block()
            timers = block.timers()
            if timers is not None:
                for place, own in _by_place(timers).items():
                    state.set_current_key(*block.stored.at(place))
                    self._set_timers(own)
        return keys

    def _blocks(self, pieces: Iterator[KeyRows], times: TimerValues) -> Iterator[tuple[KeyBlock, list[BlockCells]]]:
        """Call the handler for some keys after the other; what it has changed is not written yet."""
        for piece in pieces:
            for part, read in self._block_state.blocks(piece):
                yield self._handled(part, read, times)

    def _handled(self, piece: KeyRows, read: Cells, times: TimerValues) -> tuple[KeyBlock, list[BlockCells]]:
        block = KeyBlock(
            self._state,
            BlockKeys(piece.groups[piece.starts], piece.keys),
            piece.batch.select(self._key_columns).take(pa.array(piece.starts)),
            piece.batch.select(self._input),
            np.append(piece.starts, piece.batch.num_rows),
            self._kind,
            self._columns,
            read,
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

    def _set_timers(self, timers: Iterable[tuple[int, bool]]) -> None:
        """Register and delete timers of the current key, in the order in which the handler has."""
        for ts_ms, registered in timers:
            assert self._kind is not None
            (self._state.register_timer if registered else self._state.delete_timer)(self._kind, ts_ms)


class _Ahead:
    """The keys whose timers from before are due, as far as the pass has not come to them."""

    def __init__(self, due: Iterator[tuple[int, bytes]]) -> None:
        self._due = due
        self._head = next(due, None)

    def upto(self, last: tuple[int, bytes] | None) -> Iterator[tuple[int, bytes]]:
        """Those up to and with a key (None: all); one that has been asked for is not ahead any more."""
        while self._head is not None and (last is None or self._head <= last):
            yield self._head
            self._head = next(self._due, None)


class _Alone:
    """The keys of a block that come one by one, since timers of theirs are due.

    Args:
        block: the block.
        cells: what has changed.
        timers: what has become of timers.
        due_upto_ms: up to when those are due; None: none is.
    """

    def __init__(
        self, block: KeyBlock, cells: list[BlockCells], timers: BlockTimers | None, due_upto_ms: int | None
    ) -> None:
        self._keys = block.stored
        self._cells = cells
        self._timers = timers
        self._places: list[int] = []
        if timers is not None and due_upto_ms is not None:
            self._places = np.unique(timers.places[timers.registered & (timers.times_ms <= due_upto_ms)]).tolist()

    def of(self, ahead: _Ahead) -> Iterator[tuple[int, tuple[int, bytes], bool, bool]]:
        """Each with its place, whether it has rows, and whether it was due before; those without rows in between."""
        keys, places = self._keys, iter(self._places)
        place = next(places, len(keys))
        for head in ahead.upto(keys.at(-1)):
            found = keys.place_of(*head)
            while place < found:
                yield place, keys.at(place), True, False
                place = next(places, len(keys))
            has_rows = keys.at(found) == head
            yield found, head, has_rows, True
            if has_rows and place == found:
                place = next(places, len(keys))
        while place < len(keys):
            yield place, keys.at(place), True, False
            place = next(places, len(keys))

    def changes_of(self, place: int) -> dict[bytes, bytes | None]:
        """What has changed of a key, but for timers."""
        return {suffix: values[place] for suffix, values in self._values if place in values}

    def timers_of(self, place: int) -> Iterable[tuple[int, bool]]:
        """What has become of its timers: when, and whether it is registered."""
        return self._own_timers.get(place, ())

    @cached_property
    def _values(self) -> list[tuple[bytes, dict[int, bytes | None]]]:
        return [(one.suffix, dict(zip(one.places.tolist(), bytes_of(one.values), strict=True))) for one in self._cells]

    @cached_property
    def _own_timers(self) -> dict[int, list[tuple[int, bool]]]:
        return {} if self._timers is None else _by_place(self._timers)


def _by_place(timers: BlockTimers) -> dict[int, list[tuple[int, bool]]]:
    """What becomes of timers, by the place of the key: when, and whether it is registered."""
    found: dict[int, list[tuple[int, bool]]] = {}
    entries = zip(timers.places.tolist(), timers.times_ms.tolist(), timers.registered.tolist(), strict=True)
    for place, ts_ms, registered in entries:
        found.setdefault(place, []).append((ts_ms, registered))
    return found


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        check_column_type(column.type, field.type)
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        first = f" ({str(column[0].as_py())[:40]!r}, …)" if len(column) else ""
        raise OutputSchemaError(
            f"field {field.name!r} of the output schema is {field.type}, but {BLOCK_HANDLER} yielded"
            f" {column.type}{first}: {error}"
        ) from error
