"""The base of operations that are applied to each input of a job, and to what comes out of a keyed stage."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ....runtime.catalyst.columns import RESERVED
from ....runtime.catalyst.frame_columns import with_own_columns
from ....runtime.catalyst.star_columns import starred
from ...inputs.schemas import quoted_columns
from ..schema_methods import SchemaMethods
from ..spark_methods import RowsOfJob

if TYPE_CHECKING:
    from typing_extensions import Self

ColumnOrName = Column | str


def listed(given: tuple[Any, ...]) -> Sequence[Any]:
    """Arguments that were given one by one, or as one list, as Spark takes them."""
    return given[0] if len(given) == 1 and isinstance(given[0], list) else given


class MappedRows(SchemaMethods, RowsOfJob):
    """Rows whose operations are remembered, to be applied to frames as Spark applies them."""

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

    @property
    def sparkSession(self) -> SparkSession:
        """The session of the inputs: ``orders.sparkSession.conf.get("spark.sql.session.timeZone")``."""
        return self._read().spark


def of_users(frame: DataFrame) -> list[Column]:
    """The columns that users know."""
    return quoted_columns([name for name in frame.columns if not RESERVED.fullmatch(name)])
