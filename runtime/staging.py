"""Attempt-private output files of shard tasks.

A task writes the rows of its epoch to Parquet files whose name no other attempt shares and returns the names.  Nothing
is visible to readers; the driver's sink makes the winner's files visible when the checkpoint completes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from .filesystem import delete_quietly

#: Rows per Parquet row group; bounds what a task buffers.
_ROW_GROUP_ROWS = 122_880


@dataclass(frozen=True)
class StagedFile:
    """One output file of a winning attempt, by its name below the staging folder."""

    name: str
    rows: int
    size_bytes: int


def epoch_of(file_name: str) -> int:
    """The epoch in which a state or output file was written; attempts put it first in their names."""
    match = re.match(r"e(\d{8})-", file_name)
    return int(match[1]) if match else 0


class StagedOutput:
    """Writes one Parquet file of an attempt; created only when the first row comes."""

    def __init__(self, filesystem: fs.FileSystem, folder: str, name: str, schema: pa.Schema, spark_schema: str) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._name = f"{name}.parquet"
        # Spark reads its own types (intervals, char) back from this footer entry.
        self._schema = schema.with_metadata({"org.apache.spark.sql.parquet.row.metadata": spark_schema})
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._rows = 0

    @property
    def _path(self) -> str:
        return f"{self._folder}/{self._name}"

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows (columns by position and type of the output schema)."""
        if rows.num_rows == 0:
            return
        self._pending.append(pa.RecordBatch.from_arrays(rows.columns, schema=self._schema))
        self._pending_rows += rows.num_rows
        if self._pending_rows >= _ROW_GROUP_ROWS:
            self._write_row_group()

    def _write_row_group(self) -> None:
        if self._writer is None:
            self._filesystem.create_dir(self._folder, recursive=True)
            self._writer = pq.ParquetWriter(
                self._path, self._schema, filesystem=self._filesystem, compression="snappy", coerce_timestamps="us"
            )
        self._writer.write_table(pa.Table.from_batches(self._pending), row_group_size=_ROW_GROUP_ROWS)
        self._rows += self._pending_rows
        self._pending, self._pending_rows = [], 0

    def finish(self) -> list[StagedFile]:
        """Close the file and say what was written; empty if there was no row."""
        if self._pending:
            self._write_row_group()
        if self._writer is None:
            return []
        self._writer.close()
        size_bytes = self._filesystem.get_file_info(self._path).size
        return [StagedFile(self._name, self._rows, size_bytes)]

    def abort(self) -> None:
        """Remove what was written."""
        if self._writer is not None:
            self._writer.close()
            delete_quietly(self._filesystem, self._path)
