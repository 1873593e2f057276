"""The task that scans Parquet files and aggregates them in place of Spark, and leaves runs for the shards' tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ....state.keys.key_hash import key_groups
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...scan.engines import ENGINES
from ...scan.parquet_scan import FilePart
from ...scan.partial_calls import Sums, are_merged
from ...scan.partial_scans import Overlap, PartialScan
from ...scan.scan_keys import keyed as keyed_rows
from ...scan.scan_keys import windows
from ...support.arrow_columns import typed, unchunked
from ...support.failpoints import failpoint
from .key_order import in_order, in_order_of_groups
from .key_repetition import WORTH_REDUCING, rows_per_key, rows_per_key_among, sampled
from .partial_hash import ChunksToHash, RowsToHash
from .partial_runs import write_run
from .partial_sort import RowsToSort, memory_to_group, spelled_out
from .scan_task import ScanTask
from .sliding_windows import in_all_windows

#: Rows or chunks that wait to be written as partial aggregates.
_Waiting = RowsToSort | RowsToHash | ChunksToHash
#: Partial aggregates of a chunk are worth another look if there are so many rows for each.
_WORTH_MERGING = 4
#: Where so many of the rows that memory has room for have the same key, a table of hashes takes less time than sorting
#: (measured with one text key or several, and with one number).
_MANY, _MANY_OF_TEXTS = 8.0, 3.0


@dataclass(frozen=True)
class ScanReport:
    """What an attempt has left, or why it has not."""

    runs: tuple[str, ...] = ()
    #: How far sums can go, by column.
    bounds: tuple[tuple[str, int], ...] = ()
    not_taken: str | None = None

    def to_bytes(self) -> bytes:
        return json.dumps([self.runs, self.bounds, self.not_taken]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ScanReport:
        runs, bounds, not_taken = json.loads(data)
        return cls(tuple(runs), tuple((name, bound) for name, bound in bounds), not_taken)


@dataclass(frozen=True, kw_only=True)
class PartialScanTask(ScanTask[FilePart, ScanReport]):
    """Aggregates what it reads; the other arguments are those of the base.

    Args:
        partials: what to compute.
        schema: of a run, key group first.
        group_columns: the key columns that decide the key group.
        engine: the name of what reads and aggregates.
    """

    partials: PartialScan
    schema: pa.Schema
    group_columns: tuple[str, ...]
    engine: str = "arrow"

    report_type = ScanReport

    def scanned(self, parts: Sequence[FilePart], attempt: str, number: int = 0) -> ScanReport:
        engine, sums, runs = ENGINES[self.engine], Sums(), list[str]()
        waiting: _Waiting | None = None
        progress = self.progress(number)
        progress.write()

        def write(rows: pa.RecordBatch) -> None:
            if self._overlap is not None:
                rows = in_all_windows(rows, *self._overlap, self.group_columns, self.buckets.max_parallelism)
            runs.append(f"{self.folder}/{attempt}-{len(runs)}.run")
            write_run(self.target, runs[-1], [rows], self.buckets, self.without)
            progress.written(rows.num_rows)

        for part in parts:
            for table in engine.tables(self.partials, self.source, part, progress.part_begins(part.size_bytes)):
                keyed = keyed_rows(self.partials, table)
                if not len(keyed):
                    continue  # a filter has left none, and nothing says yet how often keys repeat
                if waiting is None:
                    whole = self.expected_rows(self.partials.scan, parts[0], parts)
                    per_key = self._rows_per_key(keyed, whole)
                    waiting = self._way(per_key, keyed, whole)
                if not waiting.add(self._as_added(waiting, keyed), sums):
                    if waiting.rows:
                        write(waiting.taken())
                    waiting = self._in_chunks
                    waiting.add(self._as_added(waiting, keyed), sums)
                progress.waits(waiting.waiting_keys(per_key) * self._windows_of_a_row)
                if waiting.memory_bytes > self._budget_bytes:
                    write(waiting.taken())
        if waiting is not None and waiting.rows:
            write(waiting.taken())
        progress.written()
        failpoint("scan-before-report")
        return ScanReport(tuple(runs), tuple(sums.bounds.items()))

    def _rows_per_key(self, first: pa.Table, whole: int) -> float:
        """About how many rows have the same key; 1: keys have no order here, so nobody looks.

        Args:
            first: the first rows.
            whole: about how many rows there are.
        """
        names = tuple(self._plain_keys)
        if not RowsToSort.takes(self.schema, names):
            return 1.0
        return rows_per_key(*sampled(first, names), whole)

    def _way(self, per_key: float, first: pa.Table, whole: int) -> _Waiting:
        """What takes the rows, until they turn out to be others than they seem.

        Args:
            per_key: about how many rows have the same key.
            first: the first rows.
            whole: about how many rows there are.
        """
        names, calls, most = tuple(self._plain_keys), self.partials.calls, self.buckets.max_parallelism
        if not RowsToSort.takes(self.schema, names):
            return self._in_chunks
        at_once = len(first) * self._budget_bytes // memory_to_group(len(first), spelled_out(first).nbytes)
        many = _MANY_OF_TEXTS if any(pa.types.is_string(self.schema.field(name).type) for name in names) else _MANY
        if are_merged(calls) and rows_per_key_among(min(at_once, whole), per_key, whole) < many:
            return RowsToSort(self.schema, names, self.group_columns, calls, most, per_key < WORTH_REDUCING)
        if rows_per_key_among(len(first), per_key, whole) < _WORTH_MERGING:
            return RowsToHash(self._aggregated, self._by_key)
        return self._in_chunks

    @property
    def _in_chunks(self) -> ChunksToHash:
        """Takes any rows."""
        return ChunksToHash(self._aggregated, self._merged, self._by_group, self._budget_bytes)

    def _aggregated(self, table: pa.Table, sums: Sums) -> pa.Table:
        return ENGINES[self.engine].aggregated(table, self._plain_keys, self.partials.calls, sums)

    def _as_added(self, waiting: _Waiting, keyed: pa.Table) -> pa.Table:
        """What is sorted has its windows, and its texts by their numbers; what is hashed has neither."""
        return self._with_windows(keyed) if isinstance(waiting, RowsToSort) else spelled_out(keyed)

    @property
    def _plain_keys(self) -> list[str]:
        """Columns to group by; windows by where they start."""
        return [key.name for key in self.partials.keys]

    def _with_windows(self, keyed: pa.Table) -> pa.Table:
        for at, key in enumerate(self.partials.keys):
            if key.window is not None:
                data_type = self.schema.field(key.name).type
                keyed = keyed.set_column(at, key.name, windows(key, unchunked(keyed[key.name]), data_type))
        return keyed

    def _merged(self, waiting: list[pa.Table], rows: int) -> pa.Table:
        """One table; a key may be in it more than once if merging would not make it much smaller."""
        whole = pa.concat_tables(waiting)
        is_worth_it = len(waiting) > 1 and rows >= _WORTH_MERGING * whole.num_rows
        if is_worth_it and are_merged(self.partials.calls):
            whole = ENGINES[self.engine].aggregated(whole, self._plain_keys, self.partials.calls, Sums(), again=True)
        return whole.combine_chunks()

    def _by_key(self, table: pa.Table) -> pa.RecordBatch:
        """Partial aggregates in the order of their key groups and keys."""
        return in_order(self._with_groups(table), self._plain_keys)

    def _by_group(self, table: pa.Table) -> pa.RecordBatch:
        """Partial aggregates in the order of their key groups; whoever merges them sorts their keys."""
        return in_order_of_groups(self._with_groups(table))

    def _with_groups(self, table: pa.Table) -> pa.RecordBatch:
        """Partial aggregates with their key groups."""
        arrays = {column: unchunked(table[column]) for column in table.column_names}
        for key in self.partials.keys:
            if key.window is not None:
                at = self.schema.get_field_index(key.name)
                arrays[key.name] = windows(key, arrays[key.name], self.schema.field(at).type)
        groups = key_groups([arrays[name] for name in self.group_columns], self.buckets.max_parallelism, table.num_rows)
        arrays[KEY_GROUP_COLUMN] = pa.array(groups)
        columns = [typed(arrays[field.name], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @property
    def _overlap(self) -> tuple[str, Overlap] | None:
        """The key whose windows overlap, and how."""
        return next(((key.name, key.overlap) for key in self.partials.keys if key.overlap is not None), None)

    @property
    def _windows_of_a_row(self) -> int:
        return 1 if self._overlap is None else self._overlap[1].count

    @property
    def _budget_bytes(self) -> int:
        """Memory for what is not written yet, which is written once for each window that it is part of."""
        return self.memory_bytes if self._overlap is None else self.memory_bytes // (1 + self._windows_of_a_row)
