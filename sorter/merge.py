"""K-way merge of sorted runs, a block at a time instead of a row at a time.

One round: of every run one block is in memory.  The *cut* is the smallest last row among those blocks.  Every row up
to the cut is in memory, in whatever run it is, so each block is sliced at the cut (binary search), the slices are
joined and sorted at once, and the blocks that are used up are replaced by their successors.

Rows of equal rank come out in the order of the runs: at the cut's rank, runs before the cutting one give their rows
(they have no more of that rank beyond their block, else they would have cut), runs after it keep theirs for later.
So every round uses up at least the cutting block, and a single rank with any number of rows streams through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa

from ..state.codec.gather import gathered_rows
from .batches import join
from .order import Ordering, Rank, SortedRows
from .runs import Run, RunReader


class _Cursor:
    """What is left of a run's block in memory."""

    def __init__(self, number: int, blocks: Iterator[pa.RecordBatch], ordering: Ordering) -> None:
        self.number = number
        self._blocks = blocks
        self._ordering = ordering
        self._block: SortedRows | None = None
        self._start = 0
        self.last_rank: Rank = ()

    def refill(self) -> bool:
        """Load the next block if there is none; False: the run is used up."""
        if self._block is None:
            batch = next(self._blocks, None)
            if batch is None:
                return False
            self._block, self._start = SortedRows(self._ordering, batch), 0
            self.last_rank = self._block.last_rank
        return True

    def take_until(self, cut: _Cursor) -> pa.RecordBatch:
        """The rows of the block that come before or with the last row of ``cut``'s block."""
        assert self._block is not None, "refill() comes first"
        batch = self._block.batch
        end = batch.num_rows
        if cut is not self:
            end = self._block.count_until(cut.last_rank, self._start, inclusive=self.number < cut.number)
        taken = batch.slice(self._start, end - self._start)
        self._start = end
        if end == batch.num_rows:
            self._block = None  # so that a block that is used up goes with its last slice
        return taken


def merge(runs: Sequence[Run], ordering: Ordering) -> Iterator[pa.RecordBatch]:
    """All rows of the runs in order, in batches of no particular size; ``runs`` in order of arrival."""
    with ExitStack() as stack:
        cursors = [
            _Cursor(number, iter(stack.enter_context(RunReader(run, ordering.inner_schema))), ordering)
            for number, run in enumerate(runs)
        ]
        while cursors := [cursor for cursor in cursors if cursor.refill()]:
            cut = min(cursors, key=lambda cursor: (cursor.last_rank, cursor.number))
            yield _sorted([rows for cursor in cursors if (rows := cursor.take_until(cut)).num_rows], ordering)


def _sorted(slices: list[pa.RecordBatch], ordering: Ordering) -> pa.RecordBatch:
    """One sorted batch of slices that are sorted in themselves and in order of arrival; takes the slices away."""
    if len(slices) == 1:
        return slices[0]
    rows = join(slices)
    slices.clear()  # before the next copy is made
    return gathered_rows(rows, ordering.sort_indices(rows))
