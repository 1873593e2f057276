"""Hands the rows of two inputs over side by side: two iterators for each key, or for each event time of one.

The rows of a call come left ones first (and before them those of an initial state).  Each side's are taken out of a
batch at once, so within a batch they may be read in any order.  Where the rows of a call go on in other batches, left
ones stream through, then right ones; who reads right ones first has the left ones that are before them put aside, on
the disk if they are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ....support.arrow_columns import unpacked
from ....support.batch_spool import BatchSpool
from ...join.columns import LEFT, RIGHT, SIDE_COLUMN, TIME_COLUMN, side_column
from ...keyed.keyed_rows import INITIAL_STATE_COLUMN, KIND_COLUMN
from ..rows.row_form import ProcessorInput

#: The number of a row among all of the shard, to tell which was handed over last.
_NUMBER_COLUMN = "__row"
#: Rows of a call that are put aside stay in memory up to here.
_MEMORY_BYTES = 4 * 1024 * 1024

#: Start and count of rows in a batch.
_Place = tuple[int, int]


class CogroupSides(NamedTuple):
    """What is handed over for one call of a handler."""

    left: Iterator[Any]
    right: Iterator[Any]
    #: Rows of the initial state, to be read before the others.
    initial: Iterator[Any]
    #: Whether there are others, once those are read.
    has_rows: Callable[[], bool]


class _Side:
    """The rows of one side in the current batch, as a batch of their own, and what hands them over.

    Args:
        handed_over: gets that batch when the first of its rows are asked for.
        taken_of: makes the batch, of the current one and of which rows are of the side.
    """

    def __init__(
        self, handed_over: ProcessorInput, taken_of: Callable[[pa.RecordBatch, np.ndarray], pa.RecordBatch]
    ) -> None:
        self.handed_over = handed_over
        self._taken_of = taken_of
        #: For each row of the current batch, and for its end, how many of the side are before it.
        self._before: list[int] = [0]
        self._batch: pa.RecordBatch | None = None
        #: Where what ``handed_over`` has opened begins in the side's batch; None: that has to be opened.
        self._base: int | None = None

    def open(self, batch: pa.RecordBatch, is_mine: np.ndarray) -> None:
        self._before = [0, *np.cumsum(is_mine).tolist()]
        self._batch = self._taken_of(batch, is_mine) if self._before[-1] else None
        self._base = None

    def count(self, start: int, count: int) -> int:
        """How many of these rows of the current batch are of the side."""
        return self._before[start + count] - self._before[start]

    def place(self, start: int, count: int) -> _Place:
        """Where they are in what ``handed_over`` has opened."""
        first = self._before[start]
        if self._base is None:
            assert self._batch is not None, "only a side with rows is asked"
            self.handed_over.open(self._batch.slice(first))
            self._base = first
        return first - self._base, self._before[start + count] - first

    def run(self, start: int, count: int) -> Iterator[Any]:
        if not self.count(start, count):
            return iter(())
        return self.handed_over.run(*self.place(start, count))

    def rows(self, start: int, count: int) -> pa.RecordBatch:
        """The rows themselves."""
        assert self._batch is not None, "only a side with rows is asked"
        return self._batch.slice(self._before[start], self.count(start, count))

    def again(self, batch: pa.RecordBatch) -> _Place:
        """Open rows that were put aside; where they are."""
        self.handed_over.open(batch)
        self._base = None
        return 0, batch.num_rows


class CogroupInput:
    """Two inputs' rows, and those of an initial state, each as another form's input hands them over.

    Args:
        of: makes an input for a schema.
        schemas: the columns of left and right rows as users know them.
        initial_schema: the rows of the initial state; None: there is none.
        folder: on the local disk, for rows that are put aside.
    """

    def __init__(
        self,
        of: Callable[[StructType], ProcessorInput],
        schemas: tuple[StructType, StructType],
        initial_schema: StructType | None,
        folder: str,
    ) -> None:
        self._has_initial = initial_schema is not None
        sides = [
            _Side(of(schema), partial(_taken, side, schema.fieldNames()))
            for side, schema in zip((LEFT, RIGHT), schemas, strict=True)
        ]
        initial = [] if initial_schema is None else [_Side(of(initial_schema), _taken_initial)]
        #: In the order in which they come.
        self._parts = [*initial, *sides]
        self._folder = folder
        self._rows = 0
        #: The run that goes on in other batches, while there is one.
        self._spanning: _Spanning | None = None

    def last_read(self, column: str) -> Any:
        """Of both sides' rows the one that comes last, if they are read out of their order."""
        numbers = [(side.handed_over.last_read(_NUMBER_COLUMN), side) for side in self._parts[-2:]]
        read = [(number, side) for number, side in numbers if number is not None]
        return max(read, key=lambda one: one[0])[1].handed_over.last_read(column) if read else None

    def open(self, batch: pa.RecordBatch) -> None:
        numbers = pa.array(np.arange(self._rows, self._rows + batch.num_rows))
        self._rows += batch.num_rows
        batch = batch.append_column(_NUMBER_COLUMN, numbers)
        of_side = pc.fill_null(batch.column(SIDE_COLUMN), LEFT).to_numpy(zero_copy_only=False)
        if self._has_initial:
            is_initial = batch.column(KIND_COLUMN).to_numpy(zero_copy_only=False) == 0
            self._parts[0].open(batch, is_initial)
            of_side = np.where(is_initial, -1, of_side)
        for side, part in zip((LEFT, RIGHT), self._parts[-2:], strict=True):
            part.open(batch, of_side == side)

    def run(self, start: int, count: int) -> CogroupSides:
        *initial, left, right = self._parts
        if not initial:
            return CogroupSides(left.run(start, count), right.run(start, count), iter(()), _always)
        has_rows = initial[0].count(start, count) < count
        return CogroupSides(
            left.run(start, count), right.run(start, count), initial[0].run(start, count), lambda: has_rows
        )

    def spanning(self, positions: Iterator[_Place]) -> CogroupSides:
        spanning = self._spanning = _Spanning(self._parts, positions, self._folder)
        *initial, left, right = [part.handed_over.spanning(spanning.places(part)) for part in self._parts]
        return CogroupSides(left, right, initial[0] if initial else iter(()), spanning.has_rows)

    def skip(self, rows: CogroupSides) -> None:
        spanning, self._spanning = self._spanning, None
        if spanning is not None:
            spanning.is_over = True
        left, right = self._parts[-2:]
        left.handed_over.skip(rows.left)
        right.handed_over.skip(rows.right)
        if spanning is not None:
            spanning.close()


class _Spanning:
    """A run that goes on in other batches: which of its rows come next, by part.

    Args:
        parts: in the order in which their rows come.
        positions: start and count of the run's rows in the batch that is the current one by then.
        folder: on the local disk.
    """

    def __init__(self, parts: list[_Side], positions: Iterator[_Place], folder: str) -> None:
        self._parts = parts
        self._positions = positions
        self._folder = folder
        #: The part whose rows come next.
        self._now = 0
        #: Where they are, with those of later parts; None: in a batch that is still to be opened.
        self._here: _Place | None = None
        #: Rows of each part that were put aside.
        self._aside: dict[int, BatchSpool] = {}
        #: Nobody reads what was put aside any more.
        self.is_over = False

    def places(self, part: _Side) -> Iterator[_Place]:
        """Where the rows of a part are in what it has opened by then."""
        number = self._parts.index(part)
        while self._now < number:
            self._put_aside(self._now)
        for here in self._coming(number):
            yield part.place(*here)
        aside = self._aside.get(number)
        for rows in () if aside is None or self.is_over else aside.read():
            if self.is_over:
                return
            yield part.again(rows)

    def has_rows(self) -> bool:
        """Whether there are more than those of the first part, which has been read."""
        return self._now < len(self._parts)

    def close(self) -> None:
        """Forget what was put aside."""
        for aside in self._aside.values():
            aside.close()

    def _coming(self, number: int) -> Iterator[_Place]:
        """The rows of a part that are still to come, in the current batch; somebody else may take some of them."""
        while self._now == number:
            here = self._here
            if here is None:
                here = self._here = next(self._positions, None)
                if here is None:
                    self._now = len(self._parts)
                    return
            if any(part.count(*here) for part in self._parts[number + 1 :]):
                self._now += 1
            else:
                self._here = None
            if self._parts[number].count(*here):
                yield here

    def _put_aside(self, number: int) -> None:
        part, aside = self._parts[number], None
        for here in self._coming(number):
            rows = part.rows(*here)
            if aside is None:
                aside = self._aside[number] = BatchSpool(self._folder, rows.schema, _MEMORY_BYTES)
            aside.write(rows)
        if aside is not None:
            aside.finish()


def _taken(side: int, names: list[str], batch: pa.RecordBatch, is_mine: np.ndarray) -> pa.RecordBatch:
    """A side's rows under the names that users know, with what their handling may ask for besides."""
    others = [name for name in (TIME_COLUMN, _NUMBER_COLUMN) if name in batch.schema.names]
    columns = batch.select([*(side_column(side, place) for place in range(len(names))), *others])
    mine = columns if is_mine.all() else columns.filter(pa.array(is_mine))
    return pa.RecordBatch.from_arrays(mine.columns, names=[*names, *others])


def _taken_initial(batch: pa.RecordBatch, is_initial: np.ndarray) -> pa.RecordBatch:
    packed = batch.column(INITIAL_STATE_COLUMN).filter(pa.array(is_initial))
    return unpacked(packed)


def _always() -> bool:
    return True
