"""Rows by number, whether they have just come or are stored: their columns, and their records.

The numbers begin with the rows of a batch; stored records follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .....state.codec.byte_arrays import data_of, large_binary, offsets_of
from ....catalyst.types.arrow_types import arrow_schema
from ....support.arrow_columns import typed
from ...columnar.record_codec import RecordCodec
from ..columns import LEFT, RIGHT
from ..definition import JoinSide

#: Types whose values differ in size and say how long they are.
_OF_BYTES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_NO_RECORDS = large_binary(np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64))


class SideForm:
    """The columns of one side, as rows have them and as they are stored."""

    def __init__(self, place: int, side: JoinSide) -> None:
        self.names = side.columns(place)
        self.types = [field.type for field in arrow_schema(side.schema)]
        self.codec = RecordCodec([pa.field(name, kind) for name, kind in zip(self.names, self.types, strict=True)])

    def of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The side's columns of a batch of both sides."""
        return list(map(typed, map(batch.column, self.names), self.types))


class RowPool:
    """Rows of a batch and stored rows.

    Args:
        forms: of the two sides.
        batch: rows that have come; None: there are none.
        records: stored ones.
    """

    def __init__(
        self, forms: Sequence[SideForm], batch: pa.RecordBatch | None, records: pa.LargeBinaryArray = _NO_RECORDS
    ) -> None:
        self._forms = forms
        self._batch = batch
        self._records = records
        #: The number of the first stored record.
        self.first_record = 0 if batch is None else batch.num_rows

    def with_records(self, records: pa.LargeBinaryArray) -> RowPool:
        """The same rows that have come, and other stored ones."""
        other = RowPool(self._forms, self._batch, records)
        other.__dict__["_new"] = self._new
        other.__dict__["_new_sizes"] = self._new_sizes
        return other

    @cached_property
    def sizes(self) -> np.ndarray:
        """About how many bytes each row has, by number."""
        return np.concatenate([self._new_sizes, np.diff(offsets_of(self._records))])

    @cached_property
    def _new_sizes(self) -> np.ndarray:
        found = np.zeros(self.first_record, dtype=np.int64)
        for column in [] if self._batch is None else self._batch.columns:
            if any(is_kind(column.type) for is_kind in _OF_BYTES):
                found += pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
            else:
                found += column.nbytes // max(self.first_record, 1)
        return found

    @cached_property
    def _new(self) -> list[list[pa.Array]]:
        """The columns of the rows that have come, by side."""
        return [[], []] if self._batch is None else [form.of(self._batch) for form in self._forms]

    def columns(self, side: int, rows: np.ndarray) -> list[pa.Array]:
        """The columns of some rows of one side, by number."""
        form = self._forms[side]
        if not form.names:
            return []
        new = rows < self.first_record
        if new.all():
            taken = pa.array(rows)
            if self._batch is None:
                return [pa.nulls(0, kind) for kind in form.types]
            return [column.take(taken) for column in self._new[side]]
        places, inverse = np.unique(rows[~new] - self.first_record, return_inverse=True)
        found = self._records.take(pa.array(places))
        stored = form.codec.decode(data_of(found), offsets_of(found))
        if not new.any():
            taken = pa.array(inverse)
            return [column.take(taken) for column in stored]
        index = rows + len(places)
        index[~new] = inverse
        taken = pa.array(index)
        return [pa.concat_arrays([one, other]).take(taken) for one, other in zip(stored, self._new[side], strict=True)]

    def records(self, rows: np.ndarray, sides: np.ndarray) -> pa.LargeBinaryArray:
        """What is stored of some rows.

        Args:
            rows: their numbers.
            sides: of each.
        """
        new = rows < self.first_record
        if not new.any():
            return self._records.take(pa.array(rows - self.first_record))
        index = rows - self.first_record
        parts = [self._records]
        count = len(self._records)
        for side in (LEFT, RIGHT):
            at = np.flatnonzero(new & (sides == side))
            if not len(at):
                continue
            parts.append(self._encoded(side, rows[at]))
            index[at] = count + np.arange(len(at))
            count += len(at)
        return pa.concat_arrays(parts).take(pa.array(index))

    def _encoded(self, side: int, rows: np.ndarray) -> pa.LargeBinaryArray:
        form = self._forms[side]
        if not form.names:
            return large_binary(np.zeros(0, dtype=np.uint8), np.zeros(len(rows) + 1, dtype=np.int64))
        return form.codec.encode(self.columns(side, rows)).cast(pa.large_binary())
