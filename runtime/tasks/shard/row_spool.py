"""Rows that an operator writes, on their way through Spark's operations to the file in which they are staged.

An operator whose output needs Spark's expressions, and one that is followed by stateless operations, does not write to
the staged file: its rows leave the Python worker, Spark does to them what is to be done, and a second Python function
of the same task stages the result (:mod:`.publish_task`).  It stays one task per shard, so an attempt is as private as
ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from ...catalyst.types.arrow_types import arrow_schema
from ...connectors.staging import StagedFile
from ...support.batch_spool import BatchSpool

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


#: Rows of a small epoch, which need no disk.
_MEMORY_BYTES = 1 << 20


class RowSpool:
    """Keeps an operator's rows until its attempt has succeeded, most of them on the local disk; has the shape of a
    StagedOutput."""

    dropped_rows = 0

    def __init__(self, folder: str, schema: StructType) -> None:
        self._schema = arrow_schema(schema)
        self._spool = BatchSpool(folder, self._schema, _MEMORY_BYTES)
        self.rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows (columns by position)."""
        self.rows += rows.num_rows
        if rows.num_rows:
            self._spool.write(pa.RecordBatch.from_arrays(rows.columns, schema=self._schema))

    def finish(self) -> list[StagedFile]:
        """Nothing is staged yet."""
        self._spool.finish()
        return []

    def finish_soon(self) -> Callable[[], list[StagedFile]]:
        """There is nothing to wait for."""
        return self.finish

    def abort(self) -> None:
        """Forget the rows."""
        self._spool.close()

    def hand_on(self) -> Iterator[pa.RecordBatch]:
        """All rows, after :meth:`finish`."""
        return self._spool.read()
