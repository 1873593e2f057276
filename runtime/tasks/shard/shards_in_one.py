"""All shards of a small epoch in one Spark task: no exchange, so one stage of Spark's, one task, one Python worker.

Of an epoch with few rows most is what Spark does for each stage and for each task.  Where its rows are one partition
anyway and the stage's work is small, one task aggregates them, sorts them, and works on one shard after the other:
shards are ranges of key groups, so the rows of each lie side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ....errors import MisplacedRowsError
from ...catalyst.spark_plans import PYTHON_NODES, executed_text
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from .shard_routing import ShardRouting

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ....state.keys.keygroups import KeyGroupRange
    from ...operators.contract import KeyedOperator

#: A worker holds a few local copies open, those of all stages (``ReplicaCache``), and shards do not run side by side.
_MOST_SHARDS = 4
#: What the tasks of a shard each would gain on more rows than these by running side by side is more than they cost.
_MOST_ROWS = 20_000


class InOneTask(ShardRouting):
    """Has one task work on all shards.

    Args:
        spark: the session whose settings hold for the input.
    """

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark, {"spark.sql.adaptive.enabled": "false"})

    @staticmethod
    def is_possible(operator: KeyedOperator, parallelism: int) -> bool:
        """True if no user's code runs in the tasks, which may take however long for however few rows."""
        return operator.aggregates_by_key and bool(operator.key_columns) and parallelism <= _MOST_SHARDS

    @staticmethod
    def is_of_use(rows: int | None) -> bool:
        """Whether an epoch is small; ``rows``: those of the one before it, None: it is not known."""
        return rows is None or rows <= _MOST_ROWS

    def holds(self, job: DataFrame) -> bool:
        """True if Spark's plan moves no rows; not for an input with Python code.

        Args:
            job: one operation on rows that were made of an adopted frame.
        """
        _, _, below = executed_text(job).partition("\n")
        return "Exchange" not in below and not any(mark in below for mark in PYTHON_NODES)


class ShardSlices:
    """Cuts rows that are sorted by key group into those of shards.

    Args:
        batches: the rows.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def of(self, groups: KeyGroupRange) -> Iterator[pa.RecordBatch]:
        """The rows of a shard; shards are asked for in ascending order, each when the one before has been read."""
        while (batch := self._next()) is not None:
            stop = int(np.searchsorted(_groups(batch), groups.last, side="right"))
            if stop < batch.num_rows:
                self._rest = batch.slice(stop)
            if stop:
                yield batch.slice(0, stop)
            if self._rest is not None:
                return

    def check_end(self) -> None:
        """Raise MisplacedRowsError if there are rows behind those of the last shard."""
        batch = self._next()
        if batch is not None:
            raise MisplacedRowsError(
                f"rows of key group {_groups(batch)[0]} are in none of the shards: Spark has not sorted them as its "
                "plan says"
            )

    def _next(self) -> pa.RecordBatch | None:
        rest, self._rest = self._rest, None
        if rest is not None:
            return rest
        return next((batch for batch in self._batches if batch.num_rows), None)


def _groups(batch: pa.RecordBatch) -> np.ndarray:
    groups: np.ndarray = batch.column(KEY_GROUP_COLUMN).to_numpy(zero_copy_only=False)
    return groups
