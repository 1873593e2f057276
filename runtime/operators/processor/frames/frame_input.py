"""Hands the rows of a key over as pandas frames: bounded ones, cut by the key's own rows and not by the batches'."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ....support.arrow_columns import unpacked
from ...keyed.keyed_rows import INITIAL_STATE_COLUMN, KIND_COLUMN
from .frame_reader import FrameReader, FrameView
from .frame_settings import NO_LIMIT, FrameSettings

if TYPE_CHECKING:
    import pandas as pd


class FrameInput:
    """Frames of a schema; with an initial state pairs of (frame of it, None), then (None, frame).

    Args:
        schema: the input rows.
        initial_schema: the rows of the initial state; None: there is none.
        settings: what the session says of pandas.
        first: the epoch in which the initial state is handed over.
    """

    def __init__(
        self,
        schema: StructType,
        initial_schema: StructType | None,
        settings: FrameSettings,
        *,
        first: bool = False,
    ) -> None:
        self._reader = FrameReader(schema, settings)
        self._initial = None if initial_schema is None else FrameReader(initial_schema, settings)
        self._limit = FrameLimit(settings)
        #: In PySpark all rows have the columns of the initial state as long as it is handed over.
        self._measured = [*schema.fieldNames(), *([INITIAL_STATE_COLUMN] if first and initial_schema else [])]
        self._batch: pa.RecordBatch | None = None
        self._view: FrameView | None = None
        #: The batch has rows of the initial state.
        self._has_initial = False
        #: The batch of the rows that were handed over last, and where they end.
        self._read: tuple[pa.RecordBatch, int] | None = None

    def last_read(self, column: str) -> Any:
        if self._read is None:
            return None
        batch, stop = self._read
        return batch.column(column)[stop - 1].as_py()

    def open(self, batch: pa.RecordBatch) -> None:
        self._batch, self._view = batch, None
        self._limit.note(batch, self._measured)
        if self._initial is not None:
            initial = batch.column(INITIAL_STATE_COLUMN)
            self._has_initial = initial.null_count < len(initial)

    def skip(self, rows: Iterator[Any]) -> None:
        """Nothing: a frame that nobody asks for is not made."""

    def run(self, start: int, count: int) -> Iterator[Any]:
        assert self._batch is not None
        if self._has_initial:
            return self.spanning(iter([(start, count)]))
        if self._view is None:
            self._view = self._reader.view(self._batch)
        frames = self._frames(self._batch, self._view, start, start + count)
        return frames if self._initial is None else zip(repeat(None), frames)

    def _frames(self, batch: pa.RecordBatch, view: FrameView, start: int, stop: int) -> Iterator[Any]:
        while start < stop:
            end = min(start + self._limit.rows, stop)
            self._read = (batch, end)
            yield view.frame(start, end)
            start = end

    def spanning(self, positions: Iterator[tuple[int, int]]) -> Iterator[Any]:
        if self._initial is None:
            yield from self._joined(self._slices(positions), self._reader)
            return
        of_initial = _Kinds(self._slices(positions))
        for frame in self._joined(of_initial, self._initial):
            yield frame, None
        for frame in self._joined(of_initial.others(), self._reader):
            yield None, frame

    def _slices(self, positions: Iterator[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        for start, count in positions:
            assert self._batch is not None
            yield self._batch.slice(start, count)

    def _joined(self, parts: Iterator[pa.RecordBatch], reader: FrameReader) -> Iterator[pd.DataFrame]:
        """Full frames, as long as there are rows."""
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for arrived in parts:
            part = arrived
            while rows + part.num_rows >= self._limit.rows:
                taken = max(min(self._limit.rows - rows, part.num_rows), 0)
                yield self._one([*waiting, part.slice(0, taken)], reader)
                part, waiting, rows = part.slice(taken), [], 0
                if not part.num_rows:
                    break
            if part.num_rows:
                waiting.append(part)
                rows += part.num_rows
        if waiting:
            yield self._one(waiting, reader)

    def _one(self, parts: list[pa.RecordBatch], reader: FrameReader) -> pd.DataFrame:
        batch = parts[0]
        if len(parts) > 1:
            batch = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
        self._read = (batch, batch.num_rows) if reader is self._reader else None
        return reader.view(batch).frame(0, batch.num_rows)


class FrameLimit:
    """How many rows a frame has at most: by their number, and by the bytes that rows have on average so far.

    As in PySpark, where the average is that of the rows that have come, whatever their keys, in the user's columns.
    """

    def __init__(self, settings: FrameSettings) -> None:
        self._max_rows, self._max_bytes = settings.max_rows, settings.max_bytes
        self._bytes = self._rows = 0
        self.rows = settings.max_rows

    def note(self, batch: pa.RecordBatch, columns: list[str]) -> None:
        """Rows come, of which some columns go into frames."""
        if self._max_bytes == NO_LIMIT or not batch.num_rows:
            return
        self._rows += batch.num_rows
        self._bytes += sum(_size_bytes(batch.column(batch.schema.get_field_index(name))) for name in columns)
        most = -(-self._max_bytes * self._rows // self._bytes) if self._bytes else self._max_rows
        self.rows = max(min(self._max_rows, most), 1)


def _size_bytes(column: pa.Array) -> int:
    """Of a column by itself, as Spark would send it: with a bit for each null, and an offset more than values."""
    last_offset = 4 if column.type.num_buffers == 3 else 0
    return int(column.nbytes) + last_offset + (0 if column.null_count else -(-len(column) // 8))


class _Kinds(Iterator[pa.RecordBatch]):
    """Parts of a key's rows: first those of the initial state, unpacked; then :meth:`others`."""

    def __init__(self, parts: Iterator[pa.RecordBatch]) -> None:
        self._parts = parts
        self._rest: pa.RecordBatch | None = None

    def __next__(self) -> pa.RecordBatch:
        if self._rest is not None:
            raise StopIteration
        part = next(self._parts)
        initial = part.num_rows - int(pc.sum(part.column(KIND_COLUMN)).as_py())
        if initial < part.num_rows:
            self._rest = part.slice(initial)
            if not initial:
                raise StopIteration
        packed = part.column(INITIAL_STATE_COLUMN).slice(0, initial)
        return unpacked(packed)

    def others(self) -> Iterator[pa.RecordBatch]:
        """The input rows."""
        if self._rest is not None:
            yield self._rest
            yield from self._parts
