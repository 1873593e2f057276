"""The rows of a job before they are grouped: a ``DataFrame`` that stands for history and live together.

Mirrors the stateless part of PySpark's ``DataFrame``: same names, same arguments.  Every operation is applied to both
inputs, lazily, as Spark applies it; nothing runs before ``start()``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType, StructType, TimestampNTZType, TimestampType

from ..errors import PlanError
from .analysis import check_stateless, duration_ms
from .inputs import Inputs, check_inputs
from .schemas import check_reserved_columns, find_column, missing_column, quoted

if TYPE_CHECKING:
    from .grouped import MixedGroupedData

ColumnOrName = Column | str


@dataclass(frozen=True)
class Watermark:
    """``withWatermark``: the event-time column and how much later rows may come."""

    event_time: str
    delay_ms: int


def read(history: DataFrame | None = None, live: DataFrame | None = None) -> MixedFrame:
    """Describe a job over a bounded history, an unbounded live source, or first one and then the other.

    Args:
        history: a batch DataFrame (``spark.read…``).
        live: a streaming DataFrame (``spark.readStream…``) with the same columns.

    Raises:
        PlanError: none is given, one is of the wrong kind, or their columns differ.
        SetupError: the session or its workers' Python cannot run the job.
    """
    inputs = check_inputs(history, live)
    if inputs.live is not None:
        check_stateless("live", inputs.live)
    return MixedFrame(inputs)


class MixedFrame:
    """History and live as one frame; made by :func:`read`, immutable."""

    def __init__(self, inputs: Inputs, watermark: Watermark | None = None) -> None:
        self._inputs = inputs
        self._watermark = watermark

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> StructType:
        return self._inputs.schema

    @property
    def columns(self) -> list[str]:
        return self.schema.fieldNames()

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        return [(field.name, field.dataType.simpleString()) for field in self.schema.fields]

    @property
    def isStreaming(self) -> bool:
        """True if there is a live source, that is, if the job has no end of its own."""
        return self._inputs.live is not None

    def printSchema(self, level: int | None = None) -> None:
        """Print the schema as a tree."""
        self._inputs.template.printSchema(level)

    def __getitem__(self, item: str) -> Column:
        """The column by name, good for both inputs."""
        return quoted([self._column("column", item)])[0]

    def __getattr__(self, name: str) -> Column:
        """The column by attribute, as on a DataFrame; anything else is an error that says what to do instead."""
        if not name.startswith("_"):
            if name in self.columns:
                return self[name]
            if hasattr(DataFrame, name):
                raise AttributeError(
                    f"MixedFrame has no {name}; transform(lambda frame: frame.{name}(…)) applies a stateless"
                    " operation of DataFrame to both inputs"
                )
        raise AttributeError(f"MixedFrame has no attribute {name!r}")

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.dtypes)
        return f"MixedFrame[{columns}]"

    # -- stateless operations, on both inputs --------------------------------------------------------------------------

    def select(self, *cols: ColumnOrName | list[ColumnOrName]) -> MixedFrame:
        return self._map("select", lambda frame: frame.select(*cols))  # type: ignore[arg-type]

    def selectExpr(self, *expr: str | list[str]) -> MixedFrame:
        return self._map("selectExpr", lambda frame: frame.selectExpr(*expr))  # type: ignore[arg-type]

    def filter(self, condition: ColumnOrName) -> MixedFrame:
        return self._map("filter", lambda frame: frame.filter(condition))

    def where(self, condition: ColumnOrName) -> MixedFrame:
        return self._map("where", lambda frame: frame.where(condition))

    def withColumn(self, colName: str, col: Column) -> MixedFrame:
        return self._map("withColumn", lambda frame: frame.withColumn(colName, col))

    def withColumns(self, *colsMap: dict[str, Column]) -> MixedFrame:
        return self._map("withColumns", lambda frame: frame.withColumns(*colsMap))

    def withColumnRenamed(self, existing: str, new: str) -> MixedFrame:
        return self.withColumnsRenamed({existing: new})

    def withColumnsRenamed(self, colsMap: dict[str, str]) -> MixedFrame:
        renamed = self._map("withColumnsRenamed", lambda frame: frame.withColumnsRenamed(colsMap))
        if self._watermark is None:
            return renamed
        for existing, new in colsMap.items():
            if self._find(existing) == self._watermark.event_time:
                return MixedFrame(renamed._inputs, replace(self._watermark, event_time=new))
        return renamed

    def drop(self, *cols: ColumnOrName) -> MixedFrame:
        return self._map("drop", lambda frame: frame.drop(*cols))

    def dropna(
        self, how: str = "any", thresh: int | None = None, subset: str | tuple[str, ...] | list[str] | None = None
    ) -> MixedFrame:
        return self._map("dropna", lambda frame: frame.dropna(how, thresh, subset))

    def fillna(self, value: Any, subset: str | tuple[str, ...] | list[str] | None = None) -> MixedFrame:
        return self._map("fillna", lambda frame: frame.fillna(value, subset))

    def transform(self, func: Callable[..., DataFrame], *args: Any, **kwargs: Any) -> MixedFrame:
        """Apply a function of a DataFrame to each input, for example a join with a static table.

        It is called once for history and once for live, must give both the same columns, and must not keep state.
        """
        inputs = self._inputs.map("transform", lambda frame: _transformed(frame, func, args, kwargs))
        checked = check_inputs(inputs.history, inputs.live)
        return MixedFrame(checked, self._watermark)

    # -- event time and keys -------------------------------------------------------------------------------------------

    def withWatermark(self, eventTime: str, delayThreshold: str) -> MixedFrame:
        """Declare the event-time column, and how late rows may come.

        Raises:
            PlanError: the column is missing or no timestamp, or the delay is not a duration of 0 or more.
        """
        column = self._column("event-time column", eventTime)
        check_event_time(column, self.schema[column].dataType)
        try:
            delay_ms = duration_ms(self._inputs.spark, delayThreshold)
        except ValueError as error:
            raise PlanError(
                f"delayThreshold {delayThreshold!r} of withWatermark is not a duration ({error});"
                " use for example '10 minutes' or '1 hour'"
            ) from error
        if delay_ms < 0:
            raise PlanError(f"delayThreshold {delayThreshold!r} of withWatermark is negative; use '0 seconds' or more")
        return MixedFrame(self._inputs, Watermark(column, delay_ms))

    def groupBy(self, *cols: ColumnOrName | int | Sequence[ColumnOrName | int]) -> MixedGroupedData:
        """Group by key: names, columns, expressions, ``F.window`` or ``F.session_window``, or 1-based ordinals.

        Raises:
            PlanError: a key is missing or has a type without an order, or the watermarked column is gone.
        """
        from .grouped import MixedGroupedData
        from .keys import resolve_keys

        given: Any = cols[0] if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else cols
        if self._inputs.live is not None:
            check_stateless("live (after the operations before groupBy)", self._inputs.live)
        if self._watermark is not None and self._find(self._watermark.event_time) is None:
            raise PlanError(
                f"the watermarked column {self._watermark.event_time} is no longer there at groupBy; keep it, or call"
                " withWatermark later"
            )
        check_reserved_columns(self.schema)
        return MixedGroupedData(self, resolve_keys(self._inputs, tuple(given)))

    groupby = groupBy

    def agg(self, *exprs: Column | dict[str, str]) -> Any:
        """Aggregate all rows as one group: ``groupBy().agg(…)``."""
        return self.groupBy().agg(*exprs)

    @property
    def writeStream(self) -> NoReturn:
        raise PlanError(
            "there is no keyed stage to run: call groupBy(…).transformWithState(…) or groupBy(…).agg(…) before"
            " writeStream; a job without state is served by spark.readStream as it is"
        )

    # -- inside --------------------------------------------------------------------------------------------------------

    def _map(self, what: str, function: Callable[[DataFrame], DataFrame]) -> MixedFrame:
        return MixedFrame(self._inputs.map(what, function), self._watermark)

    def _find(self, name: str) -> str | None:
        return find_column(name, self.schema, case_sensitive=self._inputs.case_sensitive)

    def _column(self, what: str, name: str) -> str:
        column = self._find(name)
        if column is None:
            raise missing_column(what, name, self.schema)
        return column


def check_event_time(column: str, data_type: DataType) -> None:
    """Raise unless the column can carry a watermark."""
    if not isinstance(data_type, (TimestampType, TimestampNTZType)):
        raise PlanError(
            f"event-time column {column} is of type {data_type.simpleString()}; it must be timestamp or timestamp_ntz"
            " (convert it, for example with F.to_timestamp)"
        )


def _transformed(frame: DataFrame, func: Callable[..., DataFrame], args: Any, kwargs: Any) -> DataFrame:
    result = func(frame, *args, **kwargs)
    if not isinstance(result, DataFrame):
        raise PlanError(f"the function given to transform returned {type(result).__name__}; it must return a DataFrame")
    return result
