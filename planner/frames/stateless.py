"""Operations of ``DataFrame`` that keep no state, on rows of a job: the same names, the same arguments.

Each is applied lazily to every input, as Spark applies it, and to what comes out of a keyed stage.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...errors import PlanError
from ...runtime.catalyst.columns import RESERVED, quoted
from ...runtime.catalyst.frame_columns import with_own_columns
from ...runtime.catalyst.star_columns import hidden_names, starred
from ...runtime.jvm.spark_errors import error_text
from ..inputs.schemas import quoted as quoted_columns
from ..inputs.static_frames import broadcast_if_small, check_static
from .schema_methods import SchemaMethods
from .spark_methods import RowsOfJob

if TYPE_CHECKING:
    from typing_extensions import Self

ColumnOrName = Column | str
_NO_VALUE: Any = object()
#: Hints that ask for partitions.
_OF_PARTITIONS = ("coalesce", "repartition", "repartition_by_range", "rebalance")
_Rows = TypeVar("_Rows")


class NullFunctions(Generic[_Rows]):
    """The methods of ``frame.na``.

        orders.na.fill(0, ["amount"])

    Args:
        drop: ``dropna``.
        fill: ``fillna``.
        replace: ``replace``.
    """

    def __init__(self, drop: Callable[..., _Rows], fill: Callable[..., _Rows], replace: Callable[..., _Rows]) -> None:
        self.drop, self.fill, self.replace = drop, fill, replace


class StatelessFrame(SchemaMethods, RowsOfJob):
    """Rows with the operations that treat each row by itself."""

    @abstractmethod
    def _map(
        self,
        what: str,
        function: Callable[[DataFrame], DataFrame],
        carrying: Callable[..., DataFrame] | None = None,
    ) -> Self:
        """Apply an operation; ``carrying`` is the same with more columns in its result, given behind the frame."""

    @abstractmethod
    def _own(self, columns: Sequence[Any]) -> list[Any]:
        """Columns that were taken from frames which these rows are joined of, as those that they are here."""

    def select(self, *cols: ColumnOrName | list[ColumnOrName]) -> Self:
        columns = self._taken(cols[0] if len(cols) == 1 and isinstance(cols[0], list) else cols)
        return self._map(
            "select",
            lambda frame: frame.select(*columns(frame)),
            lambda frame, *more: frame.select(*columns(frame), *more),
        )

    def selectExpr(self, *expr: str | list[str]) -> Self:
        texts: Any = expr[0] if len(expr) == 1 and isinstance(expr[0], list) else expr
        columns = starred([F.expr(text) if isinstance(text, str) else text for text in texts])
        return self._map(
            "selectExpr",
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

    def dropna(
        self, how: str = "any", thresh: int | None = None, subset: str | tuple[str, ...] | list[str] | None = None
    ) -> Self:
        """Removes rows with nulls.

            orders.dropna(subset=["customer"])

        Args:
            how: ``any``: one null is enough; ``all``: all values must be null.
            thresh: rows with fewer values than this are removed; ``how`` then has no effect.
            subset: the columns to check; None: all.

        Raises:
            PlanError: Spark does not accept the arguments, or the inputs would have other columns afterwards.
        """
        columns = self._all_quoted if subset is None else subset
        return self._map("dropna", lambda frame: frame.dropna(how, thresh, columns))

    def fillna(self, value: Any, subset: str | tuple[str, ...] | list[str] | None = None) -> Self:
        """Replaces nulls with a value; as in Spark: ``orders.fillna({"amount": 0, "country": "unknown"})``."""
        return self._map("fillna", lambda frame: frame.fillna(value, subset))

    def replace(self, to_replace: Any, value: Any = _NO_VALUE, subset: str | list[str] | None = None) -> Self:
        """Replaces values; as in Spark.

            orders.replace({"N/A": "unknown"}, subset=["country"])

        Args:
            to_replace: one value, several values, or a dict of old to new values.
            value: the new value, or as many as there are old ones; not with a dict.
            subset: the columns to change; None: all columns of a type that fits.

        Raises:
            PlanError: the inputs would have other columns afterwards.
        """
        given = () if value is _NO_VALUE else (value,)
        columns: Any = self._all_quoted if subset is None else subset
        return self._map("replace", lambda frame: frame.replace(to_replace, *given, subset=columns))

    @property
    def na(self) -> NullFunctions[Self]:
        """``drop``, ``fill`` and ``replace``, as ``DataFrame.na``: ``orders.na.fill(0)``."""
        return NullFunctions(self.dropna, self.fillna, self.replace)

    @property
    def _all_quoted(self) -> list[str]:
        """Names of all columns that users see."""
        return [quoted(name) for name in self.columns]

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
            return rows.select(*_of_users(rows), *hidden) if hidden else rows

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

    @property
    def sparkSession(self) -> SparkSession:
        """The session of the inputs: ``orders.sparkSession.conf.get("spark.sql.session.timeZone")``."""
        return self._read().spark

    # -- what a keyed stage does itself --------------------------------------------------------------------------------

    @abstractmethod
    def _partitioned(self, what: str, function: Callable[[DataFrame], DataFrame]) -> Self:
        """The same, to be partitioned where it is written.

        Raises:
            AnalysisException: Spark's own, if the columns do not take it.
        """

    def repartition(self, numPartitions: int | ColumnOrName, *cols: ColumnOrName) -> Self:
        """Sets the number of files that an epoch writes, in a job without a keyed stage; the last call counts.

        It has no other effect: a keyed stage distributes rows to its shards by itself (option
        ``pipeline.parallelism``).

            orders.filter("amount > 0").repartition(4)
        """
        return self._partitioned("repartition", lambda frame: frame.repartition(numPartitions, *cols))

    def repartitionByRange(self, numPartitions: int | ColumnOrName, *cols: ColumnOrName) -> Self:
        """Has the effect of :meth:`repartition`: ``orders.repartitionByRange(4, "ts")``."""
        return self._partitioned("repartitionByRange", lambda frame: frame.repartitionByRange(numPartitions, *cols))

    def coalesce(self, numPartitions: int) -> Self:
        """Has the effect of :meth:`repartition`: ``orders.coalesce(1)``."""
        return self._partitioned("coalesce", lambda frame: frame.coalesce(numPartitions))

    # -- joins with static frames --------------------------------------------------------------------------------------

    def join(
        self, other: DataFrame, on: str | Column | list[str] | list[Column] | None = None, how: str | None = None
    ) -> Self:
        """Joins with a static frame, which is read anew for each epoch, as Spark reads it for each micro-batch.

        Args:
            other: a batch DataFrame.
            on: a name, names, or a condition; None: every row with every row.
            how: inner (the default), left, leftsemi, leftanti or cross.

        Raises:
            PlanError: ``other`` is not static, or such a join has no answer before the end of a stream.
        """
        static = check_static("join", other, how)
        return self._joined(static, on, how, lambda frame, side, on, how: frame.join(side, on, how))

    def _joined_behind(self, left: DataFrame, on: Any = None, how: str | None = None) -> Self:
        """The rows joined to a static frame, which is the left side: ``left.join(rows, on, how)``.

        Args:
            left: a batch DataFrame.
            on: as of :meth:`join`.
            how: inner (None), right or cross.

        Raises:
            PlanError: as of :meth:`join`.
        """
        static = check_static("join", left, how, on_the_left=True)
        return self._joined(static, on, how, lambda frame, side, on, how: side.join(frame, on, how))

    def _joined(self, static: DataFrame, on: Any, how: str | None, join: Callable[..., DataFrame]) -> Self:
        """The rows joined with a static frame.

        Args:
            static: the frame.
            on: as of :meth:`join`.
            how: the kind.
            join: joins one frame of the rows with it.
        """
        if isinstance(on, (list, tuple)) and on and all(isinstance(one, Column) for one in on):
            on = reduce(Column.__and__, on)  # as PySpark does
        own = self._own([on]) if isinstance(on, Column) else None
        side = broadcast_if_small(static) if self._is_behind_stage else static

        def joined(frame: DataFrame) -> DataFrame:
            return join(frame, side, on if own is None else self._of_frame(frame, own, side)[0], how)

        try:
            return self._beside(static, self._map("join", joined))
        except AnalysisException as error:
            if error.getCondition() != "AMBIGUOUS_REFERENCE":
                raise
            raise PlanError(
                f"join: {error_text(error)}; both sides have a column of that name: join on it, on='<name>', or rename"
                " one of them before"
            ) from error

    def crossJoin(self, other: DataFrame) -> Self:
        """Joins every row with every row of a static frame, which is read anew for each epoch."""
        return self._crossed(check_static("crossJoin", other), lambda frame, side: frame.crossJoin(side))

    def _crossed_behind(self, left: DataFrame) -> Self:
        """``left.crossJoin(rows)`` of a static frame."""
        return self._crossed(check_static("crossJoin", left), lambda frame, side: side.crossJoin(frame))

    def _crossed(self, static: DataFrame, cross: Callable[..., DataFrame]) -> Self:
        side = broadcast_if_small(static) if self._is_behind_stage else static
        return self._beside(static, self._map("crossJoin", lambda frame: cross(frame, side)))

    # -- functions of batches of rows ----------------------------------------------------------------------------------

    def mapInPandas(self, func: Any, schema: StructType | str, barrier: bool = False, profile: Any = None) -> Self:
        """Maps rows with a Python function of pandas frames; as in Spark.

            orders.mapInPandas(lambda frames: (f[f.amount > 0] for f in frames), orders.schema)

        Args:
            func: takes an iterator of frames and returns one.
            schema: the columns of the result.
            barrier: as in Spark; not after a keyed stage.
            profile: as in Spark; not after a keyed stage.

        Raises:
            PlanError: ``barrier`` or ``profile`` is given after a keyed stage.
        """
        self._check_own_tasks("mapInPandas", barrier, profile)
        return self._map(
            "mapInPandas",
            lambda frame: frame.mapInPandas(func, schema, barrier, profile),
            lambda frame, *more: frame.select(*_of_users(frame)).mapInPandas(func, schema, barrier, profile),
        )

    def mapInArrow(self, func: Any, schema: StructType | str, barrier: bool = False, profile: Any = None) -> Self:
        """Maps rows with a Python function of Arrow batches; as in Spark.

            orders.mapInArrow(lambda batches: (b.slice(0, 10) for b in batches), orders.schema)

        Args:
            func: takes an iterator of batches and returns one.
            schema: the columns of the result.
            barrier: as in Spark; not after a keyed stage.
            profile: as in Spark; not after a keyed stage.

        Raises:
            PlanError: as :meth:`mapInPandas`.
        """
        self._check_own_tasks("mapInArrow", barrier, profile)
        return self._map(
            "mapInArrow",
            lambda frame: frame.mapInArrow(func, schema, barrier, profile),
            lambda frame, *more: frame.select(*_of_users(frame)).mapInArrow(func, schema, barrier, profile),
        )

    @abstractmethod
    def _beside(self, static: DataFrame, joined: Self) -> Self:
        """The rows joined with a static frame, which remember that its columns are not theirs."""

    def _taken(
        self, columns: Sequence[Any], named: Callable[[str], Column] = F.col
    ) -> Callable[[DataFrame], list[Any]]:
        """What gives columns as a frame takes them (:func:`starred`), each of the frame that it was taken from."""
        stars = starred(self._own(columns), named)
        return lambda frame: self._of_frame(frame, stars(frame))

    def _of_frame(self, frame: DataFrame, columns: Sequence[Any], beside: DataFrame | None = None) -> list[Any]:
        """Columns that were taken from these rows before they were joined with a static frame that has them, too."""
        inputs = self._read()
        if beside is None and not inputs.static_ids:
            return list(columns)
        return [
            with_own_columns(frame, one, inputs.ids, inputs.static_ids, beside) if isinstance(one, Column) else one
            for one in columns
        ]

    @property
    def _is_behind_stage(self) -> bool:
        return bool(self._read().outputs)

    def _check_own_tasks(self, what: str, barrier: bool, profile: Any) -> None:
        if self._is_behind_stage and (barrier or profile is not None):
            raise PlanError(
                f"{what} after a keyed stage runs in the stage's own tasks, so it takes no"
                f" {'barrier' if barrier else 'profile'}; leave it out"
            )


def _of_users(frame: DataFrame) -> list[Column]:
    """The columns that users know."""
    return quoted_columns([name for name in frame.columns if not RESERVED.fullmatch(name)])
