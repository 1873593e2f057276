"""Rows of a job joined with others: with those of another ``read()`` or stage, or with a static frame."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from ...errors import PlanError
from ...runtime.platform.spark_errors import error_text
from ..stages.join.join import plan_join
from .unions import UnitedFrame, read_inputs

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..stages.stage import KeyedStage, StageInput


@contextmanager
def ambiguity_explained(what: str) -> Iterator[None]:
    """An error of Spark's about a name that several columns have says what to write instead."""
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() != "AMBIGUOUS_REFERENCE" or what == "join":  # which says more
            raise
        raise PlanError(
            f"{what}: {error_text(error)}; behind a join of two streams columns of one name are told by the names of"
            " their frames: a.alias('a').join(b.alias('b'), …), then F.col('a.<name>') and F.col('b.<name>')"
        ) from error


class JoiningFrame(UnitedFrame):
    """Rows that others may be joined with."""

    @classmethod
    @abstractmethod
    def _of(cls, stage: KeyedStage) -> Self:
        """What comes out of a stage."""

    @abstractmethod
    def _stage_input(self, what: str) -> StageInput:
        """The rows for a keyed stage, if they are fit for one."""

    def join(self, other: Any, on: Any = None, how: str | None = None) -> Self:
        """Join with the rows of another ``read()`` or keyed stage, which is a keyed stage, or with a static frame.

        Rows of two streams wait for each other; with watermarks and a range of event times in the condition, until no
        partner can come any more.  A static frame is read anew for each epoch.

        Args:
            other: what ``read`` or a stage gives, a streaming DataFrame, or a batch one.
            on: a name, names, or a condition; of two streams some column of one must be equal to one of the other.
            how: of streams inner (None), left, right, full, leftsemi; of others inner, left, leftsemi, leftanti, cross.

        Raises:
            PlanError: Spark does not support such a join of streams, or a column is ambiguous.
        """
        if isinstance(other, DataFrame) and other.isStreaming:
            other = type(self)(*read_inputs(None, other))
        if not isinstance(other, JoiningFrame):
            return super().join(other, on, how)
        return self._of(plan_join(self._stage_input("join"), other._stage_input("join"), on, how))

    def crossJoin(self, other: Any) -> Self:
        """Every row with every row of a static frame, which is read anew for each epoch.

        Raises:
            PlanError: that is another stream, of which rows without an equal column would have to wait for ever.
        """
        if isinstance(other, JoiningFrame) or (isinstance(other, DataFrame) and other.isStreaming):
            return self.join(other, how="cross")
        return super().crossJoin(other)
