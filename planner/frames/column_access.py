"""Resolves ``frame["x"]`` and ``frame.x`` on a job's rows, and whatever else brackets mean in PySpark."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, overload

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...errors import PlanError, UnsupportedOperationError
from ...runtime.catalyst.frame_columns import column_of_frame
from ...runtime.catalyst.spark_plans import HANDLE
from ..inputs.schemas import check_named_once, is_path, missing_column
from .joining import JoiningFrame, columns_explained
from .name_suggestions import no_attribute
from .unsupported_methods import hint_for

if TYPE_CHECKING:
    from typing_extensions import Self

#: The names of functions in PySpark that stand around what users call.
_DECORATORS = ("wrapped", "wrapper")


class ColumnAccess(JoiningFrame):
    """Rows whose columns are called by name or place."""

    @overload
    def __getitem__(self, item: str | int) -> Column: ...

    @overload
    def __getitem__(self, item: Column | list[Any] | tuple[Any, ...]) -> Self: ...

    def __getitem__(self, item: Any) -> Column | Self:
        """The column of a name or place; of a condition the rows, of a list the columns, as on a ``DataFrame``.

        A column is good for all inputs; a join with other rows knows that it is of these.

        Raises:
            IndexError: there is no column in that place.
            PlanError: there is no such column, or several, or the item is none of these.
        """
        if isinstance(item, Column):
            return self.filter(item)
        if isinstance(item, (list, tuple)):
            return self.select(*item)
        if isinstance(item, int):
            return self[self.columns[item]]
        if not isinstance(item, str):
            raise PlanError(f"frame[{item!r}] is no column: give a name, a place, a condition, or a list of columns")
        if item == "*":
            return F.col("*")
        is_field = is_path(item, self.schema, case_sensitive=self._inputs.case_sensitive)
        if is_field or ("." in item and self._find(item) is None):
            with columns_explained(f"column {item}"):
                self._inputs.template.select(item)  # Spark says what is wrong with it
            head, *fields = item.split(".")
            column = None if "`" in item else self._find(head)
            return (
                F.col(item)
                if column is None
                else column_of_frame(self._inputs.spark, column, self._inputs.ids[-1], fields)
            )
        name = self._column("column", item)
        check_named_once(name, self.schema, case_sensitive=self._inputs.case_sensitive)
        return column_of_frame(self._inputs.spark, name, self._inputs.ids[-1])

    def __getattr__(self, name: str) -> Column:
        """The column by attribute, as on a DataFrame; anything else is an error that says what to do instead."""
        if not name.startswith("_"):
            if name in self.columns:
                return self[name]
            if hasattr(DataFrame, name):
                raise UnsupportedOperationError(f"MixedFrame has no {name}; {hint_for(name)}")
        if name == HANDLE:
            raise UnsupportedOperationError(
                f"{_spark_call()} was given rows of a job, which it does not take: it asks for one of Spark's frames;"
                " a static DataFrame's join, crossJoin, union and unionByName take them, and so does transform of"
                " MLlib's models. Train a model on a DataFrame that read() is given"
            )
        raise no_attribute(self, name, [] if name.startswith("_") else self.columns)

    def _column(self, what: str, name: str) -> str:
        column = self._find(name)
        if column is None:
            raise missing_column(what, name, self.schema)
        return column


def _spark_call() -> str:
    """The call into PySpark that the code at work is in, as its author has written it."""
    named, frame = "a method of PySpark", sys._getframe(2)
    while str(frame.f_globals.get("__name__", "")).startswith("pyspark."):
        of, method = frame.f_locals.get("self"), frame.f_code.co_name
        if method not in _DECORATORS:
            named = f"{method}()" if of is None else f"{type(of).__name__}.{method}()"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return named
