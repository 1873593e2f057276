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

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ...runtime.jvm.replaced_methods import replace_method
from .stand_in import STAND_INS, JobRows
from .translation import translated

#: The methods that give rows of a view by its name.
_METHODS = ("sql", "table")


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
    for name in _METHODS:
        replace_method(SparkSession, name, _answering)


def answer(result: Any) -> Any:
    """A frame of the job for one of Spark's over its views; anything else as it is."""
    return translated(result) if isinstance(result, DataFrame) and STAND_INS.are_in(result) else result


def _answering(stock: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: SparkSession, *args: Any, **kwargs: Any) -> Any:
        return answer(stock(self, *args, **kwargs))

    return method
