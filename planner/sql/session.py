"""``spark.sql`` and ``spark.table`` over views of a job's rows: they return a frame of the job.

A job's author writes ``frame.createOrReplaceTempView("v")`` and then ``spark.sql("SELECT … FROM v")``.  Only the line
that reads may have to change, so ``spark.sql`` must return our frame, which a method of Spark's can only do if it is
replaced.  The replacement is as narrow as it can be:

- It is put in place with the first view of a job's frame; a program without one never meets it.
- It hands every argument to Spark's own method first.  Spark parses and analyses the statement, runs commands, and
  raises its own errors.  It never reads the text.
- It looks at the result's plan.  Without a stand-in (:mod:`.stand_in`) at its bottom the result is returned untouched.
- With one the result could never run in Spark, so nobody loses what worked before: it becomes a frame of the job, or
  an error that names the part of the statement.

``mixedmode.sql`` does the same without a replaced method.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from .stand_in import STAND_INS, JobRows
from .translation import translated

_MARK = "__mixedmode_stock__"
#: The methods that give rows of a view by its name.
_METHODS = ("sql", "table")
_LOCK = Lock()


def register_view(frame: JobRows, method: str, name: str) -> None:
    """Make a view of a job's rows.

    Args:
        frame: the rows.
        method: that of ``DataFrame`` which makes a view.
        name: the view's name.
    """
    getattr(STAND_INS.make(frame, name), method)(name)
    STAND_INS.clear(frame.sparkSession)
    install()


def install() -> None:
    """Have ``spark.sql`` and ``spark.table`` return frames of jobs for what reads views of these."""
    with _LOCK:
        for name in _METHODS:
            stock = getattr(SparkSession, name)
            if not hasattr(stock, _MARK):
                setattr(SparkSession, name, _answering(stock))


def stock_method(name: str) -> Callable[..., DataFrame]:
    """Spark's own method."""
    method = getattr(SparkSession, name)
    return getattr(method, _MARK, method)


def answer(result: Any) -> Any:
    """A frame of the job for one of Spark's over its views; anything else as it is."""
    return translated(result) if isinstance(result, DataFrame) and STAND_INS.are_in(result) else result


def _answering(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def method(self: SparkSession, *args: Any, **kwargs: Any) -> Any:
        return answer(stock(self, *args, **kwargs))

    setattr(method, _MARK, stock)
    return method
