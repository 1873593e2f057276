"""Grouped rows: PySpark's ``GroupedData``, up to the choice of the operator of the keyed stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import Column
from pyspark.sql import GroupedData as SparkGroupedData
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StructType

from ...errors import PlanError, not_supported
from ...runtime.catalyst.columns import quoted as quoted_name
from ...runtime.catalyst.star_columns import starred
from ...runtime.operators.aggregate.grouping import GroupingSets
from ..inputs.file_metadata import with_file_metadata
from ..inputs.schemas import find_column, is_path, missing_column, quoted_columns
from ..stages.aggregates.computed_arguments import with_computed_arguments
from ..stages.aggregates.functions import CallsFunctionError
from ..stages.aggregates.pivot import Pivot
from ..stages.aggregates.stage import aggregate_stage
from ..stages.group_state import plan_group_state
from ..stages.keys import Keys
from ..stages.processor_rows import COGROUP, ProcessorRows, rows_of_one
from ..stages.qualified_names import QualifiedNames
from ..stages.stage import KeyedStage
from .cogrouped import MixedCogroupedData
from .name_suggestions import no_attribute
from .processor_methods import Frame, ProcessorMethods

if TYPE_CHECKING:
    from ...runtime.operators.processor.group_state.function import GroupFunction


class MixedGroupedData(ProcessorMethods[Frame]):
    """Rows by key; returned by :meth:`MixedFrame.groupBy`.

        orders.groupBy("customer").agg(F.sum("amount"))

    Args:
        own: the rows, with a name for each column.
        keys: the keys.
        result: makes the frame of the output of a stage.
        of_frames: translates columns of joined frames.
        grouping: the grouping sets; None: one set of all keys.
        pivot: the values for which each aggregate is computed; None: all rows.
    """

    def __init__(
        self,
        own: QualifiedNames,
        keys: Keys,
        result: Callable[[KeyedStage], Frame],
        of_frames: Callable[[Sequence[Any]], list[Any]],
        grouping: GroupingSets | None = None,
        pivot: Pivot | None = None,
    ) -> None:
        self._own = own
        self._rows = own.rows
        self._keys = keys
        self._result = result
        self._of_frames = of_frames
        self._grouping = grouping
        self._pivot = pivot

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)

    @property
    def _key_schema(self) -> StructType:
        return self._keys.schema

    # -- a processor ---------------------------------------------------------------------------------------------------

    def _processor_rows(self, method: str) -> ProcessorRows:
        self._check_plain(method)
        return rows_of_one(self._rows, self._keys, method)

    def applyInPandasWithState(
        self,
        func: GroupFunction,
        outputStructType: StructType | str,
        stateStructType: StructType | str,
        outputMode: str,
        timeoutConf: str,
    ) -> Frame:
        """Runs a function of key, pandas frames and PySpark's ``GroupState``; arguments as in Spark.

            orders.groupBy("customer").applyInPandasWithState(count, "n long", "n long", "update", "NoTimeout")

        Args:
            func: as in Spark.
            outputStructType: as in Spark.
            stateStructType: as in Spark.
            outputMode: as in Spark.
            timeoutConf: as in Spark; under ``pipeline.timers = in-order`` event-time timeouts come between the rows.

        Raises:
            PlanError: an argument does not fit; the message names it.
        """
        self._check_plain("applyInPandasWithState")
        return self._result(
            plan_group_state(self._rows, self._keys, func, outputStructType, stateStructType, outputMode, timeoutConf)
        )

    # -- aggregates ----------------------------------------------------------------------------------------------------

    def agg(self, *exprs: Column | dict[str, str], **unknown: Any) -> Frame:
        """Aggregates by column functions, or by one dict of column to function name.

            orders.groupBy("customer").agg(F.sum("amount").alias("spent"), F.count("*").alias("orders"))

        Raises:
            PlanError: an expression does not fit these columns, or a function is not supported.
        """
        if "coordinator" in unknown:
            raise PlanError("agg() takes no coordinator: only a processor handles events; use transformWithState")
        if unknown:
            raise TypeError(f"agg() got an unexpected keyword argument {next(iter(unknown))!r}")
        columns = _aggregates(exprs)
        if not isinstance(columns, dict):
            columns = starred(self._of_frames(columns))(self._own.known.inputs.template)
        return self._result(self._aggregate(self._own.aggregates(columns)))

    def _aggregate(self, given: Any) -> KeyedStage:
        rows = replace(self._rows, inputs=with_file_metadata(self._rows.inputs, (*self._keys.given, *given)))
        try:
            return aggregate_stage(rows, self._keys, given, self._grouping, self._pivot)
        except CallsFunctionError as error:  # few do, and to look for it takes an analysis
            computed = with_computed_arguments(rows, self._keys, given)
            if computed is None:
                raise PlanError(*error.args) from None
        rows, given = computed
        return aggregate_stage(rows, self._keys, given, self._grouping, self._pivot)

    def count(self) -> Frame:
        """Counts the rows of each group, in a column ``count``: ``orders.groupBy("customer").count()``."""
        return self.agg(F.count(F.lit(1)).alias("count"))

    def sum(self, *cols: str) -> Frame:
        """Computes sums of the given columns, or of all numeric ones: ``orders.groupBy("customer").sum("amount")``."""
        return self._numeric("sum", F.sum, cols)

    def avg(self, *cols: str) -> Frame:
        """Computes averages of the given columns, or of all numeric ones.

        Example: ``orders.groupBy("customer").avg("amount")``
        """
        return self._numeric("avg", F.avg, cols)

    def mean(self, *cols: str) -> Frame:
        """The same as :meth:`avg`: ``orders.groupBy("customer").mean("amount")``."""
        return self._numeric("mean", F.avg, cols)

    def min(self, *cols: str) -> Frame:
        """Computes minimums of the given columns, or of all numeric ones.

        Example: ``orders.groupBy("customer").min("amount")``
        """
        return self._numeric("min", F.min, cols)

    def max(self, *cols: str) -> Frame:
        """Computes maximums of the given columns, or of all numeric ones.

        Example: ``orders.groupBy("customer").max("amount")``
        """
        return self._numeric("max", F.max, cols)

    def pivot(self, pivot_col: str, values: Sequence[Any] | None = None) -> MixedGroupedData[Frame]:
        """Computes each of the following aggregates once for each of some values of a column, side by side.

            orders.groupBy("customer").pivot("country", ["de", "fr"]).agg(F.sum("amount"))

        Args:
            pivot_col: the column.
            values: its values; rows with other values do not count.

        Raises:
            PlanError: ``values`` is missing (Spark's own streams need it, too), the column is missing, or this does not
                follow ``groupBy``.
        """
        self._check_plain("pivot")
        if not isinstance(pivot_col, str):
            raise PlanError(f"pivot takes the name of a column, got {pivot_col!r}")
        if values is None or isinstance(values, str) or not list(values):
            raise PlanError(
                f"pivot({pivot_col!r}) needs the values that become columns, got {values!r}: which there are is known"
                " only when a stream has ended; give them, as in pivot('<column>', ['<value>', '<value>'])"
            )
        inputs, schema = self._rows.inputs, self._rows.schema
        found = find_column(pivot_col, schema, case_sensitive=inputs.case_sensitive)
        if found is None and "." not in pivot_col:
            raise missing_column("column of pivot()", pivot_col, schema)
        is_field = is_path(pivot_col, schema, case_sensitive=inputs.case_sensitive)
        column = pivot_col if found is None or is_field else quoted_name(found)
        pivot = Pivot(column, tuple(values))
        return MixedGroupedData(self._own, self._keys, self._result, self._of_frames, pivot=pivot)

    def _check_plain(self, what: str) -> None:
        if what != "pivot":
            self._own.check_distinct(what)
        if self._pivot is not None:
            raise not_supported(f"{what} is not supported after pivot, as in Spark; only aggregates are: use agg")
        if self._grouping is not None:
            raise not_supported(
                f"{what} is not supported after {self._grouping.method}, as in Spark: a row is in several groups there;"
                " use groupBy, or agg"
            )

    def _numeric(self, what: str, function: Callable[[Column], Column], cols: tuple[str, ...]) -> Frame:
        """One aggregate per numeric column, as ``GroupedData`` does it."""
        schema = self._rows.schema
        names = [field.name for field in schema.fields if isinstance(field.dataType, NumericType)]
        if cols:
            names = [self._numeric_column(what, col) for col in cols]
        if not names:
            raise PlanError(f"{what}() found no numeric column; the columns are {', '.join(schema.fieldNames())}")
        return self.agg(*[function(column) for column in quoted_columns(names)])

    def _numeric_column(self, what: str, col: str) -> str:
        inputs, schema = self._rows.inputs, self._rows.schema
        found = find_column(col, schema, case_sensitive=inputs.case_sensitive)
        if found is None:
            raise missing_column(f"column of {what}()", col, schema)
        data_type = schema[found].dataType
        if not isinstance(data_type, NumericType):
            raise PlanError(
                f"column {found} of {what}() is of type {data_type.simpleString()}, which is not numeric;"
                f" use agg(F.{what}(…)) for other types"
            )
        return found

    # -- two inputs ----------------------------------------------------------------------------------------------------

    def cogroup(self, other: MixedGroupedData[Frame]) -> MixedCogroupedData[Frame]:
        """Combines these rows with others, grouped by their own keys, for one processor.

            both = orders.groupBy("id").cogroup(payments.groupBy("order_id"))
            both.transformWithState(Matches(), schema, "append", "none")

        Raises:
            PlanError: ``other`` is not the ``groupBy`` of a frame of a job.
        """
        self._check_plain(COGROUP)
        if isinstance(other, SparkGroupedData):
            streams = other._df.isStreaming
            raise PlanError(
                f"cogroup got what groupBy of a {'streaming' if streams else 'batch'} DataFrame gives; read it first:"
                f" mixedmode.read({'live' if streams else 'history'}=frame).groupBy(…)"
            )
        if not isinstance(other, MixedGroupedData):
            raise PlanError(
                f"cogroup takes what groupBy gives, as in a.groupBy('<key>').cogroup(b.groupBy('<key>')), got"
                f" {type(other).__name__}"
            )
        other._check_plain(COGROUP)
        return MixedCogroupedData((self._rows, self._keys), (other._rows, other._keys), self._result)

    # -- what is not there ---------------------------------------------------------------------------------------------

    def applyInPandas(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: raises an error.  Use :meth:`transformWithState` or :meth:`agg`."""
        raise not_supported(
            "applyInPandas is not supported: it needs all rows of a key at once, which a stream never has; use"
            " transformWithState or agg"
        )

    def apply(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: raises an error.  Use :meth:`transformWithState` or :meth:`agg`."""
        raise not_supported("apply is not supported, as applyInPandas is not; use transformWithState or agg")

    def applyInArrow(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: raises an error.  Use :meth:`transformWithState` or :meth:`agg`."""
        raise not_supported("applyInArrow is not supported, as applyInPandas is not; use transformWithState or agg")


def _aggregates(exprs: tuple[Column | dict[str, str], ...]) -> list[Column] | dict[str, str]:
    """What ``agg`` was given; only Spark knows which columns a dict means, and how it names and orders the results."""
    if not exprs:
        raise PlanError("agg() got no expression; give it column functions such as F.sum('x'), or one dict")
    if len(exprs) == 1 and isinstance(exprs[0], dict):
        return exprs[0]
    columns = [expr for expr in exprs if isinstance(expr, Column)]
    if len(columns) < len(exprs):
        wrong = next(expr for expr in exprs if not isinstance(expr, Column))
        raise PlanError(f"agg() takes column functions or one dict, got {wrong!r} ({type(wrong).__name__})")
    return columns
