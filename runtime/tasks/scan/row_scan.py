"""The task that reads rows of Parquet files in place of Spark, and leaves them in runs for the shards' tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ....state.keys.key_hash import key_groups
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...scan.expressions import functions  # noqa: F401  tasks compute values by them
from ...scan.expressions.values import Value, filtered
from ...scan.parquet_scan import FilePart, ParquetScan
from ...support.arrow_columns import typed, unchunked
from ...support.failpoints import failpoint
from .key_order import in_order_of_groups
from .key_repetition import WORTH_REDUCING, rows_per_key
from .partial_runs import write_run
from .row_work import RowWork
from .scan_task import ScanTask

#: So many rows are enough to guess that.
_SAMPLE = 1 << 16
#: So many rows are put in order at once.
_PIECE_ROWS = 1 << 17
#: Rows that are reduced at once, with those that are left of rows before if these are not more than half as many.
_REDUCED_ROWS = 1 << 20


@dataclass(frozen=True)
class RowsReport:
    """What an attempt has left, or why it has not."""

    runs: tuple[str, ...] = ()
    #: Rows that it has read and that the conditions let through.
    rows: int = 0
    not_taken: str | None = None

    def to_bytes(self) -> bytes:
        return json.dumps([self.runs, self.rows, self.not_taken]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> RowsReport:
        runs, rows, not_taken = json.loads(data)
        return cls(tuple(runs), rows, not_taken)


@dataclass(frozen=True)
class RankedPart:
    """A part of a file, and where the file stands among all; None: it does not matter."""

    part: FilePart
    rank: int | None

    @property
    def size_bytes(self) -> int:
        return self.part.size_bytes


@dataclass(frozen=True, kw_only=True)
class RowScanTask(ScanTask[RankedPart, RowsReport]):
    """Keeps the rows that it reads; the other arguments are those of the base.

    Args:
        scan: what is read.
        condition: what lets rows through; None: all of them.
        columns: for each column that is wanted the column of the files.
        work: what is made of the rows.
        side: which of its sides they are.
    """

    scan: ParquetScan
    condition: Value | None
    columns: tuple[tuple[str, str], ...]
    work: RowWork
    side: int

    report_type = RowsReport

    def scanned(self, parts: Sequence[RankedPart], attempt: str, number: int = 0) -> RowsReport:
        runs, rows, waiting = list[str](), 0, _WaitingRows(self.work, self.side)
        progress = self.progress(number)
        progress.write()
        reduces: bool | None = None if self.work.reduces else False  # None: too few rows have been seen

        def write() -> None:
            ordered = waiting.in_order(reduced=bool(reduces))
            path = f"{self.folder}/{attempt}-{len(runs)}.run"
            write_run(self.target, path, ordered, self.buckets, self.without)
            runs.append(path)
            written = sum(batch.num_rows for batch in ordered)
            progress.written(written, kept=written)

        for ranked in parts:
            seen = progress.part_begins(ranked.size_bytes)
            for table in self._let_through(ranked.part, seen):
                rows += table.num_rows
                waiting.add(self._keyed(table, ranked.rank))
                progress.waits(waiting.rows)
                if reduces is None and waiting.rows >= _SAMPLE:
                    reduces = self._repeats(waiting.batches, parts)
                if reduces and waiting.rows - waiting.reduced_rows >= _REDUCED_ROWS:
                    waiting.reduce()
                if 4 * waiting.size_bytes > self.memory_bytes or 2 * waiting.reduced_rows > _REDUCED_ROWS:
                    write()
        if waiting.batches:
            write()
        progress.written()
        failpoint("scan-before-report")
        return RowsReport(tuple(runs), rows)

    def _let_through(self, part: FilePart, seen: Callable[[int, int, float], None]) -> Iterator[pa.Table]:
        def worked_on(rows: int, share: float) -> None:
            seen(rows, 0, share)  # how many are kept is known when a run is written

        for table in self.scan.batches(self.source, part, seen=worked_on):
            if self.condition is None:
                yield table
            else:
                rows = table.combine_chunks().to_batches()[0]
                rows = filtered(rows, self.condition, rows.schema.names)
                if rows.num_rows:
                    yield pa.Table.from_batches([rows])

    def _keyed(self, table: pa.Table, rank: int | None) -> pa.RecordBatch:
        """The rows with their key groups, in the columns of a run."""
        arrays = {
            name: typed(unchunked(table[column]), self.work.type_of(self.side, name)) for name, column in self.columns
        }
        groups = key_groups(
            [arrays[name] for name in self.work.group_columns], self.buckets.max_parallelism, len(table)
        )
        arrays[KEY_GROUP_COLUMN] = pa.array(groups)
        places = None if self.scan.places is None else unchunked(table[self.scan.places])
        return self.work.run_rows(self.side, arrays, places, rank)

    def _repeats(self, waiting: Sequence[pa.RecordBatch], parts: Sequence[RankedPart]) -> bool:
        """Whether many rows have the same key, judging by the first ones."""
        keys = pa.Table.from_batches([batch.select(list(self.work.key_columns)) for batch in waiting])[:_SAMPLE]
        found = keys.group_by(list(self.work.key_columns), use_threads=False).aggregate([])
        expected = self.expected_rows(self.scan, parts[0].part, parts)
        # What a run has in common is what it can leave out.
        return rows_per_key(keys.num_rows, found.num_rows, min(expected, _REDUCED_ROWS)) >= WORTH_REDUCING


@dataclass
class _WaitingRows:
    """Rows that have been read and are in no run yet.

    Args:
        work: what is made of them.
        side: which of its sides they are.
    """

    work: RowWork
    side: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0
    #: How many of them have been reduced; they are in the first batch.
    reduced_rows: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size_bytes += batch.nbytes

    def reduce(self) -> None:
        """Leave out the rows that change nothing."""
        batch = self.work.reduced(self.side, pa.concat_batches(self.batches))
        self._clear()
        self.add(batch)
        self.reduced_rows = batch.num_rows

    def in_order(self, *, reduced: bool) -> list[pa.RecordBatch]:
        """The rows, each batch in the order of key groups; they wait no longer.

        Args:
            reduced: those that change nothing are left out.
        """
        if reduced and self.rows > self.reduced_rows:
            self.reduce()
        batches = self.batches
        self._clear()
        return [in_order_of_groups(batch) for batch in batches] if reduced else _in_pieces(batches)

    def _clear(self) -> None:
        self.batches, self.rows, self.size_bytes, self.reduced_rows = [], 0, 0, 0


def _in_pieces(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Rows in pieces, each in the order of key groups: what is moved to and fro stays in the processor's cache."""
    pieces = (batch.slice(at, _PIECE_ROWS) for batch in batches for at in range(0, batch.num_rows, _PIECE_ROWS))
    return [in_order_of_groups(piece) for piece in pieces]
