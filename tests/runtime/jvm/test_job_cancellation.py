"""A cancelled Spark job is known by Spark's error condition, however deep it is, and never by what a text says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from mixedmode.errors import QueryError
from mixedmode.runtime.jvm.job_cancellation import CANCELLED, is_of_a_cancelled_job
from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession


class Java:
    """A Java exception as Py4J shows it."""

    def __init__(self, condition: str | None = None, cause: Java | None = None) -> None:
        self._condition, self._cause = condition, cause

    def getCondition(self) -> str | None:
        return self._condition

    def getCause(self) -> Java | None:
        return self._cause


class Foreign(Java):
    """One that is none of Spark's."""

    def getCondition(self) -> str | None:
        raise Py4JError("Method getCondition([]) does not exist")


class Raised(Exception):
    """What Py4J raises for it in Python."""

    def __init__(self, java: Java, text: str = "an error occurred") -> None:
        super().__init__(text)
        self.java_exception = java


class Captured(Exception):
    """What PySpark raises for those that it has a class for."""

    def __init__(self, java: Java) -> None:
        super().__init__("an error occurred")
        self._origin = java


def session(*, stopped: bool = False, closed: bool = False) -> Any:
    """A Spark session with a context that runs, was stopped in the JVM, or was stopped by Python."""
    context = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: stopped))
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None if closed else context))


def wrapped(cause: Exception) -> Exception:
    """An error of ours that came of another."""
    try:
        try:
            raise cause
        except Exception as error:
            raise QueryError("the savepoint failed") from error
    except QueryError as failure:
        return failure


@pytest.mark.parametrize(
    "error",
    [
        Raised(Java(CANCELLED)),
        Captured(Java(CANCELLED)),
        Raised(Java(None, Foreign(None, Java(CANCELLED)))),
        wrapped(Raised(Java(CANCELLED))),
    ],
    ids=["bare", "captured", "deep", "wrapped"],
)
def test_found_by_its_condition(error: Exception) -> None:
    """Wherever the condition is among the causes, in Java or in Python."""
    assert is_of_a_cancelled_job(error, session())


@pytest.mark.parametrize(
    "error",
    [
        Raised(Java("PYTHON_EXCEPTION"), "ValueError: order 7 was cancelled"),
        Raised(Java(), "Job 3 cancelled"),
        ValueError("cancelled"),
        wrapped(OSError("cancelled")),
    ],
    ids=["of a user", "without a condition", "of Python", "wrapped"],
)
def test_a_text_says_nothing(error: Exception) -> None:
    """An error that only speaks of cancellation is an error."""
    assert not is_of_a_cancelled_job(error, session())
    assert not isinstance(error, ValueError) or not is_of_a_cancelled_job(error, session(closed=True))


@pytest.mark.parametrize("how", [{"stopped": True}, {"closed": True}])
def test_a_job_that_dies_with_its_context(how: dict[str, bool]) -> None:
    """It has no condition, and its context is stopped; what had a condition was an error before."""
    assert is_of_a_cancelled_job(Raised(Java(None, Java())), session(**how))
    assert not is_of_a_cancelled_job(Raised(Java(None, Java("PYTHON_EXCEPTION"))), session(**how))


def test_a_jvm_that_is_gone_cancels_nothing() -> None:
    """Nobody can be asked: it is the loss of the JVM that is told."""

    class Gone(Java):
        def getCause(self) -> Java | None:
            raise ConnectionRefusedError("the JVM is gone")

    assert not is_of_a_cancelled_job(Raised(Gone()), session())


def test_spark_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """Jobs that are cancelled by tag have the condition: one that fails itself, and one that Spark wraps."""
    started, tag = str(tmp_path / "started"), "to-be-cancelled"

    def never_ends(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        Path(started).touch()
        while Path(started).exists():
            time.sleep(0.05)
        yield from batches

    frame = spark.range(2).coalesce(1).mapInArrow(never_ends, "id long")
    runs: list[Callable[[], Any]] = [frame.collect, frame.toArrow]
    for run in runs:
        with ThreadPoolExecutor(1) as pool:
            spark.sparkContext.addJobTag(tag)
            failing = pool.submit(inheritable_thread_target(run))
            spark.sparkContext.removeJobTag(tag)
            while not Path(started).exists() and not failing.done():
                time.sleep(0.05)
            spark.sparkContext.cancelJobsWithTag(tag)
            error = failing.exception()
        Path(started).unlink()
        assert error is not None and is_of_a_cancelled_job(error, spark)
