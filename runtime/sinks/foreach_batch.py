"""``foreachBatch``: a user's function over the rows of each checkpoint.

Stock Spark calls the function once per micro-batch; a micro-batch that is processed again after a failure may hold
other rows here, because our checkpoints do not coincide with micro-batches.  So the function gets the rows of a whole
checkpoint under the checkpoint's id: after a failure the same id comes with the same rows (the staged files
themselves).  A function that is idempotent by id is therefore exactly-once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import CheckpointError
from ..checkpoints.metadata import SinkTransaction
from ..failpoints import failpoint
from ..filesystem import exists, write_atomically
from .base import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class ForeachBatchSink(Sink):
    """Calls ``function(rows, id)`` when a checkpoint completes; not called for a checkpoint without rows."""

    name = "foreachBatch"
    guarantee = "exactly-once"

    def __init__(self, schema: StructType, function: Callable[[DataFrame, int], None]) -> None:
        super().__init__(schema)
        self._function = function

    def describe(self) -> str:
        return (
            "foreachBatch: same id, same rows after a failure (exactly-once if the function is idempotent by the id), "
            "called when a checkpoint completes"
        )

    def commit(self, transaction: SinkTransaction) -> None:
        files = [file.staged() for file in transaction.files]
        if not files:
            return
        # Written between the function's return and the first removal; the sweep after the commit takes it away.
        delivered = f"{self._staging}/delivered-{transaction.id:08d}"
        if not exists(self._filesystem, delivered):
            for file in transaction.files:
                if not self.is_staged(file):
                    raise CheckpointError(
                        f"transaction {transaction.id} names {file.name}, which is not in {self._staging} and was not "
                        "delivered: somebody removed it; restore it, or use a new checkpointLocation"
                    )
            self._function(self.frame(files), transaction.id)
            failpoint("sink-after-function")
            write_atomically(self._filesystem, delivered, b"")
        self.discard(files)
