"""Recognises errors that mean that the Spark session has ended under a query: its JVM is gone, or it was stopped.

After ``spark.stop()`` whatever a query does next fails in some way of PySpark's or of Java's: an attribute of ``None``,
a job that was cancelled, a call of a stopped context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from ...errors import CheckpointError, MixedModeError, SetupError
from .job_cancellation import is_stopped
from .jvm_loss import explain_jvm_loss, links

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def explain_session_loss(error: BaseException, spark: SparkSession) -> BaseException:
    """The error, or one that says what has become of the session, if that is what it came of."""
    explained = explain_jvm_loss(error, spark)
    if explained is not error or not _may_be_of_a_stop(error):
        return explained
    try:
        if not is_stopped(spark):
            return error
    except (Py4JError, OSError):  # the JVM has gone since
        return error
    stopped = SetupError(
        "the Spark session was stopped while the query ran\nCall query.stop() before spark.stop(). The next start, with"
        f" a new session, goes on from the last checkpoint. Python noticed with {type(error).__name__}",
        code="MIXEDMODE_SESSION_STOPPED",
    )
    stopped.__cause__ = error
    return stopped


def _may_be_of_a_stop(error: BaseException) -> bool:
    """True for errors of Spark's and of calls that nobody answers; what is known to have another cause is told so."""
    if isinstance(error, MixedModeError) and type(error) is not CheckpointError:
        return False
    return any(
        isinstance(link, AttributeError | Py4JError) or type(link).__module__.partition(".")[0] == "pyspark"
        for link in links(error)
    )
