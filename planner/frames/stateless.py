"""Operations of ``DataFrame`` that keep no state, on rows of a job: the same names, the same arguments.

Each is applied lazily to every input, as Spark applies it, and to what comes out of a keyed stage.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame

from ..inputs.event_time import carried, carried_sql
from .described import Described

if TYPE_CHECKING:
    from typing_extensions import Self

ColumnOrName = Column | str


class StatelessFrame(Described):
    """Rows on which operations are good for each row by itself."""

    @abstractmethod
    def _map(
        self,
        what: str,
        function: Callable[[DataFrame], DataFrame],
        carrying: Callable[[DataFrame, str], DataFrame] | None = None,
    ) -> Self:
        """Apply an operation; ``carrying`` is the same with the event time as one more column of the result."""

    def select(self, *cols: ColumnOrName | list[ColumnOrName]) -> Self:
        columns = cols[0] if len(cols) == 1 and isinstance(cols[0], list) else cols
        return self._map(
            "select",
            lambda frame: frame.select(*columns),
            lambda frame, event_time: frame.select(*columns, carried(frame, event_time)),
        )

    def selectExpr(self, *expr: str | list[str]) -> Self:
        texts = expr[0] if len(expr) == 1 and isinstance(expr[0], list) else expr
        return self._map(
            "selectExpr",
            lambda frame: frame.selectExpr(*texts),
            lambda frame, event_time: frame.selectExpr(*texts, carried_sql(frame, event_time)),
        )

    def filter(self, condition: ColumnOrName) -> Self:
        return self._map("filter", lambda frame: frame.filter(condition))

    def where(self, condition: ColumnOrName) -> Self:
        return self._map("where", lambda frame: frame.where(condition))

    def withColumn(self, colName: str, col: Column) -> Self:
        return self._map("withColumn", lambda frame: frame.withColumn(colName, col))

    def withColumns(self, *colsMap: dict[str, Column]) -> Self:
        return self._map("withColumns", lambda frame: frame.withColumns(*colsMap))

    def drop(self, *cols: ColumnOrName) -> Self:
        return self._map("drop", lambda frame: frame.drop(*cols))

    def dropna(
        self, how: str = "any", thresh: int | None = None, subset: str | tuple[str, ...] | list[str] | None = None
    ) -> Self:
        """Leave out rows with nulls.

        Args:
            how: ``any`` null is enough, or ``all`` values must be null.
            thresh: fewer values than this are too few; ``how`` then says nothing.
            subset: the columns that are looked at; None: all.

        Raises:
            PlanError: Spark does not take it, or the inputs would have other columns afterwards.
        """
        return self._map("dropna", lambda frame: frame.dropna(how, thresh, subset))

    def fillna(self, value: Any, subset: str | tuple[str, ...] | list[str] | None = None) -> Self:
        return self._map("fillna", lambda frame: frame.fillna(value, subset))
