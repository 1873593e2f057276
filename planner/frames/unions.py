"""Rows of a job put together with others: ``union`` and its like, each side with the watermark that it has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...errors import PlanError
from ..inputs.analysis import check_stateless
from ..inputs.event_time import CARRIER, Watermark, carried, check_event_time, marked
from ..inputs.input_checks import check_inputs
from ..inputs.inputs import Inputs
from ..inputs.schemas import find_column, quoted_columns, same_type
from ..inputs.spark_watermark import take_over_watermark
from .stateless.frame import StatelessFrame

if TYPE_CHECKING:
    from typing_extensions import Self


def read_inputs(history: Any, live: Any) -> tuple[Inputs, Watermark | None]:
    """The inputs of ``read()``, and the watermark that their frames have already.

    Errors are those of :func:`.readers.reading.read`.
    """
    inputs, watermark = take_over_watermark(check_inputs(history, live))
    for part in inputs.lives:
        check_stateless(part.name, part.frame)
    return inputs, watermark


class UnitedFrame(StatelessFrame):
    """Rows that can be united with others."""

    def __init__(self, inputs: Inputs, watermark: Watermark | None = None) -> None:
        self._inputs = inputs
        self._watermark = watermark

    def union(self, other: Self | DataFrame) -> Self:
        """Combines the rows of two frames; columns by position.  Each live input keeps its own watermark.

        Columns of different types get the type that Spark's union gives them.

        Histories become one history; live inputs are read side by side.  A history counts for the watermark of the live
        inputs that it was read with.  A batch DataFrame becomes a history, a streaming one a live input.

            web_orders.union(shop_orders)

        Raises:
            PlanError: the columns differ, or have no common type, or the watermarks are on different columns.
        """
        other = self._as_mine("union", other, dict(zip(self.columns, getattr(other, "columns", ()), strict=False)))
        if len(self.columns) != len(other.columns):
            raise PlanError(
                f"union: one side has {len(self.columns)} columns, the other {len(other.columns)}; select the same ones"
                " on both, or use unionByName with allowMissingColumns=True",
                code="MIXEDMODE_SCHEMAS_DIFFER",
            )
        return self._widened("union", other._renamed(dict(zip(other.columns, self.columns, strict=True))))

    def unionAll(self, other: Self | DataFrame) -> Self:
        """The same as :meth:`union`: ``web_orders.unionAll(shop_orders)``."""
        return self.union(other)

    def unionByName(self, other: Self | DataFrame, allowMissingColumns: bool = False) -> Self:
        """Combines the rows as :meth:`union`, with columns by name.

            web_orders.unionByName(shop_orders, allowMissingColumns=True)

        Args:
            other: the other frame.
            allowMissingColumns: fill columns that one side does not have with nulls.
        """
        names = {name: self._find(name) or name for name in getattr(other, "columns", ())}
        other = self._as_mine("unionByName", other, {here: there for there, here in names.items()})
        if any(here != there for there, here in names.items()):  # as Spark finds columns: "Shop" is "shop"
            other = other._renamed(names)
        if not allowMissingColumns:
            return self._widened("unionByName", other)
        return self._with_columns_of(other)._widened("unionByName", other._with_columns_of(self), by_field=True)

    def _united_behind(self, first: DataFrame, what: str, **options: Any) -> Self:
        """``first.union(rows)``: a plain frame before these rows.

        Args:
            first: a history, or a live input.
            what: the method.
            options: its other arguments.
        """
        mine = first.columns if what == "unionByName" else self.columns
        made = self._as_mine(what, first, dict(zip(mine, first.columns, strict=False)))
        united: Self = getattr(made, what)(self, **options)
        return united

    def _renamed(self, names: dict[str, str]) -> Self:
        """These rows with all columns under other names, the event time too."""
        columns = [column.alias(new) for column, new in zip(quoted_columns(names), names.values(), strict=True)]
        hidden = [F.col(CARRIER)] if CARRIER in self._inputs.template.columns else []
        inputs = self._inputs.map(
            "union",
            lambda frame: frame.select(*columns, *hidden),
            lambda frame, *more: frame.select(*columns, *hidden, *more),
        )
        watermark = self._watermark
        if watermark is not None:
            watermark = replace(watermark, event_time=names.get(watermark.event_time, watermark.event_time))
        return type(self)(inputs, watermark)

    def _with_columns_of(self, other: Self) -> Self:
        missing = {
            field.name: F.lit(None).cast(field.dataType)
            for field in other.schema.fields
            if self._find(field.name) is None
        }
        return self.withColumns(missing) if missing else self

    def _widened(self, what: str, other: Self, *, by_field: bool = False) -> Self:
        """The rows of both, in the types that Spark's union gives them: an int beside a decimal is a decimal.

        Args:
            what: the method that unites them.
            other: the other rows, with columns of the same names.
            by_field: Spark puts the fields of structs together by their names, which a cast does not: it leaves them.
        """
        try:
            here, there = self._visible(), other._visible()
            wide = here.unionByName(there).schema
            if by_field:
                wide = StructType([field for field in wide if "struct<" not in field.dataType.simpleString()])
        except AnalysisException:
            return self._united(what, other)  # which names the columns that differ
        return self._cast_to(wide)._united(what, other._cast_to(wide))

    def _visible(self) -> DataFrame:
        """A frame of these columns, for the types only."""
        return self._inputs.template.select(*quoted_columns(self.columns))

    def _cast_to(self, wide: StructType) -> Self:
        """These rows in the types of ``wide``; not the event time, which a cast would end."""
        types = {field.name: field.dataType for field in wide.fields}
        if self._watermark is not None:
            types.pop(self._watermark.event_time, None)
        others = {
            field.name: column.cast(types[field.name])
            for field, column in zip(self.schema.fields, quoted_columns(self.columns), strict=True)
            if field.name in types and not same_type(field.dataType, types[field.name])
        }
        return self.withColumns(others) if others else self

    def _united(self, what: str, other: Self) -> Self:
        mine, theirs = self._watermark, other._watermark
        if mine is not None and theirs is not None and self._has_carrier != other._has_carrier:
            return self._carrying()._united(what, other._carrying())
        if mine is None and theirs is None:
            return type(self)(self._inputs.union(other._inputs))
        # As in Spark: what is event time on one side only is none behind the union once its column is gone.
        if mine is None and other._has_carrier:
            return self._united(what, other._untimed())
        if theirs is None and self._has_carrier:
            return self._untimed()._united(what, other)
        if mine is None or theirs is None or mine.event_time != theirs.event_time:
            sides = " and ".join("none" if side is None else side.label for side in (mine, theirs))
            raise PlanError(
                f"{what}: the watermarks of the two sides are of the columns {sides}; give both the same column, or"
                " call withWatermark after the union"
            )
        inputs = self._inputs.union(other._inputs)
        given = [mine.delay_of(part.name) for part in self._inputs.lives]
        given += [theirs.delay_of(part.name) for part in other._inputs.lives]
        delays = tuple((part.name, delay) for part, delay in zip(inputs.lives, given, strict=True))
        delay_ms = max(mine.delay_ms, theirs.delay_ms)
        both = replace(
            mine,
            delay_ms=delay_ms,
            delays_ms=delays,
            declared_ms=max(mine.remembered_ms, theirs.remembered_ms),
            behind_ms=delay_ms + max(mine.lag_ms, theirs.lag_ms),
        )
        return type(self)(inputs, both)

    def _as_mine(self, what: str, other: Any, columns: dict[str, str]) -> Self:
        """What is united with these rows; a plain frame becomes a history or a live input, with the same event time.

        Args:
            what: the method.
            other: what it was given.
            columns: the other's columns by these rows'.
        """
        if isinstance(other, type(self)):
            return other
        if not isinstance(other, DataFrame):
            raise PlanError(
                f"{what} takes what mixedmode.read() returns, or a DataFrame, got {type(other).__name__}; give it"
                " one of these"
            )
        inputs, watermark = read_inputs(None, other) if other.isStreaming else read_inputs(other, None)
        mine = self._watermark
        column = None if mine is None else columns.get(mine.event_time)
        if mine is None or column is None or watermark is not None:
            return type(self)(inputs, watermark)
        check_event_time(column, inputs.schema[column].dataType)
        marks = inputs.map(what, lambda frame: marked(frame, column))
        return type(self)(marks, Watermark(column, mine.delay_ms))

    @property
    def _has_carrier(self) -> bool:
        return self._watermark is not None and self._watermark.event_time == CARRIER

    def _untimed(self) -> Self:
        """The same rows without the event time that none of their columns has."""
        return type(self)(self._inputs.map("union", lambda frame: frame.drop(CARRIER)))

    def _carrying(self) -> Self:
        """The same with its event time in a column that users do not see."""
        watermark = self._watermark
        if watermark is None or self._has_carrier:
            return self
        event_time = watermark.event_time
        inputs = self._inputs.map("union", lambda frame: frame.withColumn(CARRIER, carried(frame, event_time)))
        return type(self)(inputs, watermark.carried(self._inputs.template))

    def _find(self, name: str) -> str | None:
        return find_column(name, self.schema, case_sensitive=self._inputs.case_sensitive)
