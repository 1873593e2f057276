"""Few rows of an aggregate, aggregated by the task in the columns of ``AggregateOperator.prepare``.

Spark need not plan and run an aggregation of its own for them.  What is computed is what tasks compute of a history's
files (:mod:`...scan.scan_plans`), over rows as Spark has handed them over.

Invariant: sums of fractions are added in the order of the rows, as Spark adds them within a partition.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from ...scan.parquet_scan import NotTakenError
from ...scan.partial_calls import Sums, aggregated
from ...scan.partial_scans import PartialScan
from ...scan.scan_keys import keyed, windows
from ...support.arrow_columns import typed, unchunked
from .few_rows import FewRows

#: More than these of rows are Spark's to aggregate: here they are in memory all at once.
_MOST_ROWS, _MOST_BYTES = 100_000, 64 * 1024 * 1024


class TooManyRowsError(NotTakenError):
    """A micro-batch is larger than was expected of the one before it."""


@dataclass(frozen=True, kw_only=True)
class FewPartialRows(FewRows):
    """A row for each key.

    Args:
        names: the columns of the input that the task gets, in order.
        places: for each column that is read its place among these.
        partials: the pickled :class:`~...scan.partial_scans.PartialScan`: unpickled once per process.
        schema: the prepared columns.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    partials: bytes
    schema: pa.Schema

    @classmethod
    def of_partials(
        cls,
        group_columns: tuple[tuple[str, pa.DataType], ...],
        max_parallelism: int,
        order: tuple[str, ...],
        names: tuple[str, ...],
        partials: PartialScan,
        schema: pa.Schema,
    ) -> FewPartialRows:
        """What computes some partial aggregates.

        Args:
            group_columns: as of the class.
            max_parallelism: as of the class.
            order: as of the class.
            names: as of the class.
            partials: the aggregates; what they read is among these columns.
            schema: the prepared columns.
        """
        return cls(
            group_columns=group_columns,
            max_parallelism=max_parallelism,
            order=order,
            names=names,
            places=tuple(names.index(column.name) for column in partials.scan.columns),
            partials=pickle.dumps(partials),
            schema=schema,
        )

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.names

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Partial aggregates of all rows together.

        Args:
            batches: the rows, in the order in which they have arrived.

        Raises:
            NotTakenError: Spark has to aggregate them.
        """
        rows = _together(batches)
        if rows is not None:
            yield from super().of(self._aggregated(rows))

    def _aggregated(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        partials = _unpickled(self.partials)
        wanted = zip(self.places, partials.scan.columns, strict=True)
        columns = {column.name: typed(unchunked(rows.column(place)), column.type) for place, column in wanted}
        try:
            for table in partials.computed_of(pa.table(columns)):
                keys = [key.name for key in partials.keys]
                yield self._prepared(partials, aggregated(keyed(partials, table), keys, partials.calls, Sums()))
        except pa.ArrowException as error:  # what Arrow cannot hold or knows nothing of may be nothing to Spark
            raise NotTakenError(str(error).partition("\n")[0]) from error

    def _prepared(self, partials: PartialScan, found: pa.Table) -> pa.RecordBatch:
        arrays = {name: unchunked(found[name]) for name in found.column_names}
        for key in partials.keys:
            if key.window is not None:
                arrays[key.name] = windows(key, arrays[key.name], self.schema.field(key.name).type)
        columns = [typed(arrays[field.name], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _together(batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
    """All rows; None: there are none."""
    found: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows > _MOST_ROWS or size_bytes > _MOST_BYTES:
            raise TooManyRowsError(f"there are more than {_MOST_ROWS} rows, or {_MOST_BYTES} bytes of them")
        if batch.num_rows:
            found.append(batch)
    return pa.Table.from_batches(found) if found else None


@lru_cache(maxsize=4)
def _unpickled(partials: bytes) -> PartialScan:
    found: PartialScan = pickle.loads(partials)
    return found
