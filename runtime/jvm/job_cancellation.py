"""Recognises the error of a cancelled Spark job by what Spark says of the job, not by the error's text.

However deep Spark wraps it, the cause is an exception with the error condition ``SPARK_JOB_CANCELLED``; only a job that
dies because its Spark context was stopped has no condition at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from .jvm_loss import links

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CANCELLED = "SPARK_JOB_CANCELLED"


def is_of_a_cancelled_job(error: BaseException, spark: SparkSession) -> bool:
    """True if a Spark job was cancelled, which the error says or which was its cause; False if the JVM is gone."""
    try:
        conditions = list(_conditions(error))
        return CANCELLED in conditions or (set(conditions) == {None} and is_stopped(spark))
    except (Py4JError, OSError):
        return False


def _conditions(error: BaseException) -> Iterator[str | None]:
    """The error conditions of all Java exceptions behind an error."""
    for link in links(error):
        # Py4J's own error, or PySpark's.
        java = getattr(link, "java_exception", None) or getattr(link, "_origin", None)
        while java is not None:
            yield _condition(java)
            java = java.getCause()


def _condition(java: Any) -> str | None:
    try:
        found = java.getCondition()
    except Py4JError:  # not one of Spark's
        return None
    return None if found is None else str(found)


def is_stopped(spark: SparkSession) -> bool:
    """True if the application has ended."""
    context = spark.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())
