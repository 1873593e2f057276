"""A way by which an epoch's rows reach their shards, which Spark plans in a session of ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ...catalyst.spark_session import PrivateSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ShardRouting(ABC):
    """Brings rows to their shards as partitions of one Spark job.

    Args:
        spark: the session whose settings hold for the input.
        settings: those that differ while the rows are planned.
    """

    #: False: rows reach their shards whatever Spark plans, so that a job which is planned for one epoch only can as
    #: well be planned in the user's session.
    depends_on_plan = True
    #: Column of rows with a place that are joined to the input; None: there are none.
    placed_by: str | None = None
    #: Counts how often shards were assigned to executors: a job planned for one assignment does not fit another.
    assignment = 0

    def __init__(self, spark: SparkSession, settings: dict[str, str]) -> None:
        self._session = PrivateSession(spark, settings)

    @property
    def session(self) -> SparkSession:
        """Where rows are planned."""
        return self._session.session

    def adopt(self, frame: DataFrame) -> DataFrame:
        """The same rows, planned under these settings."""
        return self._session.adopt(frame)

    @abstractmethod
    def holds(self, job: DataFrame) -> bool:
        """True if Spark's plan brings every row to the partition of its shard.

        Args:
            job: one operation on the operator's prepared rows, which were made of an adopted frame.
        """
