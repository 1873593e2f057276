"""The runs of rows of one pass, for the tasks of its shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import fs

from ....state.keys.keygroups import ShardId
from .partial_runs import Buckets, _Run
from .row_work import RowWork

#: Rows are there as read, joined and in another order.
_COPIES = 3
#: More is not worked on at once: what is sorted and moved to and fro is to stay near the processor.
_AT_ONCE_BYTES = 16 << 20


@dataclass(frozen=True)
class RowRuns:
    """The runs, by side.

    Invariant: no bucket needs more memory than there is (:meth:`largest_bucket_bytes`).
    """

    filesystem: fs.FileSystem
    paths: tuple[tuple[str, ...], ...]
    work: RowWork
    buckets: Buckets
    memory_bytes: int

    def behind(self, batches: Iterator[pa.RecordBatch], shard: ShardId) -> Iterator[pa.RecordBatch]:
        """What the shard's operator gets; ``batches`` are none."""
        yield from batches
        yield from self.of_shard(shard)

    def largest_bucket_bytes(self) -> int:
        """Memory that the largest bucket takes."""
        sizes = np.zeros(len(self.buckets.firsts), dtype=np.int64)
        for runs in self._opened():
            for run in runs:
                sizes += run.index["size"]
                run.close()
        return _COPIES * int(sizes.max(initial=0))

    def of_shard(self, shard: ShardId) -> Iterator[pa.RecordBatch]:
        """What the operator gets of a shard's rows."""
        opened = self._opened()
        try:
            waiting: list[int] = []
            size = 0
            for bucket in self.buckets.of_shard(shard):
                more = sum(int(run.index[bucket]["size"]) for runs in opened for run in runs)
                if waiting and size + more > min(self.memory_bytes // _COPIES, _AT_ONCE_BYTES):
                    yield from self._worked(opened, waiting)
                    waiting, size = [], 0
                waiting.append(bucket)
                size += more
            if waiting:
                yield from self._worked(opened, waiting)
        finally:
            for runs in opened:
                for run in runs:
                    run.close()

    def _worked(self, opened: Sequence[Sequence[_Run]], buckets: Sequence[int]) -> Iterator[pa.RecordBatch]:
        sides = []
        for side, runs in enumerate(opened):
            schema = self.work.run_schema(side)
            batches = [batch for run in runs for batch in run.batches(buckets, schema)]
            sides.append(pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=schema))
        if any(batch.num_rows for batch in sides):
            yield from self.work.of_shard(sides)

    def _opened(self) -> list[list[_Run]]:
        return [[_Run(self.filesystem, path, len(self.buckets.firsts)) for path in paths] for paths in self.paths]
