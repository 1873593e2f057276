"""What ``handleArrowRows`` gets: some keys with all of their rows, as Arrow columns, and their state by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import PlanError, StateSchemaError
from ....state.keyed import BlockCells, BlockKeys, KeyedState
from ....state.layout import decode_ts, encode_ts
from ....state.registry import StateDescriptor
from ....state.row_columns import RowColumns

#: What the values of many keys may be given as: a column for each field, by name.
Columns: TypeAlias = pa.StructArray | pa.RecordBatch | pa.Table | Mapping[str, Any]


class KeyBlock:
    """Some keys of a shard, each with all rows that it has in this epoch.

        def handleArrowRows(self, block: mixedmode.KeyBlock, timerValues: TimerValues) -> Iterator[pa.RecordBatch]:
            counted = block.value("count")
            n = np.diff(block.starts) + counted.get().field("n").fill_null(0).to_numpy()
            counted.update({"n": n})
            yield pa.record_batch({"customer": block.keys["customer"], "n": n})

    Attributes:
        keys: the key columns, a row for each key.
        rows: the input columns; the rows of a key stand together, in the order of the keys, by event time if there is
            one.
        starts: where in ``rows`` each key's begin, and at the end how many there are.
    """

    def __init__(
        self,
        state: KeyedState,
        stored: BlockKeys,
        keys: pa.RecordBatch,
        rows: pa.RecordBatch,
        starts: np.ndarray,
        timer_kind: str | None,
        columns: dict[str, RowColumns],
    ) -> None:
        self.keys = keys
        self.rows = rows
        self.starts = starts
        self.stored = stored
        self._state = state
        self._columns = columns
        self._timer_kind = timer_kind
        self._values: dict[str, ValueColumn] = {}
        self._is_open = True
        #: Timers to be deleted and registered: (place of the key, ms, whether it is registered).
        self.timers: list[tuple[int, int, bool]] = []

    def __len__(self) -> int:
        """Number of keys."""
        return len(self.stored.keys)

    @cached_property
    def key_of_row(self) -> np.ndarray:
        """For each row the place of its key in ``keys``."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def value(self, name: str) -> ValueColumn:
        """The value state of that name, of all keys of the block.

        Raises:
            StateSchemaError: there is none of that name, it is a list or a map, or its values have such inside.
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
                self._columns[name] = RowColumns(item.row_codec(), name)
            found = self._values[name] = ValueColumn(self, item, self._columns[name])
        return found

    def registerTimers(self, expiryTimestampMs: Any) -> None:
        """Register a timer for each key.

        Args:
            expiryTimestampMs: when, in ms, an int64 array with one for each key; null: the key gets none.
        """
        self._note_timers("registerTimers", expiryTimestampMs, True)

    def deleteTimers(self, expiryTimestampMs: Any) -> None:
        """Delete a timer of each key; arguments as of :meth:`registerTimers`."""
        self._note_timers("deleteTimers", expiryTimestampMs, False)

    def _note_timers(self, method: str, times_ms: Any, registered: bool) -> None:
        self.check_open()
        if self._timer_kind is None:
            raise PlanError(f"{method}() needs timeMode 'eventTime' or 'processingTime'; the operator's is 'none'")
        times = _array(times_ms, pa.int64(), len(self), f"{method}() takes a time in ms for each key")
        for place in np.flatnonzero(times.is_valid().to_numpy(zero_copy_only=False)).tolist():
            self.timers.append((place, times[place].as_py(), registered))

    # -- the engine's side -------------------------------------------------------------------------------------------

    @property
    def state(self) -> KeyedState:
        """Where the cells are."""
        return self._state

    def check_open(self) -> None:
        """Raise if the handler that got the block has ended."""
        if not self._is_open:
            raise PlanError("a KeyBlock was used after its handleArrowRows had ended; take what you need of it before")

    def close(self) -> list[BlockCells]:
        """The handler has ended; what it has changed."""
        self._is_open = False
        return [cells for column in self._values.values() if (cells := column.changes()) is not None]


class ValueColumn:
    """One value state of all keys of a block."""

    def __init__(self, block: KeyBlock, descriptor: StateDescriptor, columns: RowColumns) -> None:
        self._block = block
        self._name = descriptor.name
        self._columns = columns
        self._suffix = bytes([descriptor.slot])
        self._now_ms = block.state.now_ms
        ttl_ms = descriptor.ttl_ms
        self._expiry = None if ttl_ms is None else encode_ts(min(self._now_ms + ttl_ms, 2**63 - 1))
        #: As they are stored; None: not read yet.
        self._cells: list[bytes | None] | None = None
        self._changed = np.zeros(len(block), dtype=bool)

    def get(self) -> pa.StructArray:
        """The value of each key; null where there is none."""
        self._block.check_open()
        cells = self._stored()
        if self._expiry is None:
            return self._columns.decode(cells)
        now_ms = self._now_ms
        return self._columns.decode(
            [None if cell is None or decode_ts(cell[:8]) <= now_ms else cell[8:] for cell in cells]
        )

    def update(self, values: Columns, where: Any = None) -> None:
        """Set the value of each key; with a TTL its time starts again.

        Args:
            values: a column for each field of the state, found by name, with a value for each key.
            where: a boolean array with an entry for each key: those that are False or null keep what they have.
                None: all keys are set.

        Raises:
            StateSchemaError: a field is missing, has another type, or nulls that it may not have; or a value that is
                set is null as a whole.
        """
        self._block.check_open()
        places = self._places(where)
        self._check_whole(values, places)
        columns = [
            _array(
                _column(values, field.name, self._name),
                field.type,
                len(self._block),
                f"field {field.name!r} of state {self._name!r} takes {field.type}, one for each key",
            )
            for field in self._columns.type
        ]
        if places is None:
            encoded = self._columns.encode(columns)
            self._cells = list(encoded) if self._expiry is None else [self._expiry + value for value in encoded]
            self._changed[:] = True
            return
        encoded = self._columns.encode([column.take(pa.array(places)) for column in columns])
        cells = self._stored()
        for place, value in zip(places.tolist(), encoded, strict=True):
            cells[place] = value if self._expiry is None else self._expiry + value
        self._changed[places] = True

    def clear(self, where: Any = None) -> None:
        """Remove the value of each key; ``where`` as in :meth:`update`."""
        self._block.check_open()
        places = self._places(where)
        cells = self._stored()
        for place in range(len(cells)) if places is None else places.tolist():
            cells[place] = None
        self._changed[slice(None) if places is None else places] = True

    def _stored(self) -> list[bytes | None]:
        if self._cells is None:
            self._cells = self._block.state.read_cells(self._block.stored.prefixes, self._suffix)
        return self._cells

    def _places(self, where: Any) -> np.ndarray | None:
        if where is None:
            return None
        mask = _array(where, pa.bool_(), len(self._block), "where takes a bool for each key")
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
        if self._changed.all():
            return BlockCells(self._suffix, self._stored(), range(len(self._changed))) if len(self._changed) else None
        changed = np.flatnonzero(self._changed).tolist()
        return BlockCells(self._suffix, self._stored(), changed) if changed else None


def _column(values: Any, field: str, state: str) -> Any:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
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
    if field not in names:
        raise StateSchemaError(f"update() of state {state!r} got columns {', '.join(names)}; {field!r} is missing")
    return values.field(field) if isinstance(values, pa.StructArray) else values[field]


def _array(values: Any, data_type: pa.DataType, length: int, wanted: str) -> pa.Array:
    """The values as one array of a type; none is lost or rounded on the way."""
    try:
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if not isinstance(array, pa.Array):
            array = pa.array(array, from_pandas=False)
        if array.type != data_type:
            _check_times(array.type, data_type, isinstance(values, (list, tuple)))
            array = array.cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError) as error:
        raise StateSchemaError(f"{wanted}, got {_kind(values)}: {error}") from error
    if len(array) != length:
        raise StateSchemaError(f"{wanted}: {length} keys, got {len(array)} values")
    return array


def _check_times(found: pa.DataType, wanted: pa.DataType, is_listed: bool) -> None:
    """Refuse what a cast would take in some unit or zone of its own: times for numbers, datetimes of another kind."""
    types = pa.types
    if types.is_temporal(found) != types.is_temporal(wanted) and not types.is_null(found):
        raise TypeError(
            f"{found} is not cast, as nobody can see in which unit; for milliseconds since 1970 cast to"
            " timestamp('ms', tz='UTC') and view as int64"
        )
    if (
        is_listed
        and types.is_timestamp(found)
        and types.is_timestamp(wanted)
        and (found.tz is None) != (wanted.tz is None)
    ):
        raise TypeError(f"datetimes {'without' if found.tz is None else 'with'} a time zone; give them as {wanted}")


def _kind(values: Any) -> str:
    return str(values.type) if isinstance(values, (pa.Array, pa.ChunkedArray)) else type(values).__name__
