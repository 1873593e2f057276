"""Metrics that Spark computes of rows on their way through a job: ``DataFrame.observe``, without a listener.

They belong to one execution: a frame that runs twice has computed them twice, each time of all its rows.  They are as
exact as Spark makes them: a task that is tried again counts once; of a shuffle whose files were lost, the tasks that
write them again count once more.
"""

from __future__ import annotations

from typing import Any

from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, Row

from ..jvm.gateway import java_class, query_execution
from .spark_expressions import items
from .spark_plans import without_nodes


def observed_metrics(frame: DataFrame) -> dict[str, Row]:
    """What a frame that has run observed on its way, by the names of its ``observe()`` calls."""
    found = query_execution(frame).observedMetrics()
    if found.isEmpty():
        return {}
    python: Any = java_class(frame.sparkSession, "org.apache.spark.sql.api.python.PythonSQLUtils")
    pickled = {str(entry._1()): bytes(python.toPyRow(entry._2())) for entry in items(found.toSeq())}
    return {name: CPickleSerializer().loads(row) for name, row in pickled.items()}


def unobserved(frame: DataFrame) -> DataFrame:
    """The same rows, of which nothing is computed on their way."""
    return without_nodes(frame, "CollectMetrics")
