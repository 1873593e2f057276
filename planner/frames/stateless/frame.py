"""Operations of ``DataFrame`` that keep no state, on rows of a job: the same names, the same arguments.

Each is applied lazily to every input, as Spark applies it, and to what comes out of a keyed stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ....runtime.catalyst.columns import RESERVED
from ....runtime.catalyst.star_columns import hidden_names, starred
from .mapped_rows import ColumnOrName, listed, of_users
from .null_methods import NullMethods
from .static_joins import StaticJoins
from .task_methods import TaskMethods

if TYPE_CHECKING:
    from typing_extensions import Self

#: Hints that ask for partitions.
_OF_PARTITIONS = ("coalesce", "repartition", "repartition_by_range", "rebalance")


class StatelessFrame(NullMethods, StaticJoins, TaskMethods):
    """Rows with the operations that treat each row by itself."""

    def select(self, *cols: ColumnOrName | list[ColumnOrName]) -> Self:
        return self._selected("select", self._taken(listed(cols)))

    def selectExpr(self, *expr: str | list[str]) -> Self:
        texts = listed(expr)
        own = [F.expr(text) if isinstance(text, str) else text for text in texts]
        return self._selected("selectExpr", starred(own))

    def _selected(self, what: str, columns: Callable[[DataFrame], Sequence[Column]]) -> Self:
        return self._map(
            what,
            lambda frame: frame.select(*columns(frame)),
            lambda frame, *more: frame.select(*columns(frame), *more),
        )

    def filter(self, condition: ColumnOrName) -> Self:
        """Keeps the rows for which a condition is true; as in Spark: ``orders.filter("amount > 0")``."""
        own = self._taken([condition], F.expr)
        return self._map("filter", lambda frame: frame.filter(*own(frame)))

    def where(self, condition: ColumnOrName) -> Self:
        """The same as :meth:`filter`: ``orders.where(F.col("amount") > 0)``."""
        own = self._taken([condition], F.expr)
        return self._map("where", lambda frame: frame.where(*own(frame)))

    def withColumn(self, colName: str, col: Column) -> Self:
        """Adds or replaces a column; as in Spark: ``orders.withColumn("day", F.to_date("ts"))``."""
        own = self._taken([col])
        return self._map("withColumn", lambda frame: frame.withColumn(colName, *own(frame)))

    def withColumns(self, *colsMap: dict[str, Column]) -> Self:
        """Adds or replaces several columns; as in Spark.

        Example: ``orders.withColumns({"day": F.to_date("ts"), "net": F.col("amount") / 1.19})``
        """
        if len(colsMap) != 1 or not isinstance(colsMap[0], dict):
            return self._map("withColumns", lambda frame: frame.withColumns(*colsMap))  # Spark says what is wrong
        names, own = list(colsMap[0]), self._taken([*colsMap[0].values()])
        return self._map("withColumns", lambda frame: frame.withColumns(dict(zip(names, own(frame), strict=True))))

    def drop(self, *cols: ColumnOrName) -> Self:
        """Removes columns; names that do not exist are ignored, as in Spark: ``orders.drop("comment")``."""
        own = self._own(cols)
        return self._map("drop", lambda frame: frame.drop(*self._of_frame(frame, own)))

    def unpivot(
        self,
        ids: ColumnOrName | list[ColumnOrName] | tuple[ColumnOrName, ...],
        values: ColumnOrName | list[ColumnOrName] | tuple[ColumnOrName, ...] | None,
        variableColumnName: str,
        valueColumnName: str,
    ) -> Self:
        """Turns columns into rows of a name and a value; as in Spark, other columns are removed.

            daily.unpivot("customer", ["mon", "tue"], "day", "amount")

        Args:
            ids: the columns that each row keeps.
            values: the columns that become rows; None: all that are not in ``ids``.
            variableColumnName: the column for their names.
            valueColumnName: the column for their values.

        Raises:
            AnalysisException: Spark's own, if the values have no common type.
            PlanError: the inputs would have other columns afterwards.
        """
        given = list(ids) if isinstance(ids, (list, tuple)) else [ids]
        kept = self._own(given)
        several = list(values) if isinstance(values, (list, tuple)) else values

        def unpivoted(frame: DataFrame) -> DataFrame:
            hidden = hidden_names(frame)
            rows = frame.unpivot([*kept, *hidden], several, variableColumnName, valueColumnName)
            return rows.select(*of_users(rows), *hidden) if hidden else rows

        return self._map("unpivot", unpivoted)

    melt = unpivot

    def to(self, schema: StructType) -> Self:
        """Selects the columns of a schema by name and casts them to its types if nothing is lost; as in Spark.

            orders.to(schema)

        Raises:
            AnalysisException: Spark's own, if a column is missing or has another type.
        """

        def reconciled(frame: DataFrame) -> DataFrame:
            return frame.to(StructType([*schema.fields, *(frame.schema[name] for name in hidden_names(frame))]))

        return self._map("to", reconciled)

    def sample(
        self,
        withReplacement: float | bool | None = None,
        fraction: float | None = None,
        seed: int | None = None,
    ) -> Self:
        """Keeps a random part of the rows of each epoch; arguments as in Spark.

        Example: ``orders.sample(fraction=0.01, seed=1)``
        """
        given: Any = (withReplacement, fraction, seed)
        return self._map("sample", lambda frame: frame.sample(*given))

    def sampleBy(self, col: ColumnOrName, fractions: dict[Any, float], seed: int | None = None) -> Self:
        """Keeps a random part of the rows for each value of a column; arguments as in Spark.

        Example: ``orders.sampleBy("country", {"de": 0.1, "fr": 0.2}, seed=1)``
        """
        [own] = self._own([col])
        return self._map("sampleBy", lambda frame: frame.sampleBy(own, dict(fractions), seed))

    def alias(self, alias: str) -> Self:
        """Names the rows, so that you can write ``F.col("name.column")``.

        Example: ``orders.alias("o").select("o.customer")``
        """
        return self._map("alias", lambda frame: frame.alias(alias))

    def toDF(self, *cols: str) -> Self:
        """Renames all columns by position; as in Spark: ``orders.toDF("id", "ts", "amount")``."""

        def renamed(frame: DataFrame) -> DataFrame:
            are_ours = [RESERVED.fullmatch(name) is not None for name in frame.columns]
            if are_ours.count(False) != len(cols):
                return frame.toDF(*cols)  # Spark says what is wrong with it
            names = iter(cols)  # not by the columns' own, of which a join's may be there twice
            return frame.toDF(
                *[one if is_ours else next(names) for one, is_ours in zip(frame.columns, are_ours, strict=True)]
            )

        return self._map("toDF", renamed)

    def withMetadata(self, columnName: str, metadata: dict[str, Any]) -> Self:
        """Sets the metadata of a column; as in Spark: ``orders.withMetadata("amount", {"unit": "EUR"})``."""
        return self._map("withMetadata", lambda frame: frame.withMetadata(columnName, metadata))

    def hint(self, name: str, *parameters: Any) -> Self:
        """Gives Spark a hint, as on a ``DataFrame``.  Hints about partitions act as :meth:`repartition`.

        Example: ``orders.hint("broadcast")``
        """
        if name.lower() in _OF_PARTITIONS:
            return self._partitioned(f"hint {name}", lambda frame: frame.hint(name, *parameters))
        return self._map("hint", lambda frame: frame.hint(name, *parameters))

    def colRegex(self, colName: str) -> Column:
        """Returns the columns whose names match a pattern; as in Spark.

        For example:

            orders.select(orders.colRegex("`amount_.*`"))
        """
        return self._read().template.colRegex(colName)
