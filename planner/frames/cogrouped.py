"""Two inputs grouped by the same keys: PySpark's ``PandasCogroupedOps``, for one processor over both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pyspark.sql.types import StructType

from ...errors import PlanError, not_supported
from ..stages.keys import Keys
from ..stages.processor import TWS
from ..stages.processor_rows import ProcessorRows, rows_of_two
from ..stages.stage import KeyedStage, StageInput
from .processor_methods import Frame, ProcessorMethods


class MixedCogroupedData(ProcessorMethods[Frame]):
    """The rows of two inputs by key; returned by :meth:`MixedGroupedData.cogroup`.  Spark has no stateful form of it.

        orders.groupBy("id").cogroup(payments.groupBy("order_id"))

    The processor is a ``StatefulProcessor`` whose ``handleInputRows(self, key, left, right, timerValues)`` gets two
    iterators: the rows of the left side, and those of the right side.  One of them may be empty.  State, timers and
    ``handleInitialState`` work as with one input.

    A call has all rows of its key in the epoch, or, if ``pipeline.timers`` is ``in-order``, those of one event time.
    Each iterator has them in event-time order; read it during the call.  The task gets the left rows first: if you read
    right rows before them, the left rows are buffered, on the local disk if they are many.

    Args:
        left: the rows of one side, and its keys.
        right: those of the other side.
        result: makes the frame of the output of a stage.
    """

    def __init__(
        self, left: tuple[StageInput, Keys], right: tuple[StageInput, Keys], result: Callable[[KeyedStage], Frame]
    ) -> None:
        self._sides = (*left, *right)
        self._result = result

    @property
    def _key_schema(self) -> StructType:
        return self._sides[1].schema

    def _processor_rows(self, method: str) -> ProcessorRows:
        return rows_of_two(*self._sides, method)

    def applyInPandas(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: raises an error.  Use :meth:`transformWithState`."""
        raise _no_whole_groups("applyInPandas", "transformWithStateInPandas")

    def applyInArrow(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: raises an error.  Use :meth:`transformWithState`."""
        raise _no_whole_groups("applyInArrow", TWS)


def _no_whole_groups(method: str, instead: str) -> PlanError:
    return not_supported(
        f"{method} behind cogroup is not supported, as on Spark's streams: it needs all rows of a key at once; use"
        f" {instead}, whose handleInputRows(key, left, right, timerValues) gets those that are there, and keep in its"
        " state what waits"
    )
