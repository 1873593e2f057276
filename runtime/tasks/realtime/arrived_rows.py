"""Takes the rows of a task as they arrive: all that are there, and no later than the first of them.

Spark hands rows to a Python worker one by one in Real-Time Mode.  A thread reads them, so that the task works on one
portion while the next one gathers: one row while rows are rare, and more the busier it is.

Beside each row Spark has put a marker, a row of nulls, so that the row does not wait in Spark for the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc


class ArrivedRows:
    """Reads batches in a thread of its own, from when it is made.

    Args:
        batches: what Spark hands over.
        known: a column that is null in markers only.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], known: str) -> None:
        self._known = known
        self._waiting: list[pa.RecordBatch] = []
        self._has_ended = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._read, args=(batches,), name="mixedmode-arrivals", daemon=True).start()

    def _read(self, batches: Iterator[pa.RecordBatch]) -> None:
        try:
            for batch in batches:
                with self._changed:
                    self._waiting.append(batch)
                    self._changed.notify()
        except BaseException as error:  # the task's to raise
            self._failure = error
        with self._changed:
            self._has_ended = True
            self._changed.notify()

    def take(self) -> pa.RecordBatch | None:
        """The rows that have arrived since the last call, at least one; None: Spark has ended the epoch.

        That is no proof that there were no more.
        """
        while True:
            with self._changed:
                while not self._waiting and not self._has_ended:
                    self._changed.wait()
                taken, self._waiting = self._waiting, []
            if not taken:
                if self._failure is not None:
                    raise self._failure
                return None
            rows = self._without_markers(taken)
            if rows.num_rows:
                return rows

    def _without_markers(self, taken: list[pa.RecordBatch]) -> pa.RecordBatch:
        batch = taken[0]
        if len(taken) > 1:
            batch = pa.Table.from_batches(taken).combine_chunks().to_batches()[0]
        return batch.filter(pc.is_valid(batch.column(self._known)))
