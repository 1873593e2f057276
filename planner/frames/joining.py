"""Rows of a job joined with others: with those of another ``read()`` or stage, or with a static frame."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from ...errors import PlanError
from ...runtime.catalyst.frame_columns import attribute_ids, with_frames
from ...runtime.jvm.spark_errors import error_text
from ..stages.join.join import plan_join
from ..stages.join.side_columns import not_there
from ..stages.qualified_names import HOW_TO_TELL
from ..stages.stage import side_columns_of
from .unions import UnitedFrame, read_inputs

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..stages.stage import KeyedStage, StageInput


@contextmanager
def columns_explained(what: str) -> Iterator[None]:
    """An error of Spark's about a name that several columns have, or a column that is gone, says what to do."""
    try:
        yield
    except AnalysisException as error:
        if str(error.getCondition()).startswith("MISSING_ATTRIBUTES"):
            raise not_there(f"{what}: ", (error.getMessageParameters() or {}).get("missingAttributes", "")) from error
        if error.getCondition() != "AMBIGUOUS_REFERENCE" or what == "join":  # which says more
            raise
        raise PlanError(f"{what}: {error_text(error)}; {HOW_TO_TELL}") from error


class JoiningFrame(UnitedFrame):
    """Rows that can be joined with others."""

    @classmethod
    @abstractmethod
    def _of(cls, stage: KeyedStage) -> Self:
        """What comes out of a stage."""

    @abstractmethod
    def _stage_input(self, what: str) -> StageInput:
        """The rows for a keyed stage, if they are fit for one."""

    def _own(self, columns: Sequence[Any]) -> list[Any]:
        """Columns that were taken from frames which these rows are joined of, as those that they are here."""
        known = side_columns_of(self._inputs)
        if known is None:
            return list(columns)
        spark, find = self._inputs.spark, known.find
        return [with_frames(spark, one, find) if isinstance(one, Column) else one for one in columns]

    def _own_here(self, columns: Sequence[Any]) -> list[Any]:
        """The same as columns of these very rows, whatever else has columns of these names."""
        return self._of_frame(self._inputs.template, self._own(columns))

    def _beside(self, static: DataFrame, joined: Self) -> Self:
        ids = joined._inputs.static_ids | attribute_ids(static)
        return type(self)(replace(joined._inputs, static_ids=ids), joined._watermark)

    def join(self, other: Any, on: Any = None, how: str | None = None) -> Self:
        """Joins with another frame of a job, which makes a keyed stage, or with a static frame.

        Rows of two streams wait for each other; with watermarks and a range of event times in the condition, until no
        partner can come any more.  A static frame is read anew for each epoch.

            orders.join(payments, F.expr("o.id = p.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 1 HOUR"), "left")

        Args:
            other: the result of ``read`` or of a stage, a streaming DataFrame, or a batch DataFrame.
            on: a name, names, or a condition.  For two streams a column of one must equal a column of the other.
            how: for streams inner (the default), left, right, full or leftsemi; else inner, left, leftsemi, leftanti or
                cross.

        Raises:
            PlanError: Spark does not support such a join of streams, or a column is ambiguous.
        """
        if isinstance(other, DataFrame) and other.isStreaming:
            other = type(self)(*read_inputs(None, other))
        if not isinstance(other, JoiningFrame):
            return super().join(other, on, how)
        return self._of(plan_join(self._stage_input("join"), other._stage_input("join"), on, how))

    def _joined_behind(self, left: Any, on: Any = None, how: str | None = None) -> Self:
        if isinstance(left, DataFrame) and left.isStreaming:
            return type(self)(*read_inputs(None, left)).join(self, on, how)
        return super()._joined_behind(left, on, how)

    def crossJoin(self, other: Any) -> Self:
        """Joins every row with every row of a static frame, which is read anew for each epoch.

            orders.crossJoin(rates)

        Raises:
            PlanError: ``other`` is a stream, whose rows would have to wait for ever.
        """
        if isinstance(other, JoiningFrame) or (isinstance(other, DataFrame) and other.isStreaming):
            return self.join(other, how="cross")
        return super().crossJoin(other)

    def _crossed_behind(self, left: Any) -> Self:
        if isinstance(left, DataFrame) and left.isStreaming:
            return type(self)(*read_inputs(None, left)).crossJoin(self)
        return super()._crossed_behind(left)
