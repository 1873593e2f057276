"""A scan with partial aggregates, as data, and the files that it is of, dealt to tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from ..storage.filesystem import resolve
from .expressions import functions  # noqa: F401  tasks compute values by them
from .expressions.long_expressions import LongExpression
from .expressions.values import Batch, Value
from .parquet_scan import FilePart, NotTakenError, ParquetScan
from .partial_calls import PartialCall

_LEAST_PART_BYTES, _GREATEST_PART_BYTES = 4 * 1024 * 1024, 256 * 1024 * 1024
#: Rows of the first file for which all is computed at the start: what can fail mostly fails there.
_FIRST_ROWS = 10_000


@dataclass(frozen=True)
class Overlap:
    """Windows that overlap: what is aggregated of a pane, as long as the distance between them, is of several."""

    slide_us: int
    #: A whole number of panes.
    length_us: int
    #: The partial aggregate that counts rows: each counts in the latest of its windows.
    rows_column: str

    @property
    def count(self) -> int:
        """How many windows a pane is part of."""
        return self.length_us // self.slide_us


@dataclass(frozen=True)
class ScanKey:
    """A key column of the partial aggregates: a column of the files, or a window of one that is a time."""

    name: str
    #: The column; of a window that of its time.
    column: str
    #: Where windows start and end, in µs; None: it is the column itself.
    window: tuple[LongExpression, LongExpression] | None = None
    #: The windows that these are panes of; None: they are what is asked for.
    overlap: Overlap | None = None


@dataclass(frozen=True)
class PartialScan:
    """Partial aggregates of what a scan gives."""

    scan: ParquetScan
    keys: tuple[ScanKey, ...]
    calls: tuple[PartialCall, ...]
    #: What lets rows through; None: all of them.
    condition: Value | None = None
    #: The columns that keys and calls are of; empty: those of the files.
    computed: tuple[tuple[str, Value], ...] = ()

    def overlapping(self, overlaps: Mapping[str, Overlap]) -> PartialScan:
        """The same with windows that overlap, by key."""
        keys = [replace(key, overlap=overlaps.get(key.name)) for key in self.keys]
        return replace(self, keys=tuple(keys))

    def tables(
        self, filesystem: fs.FileSystem, part: FilePart, seen: Callable[[int, int, float], None] = lambda *_: None
    ) -> Iterator[pa.Table]:
        """What keys and calls are of, some rows of a part of a file at a time.

        Args:
            filesystem: where it is.
            part: the part.
            seen: is called when some rows have been worked on, with how many were read, how many of these the condition
                let through, and the share of the part's rows that was read by then.

        Raises:
            NotTakenError: Spark might have other rows.
        """
        let_through = 0

        def worked_on(rows: int, share: float) -> None:
            nonlocal let_through
            seen(rows, let_through, share)
            let_through = 0

        scan = replace(self.scan, dictionaries=self._texts_of_values())
        for table in scan.batches(filesystem, part, seen=worked_on):
            for computed in self.computed_of(table):
                let_through += computed.num_rows
                yield computed

    def _texts_of_values(self) -> tuple[str, ...]:
        """Columns of texts of which something is computed, or the least or greatest is looked for: once for each
        different text, where there are few."""
        values = [value for _, value in self.computed if value.function != "column"]
        values += [value for name, value in self.computed if name in self._compared_texts]
        columns = frozenset[str]().union(*(value.columns for value in (*values, *filter(None, [self.condition]))))
        return tuple(one.name for one in self.scan.columns if one.name in columns and pa.types.is_string(one.type))

    @property
    def _compared_texts(self) -> frozenset[str]:
        """What only the least, the greatest and a count is asked of, and is texts."""
        calls = [call for call in self.calls if call.function in ("min", "max") and pa.types.is_string(call.type)]
        others = [call.column for call in self.calls if call.function not in ("min", "max", "count")]
        return frozenset(str(call.column) for call in calls) - {*others, *(key.column for key in self.keys)}

    def check(self, filesystem: fs.FileSystem, part: FilePart) -> None:
        """Look at a file, and at its first rows if there are rows for which something is not known.

        Args:
            filesystem: where it is.
            part: all of it.

        Raises:
            NotTakenError: Spark might have other rows.
        """
        self.scan.check(filesystem, part.path)
        values = [value for _, value in self.computed] + ([] if self.condition is None else [self.condition])
        if any(value.can_fail for value in values):
            for table in self.scan.batches(filesystem, part, _FIRST_ROWS):
                list(self.computed_of(table))
                break

    def computed_of(self, table: pa.Table) -> Iterator[pa.Table]:
        """What keys and calls are of, of rows that a scan has given; nothing, if the condition lets none through.

        Args:
            table: the rows.

        Raises:
            NotTakenError: Spark might have other values.
        """
        if not self.computed:
            yield table
            return
        batch = Batch(table.combine_chunks().to_batches()[0])
        if self.condition is not None:
            wanted = frozenset[str]().union(*(value.columns for _, value in self.computed))
            batch = batch.filtered(self.condition, [name for name in table.column_names if name in wanted])
        if batch.rows.num_rows:
            texts = self._compared_texts
            arrays = [batch.texts(value) if name in texts else batch.of(value) for name, value in self.computed]
            yield pa.Table.from_arrays(arrays, names=[name for name, _ in self.computed])


@dataclass(frozen=True)
class RecognisedScan:
    """A scan and its files."""

    partials: PartialScan
    #: Resolved, but not looked for.
    uris: tuple[str, ...]
    #: By file the values of the columns that are read off its path; empty: none is asked for.
    constants: tuple[tuple[Any, ...], ...] = ()

    @property
    def rounds_sums(self) -> bool:
        """True if doubles are added in another order than Spark's."""
        return any(call.is_rounded for call in self.partials.calls)


def check_first_file(found: RecognisedScan) -> None:
    """Raise if the first file is one that Spark has to read: most often they all are alike.

    Args:
        found: the scan.

    Raises:
        NotTakenError: it is.
    """
    for uri in found.uris[:1]:
        try:
            filesystem, path = resolve(unquote(uri))
            size = filesystem.get_file_info(path).size or 0
        except (OSError, ValueError) as error:
            raise NotTakenError(f"{uri} cannot be found without Spark: {error}") from error
        found.partials.check(filesystem, FilePart(path, 0, size, next(iter(found.constants), ())))


def file_parts(
    uris: Sequence[str], tasks: int, constants: Sequence[tuple[Any, ...]] = ()
) -> tuple[fs.FileSystem, list[list[FilePart]]]:
    """The files of a scan, dealt to tasks: one for each that runs at once, unless they are large.

    A task's rows are aggregated together, so few large tasks leave less to be merged than many small ones. All that run
    at once get about as much, so there are as many tasks as that, or a multiple: with one more, the others would wait.

    Args:
        uris: the files.
        tasks: how many run at once.
        constants: by file the values of the columns that are read off its path; empty: none is asked for.

    Raises:
        NotTakenError: they cannot be found without Spark.
    """
    filesystem: fs.FileSystem | None = None
    paths = []
    try:
        for uri in uris:
            its, path = resolve(unquote(uri))  # Spark names files by URIs
            if filesystem is not None and not filesystem.equals(its):
                raise NotTakenError("the files are in several file systems")
            filesystem = its
            paths.append(path)
        filesystem = filesystem or fs.LocalFileSystem()
        infos = filesystem.get_file_info(paths)
    except (OSError, ValueError) as error:
        raise NotTakenError(f"the files cannot be found without Spark: {error}") from error
    missing = next((info.path for info in infos if info.type != fs.FileType.File), None)
    if missing is not None:
        raise NotTakenError(f"{missing} cannot be found without Spark")
    whole = sum(info.size for info in infos)
    at_once = max(tasks, 1)
    turns = max(1, -(-whole // (at_once * _GREATEST_PART_BYTES)))
    each = max(_LEAST_PART_BYTES, -(-whole // (at_once * turns)))
    # Of parts that are no larger than half of that, no task gets much more than others.
    most = max(_LEAST_PART_BYTES, -(-each // 2))
    parts = sorted(_parts(infos, constants or ((),) * len(infos), most), key=lambda part: -part.size_bytes)
    # The largest first, each to whoever has least.
    dealt = [(0, number, list[FilePart]()) for number in range(min(len(parts), -(-whole // each)))]
    for part in parts:
        size, number, its = heappop(dealt)
        heappush(dealt, (size + part.size_bytes, number, [*its, part]))
    return filesystem, [its for _, _, its in sorted(dealt, key=itemgetter(1))]


def _parts(infos: list[fs.FileInfo], constants: Sequence[tuple[Any, ...]], most: int) -> Iterator[FilePart]:
    for info, its in zip(infos, constants, strict=True):
        for start in range(0, info.size, most):
            yield FilePart(info.path, start, min(start + most, info.size), its)
