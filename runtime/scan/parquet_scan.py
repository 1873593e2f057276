"""Reading Parquet files in a task as Spark reads them, without Spark: what is proven to be the same, and nothing else.

A scan is made of a plan by :mod:`.scan_plans`.  What only the files can tell is looked at here: each file's footer must
say of each column exactly the type that Spark was asked for, under exactly its name.  Whatever else comes up (a type
that Spark would widen, dates that it may have to rebase from the Julian calendar, a page that cannot be read) is a
:class:`NotTakenError`: then Spark reads, and says what is wrong, or that nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from .parquet_int96 import PHYSICAL_TYPE as INT96
from .parquet_int96 import SPARK_VERSION, are_alike, is_of_spark

#: Rows that are worked on at once, without and with texts; and their bytes, by what a file says of its rows.
_BATCH_ROWS, _BATCH_ROWS_OF_TEXT, _BATCH_BYTES = 1_000_000, 100_000, 64 << 20
#: What Spark writes into footers of files whose dates, and times but for those as INT96, are of another calendar.
_LEGACY_DATETIME = b"org.apache.spark.legacyDateTime"
#: Spark's type -> physical type of Parquet and the logical types that mean it.
_PARQUET_TYPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "boolean": ("BOOLEAN", ("None",)),
    "tinyint": ("INT32", ("Int(bitWidth=8, isSigned=true)",)),
    "smallint": ("INT32", ("Int(bitWidth=16, isSigned=true)",)),
    "int": ("INT32", ("None", "Int(bitWidth=32, isSigned=true)")),
    "bigint": ("INT64", ("None", "Int(bitWidth=64, isSigned=true)")),
    "float": ("FLOAT", ("None",)),
    "double": ("DOUBLE", ("None",)),
    "date": ("INT32", ("Date",)),
    "string": ("BYTE_ARRAY", ("String",)),
    "timestamp": ("INT64", ("Timestamp(isAdjustedToUTC=true, timeUnit=microseconds,",)),
    "timestamp_ntz": ("INT64", ("Timestamp(isAdjustedToUTC=false, timeUnit=microseconds,",)),
}
#: Texts that take fewer bytes each come from a dictionary, whose numbers have at most so many.
_REPEATED_BYTES = 2
_CALENDAR_TYPES = ("date", "timestamp", "timestamp_ntz")

#: Takes rows read, and the share of a part that is done.
Seen = Callable[[int, float], None]


class NotTakenError(Exception):
    """The files are not what is proven to be read as Spark reads it; Spark has to."""


@dataclass(frozen=True)
class ScanColumn:
    """A column of the files."""

    name: str
    #: Spark's type, as ``DataType.simpleString`` writes it.
    spark_type: str
    type: pa.DataType


@dataclass(frozen=True)
class FilePart:
    """Some bytes of a file: the row groups whose middle is among them."""

    path: str
    start: int
    end: int
    #: Values of the columns that are read off the path, as Arrow takes them.
    constants: tuple[Any, ...] = ()

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


@contextmanager
def _opened(filesystem: fs.FileSystem, path: str) -> Iterator[pa.NativeFile]:
    """A file; an error while it is read means that it is not taken."""
    try:
        with filesystem.open_input_file(path) as source:
            yield source
    except (OSError, pa.ArrowException, ValueError) as error:
        raise NotTakenError(f"{path} cannot be read: {error}") from error


@dataclass(frozen=True)
class ParquetScan:
    """What is read: all rows of some files."""

    columns: tuple[ScanColumn, ...]
    #: Columns of which each file has one value.
    of_paths: tuple[ScanColumn, ...] = ()
    #: A column with each row's number in its file, behind the others; None: nobody asks.
    places: str | None = None
    #: Texts that may come as dictionaries, of which few values come often.
    dictionaries: tuple[str, ...] = ()

    def batches(
        self, filesystem: fs.FileSystem, part: FilePart, at_once: int | None = None, seen: Seen = lambda *_: None
    ) -> Iterator[pa.Table]:
        """The rows of a part of a file, some at a time.

        Args:
            filesystem: where the file is.
            part: the part.
            at_once: how many rows a table has at most; None: as many as are worked on fast.
            seen: is called when whoever iterates asks for more, with how many rows it has had, and the share of the
                part's rows that this makes, those before included.

        Raises:
            NotTakenError: Spark might read it in another way.
        """
        with _opened(filesystem, part.path) as source:
            yield from self._batches(source, part, at_once, seen)

    def rows(self, filesystem: fs.FileSystem, part: FilePart) -> int:
        """About how many rows a part of a file has.

        Raises:
            NotTakenError: the file cannot be read.
        """
        with _opened(filesystem, part.path) as source:
            metadata, size = pq.ParquetFile(source).metadata, source.size()
        return int(metadata.num_rows) * part.size_bytes // max(size, 1)

    def check(self, filesystem: fs.FileSystem, path: str) -> None:
        """Look at what a file says of its columns.

        Raises:
            NotTakenError: Spark might read it in another way.
        """
        with _opened(filesystem, path) as source:
            check_footer(pq.ParquetFile(source), self.columns, path)

    def _batches(self, source: pa.NativeFile, part: FilePart, at_once: int | None, seen: Seen) -> Iterator[pa.Table]:
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        metadata, size = file.metadata, source.size()
        int96 = check_footer(file, self.columns, part.path)
        middles = [_middle(metadata.row_group(i)) for i in range(metadata.num_row_groups)]
        if not all(0 <= middle < size for middle in middles):
            raise NotTakenError(f"{part.path} has rows where it has none")
        groups = [i for i, at in enumerate(middles) if part.start <= at < part.end and metadata.row_group(i).num_rows]
        names = [column.name for column in self.columns]
        if not groups:
            seen(0, 1.0)
            return
        repeated = _repeated(metadata, groups, self.dictionaries)
        if repeated:
            file = pq.ParquetFile(source, metadata=metadata, read_dictionary=repeated, coerce_int96_timestamp_unit="us")
        in_all, worked_on = sum(metadata.row_group(i).num_rows for i in groups), 0
        has_text = any(pa.types.is_string(column.type) for column in self.columns)
        rows = at_once or (_BATCH_ROWS_OF_TEXT if has_text else _BATCH_ROWS)
        row_bytes = sum(_sizes(metadata, groups, names).values()) // in_all
        rows = max(1, min(rows, _BATCH_BYTES // max(row_bytes, 1)))
        if int96 and not are_alike(source, metadata, int96, groups, rows):
            raise NotTakenError(f"{part.path} has times long ago or far ahead as {INT96} (column {', '.join(int96)})")
        read = file.iter_batches(rows, row_groups=groups, columns=names, use_threads=False)
        numbers = None if self.places is None else _row_numbers(metadata, groups)
        for batch in read:
            table = pa.Table.from_batches([batch]).select(names)
            for at, column in enumerate(self.columns):
                if table.schema.field(at).type != column.type and column.name not in repeated:
                    table = table.set_column(at, column.name, _as(table.column(at), column, part.path))
            for column, constant in zip(self.of_paths, part.constants, strict=True):
                values = pa.repeat(pa.scalar(constant, column.type), batch.num_rows)
                table = table.append_column(pa.field(column.name, column.type), values)
            if numbers is not None:
                table = table.append_column(str(self.places), pa.array(numbers[: batch.num_rows]))
                numbers = numbers[batch.num_rows :]
            if table.num_rows:
                yield table
            worked_on += batch.num_rows
            seen(batch.num_rows, worked_on / in_all)


def _as(array: pa.ChunkedArray, column: ScanColumn, path: str) -> pa.ChunkedArray:
    same = pa.types.is_timestamp(array.type) and pa.types.is_timestamp(column.type) and array.type.unit == "us"
    if not same and not pa.types.is_dictionary(array.type):
        raise NotTakenError(f"{path}: column {column.name} is read as {array.type}, not as {column.type}")
    return array.cast(column.type)


def _repeated(metadata: Any, groups: list[int], names: Sequence[str]) -> list[str]:
    """Columns that take so few bytes a row that they must be numbers of a dictionary with few values."""
    rows = sum(metadata.row_group(i).num_rows for i in groups)
    return [name for name, size in _sizes(metadata, groups, names).items() if size < _REPEATED_BYTES * rows]


def _sizes(metadata: Any, groups: list[int], names: Sequence[str]) -> dict[str, int]:
    """The bytes of some columns in some row groups, as they are encoded."""
    sizes = dict.fromkeys(names, 0)
    for i in groups if names else ():
        group = metadata.row_group(i)
        for place in range(group.num_columns):
            column = group.column(place)
            if column.path_in_schema in sizes:
                sizes[column.path_in_schema] += column.total_uncompressed_size
    return sizes


def _row_numbers(metadata: Any, groups: list[int]) -> np.ndarray:
    """The numbers of the rows of some row groups in their file."""
    counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    firsts = np.cumsum([0, *counts])
    return np.concatenate([np.arange(firsts[i], firsts[i + 1]) for i in groups])


def _middle(group: Any) -> int:
    """Where the middle of a row group is, by which Spark gives it to a task."""
    starts = []
    size = 0
    for i in range(group.num_columns):
        chunk = group.column(i)
        dictionary = chunk.dictionary_page_offset
        starts.append(chunk.data_page_offset if not dictionary else min(dictionary, chunk.data_page_offset))
        size += chunk.total_compressed_size
    return min(starts, default=0) + size // 2


def check_footer(file: pq.ParquetFile, columns: tuple[ScanColumn, ...], path: str) -> list[str]:
    """Raise unless a file has all columns in just the types that are asked for.

    Args:
        file: the file.
        columns: what is asked for.
        path: its path, for errors.

    Returns:
        The columns with times as INT96, whose values are still to be looked at.

    Raises:
        NotTakenError: it has not.
    """
    schema, int96 = file.schema, []
    written = file.metadata.metadata or {}
    is_legacy = _LEGACY_DATETIME in written or written.get(SPARK_VERSION, b"3.0.0") < b"3.0.0"
    found: dict[str, list[Any]] = {}
    for i in range(len(schema)):
        leaf = schema.column(i)
        found.setdefault(leaf.path.partition(".")[0].lower(), []).append(leaf)
    for column in columns:
        leaves = found.get(column.name.lower(), [])
        if len(leaves) != 1 or leaves[0].path != column.name or leaves[0].max_repetition_level:
            shown = ", ".join(leaf.path for leaf in leaves) or "nothing"
            raise NotTakenError(f"{path} has {shown} for column {column.name}")
        leaf = leaves[0]
        if leaf.physical_type == INT96 and column.spark_type == "timestamp" and is_of_spark(file.metadata):
            int96.append(column.name)
        elif not _means(leaf, column):
            raise NotTakenError(
                f"{path} has column {column.name} as {leaf.physical_type} {leaf.logical_type}, asked for is"
                f" {column.spark_type}"
            )
        elif is_legacy and column.spark_type in _CALENDAR_TYPES:
            raise NotTakenError(f"{path} may have dates of the Julian calendar (column {column.name})")
    return int96


def _means(leaf: Any, column: ScanColumn) -> bool:
    logical = str(leaf.logical_type)
    if pa.types.is_decimal(column.type):
        precision, scale = column.type.precision, column.type.scale
        return logical == f"Decimal(precision={precision}, scale={scale})" and leaf.physical_type in (
            "INT32",
            "INT64",
            "FIXED_LEN_BYTE_ARRAY",
        )
    physical, logicals = _PARQUET_TYPES[column.spark_type]
    return leaf.physical_type == physical and any(
        logical == known or (known.endswith(",") and logical.startswith(known)) for known in logicals
    )


def is_scannable(spark_type: str) -> bool:
    """Whether columns of a type can be read; ``spark_type``: as ``DataType.simpleString`` writes it."""
    return spark_type in _PARQUET_TYPES or spark_type.startswith("decimal(")
