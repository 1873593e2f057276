"""The contract of what reads and aggregates files inside Spark tasks, in place of Spark's own engine; and Arrow's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from .parquet_scan import FilePart
from .partial_calls import PartialCall, Sums, aggregated
from .partial_scans import PartialScan, RecognisedScan, check_first_file


class ColumnarEngine(Protocol):
    """Computes partial aggregates of files, and gives what Spark gives, to the bit.

    Each method raises ``NotTakenError`` where that is not known; then Spark reads.
    """

    @property
    def scans_rows(self) -> bool:
        """True if it also reads rows as they are, for deduplications and joins."""

    def check(self, found: RecognisedScan) -> None:
        """Raise unless it can compute a scan; called on the driver, at the start of a job.

        Args:
            found: the scan, with its files.
        """

    def tables(
        self, partials: PartialScan, filesystem: fs.FileSystem, part: FilePart, seen: Callable[[int, int, float], None]
    ) -> Iterator[pa.Table]:
        """The rows of a part of a file that the condition lets through: the columns that keys and calls are of.

        Args:
            partials: what is computed.
            filesystem: where the file is.
            part: the part.
            seen: see :meth:`PartialScan.tables`.
        """

    def aggregated(
        self, table: pa.Table, keys: Sequence[str], calls: Sequence[PartialCall], sums: Sums, *, again: bool = False
    ) -> pa.Table:
        """Partial aggregates; see :func:`.partial_calls.aggregated`.

        Args:
            table: the rows; with ``again`` partial aggregates.
            keys: the columns to group by.
            calls: the aggregates.
            sums: is told how far sums can go.
            again: merge partial aggregates.
        """


class ArrowEngine:
    """Arrow's readers and compute functions, and Acero."""

    scans_rows = True

    def check(self, found: RecognisedScan) -> None:
        check_first_file(found)

    def tables(
        self, partials: PartialScan, filesystem: fs.FileSystem, part: FilePart, seen: Callable[[int, int, float], None]
    ) -> Iterator[pa.Table]:
        """Filters and computes with Arrow's functions; arguments as the contract's."""
        return partials.tables(filesystem, part, seen)

    def aggregated(
        self, table: pa.Table, keys: Sequence[str], calls: Sequence[PartialCall], sums: Sums, *, again: bool = False
    ) -> pa.Table:
        """Groups with Acero; arguments as the contract's."""
        return aggregated(table, keys, calls, sums, again=again)
