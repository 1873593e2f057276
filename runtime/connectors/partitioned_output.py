"""Staged output of one attempt with a file per partition; the partition columns are folders, and not in the files.

Open files are few: of many partitions the one that has waited longest for a row is finished, and has another file if it
gets more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from .partition_paths import PartitionPaths
    from .staged_output import StagedOutput
    from .staging import StagedFile

#: Partitions of one attempt whose files are open at a time.
_OPEN = 64
#: Makes the output for one more file, given its name, its folder, and one row with the values of its partition.
OpenOutput = Callable[[str, str, pa.RecordBatch], "StagedOutput"]


class PartitionedOutput:
    """Has the shape of a :class:`StagedOutput`.

    Args:
        name: the attempt's name, which those of its files begin with.
        paths: names the folders.
        open_output: opens a file.
    """

    dropped_rows = 0

    def __init__(self, name: str, paths: PartitionPaths, open_output: OpenOutput) -> None:
        self._name = name
        self._paths = paths
        self._open_output = open_output
        self._open: OrderedDict[str, StagedOutput] = OrderedDict()
        self._finished: list[StagedFile] = []
        self._opened = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows; those of one partition stay in their order."""
        if rows.num_rows == 0:
            return
        folders, codes = self._paths.folders(rows)
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(folders) + 1))
        for place, folder in enumerate(folders):
            its = rows.take(pa.array(order[bounds[place] : bounds[place + 1]]))
            self._of(folder, its).write(self._without_partition(its))

    def _without_partition(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        left = [place for place in range(rows.num_columns) if place not in self._paths.columns]
        return rows.select(left)

    def _of(self, folder: str, rows: pa.RecordBatch) -> StagedOutput:
        if folder in self._open:
            self._open.move_to_end(folder)
            return self._open[folder]
        if len(self._open) >= _OPEN:
            _, longest = self._open.popitem(last=False)
            self._finished += longest.finish()
        values = rows.slice(0, 1).select(list(self._paths.columns))
        self._open[folder] = self._open_output(f"{self._name}-p{self._opened:05d}", folder, values)
        self._opened += 1
        return self._open[folder]

    def finish(self) -> list[StagedFile]:
        """Close all files and say what was written."""
        while self._open:
            folder, output = self._open.popitem(last=False)
            try:
                self._finished += output.finish()
            except BaseException:
                self._open[folder] = output  # abort() removes it
                raise
        return self._finished

    def finish_soon(self) -> None:
        """Nothing is done yet: there may be many files, and :meth:`finish` waits for each."""

    def abort(self) -> None:
        """Remove what is open; files that are finished are garbage that the driver sweeps, as a killed attempt's."""
        for output in self._open.values():
            output.abort()
