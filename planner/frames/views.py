"""Views of a job's rows: by their names ``spark.sql`` and ``spark.table`` give frames of the job."""

from __future__ import annotations

from typing import cast

from pyspark.sql import DataFrame

from ..sql.session import register_view
from ..sql.stand_in import STAND_INS, JobRows
from .described import Described


class ViewedFrame(Described):
    """Rows that statements in SQL may call by a name."""

    def createOrReplaceTempView(self, name: str) -> None:
        """Have ``spark.sql`` and ``spark.table`` know these rows by a name; they return a frame of the job.

            orders.withWatermark("ts", "1 hour").createOrReplaceTempView("orders")
            counts = spark.sql("SELECT window(ts, '5 minutes') AS span, count(*) AS n FROM orders GROUP BY 1")

        In the session's catalog there is a stand-in: an action or a query of Spark's own over it is an error.

        Raises:
            AnalysisException: Spark's own, if that is no name.
        """
        register_view(cast(JobRows, self), "createOrReplaceTempView", name)

    def createTempView(self, name: str) -> None:
        """As :meth:`createOrReplaceTempView`; an error if there is such a view already."""
        register_view(cast(JobRows, self), "createTempView", name)

    def createOrReplaceGlobalTempView(self, name: str) -> None:
        """As :meth:`createOrReplaceTempView`, for all sessions: ``global_temp.<name>``."""
        register_view(cast(JobRows, self), "createOrReplaceGlobalTempView", name)

    def createGlobalTempView(self, name: str) -> None:
        """As :meth:`createTempView`, for all sessions: ``global_temp.<name>``."""
        register_view(cast(JobRows, self), "createGlobalTempView", name)

    def _stand_in(self, name: str) -> DataFrame:
        return STAND_INS.make(cast(JobRows, self), name)

    registerTempTable = createOrReplaceTempView
