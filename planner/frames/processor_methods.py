"""The methods that run a ``StatefulProcessor``, which rows by key of one input and of two have alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from pyspark.sql import GroupedData
from pyspark.sql.types import StructType

from ...runtime.operators.processor.stateful_processor import AnyProcessor
from ...runtime.protocols.operator_events.coordinator import OperatorCoordinator
from ..stages.processor import TWS, TWS_IN_PANDAS, plan_processor
from ..stages.processor_rows import ProcessorRows
from ..stages.stage import KeyedStage
from .schema_methods import KeySchemaMethods

#: The frame of a stage's rows: a ``MixedFrame``.
Frame = TypeVar("Frame")


class ProcessorMethods(KeySchemaMethods, Generic[Frame]):
    """Rows by key that a processor can take."""

    #: Makes the frame of the output of a stage.
    _result: Callable[[KeyedStage], Frame]

    @abstractmethod
    def _processor_rows(self, method: str) -> ProcessorRows:
        """The rows that the processor gets; ``method`` is how the user runs it."""

    def transformWithState(
        self,
        statefulProcessor: AnyProcessor,
        outputStructType: StructType | str,
        outputMode: str,
        timeMode: str,
        initialState: GroupedData | None = None,
        eventTimeColumnName: str = "",
        coordinator: OperatorCoordinator | None = None,
    ) -> Frame:
        """Runs a PySpark ``StatefulProcessor``; arguments as of ``GroupedData.transformWithState``, plus one.

            orders.groupBy("customer").transformWithState(Totals(), "customer string, n long", "append", "none")

        Args:
            statefulProcessor: as in Spark; behind ``cogroup`` its ``handleInputRows`` takes ``key, left, right,
                timerValues``.
            outputStructType: as in Spark.
            outputMode: as in Spark.
            timeMode: as in Spark; of two inputs one at least needs a watermark for ``eventTime``, and of two watermarks
                the lesser one counts.
            initialState: as in Spark.
            eventTimeColumnName: as in Spark.
            coordinator: runs on the driver and exchanges events with the shards.

        Raises:
            PlanError: an argument, or the keys of two inputs, do not fit; the message names it.
        """
        return self._result(
            plan_processor(
                self._processor_rows(TWS),
                statefulProcessor,
                outputStructType,
                outputMode,
                timeMode,
                initialState,
                eventTimeColumnName,
                coordinator,
            )
        )

    def transformWithStateInPandas(
        self,
        statefulProcessor: AnyProcessor,
        outputStructType: StructType | str,
        outputMode: str,
        timeMode: str,
        initialState: GroupedData | None = None,
        eventTimeColumnName: str = "",
        coordinator: OperatorCoordinator | None = None,
    ) -> Frame:
        """Runs a ``StatefulProcessor`` whose handlers get and yield pandas frames.

        The arguments are those of :meth:`transformWithState`, and so is the state: a job may change from one to the
        other.

            orders.groupBy("customer").transformWithStateInPandas(Totals(), "customer string, n long", "append", "none")

        Raises:
            PlanError: an argument, or the keys of two inputs, do not fit; the message names it.
        """
        return self._result(
            plan_processor(
                self._processor_rows(TWS_IN_PANDAS),
                statefulProcessor,
                outputStructType,
                outputMode,
                timeMode,
                initialState,
                eventTimeColumnName,
                coordinator,
                in_pandas=True,
            )
        )
