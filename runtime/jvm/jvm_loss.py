"""Recognises errors that mean that the JVM of the Spark session is gone.

A JVM is killed by the system when memory runs short, more often than it crashes.  Py4J then says that "an error
occurred while calling o123.isActive", that an answer was empty or a connection refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

from ...errors import SetupError
from .gateway import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def explain_jvm_loss(error: BaseException, spark: SparkSession) -> BaseException:
    """The error, or one that says that the JVM is gone, if that is what it came of."""
    if not any(_is_of_the_connection(link) for link in links(error)) or _answers(spark):
        return error
    process = getattr(spark.sparkContext._gateway, "proc", None)
    code = None if process is None else process.poll()
    ended = "" if code is None else f" (exit code {code})"
    lost = SetupError(
        f"the JVM of the Spark session is gone{ended}: it was killed, perhaps for want of memory, or has crashed;"
        f" Python noticed with {type(error).__name__}: {error}. Start the query again in a new process: it goes on"
        " from its last checkpoint",
        code="MIXEDMODE_JVM_LOST",
    )
    lost.__cause__ = error
    return lost


def links(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that it came of."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_of_the_connection(error: BaseException) -> bool:
    return isinstance(error, ConnectionError | EOFError) or (
        isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    )


def _answers(spark: SparkSession) -> bool:
    """True if the JVM takes calls."""
    try:
        java_class(spark, "java.lang.System").nanoTime()
        return True
    except Exception:
        return False
