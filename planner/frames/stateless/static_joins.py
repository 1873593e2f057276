"""Joins of a job's rows with static frames, which are read anew for each epoch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from ....errors import PlanError
from ....runtime.jvm.spark_errors import error_text
from ...inputs.static_frames import broadcast_if_small, check_static
from .mapped_rows import MappedRows

if TYPE_CHECKING:
    from typing_extensions import Self


class StaticJoins(MappedRows):
    """Rows that can be joined with static frames, on either side."""

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

    @abstractmethod
    def _beside(self, static: DataFrame, joined: Self) -> Self:
        """The rows joined with a static frame, which remember that its columns are not theirs."""
