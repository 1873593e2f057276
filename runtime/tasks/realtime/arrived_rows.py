"""Takes the rows of a task as they arrive: all that are there, and no later than the first of them.

Spark hands rows to a Python worker one by one in Real-Time Mode.  What has come while the task worked on one portion is
the next one: one row while rows are rare, and more the busier it is.

Beside each row Spark has put a marker, a row of nulls, so that the row does not wait in Spark for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

#: So many batches at most are a portion: what comes of its first row goes out when all of them are processed.
_MOST_BATCHES = 1024


class ArrivedRows:
    """Reads batches, and waits for one only if there is none.

    Args:
        batches: what Spark hands over.
        known: a column that is null in markers only.
        has_more: whether more was sent than was read of it; False if that is not known.
        before_wait: called before a batch is waited for.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        known: str,
        has_more: Callable[[], bool],
        before_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._batches = batches
        self._known = known
        self._has_more = has_more
        self._before_wait = before_wait

    def take(self) -> pa.RecordBatch | None:
        """The rows that have arrived since the last call, at least one; None: Spark has ended the epoch.

        That is no proof that there were no more.
        """
        self._before_wait()
        for batch in self._batches:
            taken = [batch]
            while len(taken) < _MOST_BATCHES and self._has_more():
                more = next(self._batches, None)
                if more is None:
                    break
                taken.append(more)
            rows = self._without_markers(taken)
            if rows.num_rows:
                return rows
            self._before_wait()
        return None

    def _without_markers(self, taken: list[pa.RecordBatch]) -> pa.RecordBatch:
        batch = taken[0]
        if len(taken) > 1:
            batch = pa.Table.from_batches(taken).combine_chunks().to_batches()[0]
        return batch.filter(pc.is_valid(batch.column(self._known)))
