"""Rows that an operator writes, on their way through Spark's operations to the file in which they are staged.

An operator whose output needs Spark's expressions, and one that is followed by stateless operations, does not write to
the staged file: its rows leave the Python worker, Spark does to them what is to be done, and a second Python function
of the same task stages the result (:mod:`.publish_task`).  It stays one task per shard, so an attempt is as private as
ever.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from ...state.pool import writing
from ..connectors.staging import StagedFile
from ..platform.arrow_types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class RowSpool:
    """Keeps an operator's rows on the local disk until its attempt has succeeded; has the shape of a StagedOutput.

    The file has no name, so it goes with the process, however that ends.
    """

    dropped_rows = 0

    def __init__(self, folder: str, schema: StructType) -> None:
        self._folder = folder
        self._schema = arrow_schema(schema)
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows (columns by position)."""
        if rows.num_rows == 0:
            return
        with writing(self._folder):
            if self._writer is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  it outlives this call
                self._writer = pa.ipc.new_stream(self._file, self._schema)
            self._writer.write_batch(pa.RecordBatch.from_arrays(rows.columns, schema=self._schema))

    def finish(self) -> list[StagedFile]:
        """Nothing is staged yet."""
        if self._writer is not None and self._file is not None:
            with writing(self._folder):
                self._writer.close()
                self._file.flush()
        return []

    def abort(self) -> None:
        """Forget the rows."""
        if self._file is not None:
            # On a full disk closing writes, and fails, once more.
            with contextlib.suppress(OSError):
                self._file.close()

    def hand_on(self) -> Iterator[pa.RecordBatch]:
        """All rows, after :meth:`finish`."""
        if self._file is None:
            return
        self._file.seek(0)
        with self._file, pa.ipc.open_stream(self._file) as reader:
            yield from reader
