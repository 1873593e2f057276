"""The executors of an application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def block_managers(spark: SparkSession) -> frozenset[str]:
    """Addresses of the driver and of the executors that are alive; no public API names the executors."""
    context: Any = spark.sparkContext
    names = context._jsc.sc().getExecutorMemoryStatus().keys().iterator()
    found = set()
    while names.hasNext():
        found.add(str(names.next()))
    return frozenset(found)
