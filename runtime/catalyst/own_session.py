"""A session of our own that an epoch's rows are planned in, with settings that its way to the shards needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .spark_session import PrivateSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class OwnSession:
    """A way that rows are planned in with settings of its own.

    Args:
        spark: the session whose settings hold for the input.
        settings: what is different.
    """

    def __init__(self, spark: SparkSession, settings: dict[str, str]) -> None:
        self._session = PrivateSession(spark, settings)

    @property
    def session(self) -> SparkSession:
        """Where rows are planned."""
        return self._session.session

    def adopt(self, frame: DataFrame) -> DataFrame:
        """The same rows, planned under these settings."""
        return self._session.adopt(frame)
