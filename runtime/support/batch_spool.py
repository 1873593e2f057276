"""Record batches put aside: in memory as long as they are few, then in a file on the local disk.

The file has no name, so it goes with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from ...state.store.pool import writing


class BatchSpool:
    """First all is written, then it is read, once.

    Args:
        folder: on the local disk.
        schema: of the batches.
        memory_bytes: what may stay in memory.
    """

    def __init__(self, folder: str, schema: pa.Schema, memory_bytes: int = 0) -> None:
        self._folder = folder
        self._schema = schema
        self._memory_bytes = memory_bytes
        #: The first ones, those in memory.
        self._kept: list[pa.RecordBatch] = []
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    @property
    def is_on_disk(self) -> bool:
        """Whether anything had to be written."""
        return self._file is not None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            CheckpointError: the disk does not take them.
        """
        if self._writer is None and batch.nbytes <= self._memory_bytes:
            self._memory_bytes -= batch.nbytes
            self._kept.append(batch)
            return
        with writing(self._folder):
            if self._writer is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  it outlives this call
                self._writer = pa.ipc.new_stream(self._file, self._schema)
            self._writer.write_batch(batch)

    def finish(self) -> None:
        """All is written.

        Raises:
            CheckpointError: the disk does not take it.
        """
        if self._writer is not None and self._file is not None:
            with writing(self._folder):
                self._writer.close()
                self._file.flush()

    def read(self) -> Iterator[pa.RecordBatch]:
        """All batches in order, after :meth:`finish`; nothing is kept of what was read."""
        kept, self._kept = self._kept, []
        kept.reverse()
        while kept:
            yield kept.pop()
        if self._file is not None:
            self._file.seek(0)
            with self._file, pa.ipc.open_stream(self._file) as reader:
                yield from reader

    def close(self) -> None:
        """Forget everything; may be called again."""
        self._kept = []
        if self._file is not None:
            # On a full disk closing writes, and fails, once more.
            with contextlib.suppress(OSError):
                self._file.close()
