"""The one stage of a job that keeps no state: its rows go to the sink as Spark makes them.

It is a stage so that such a job is run as any other is: the same phases, seam, checkpoints, ids and kinds of sinks.
Only its epochs differ: no row is moved to a shard, and the tasks of Spark's own plan stage the output
(:meth:`..jobs.executor.EpochExecutor.execute`).  So its shards have nothing, and need not be as many as anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from ...state.keys.registry import StateRegistry
from .contract import KeyedOperator, ShardContext

#: What the stage says that it is.
KIND = "stateless"


class StatelessOperator(KeyedOperator):
    """Hands its rows on.

    Args:
        uid: id of the stage.
        schema: columns of the rows.
    """

    kind = KIND
    is_stateless = True
    key_columns = ()
    key_schema = pa.schema([])
    uses_event_time = False

    def __init__(self, uid: str, schema: StructType) -> None:
        self.uid = uid
        self.output_schema = schema
        self.registry = StateRegistry()

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """There are no shards to work on."""
        raise AssertionError("the rows of a job without state are staged where they are")

    def describe(self) -> dict[str, Any]:
        """Identity of the stage for the check of a checkpoint against the job."""
        return {"operator": self.kind, "uid": self.uid, "key": []}
