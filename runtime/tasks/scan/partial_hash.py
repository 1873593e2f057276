"""Partial aggregates by a table of hashes: of all rows that memory has room for at once, or of chunk after chunk.

Where hardly any two rows of a chunk have the same key, to aggregate each chunk would only be another look at every row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from ...scan.partial_calls import Sums
from .partial_sort import memory_to_group

#: Makes partial aggregates of rows.
Aggregated = Callable[[pa.Table, Sums], pa.Table]


@dataclass
class RowsToHash:
    """Rows that wait to be aggregated together.

    Args:
        aggregated: makes partial aggregates of rows.
        by_key: puts partial aggregates in the order of their key groups and keys, which makes merging runs cheap.
    """

    aggregated: Aggregated
    by_key: Callable[[pa.Table], pa.RecordBatch]
    _waiting: list[pa.Table] = field(default_factory=list, init=False)
    _sums: Sums = field(default_factory=Sums, init=False)
    #: Bytes of what waits.
    _size: int = field(default=0, init=False)
    #: Rows that wait.
    rows: int = field(default=0, init=False)

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes to aggregate what waits."""
        return memory_to_group(self.rows, self._size)

    def add(self, table: pa.Table, sums: Sums) -> bool:
        """Take some rows; always true.

        Args:
            table: the rows.
            sums: is told how far sums can go, not before they are aggregated.
        """
        self._waiting.append(table)
        self._sums = sums
        self._size += table.nbytes
        self.rows += len(table)
        return True

    def waiting_keys(self, per_key: float) -> float:
        """About how many keys wait, if so many rows have the same one."""
        return self.rows / per_key

    def taken(self) -> pa.RecordBatch:
        """The partial aggregates of all rows, by key group and key; none wait afterwards.

        Raises:
            NotTakenError: a sum may leave its type.
        """
        waiting, self._waiting, self._size, self.rows = self._waiting, [], 0, 0
        return self.by_key(self.aggregated(pa.concat_tables(waiting), self._sums).combine_chunks())


@dataclass
class ChunksToHash:
    """Chunks of which each is aggregated as it comes, and then with those before if that makes them much smaller.

    Args:
        aggregated: makes partial aggregates of rows.
        merged: makes one table of partial aggregates of so many rows.
        by_group: puts partial aggregates in the order of their key groups.
        budget_bytes: a quarter of it may wait to be merged, and an eighth of it be left by that.
    """

    aggregated: Aggregated
    merged: Callable[[list[pa.Table], int], pa.Table]
    by_group: Callable[[pa.Table], pa.RecordBatch]
    budget_bytes: int
    _waiting: list[pa.Table] = field(default_factory=list, init=False)
    #: Partial aggregates that have been merged; the rows of the others.
    _merged: int = field(default=0, init=False)
    _rows: int = field(default=0, init=False)
    _size: int = field(default=0, init=False)

    @property
    def rows(self) -> int:
        """Partial aggregates that wait."""
        return sum(map(len, self._waiting))

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes to merge what waits."""
        return (4 if self._rows else 8) * self._size

    def add(self, table: pa.Table, sums: Sums) -> bool:
        """Aggregate a chunk; always true.

        Args:
            table: its rows.
            sums: is told how far sums can go.

        Raises:
            NotTakenError: a sum may leave its type.
        """
        self._waiting.append(self.aggregated(table, sums))
        self._rows += len(table)
        self._size += self._waiting[-1].nbytes
        if 4 * self._size > self.budget_bytes:
            self._waiting = [self.merged(self._waiting, self._rows)]
            self._size, self._merged, self._rows = self._waiting[0].nbytes, len(self._waiting[0]), 0
        return True

    def waiting_keys(self, per_key: float) -> float:
        """About how many keys wait, if so many rows have the same one."""
        return self._merged + min(self.rows - self._merged, self._rows / per_key)

    def taken(self) -> pa.RecordBatch:
        """The partial aggregates, in the order of key groups; none wait afterwards."""
        waiting, rows, self._waiting = self._waiting, self._rows, []
        self._size = self._merged = self._rows = 0
        return self.by_group(self.merged(waiting, rows))
