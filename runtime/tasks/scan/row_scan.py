"""The task that reads rows of Parquet files in place of Spark, and leaves them in runs for the shards' tasks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyspark import TaskContext

from ....state.keys.key_hash import key_groups
from ...jvm.worker.worker_tasks import task_begins
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...scan.expressions import functions  # noqa: F401  tasks compute values by them
from ...scan.expressions.values import Value, filtered
from ...scan.parquet_scan import FilePart, NotTakenError, ParquetScan
from ...support.failpoints import failpoint
from ..progress import ScanProgress
from ..report import report_batch
from .heap import keep_heap
from .key_order import in_order_of_groups
from .partial_runs import Buckets, write_run
from .repetition import WORTH_REDUCING, rows_per_key
from .row_work import RowWork

#: So many rows are enough to guess that.
_SAMPLE = 1 << 16
#: So many rows are put in order at once.
_PIECE_ROWS = 1 << 17
#: Rows that are reduced at once: fewer meet fewer of their key.
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


@dataclass(frozen=True)
class RowScanTask:
    """The function handed to ``mapInArrow``.

    Args:
        scan: what is read.
        condition: what lets rows through; None: all of them.
        columns: for each column that is wanted the column of the files.
        work: what is made of the rows.
        side: which of its sides they are.
        source: where the files are.
        parts: by partition.
        target: where runs go.
        folder: their folder there.
        name: begins the names of all runs of the pass.
        buckets: how runs are dealt.
        without: shards that nobody asks for.
        memory_bytes: for rows that are not written yet.
        progress_folder: in the target's file system, where tasks report how far they are; None: they do not.
        whole_bytes: of all scans of the pass, of which this one's tasks tell their part.
    """

    scan: ParquetScan
    condition: Value | None
    columns: tuple[tuple[str, str], ...]
    work: RowWork
    side: int
    source: fs.FileSystem
    parts: tuple[tuple[RankedPart, ...], ...]
    target: fs.FileSystem
    folder: str
    name: str
    buckets: Buckets
    without: tuple[int, ...]
    memory_bytes: int
    progress_folder: str | None = None
    whole_bytes: int = 1

    @property
    def size_bytes(self) -> int:
        """How much all tasks read."""
        return sum(ranked.part.end - ranked.part.start for parts in self.parts for ranked in parts)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_begins()
        keep_heap()  # until a shard's task is through with what this one leaves
        for _ in batches:
            pass
        context = TaskContext.get()
        assert context is not None, "a scan runs only inside a Spark task"
        attempt = f"{self.name}-{context.partitionId():06d}-{context.taskAttemptId()}-{uuid.uuid4().hex[:8]}"
        try:
            report = self.scanned(self.parts[context.partitionId()], attempt, context.partitionId())
        except NotTakenError as error:
            report = RowsReport(not_taken=str(error))
        yield report_batch(report.to_bytes())

    def scanned(self, parts: Sequence[RankedPart], attempt: str, number: int = 0) -> RowsReport:
        """Scan some parts of files.

        Args:
            parts: them.
            attempt: begins the names of its runs.
            number: of the task.

        Raises:
            NotTakenError: Spark has to.
        """
        runs, waiting = list[str](), list[pa.RecordBatch]()
        rows = waiting_rows = size = 0
        progress = ScanProgress(self.target, self.progress_folder, f"{self.name}-{number:06d}", self.whole_bytes)
        progress.write()
        reduces: bool | None = None if self.work.reduces else False  # None: too few rows have been seen

        def write() -> None:
            nonlocal waiting, waiting_rows, size
            ordered = [self.work.reduced(self.side, pa.concat_batches(waiting))] if reduces else _in_pieces(waiting)
            waiting, waiting_rows, size = [], 0, 0
            path = f"{self.folder}/{attempt}-{len(runs)}.run"
            write_run(self.target, path, ordered, self.buckets, self.without)
            runs.append(path)
            progress.written(sum(batch.num_rows for batch in ordered))

        for ranked in parts:
            seen = progress.part_begins(ranked.part.end - ranked.part.start)
            for table in self._let_through(ranked.part, seen):
                rows += table.num_rows
                batch = self._keyed(table, ranked.rank)
                waiting.append(batch)
                waiting_rows += batch.num_rows
                size += batch.nbytes
                if reduces is None and waiting_rows >= _SAMPLE:
                    reduces = self._repeats(waiting, parts)
                if 4 * size > self.memory_bytes or (reduces and waiting_rows >= _REDUCED_ROWS):
                    write()
        if waiting:
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
            name: _typed(_one(table[column]), self.work.type_of(self.side, name)) for name, column in self.columns
        }
        groups = key_groups(
            [arrays[name] for name in self.work.group_columns], self.buckets.max_parallelism, len(table)
        )
        arrays[KEY_GROUP_COLUMN] = pa.array(groups)
        places = None if self.scan.places is None else _one(table[self.scan.places])
        return self.work.run_rows(self.side, arrays, places, rank)

    def _repeats(self, waiting: Sequence[pa.RecordBatch], parts: Sequence[RankedPart]) -> bool:
        """Whether many rows have the same key, judging by the first ones."""
        keys = pa.Table.from_batches([batch.select(list(self.work.key_columns)) for batch in waiting])[:_SAMPLE]
        found = keys.group_by(list(self.work.key_columns), use_threads=False).aggregate([])
        first = parts[0].part
        its_bytes = max(first.end - first.start, 1)
        whole = sum(ranked.part.end - ranked.part.start for ranked in parts)
        expected = self.scan.rows(self.source, first) * whole // its_bytes
        # What a run has in common is what it can leave out.
        return rows_per_key(keys.num_rows, found.num_rows, min(expected, _REDUCED_ROWS)) >= WORTH_REDUCING


def _in_pieces(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Rows in pieces, each in the order of key groups: what is moved to and fro stays in the processor's cache."""
    pieces = (batch.slice(at, _PIECE_ROWS) for batch in batches for at in range(0, batch.num_rows, _PIECE_ROWS))
    return [in_order_of_groups(piece) for piece in pieces]


def _one(column: pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        return column.chunk(0)
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _typed(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    return array if array.type == data_type else pc.cast(array, data_type)
