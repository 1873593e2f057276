"""Output columns that Spark computes over the rows that an operator writes, inside the epoch's own tasks.

An operator whose output needs Spark's expressions has a :class:`Projection`.  Its rows do not go to the staged file:
they leave the Python worker, Spark computes the expressions, and a second Python function of the same task stages the
result (:mod:`.publish_task`).  It stays one task per shard, so an attempt is as private as ever.

Invariant: the first row that a task hands on carries its report and nothing else; all others carry no report.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from ...state.pool import writing
from ..connectors.staging import StagedFile
from ..operators.projection import Projection, _with_report
from ..platform.arrow_types import arrow_schema

if TYPE_CHECKING:
    pass


class RowSpool:
    """Keeps an operator's rows on the local disk until its attempt has succeeded; has the shape of a StagedOutput.

    The file has no name, so it goes with the process, however that ends.
    """

    dropped_rows = 0

    def __init__(self, folder: str, projection: Projection) -> None:
        self._folder = folder
        self._projection = projection
        self._schema = arrow_schema(projection.row_schema)
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

    def hand_on(self, report: bytes) -> Iterator[pa.RecordBatch]:
        """The report's row, then all rows, after :meth:`finish`."""
        yield self._projection.report_row(report)
        if self._file is None:
            return
        schema = _with_report(self._schema)
        self._file.seek(0)
        with self._file, pa.ipc.open_stream(self._file) as reader:
            for batch in reader:
                columns = [pa.nulls(batch.num_rows, pa.binary()), *batch.columns]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
