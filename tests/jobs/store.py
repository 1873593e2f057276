"""A stand-in for a table in a database or a lake, which a job's ``foreachBatch`` writes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


class Store:
    """Rows that the job's sink holds, in the order of writing; it lives in the driver."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.columns: list[str] = []

    def append(self, frame: DataFrame) -> None:
        """Adds all rows: ``mode("append")`` of a table, an insert, a print."""
        self.rows += self._collected(frame)

    def overwrite(self, frame: DataFrame) -> None:
        """Replaces all rows: ``mode("overwrite")`` of a table."""
        self.rows = self._collected(frame)

    def upsert(self, frame: DataFrame, keys: Sequence[str]) -> None:
        """Replaces the rows with the same key; of several new ones the last wins: Cassandra, Redis, JDBC upserts."""
        kept = {tuple(row[key] for key in keys): row for row in self.rows}
        kept |= {tuple(row[key] for key in keys): row for row in self._collected(frame)}
        self.rows = list(kept.values())

    def merge(self, frame: DataFrame, keys: Sequence[str], *, update: bool = True) -> None:
        """Delta's ``MERGE``: update matched rows (or leave them), insert the rest.

        Raises:
            ValueError: if several new rows have one key, as Delta raises it.
        """
        rows = self._collected(frame)
        found = Counter(tuple(row[key] for key in keys) for row in rows)
        if several := [key for key, count in found.items() if count > 1]:
            raise ValueError(f"MERGE: several source rows for one target row, keys {sorted(map(str, several))[:3]}")
        old = {tuple(row[key] for key in keys): row for row in self.rows}
        new = {tuple(row[key] for key in keys): row for row in rows}
        self.rows = list((old | new if update else new | old).values())

    def _collected(self, frame: DataFrame) -> list[Row]:
        self.columns = frame.columns
        return frame.collect()
