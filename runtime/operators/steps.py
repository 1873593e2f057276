"""One stateless operation on the rows of a stage, remembered to be done to rows that are not there yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ..platform.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Step:
    """An operation of a ``DataFrame``."""

    #: The method that was called.
    what: str
    function: Callable[[DataFrame], DataFrame]
    #: The same with more columns in its result, given behind the frame; None: the operation keeps all columns anyway.
    carrying: Callable[..., DataFrame] | None = None

    def __call__(self, frame: DataFrame) -> DataFrame:
        return self.function(frame)

    def keeping(self, frame: DataFrame, column: str) -> DataFrame:
        """The same, and one column of the frame that the operation knows nothing of, if that is possible."""
        if self.carrying is None or column not in frame.columns:
            return self.function(frame)
        return self.carrying(frame, F.col(quoted(column)))
