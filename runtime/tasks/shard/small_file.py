"""The one small file of a micro-batch, read by the task that works on all shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from ...scan.parquet_scan import FilePart, NotTakenError, ParquetScan


class FileNotTakenError(NotTakenError):
    """Spark has to read the file."""


@dataclass(frozen=True)
class SmallFile:
    """All rows of a file.

    Args:
        scan: reads it.
        names: the columns of the file, in the order in which they are asked for.
        filesystem: where it is.
        part: the whole file.
    """

    scan: ParquetScan
    names: tuple[str, ...]
    filesystem: fs.FileSystem
    part: FilePart

    def instead_of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows, in the order in which they are in the file.

        Args:
            batches: what Spark hands over: nothing.

        Raises:
            FileNotTakenError: Spark might read it in another way.
        """
        for batch in batches:
            assert not batch.num_rows, "Spark reads no rows that the task reads"
        try:
            for table in self.scan.batches(self.filesystem, self.part):
                yield from table.select(list(self.names)).to_batches()
        except FileNotTakenError:
            raise
        except NotTakenError as error:
            raise FileNotTakenError(str(error)) from error
