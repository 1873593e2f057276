"""The rows of a physical plan, collected without a frame around it, within an SQL execution that is there already.

A frame would be analyzed, optimized, planned, described for Spark's UI as an execution of its own, and its rows would
come by a socket that is opened for them.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Row, SparkSession

from ...jvm.gateway import java_class, query_execution

#: A row that Spark has without a job.
_ONE = "SELECT * FROM VALUES (X'6F6E65') AS one(report)"


class RowCollector:
    """Collects few rows, such as tasks' reports.

    Args:
        pickler: Spark's; it knows rows.
    """

    def __init__(self, pickler: Any) -> None:
        self._pickler = pickler

    @classmethod
    def of(cls, spark: SparkSession) -> RowCollector | None:
        """The collector; None: this version of Spark has other names.

        Args:
            spark: a session without adaptive execution.
        """
        try:
            java_class(spark, "org.apache.spark.sql.execution.python.EvaluatePython").registerPicklers()
            found = cls(java_class(spark, "net.razorvine.pickle.Pickler")(True, False))
            rows = found.rows(query_execution(spark.sql(_ONE)).executedPlan())
            return found if [bytes(row[0]) for row in rows] == [b"one"] else None
        except (Py4JError, PySparkException, TypeError, ValueError, IndexError):
            return None

    def rows(self, plan: Any) -> list[Row]:
        """Run a physical plan."""
        pickled = self._pickler.dumps(plan.executeCollectPublic())
        return list(CPickleSerializer().loads(bytes(pickled)))
