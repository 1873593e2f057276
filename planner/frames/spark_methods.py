"""Methods of Spark's frames, of its sessions and of MLlib that are given a job's rows: they return a frame of the job.

A job's author writes ``customers.join(orders, "id")`` with a static frame on the left, ``model.transform(orders)``, or
``spark.sql("SELECT … FROM {rows}", rows=orders)``.  Only the line that reads may have to change, so these methods must
take our frame, and they can only if they are replaced.  A replaced method looks at what it is given: without rows of a
job it is Spark's own, untouched.  Spark's own refuses them, so nobody loses what worked before.

They are replaced with ``import mixedmode``, or when PySpark is imported after that: in ``customers.join(read(…))``
Python has taken hold of ``join`` before ``read`` is called.  So nothing of PySpark is imported here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from ...runtime.jvm.replaced_methods import replace_method, when_imported

#: The modules with the classes of Spark's frames, of its sessions, and of MLlib's transformers, models among them.
_FRAMES, _SESSIONS, _ML = "pyspark.sql.classic.dataframe", "pyspark.sql.session", "pyspark.ml.base"
_UNIONS = ("union", "unionAll", "unionByName")
#: The argument that may be rows of a job.
_OTHER, _DATASET = "other", "dataset"


class RowsOfJob(ABC):
    """Rows of a job, as far as Spark's methods ask for them; each method is Spark's with these rows as its argument."""

    @abstractmethod
    def _joined_behind(self, left: Any, on: Any = None, how: str | None = None) -> Any:
        """``left.join(rows, on, how)``."""

    @abstractmethod
    def _crossed_behind(self, left: Any) -> Any:
        """``left.crossJoin(rows)``."""

    @abstractmethod
    def _united_behind(self, first: Any, what: str, **options: Any) -> Any:
        """``first.union(rows)`` or another method ``what`` of its kind."""

    @abstractmethod
    def _stand_in(self, name: str) -> Any:
        """The frame of Spark's that a statement knows the rows by."""

    @abstractmethod
    def transform(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The rows through a function of Spark's frames."""


def take_rows_of_jobs() -> None:
    """Have the methods take rows of jobs as soon as PySpark is imported."""
    when_imported(_FRAMES, _replace_in_frames)
    when_imported(_SESSIONS, lambda module: replace_method(module.SparkSession, "sql", _stating))
    when_imported(_ML, _replace_in_models)


def _replace_in_frames(module: ModuleType) -> None:
    answers: dict[str, Callable[..., Any]] = {
        "join": lambda left, rows, **given: rows._joined_behind(left, **given),
        "crossJoin": lambda left, rows: rows._crossed_behind(left),
        **{name: partial(_united, name) for name in _UNIONS},
    }
    for name, answer in answers.items():
        replace_method(module.DataFrame, name, partial(_taking, answer))


def _replace_in_models(module: ModuleType) -> None:
    replace_method(module.Transformer, "transform", _transforming)


def _united(name: str, first: Any, rows: RowsOfJob, **given: Any) -> Any:
    return rows._united_behind(first, name, **given)


def _taking(answer: Callable[..., Any], stock: Callable[..., Any]) -> Callable[..., Any]:
    """What takes the place of a method of Spark's frames.

    Args:
        answer: what it is for rows of a job: given the frame whose method it is, the rows, and the other arguments.
        stock: Spark's own.
    """

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        rows = kwargs.get(_OTHER, args[0] if args else None)
        if not isinstance(rows, RowsOfJob):
            return stock(self, *args, **kwargs)
        given = _arguments(stock, self, *args, **kwargs)
        return answer(self, given.pop(_OTHER), **given)

    return method


def _transforming(stock: Callable[..., Any]) -> Callable[..., Any]:
    """What takes the place of ``Transformer.transform``: a model is put to each input, or to a stage's rows."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        rows = kwargs.get(_DATASET, args[0] if args else None)
        if not isinstance(rows, RowsOfJob):
            return stock(self, *args, **kwargs)
        params = _arguments(stock, self, *args, **kwargs).get("params")
        return rows.transform(lambda frame: stock(self, frame, params))

    return method


def _stating(stock: Callable[..., Any]) -> Callable[..., Any]:
    """What takes the place of ``SparkSession.sql``."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        rows = {name: given for name, given in kwargs.items() if isinstance(given, RowsOfJob)}
        if not rows:
            return stock(self, *args, **kwargs)
        from ..sql.session import answer

        return answer(stock(self, *args, **{**kwargs, **{name: one._stand_in(name) for name, one in rows.items()}}))

    return method


def _arguments(stock: Callable[..., Any], of: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The arguments of a method by name, without ``self``; TypeError as Python raises it."""
    import inspect

    return dict(list(inspect.signature(stock).bind(of, *args, **kwargs).arguments.items())[1:])
