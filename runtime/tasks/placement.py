"""Keeps each shard's task on the executor that has its replica.

Spark offers no way to say where a task shall run, but it prefers the executor that caches what the task reads.  So a
tiny table with one row per shard is cached, one partition a shard, and an epoch's rows are joined to it: the join's
tasks run where the cached partitions are.  Losing an executor moves its shards once, since Spark computes lost
partitions on another one; when executors come or go the table is laid out anew.

With a single executor there is nothing to choose, and the join would only cost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ..platform.spark_cluster import block_managers
from ..platform.spark_plans import executed_text
from ..platform.spark_session import PrivateSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_REDUCE_LOCALITY = "spark.shuffle.reduceLocality.enabled"
#: The column of the shard's number.
PIN_COLUMN = "__pin"


class ShardPins:
    """One cached row for each shard.

    Args:
        spark: the session whose settings hold for the input.
        parallelism: number of shards.
    """

    def __init__(self, spark: SparkSession, parallelism: int) -> None:
        self._spark = spark
        self._parallelism = parallelism
        # Adaptive execution would merge or split partitions, also of what is cached.
        settings = {
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "false",
        }
        self._session = PrivateSession(spark, settings)
        self._rows: DataFrame | None = None
        self._laid_out_for: frozenset[str] = frozenset()
        #: Epochs ask for them, and compactions beside those.
        self._lock = threading.Lock()

    @staticmethod
    def are_useful(spark: SparkSession) -> bool:
        """True if there are executors to choose from, and Spark lets the pins choose.

        In local mode there is only the driver.  Unless told otherwise Spark also prefers the executors that hold most
        of a task's shuffled input, which are any; the session cannot tell it, only the application's configuration.
        """
        if str(spark.sparkContext.master).startswith("local[") or len(block_managers(spark)) <= 2:
            return False
        if spark.sparkContext.getConf().get(_REDUCE_LOCALITY, "true").lower() == "false":
            return True
        logger.warning(
            "shards move between executors from epoch to epoch, and are restored where they come to: start Spark with "
            "%s=false, so that mixedmode can keep them in place",
            _REDUCE_LOCALITY,
        )
        return False

    def adopt(self, frame: DataFrame) -> DataFrame:
        """The same rows, to be planned so that they can be joined to the pins."""
        return self._session.adopt(frame)

    def beside(self, rows: DataFrame, shard_column: str) -> DataFrame:
        """``rows`` where the pins are; a shard without rows gets one that is null in every column.

        Args:
            rows: made of an adopted frame, distributed with ``repartitionById(parallelism, shard_column)``.
            shard_column: the column of the shard's number; the result has it no longer.
        """
        joined = self._laid_out().hint("shuffle_hash").join(rows, F.col(PIN_COLUMN) == F.col(shard_column), "left")
        return joined.drop(PIN_COLUMN, shard_column)

    def of(self, shards: Collection[int]) -> DataFrame:
        """The pins of some shards; the other partitions are there, and empty."""
        return self._laid_out().where(F.col(PIN_COLUMN).isin(list(shards)))

    def holds(self, job: DataFrame) -> bool:
        """True if Spark's plan leaves the pins where they are: there is no exchange above the cached table."""
        above, cached, _ = executed_text(job).partition("InMemoryTableScan")
        return bool(cached) and "Exchange" not in above

    def close(self) -> None:
        """Let go of the cached rows."""
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.unpersist()

    def _laid_out(self) -> DataFrame:
        """The cached rows, spread over the executors that there are now."""
        with self._lock:
            present = block_managers(self._spark)
            if self._rows is None or present != self._laid_out_for:
                self.close()
                shards = self._session.session.range(0, self._parallelism, 1, self._parallelism)
                rows = shards.select(F.col("id").cast("int").alias(PIN_COLUMN))
                rows = rows.repartitionById(self._parallelism, F.col(PIN_COLUMN)).persist()
                rows.count()
                self._rows, self._laid_out_for = rows, present
            return self._rows
