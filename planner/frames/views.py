"""Views of a job's rows: by their names ``spark.sql`` and ``spark.table`` give frames of the job."""

from __future__ import annotations

from pyspark.sql import DataFrame

from ..sql.session import register_view
from ..sql.stand_in import STAND_INS
from .stateless.mapped_rows import MappedRows


class ViewedFrame(MappedRows):
    """Rows that SQL statements can use by a name."""

    def createOrReplaceTempView(self, name: str) -> None:
        """Names these rows, so that ``spark.sql`` and ``spark.table`` return a frame of the job.

            orders.withWatermark("ts", "1 hour").createOrReplaceTempView("orders")
            counts = spark.sql("SELECT window(ts, '5 minutes') AS span, count(*) AS n FROM orders GROUP BY 1")

        The session's catalog gets a placeholder.  An action, or a query of stock Spark, on the view raises an error.

        Raises:
            AnalysisException: Spark's own, if the name is not allowed.
        """
        register_view(self, "createOrReplaceTempView", name)

    def createTempView(self, name: str) -> None:
        """As :meth:`createOrReplaceTempView`, but raises an error if the view exists.

        Example: ``orders.createTempView("orders")``
        """
        register_view(self, "createTempView", name)

    def createOrReplaceGlobalTempView(self, name: str) -> None:
        """As :meth:`createOrReplaceTempView`, for all sessions: ``global_temp.<name>``.

        Example: ``orders.createOrReplaceGlobalTempView("orders")``
        """
        register_view(self, "createOrReplaceGlobalTempView", name)

    def createGlobalTempView(self, name: str) -> None:
        """As :meth:`createTempView`, for all sessions: ``global_temp.<name>``.

        Example: ``orders.createGlobalTempView("orders")``
        """
        register_view(self, "createGlobalTempView", name)

    def _stand_in(self, name: str) -> DataFrame:
        return STAND_INS.make(self, name)

    registerTempTable = createOrReplaceTempView
