"""Output of one attempt on its way to a staged file: written, hashed and made durable, or only counted."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ...state.store.pool import begin_new_file_sync, sync_new_file, writing
from ..storage.filesystem import delete_quietly, is_local_disk
from .parquet_form import ParquetForm
from .staging import StagedFile

#: Entry of a file's metadata with its columns as Spark knows them.
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
#: Entry with the values of the partition that a file is of, as one row in Arrow's stream format.
_PARTITION = b"mixedmode.partition"
#: Rows per Parquet row group; bounds what a task buffers.
_ROW_GROUP_ROWS = 122_880
#: More are written beside what else their task does.
_SMALL_BYTES = 256 * 1024


def partition_values(schema: pa.Schema) -> dict[str, pa.Array]:
    """The columns that a staged file with this schema has one value of, which is not in its rows."""
    entry = (schema.metadata or {}).get(_PARTITION)
    if entry is None:
        return {}
    with pa.ipc.open_stream(base64.b64decode(entry)) as reader:
        row = reader.read_next_batch()
    return dict(zip(row.schema.names, row.columns, strict=True))


class _HashingFile:
    """A file for the Parquet writer that takes the checksum of what passes through."""

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self._stream.write(data)
        self.size_bytes += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()


class DroppedOutput:
    """Counts rows that nobody takes."""

    def __init__(self) -> None:
        self.dropped_rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Count the rows."""
        self.dropped_rows += rows.num_rows

    def finish(self) -> list[StagedFile]:
        """There are no files."""
        return []

    def finish_soon(self) -> Callable[[], list[StagedFile]]:
        """There is nothing to wait for."""
        return self.finish

    def abort(self) -> None:
        """There is nothing to remove."""


class StagedOutput:
    """Writes the Parquet file of an attempt, or several if their rows are limited; created only when a row comes."""

    dropped_rows = 0

    def __init__(
        self,
        filesystem: fs.FileSystem,
        folder: str,
        name: str,
        schema: pa.Schema,
        spark_schema: str,
        shown_in: str = "",
        partition: pa.RecordBatch | None = None,
        form: ParquetForm | None = None,
    ) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._attempt, self._name = name, f"{name}.parquet"
        # Spark reads its own types (intervals, char) back from this footer entry.
        entries: dict[bytes, bytes] = {SPARK_SCHEMA: spark_schema.encode()}
        if partition is not None:
            entries[_PARTITION] = _one_row(partition)
        self._schema = schema.with_metadata(entries)
        self._shown_in = shown_in
        self._form = form or ParquetForm()
        self._writer: pq.ParquetWriter | None = None
        self._file: _HashingFile | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        #: Of the file that is open.
        self._rows = 0
        self._finished: list[StagedFile] = []

    @property
    def _path(self) -> str:
        return f"{self._folder}/{self._name}"

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows (columns by position and type of the output schema)."""
        typed, most = pa.RecordBatch.from_arrays(rows.columns, schema=self._schema), self._form.file_rows
        while typed.num_rows:
            part = typed if most is None else typed.slice(0, most - self._rows - self._pending_rows)
            typed = typed.slice(part.num_rows)
            self._pending.append(part)
            self._pending_rows += part.num_rows
            if self._rows + self._pending_rows == most:
                self._finish_file()
            elif self._pending_rows >= _ROW_GROUP_ROWS:
                self._write_row_group()

    def _write_row_group(self) -> None:
        with writing(self._path):
            if self._writer is None:
                self._filesystem.create_dir(self._folder, recursive=True)
                self._file = _HashingFile(self._filesystem.open_output_stream(self._path))
                # Pages have checksums, by which Spark finds out what was altered where it reads them for us.
                self._writer = pq.ParquetWriter(
                    self._file, self._schema, write_page_checksum=True, **self._form.arguments
                )
            rows = pa.Table.from_batches(self._pending, schema=self._schema)
            self._writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
        self._rows += self._pending_rows
        self._pending, self._pending_rows = [], 0

    def finish(self, *, even_without_rows: bool = False) -> list[StagedFile]:
        """Close the file and say what was written; empty if there was no row, unless that is to be said by a file."""
        if self._pending or (even_without_rows and not self._finished):
            self._write_row_group()
        self._finish_file()
        return self._finished

    def finish_soon(self) -> Callable[[], list[StagedFile]] | None:
        """Write few rows at once.

        Returns:
            Waits until they are durable, as :meth:`finish`; None: nothing was done, :meth:`finish` does all of it.
        """
        is_small = self._writer is None and sum(rows.nbytes for rows in self._pending) <= _SMALL_BYTES
        if not is_small or not is_local_disk(self._filesystem):
            return None
        if not self._pending:
            return self.finish
        self._write_row_group()
        self._close_file()
        with writing(self._path):
            durable = begin_new_file_sync(self._path)

        def ended() -> list[StagedFile]:
            with writing(self._path):
                durable()
            self._note_finished()
            return self._finished

        return ended

    def _finish_file(self) -> None:
        """Close the file that is open, if there is one; what comes next goes into another."""
        if self._pending:
            self._write_row_group()
        if self._writer is None:
            return
        self._close_file()
        if is_local_disk(self._filesystem):
            with writing(self._path):
                sync_new_file(self._path)
        self._note_finished()

    def _close_file(self) -> None:
        assert self._writer is not None and self._file is not None
        with writing(self._path):
            self._writer.close()
            self._file.close()

    def _note_finished(self) -> None:
        assert self._file is not None
        digest = self._file.digest.hexdigest()
        self._finished.append(StagedFile(self._name, self._rows, self._file.size_bytes, digest, self._shown_in))
        self._writer, self._file, self._rows = None, None, 0
        self._name = f"{self._attempt}-r{len(self._finished):05d}.parquet"

    def abort(self) -> None:
        """Remove what is open; files that are finished are garbage that the driver sweeps, as a killed attempt's."""
        if self._file is None:
            return
        # On a full disk closing writes, and fails, once more.
        for open_one in (self._writer, self._file):
            if open_one is not None:
                with contextlib.suppress(OSError, pa.ArrowException):
                    open_one.close()
        delete_quietly(self._filesystem, self._path)


def _one_row(row: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_batch(row)
    return base64.b64encode(sink.getvalue().to_pybytes())
