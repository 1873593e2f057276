"""Partial aggregates of rows of which few have the same key: sorted once, by numpy, faster than any table of hashes.

Rows are kept as plain numbers until they are sorted, so that each column is moved once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.keys.key_hash import key_groups
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...scan.decimal_words import unscaled
from ...scan.partial_calls import PartialCall, Sums, is_whole_number
from ...scan.segments import of_numbers
from .partial_runs import as_numbers, is_sortable, sorted_places

#: Rows that are looked at to guess how many others have the same key.
_LOOKED_AT = 1 << 16
#: Fewer rows for each key are few.
_FEW = 4
_LONG = 1 << 63


@dataclass
class RowsToSort:
    """Rows that wait to be sorted.

    Args:
        key: the one key column.
        calls: the partial aggregates.
        max_parallelism: number of key groups.
    """

    key: str
    calls: Sequence[PartialCall]
    max_parallelism: int
    _chunks: list[dict[str, np.ndarray]] = field(default_factory=list, init=False)
    _key_type: pa.DataType | None = field(default=None, init=False)
    #: By sum of decimals the greatest absolute value that any part of it can have.
    _bounds: dict[str, int] = field(default_factory=dict, init=False)
    size: int = field(default=0, init=False)
    #: Whether few rows have the same key, as far as is known; None: nothing is known.
    pays: bool | None = field(default=None, init=False)

    def add(self, table: pa.Table, sums: Sums) -> bool:
        """Take some rows; False: they have to be aggregated in another way.

        Args:
            table: the rows.
            sums: is told how far sums can go.

        Raises:
            NotTakenError: a sum may leave its type.
        """
        if self.pays is None and is_sortable(table.schema.field(self.key).type):
            few = table[self.key].slice(0, _LOOKED_AT)
            self.pays = pc.count_distinct(few, mode="all").as_py() * _FEW > len(few)
        if not self.pays or any(column.null_count for column in table.columns):
            return False
        key = _one(table[self.key])
        found = {self.key: as_numbers(key)}
        for call in self.calls:
            if call.column is None or call.function == "count":
                continue
            if call.column in found:
                known = found[call.column]
                if call.function in ("min", "max") and known is not None and known.dtype.kind == "f":
                    return False  # NaN is the greatest
                continue
            numbers = self._numbers(call, table[call.column])
            if numbers is None:
                return False
            found[call.column] = numbers
        columns = {name: numbers for name, numbers in found.items() if numbers is not None}
        if len(columns) < len(found) or not self._adds_up(columns):
            return False
        for call in self.calls:
            if call.column is not None:
                sums.note(call, table[call.column])
        self._key_type = key.type
        self._chunks.append(columns)
        self.size += sum(numbers.nbytes for numbers in columns.values())
        return True

    def _numbers(self, call: PartialCall, values: pa.ChunkedArray) -> np.ndarray | None:
        if pa.types.is_decimal(values.type):
            return unscaled(_one(values))
        if call.is_rounded:
            numbers: np.ndarray = _one(values).to_numpy()
            return numbers
        if call.function == "sum" and not is_whole_number(values.type):
            return None
        return as_numbers(_one(values))

    def _adds_up(self, columns: dict[str, np.ndarray]) -> bool:
        """Whether all sums of decimals can be had in 64 bits; of whole numbers ``sums`` knows."""
        bounds = {}
        for call in self.calls:
            if call.function == "sum" and pa.types.is_decimal(call.type):
                numbers = columns[str(call.column)]
                greatest = max(abs(int(numbers.min())), abs(int(numbers.max())))
                bounds[call.name] = self._bounds.get(call.name, 0) + greatest * len(numbers)
        if any(bound >= _LONG for bound in bounds.values()):
            return False
        self._bounds |= bounds
        return True

    def taken(self, schema: pa.Schema) -> pa.RecordBatch:
        """The partial aggregates of all rows, in order; none wait afterwards.

        Args:
            schema: of a run.
        """
        keys = self._column(self.key)
        groups = key_groups([of_numbers(keys, self._key_type)], self.max_parallelism, len(keys))
        places = sorted_places(groups, keys)
        keys = keys[places]
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        arrays = {
            KEY_GROUP_COLUMN: pa.array(groups[places[starts]]),
            self.key: of_numbers(keys[starts], schema.field(self.key).type),
        }
        counts = pa.array(np.diff(np.append(starts, len(keys))))
        del keys, groups
        of_column: dict[str, list[PartialCall]] = {}
        for call in self.calls:
            if call.column is None or call.function == "count":
                arrays[call.name] = counts
            else:
                of_column.setdefault(call.column, []).append(call)
        for name, calls in of_column.items():
            numbers = self._column(name)[places]
            for call in calls:
                arrays[call.name] = of_numbers(_reduced(call, numbers, starts), call.type)
        self.pays = len(starts) * _FEW > len(places)
        self._chunks, self._bounds, self.size = [], {}, 0
        return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)

    def _column(self, name: str) -> np.ndarray:
        return np.concatenate([chunk[name] for chunk in self._chunks])


def _reduced(call: PartialCall, numbers: np.ndarray, starts: np.ndarray) -> np.ndarray:
    if call.is_rounded:
        rounded: np.ndarray = np.add.reduceat(numbers, starts) + 0.0  # no negative zero
        return rounded
    if call.function == "sum":
        found: np.ndarray = np.add.reduceat(numbers, starts, dtype=np.int64)
        return found.astype(np.float64) if pa.types.is_floating(call.type) else found
    return (np.minimum if call.function == "min" else np.maximum).reduceat(numbers, starts)


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column if isinstance(column, pa.Array) else column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
