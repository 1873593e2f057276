"""Defines the argument of ``handleArrowRows``: some keys with all of their rows and their state by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .....errors import PlanError, StateSchemaError
from .....state.backend.blocks import BlockCells, BlockKeys
from .....state.backend.keyed import KeyedState
from .....state.backend.row_columns import RowColumns
from .....state.codec.byte_arrays import MOST_BYTES
from .....state.keys.key_space import TIMER_SLOTS, TimerKind, encode_all_ts
from .....state.keys.registry import StateDescriptor
from ..definition import BLOCK_HANDLER
from .column_types import check_column_type

#: What the values of many keys may be given as: a column for each field, by name.
Columns: TypeAlias = pa.StructArray | pa.RecordBatch | pa.Table | Mapping[str, Any]


class KeyBlock:
    """Some keys of a shard, each with all rows that it has in this epoch; the argument of ``handleArrowRows``.

        def handleArrowRows(self, block: mixedmode.KeyBlock, timerValues: TimerValues) -> Iterator[pa.RecordBatch]:
            counted = block.value("count")
            n = np.diff(block.starts) + counted.get().field("n").fill_null(0).to_numpy()
            counted.update({"n": n})
            yield pa.record_batch({"customer": block.keys["customer"], "n": n})

    Attributes:
        keys: the key columns, one row for each key.
        rows: the input columns; the rows of a key are together, in the order of the keys, and by event time if there is
            one.
        starts: the position in ``rows`` where the rows of each key begin, and at the end the number of rows.
    """

    def __init__(
        self,
        state: KeyedState,
        stored: BlockKeys,
        keys: pa.RecordBatch,
        rows: pa.RecordBatch,
        starts: np.ndarray,
        timer_kind: TimerKind | None,
        columns: dict[str, RowColumns],
        read: Mapping[bytes, pa.BinaryArray],
    ) -> None:
        self.keys = keys
        self.rows = rows
        self.starts = starts
        self.stored = stored
        self._state = state
        self._columns = columns
        self._read = read
        self._timer_kind = timer_kind
        self._values: dict[str, ValueColumn] = {}
        self._is_open = True
        #: Timers deleted and registered, call by call.
        self._timers: list[BlockTimers] = []

    def __len__(self) -> int:
        """Number of keys."""
        return len(self.stored)

    @cached_property
    def key_of_row(self) -> np.ndarray:
        """The position in ``keys`` of the key of each row."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def value(self, name: str) -> ValueColumn:
        """The value state of a name, for all keys of the block.

        Raises:
            StateSchemaError: there is no such value state, or its values contain lists or maps.
        """
        self.check_open()
        found = self._values.get(name)
        if found is None:
            item = self._state.registry.get(name)
            if item.kind != "value":
                raise StateSchemaError(
                    f"state {name!r} is declared as {item.kind} state; a block has value states only, use the others"
                    " one key at a time (in handleExpiredTimer, say)"
                )
            if name not in self._columns:
                self._columns[name] = RowColumns(item.row_codec(), name, item.ttl_ms)
            found = self._values[name] = ValueColumn(self, item, self._columns[name])
        return found

    def registerTimers(self, expiryTimestampMs: Any) -> None:
        """Registers a timer for each key.

        Args:
            expiryTimestampMs: the times in ms, an int64 array with one for each key; null: no timer for the key.
        """
        self._note_timers("registerTimers", expiryTimestampMs, True)

    def deleteTimers(self, expiryTimestampMs: Any) -> None:
        """Deletes a timer of each key; arguments as of :meth:`registerTimers`."""
        self._note_timers("deleteTimers", expiryTimestampMs, False)

    def _note_timers(self, method: str, times_ms: Any, registered: bool) -> None:
        self.check_open()
        if self._timer_kind is None:
            raise PlanError(f"{method}() needs timeMode 'eventTime' or 'processingTime'; the operator's is 'none'")
        times = _array(times_ms, pa.int64(), len(self), f"{method}() takes a time in ms for each key")
        places = np.flatnonzero(times.is_valid().to_numpy(zero_copy_only=False))
        if len(places):
            times_ms = times.drop_null().to_numpy()
            self._timers.append(BlockTimers(places, times_ms, np.full(len(places), registered)))

    # -- the engine's side -------------------------------------------------------------------------------------------

    @property
    def state(self) -> KeyedState:
        """Where the cells are."""
        return self._state

    def read_cells(self, suffix: bytes) -> pa.BinaryArray:
        """What is stored of each key, unless it was read already."""
        found = self._read.get(suffix)
        return self._state.read_cells(self.stored, suffix) if found is None else found

    def check_open(self) -> None:
        """Raise if the handler that got the block has ended."""
        if not self._is_open:
            raise PlanError("a KeyBlock was used after its handleArrowRows had ended; take what you need of it before")

    def timers(self) -> BlockTimers | None:
        """What becomes of timers; None: nothing."""
        return merged_timers(self._timers) if self._timers else None

    def close(self) -> list[BlockCells]:
        """The handler has ended; what it has changed, but for timers."""
        self._is_open = False
        changed = [cells for column in self._values.values() if (cells := column.changes()) is not None]
        _check_size(f"the state that {BLOCK_HANDLER} has set takes", [cells.values for cells in changed])
        return changed


@dataclass(frozen=True)
class BlockTimers:
    """What becomes of timers of a block's keys, one for each entry, ascending by key and time."""

    places: np.ndarray
    times_ms: np.ndarray
    #: False: it is deleted.
    registered: np.ndarray

    def cells(self, kind: TimerKind) -> BlockCells:
        """The cells that say so."""
        values = pa.array([b"", None], pa.binary()).take(pa.array((~self.registered).astype(np.int8)))
        return BlockCells(bytes([TIMER_SLOTS[kind]]), self.places, values, encode_all_ts(self.times_ms))

    def where(self, mask: np.ndarray) -> BlockTimers:
        """Some of them."""
        return BlockTimers(self.places[mask], self.times_ms[mask], self.registered[mask])


def merged_timers(calls: Sequence[BlockTimers]) -> BlockTimers:
    """What becomes of timers after all of these calls; the last one that names a timer counts."""
    places = np.concatenate([call.places for call in calls])
    times_ms = np.concatenate([call.times_ms for call in calls])
    order = np.lexsort((times_ms, places))  # stable: of equal ones the last call is last
    is_last = np.ones(len(order), dtype=bool)
    places, times_ms = places[order], times_ms[order]
    is_last[:-1] = (places[1:] != places[:-1]) | (times_ms[1:] != times_ms[:-1])
    return BlockTimers(places, times_ms, np.concatenate([call.registered for call in calls])[order]).where(is_last)


class ValueColumn:
    """A value state of all keys of a block."""

    def __init__(self, block: KeyBlock, descriptor: StateDescriptor, columns: RowColumns) -> None:
        self._block = block
        self._name = descriptor.name
        self._columns = columns
        self._suffix = bytes([descriptor.slot])
        self._now_ms = block.state.now_ms
        #: As they are stored; None: not read yet.
        self._cells: pa.BinaryArray | None = None
        #: Which of them have been written; None: none.
        self._changed: np.ndarray | None = None

    def get(self) -> pa.StructArray:
        """The value of each key; null if it has none."""
        self._block.check_open()
        return self._columns.decode(self._stored(), self._now_ms)

    def update(self, values: Columns, where: Any = None) -> None:
        """Sets the value of each key; with a TTL its time starts again.

        Args:
            values: one column for each field of the state, by name, with one value for each key.
            where: a boolean array with one entry for each key: keys with False or null keep their value.  None: all
                keys
                are set.

        Raises:
            StateSchemaError: a field is missing, has another type or nulls that it may not have; a column is not a
                field; or
                a whole value is null.
        """
        self._block.check_open()
        places = self._places(where)
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        _check_columns(values, [field.name for field in self._columns.type], self._name)
        self._check_whole(values, places)
        columns = [
            _array(
                values.field(field.name) if isinstance(values, pa.StructArray) else values[field.name],
                field.type,
                len(self._block),
                f"field {field.name!r} of state {self._name!r} takes {field.type}, one for each key",
            )
            for field in self._columns.type
        ]
        if places is not None:
            columns = [column.take(pa.array(places)) for column in columns]
        self._set(places, self._columns.encode(columns, self._now_ms))

    def clear(self, where: Any = None) -> None:
        """Removes the value of each key; ``where`` as in :meth:`update`."""
        self._block.check_open()
        places = self._places(where)
        self._set(places, pa.nulls(len(self._block) if places is None else len(places), pa.binary()))

    def _set(self, places: np.ndarray | None, cells: pa.BinaryArray) -> None:
        """Write cells; ``places``: of the keys, None: of all."""
        if places is None:
            self._cells, self._changed = cells, np.ones(len(self._block), dtype=bool)
            return
        _check_size(f"what is stored of state {self._name!r} with its changes takes", [self._stored(), cells])
        source = np.arange(len(self._block))
        source[places] = len(self._block) + np.arange(len(places))
        self._cells = pa.concat_arrays([self._stored(), cells]).take(pa.array(source))
        if self._changed is None:
            self._changed = np.zeros(len(self._block), dtype=bool)
        self._changed[places] = True

    def _stored(self) -> pa.BinaryArray:
        if self._cells is None:
            self._cells = self._block.read_cells(self._suffix)
        return self._cells

    def _places(self, where: Any) -> np.ndarray | None:
        if where is None:
            return None
        mask = _array(where, pa.bool_(), len(self._block), "where takes a bool for each key (not their numbers)")
        return np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))

    def _check_whole(self, values: Any, places: np.ndarray | None) -> None:
        """Refuse structs that are null: below them there may be anything, which would be stored."""
        if not isinstance(getattr(values, "type", None), pa.StructType) or not values.null_count:
            return
        nulls = np.asarray(values.is_null().to_pylist())
        if places is None or len(nulls) != len(self._block) or nulls[places].any():
            raise StateSchemaError(
                f"update() of state {self._name!r} got values that are null; leave these keys out by where=, or use"
                " clear(where=…) to remove what they have"
            )

    def changes(self) -> BlockCells | None:
        """What is to be written; None: nothing."""
        if self._changed is None or self._cells is None:
            return None
        places = np.flatnonzero(self._changed)
        return BlockCells(
            self._suffix, places, self._cells if self._changed.all() else self._cells.take(pa.array(places))
        )


def _check_size(what: str, parts: Sequence[pa.Array]) -> None:
    """Refuse what no array can hold: cells of a block are written as one."""
    size = sum(part.nbytes for part in parts)
    if size > MOST_BYTES:
        raise StateSchemaError(f"{what} {size:,} bytes; of one block of keys {MOST_BYTES:,} can be written")


def _check_columns(values: Any, fields: Sequence[str], state: str) -> None:
    """Refuse columns that are not the fields of the state."""
    names: Sequence[str]
    if isinstance(values, pa.StructArray):
        names = [one.name for one in values.type]
    elif isinstance(values, (pa.RecordBatch, pa.Table)):
        names = values.schema.names
    elif isinstance(values, Mapping):
        names = list(values)
    else:
        raise StateSchemaError(
            f"update() of state {state!r} got {type(values).__name__}; it takes a StructArray, RecordBatch, Table or a"
            " dict of columns"
        )
    missing = [field for field in fields if field not in names]
    unknown = [name for name in names if name not in fields]
    if missing or unknown:
        wrong = ", ".join(map(repr, missing or unknown))
        raise StateSchemaError(
            f"update() of state {state!r} got columns {', '.join(map(str, names))}; {wrong}"
            f" {'is missing' if missing else 'is no field of it'}: its fields are {', '.join(fields)}"
        )


def _array(values: Any, data_type: pa.DataType, length: int, wanted: str) -> pa.Array:
    """The values as one array of a type; none is lost or rounded on the way."""
    try:
        array = values
        if not isinstance(array, (pa.Array, pa.ChunkedArray)):
            array = pa.array(array, from_pandas=False)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if not isinstance(array, pa.Array):
            raise TypeError("they are more than one array holds")
        if array.type != data_type:
            check_column_type(array.type, data_type)
            if isinstance(values, (list, tuple)):
                _check_zones(array.type, data_type)
            array = array.cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError) as error:
        raise StateSchemaError(f"{wanted}, got {_value_text(values)}: {error}") from error
    if len(array) != length:
        raise StateSchemaError(f"{wanted}: {length} keys, got {len(array)} values")
    return array


def _check_zones(found: pa.DataType, wanted: pa.DataType) -> None:
    """Refuse datetimes that a cast would move into a zone of its own."""
    types = pa.types
    if types.is_timestamp(found) and types.is_timestamp(wanted) and (found.tz is None) != (wanted.tz is None):
        raise TypeError(f"datetimes {'without' if found.tz is None else 'with'} a time zone; give them as {wanted}")


def _value_text(values: Any) -> str:
    """The kind of some values, and the first of them."""
    is_arrow = isinstance(values, (pa.Array, pa.ChunkedArray))
    kind = str(values.type) if is_arrow else str(getattr(values, "dtype", type(values).__name__))
    try:
        first = values[0].as_py() if is_arrow else next(iter(values))
    except (StopIteration, IndexError, TypeError):
        return kind
    return f"{kind} ({str(first)[:40]!r}, …)" if isinstance(first, str) else f"{kind} ({str(first)[:40]}, …)"
