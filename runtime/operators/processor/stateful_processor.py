"""PySpark's ``StatefulProcessor`` and its handle, as checkers of types should see them here.

A processor of PySpark's own runs as it is.  Its handle knows no ``coordinator``, though, and its handlers are typed for
rows and pandas frames at once, which no processor fits; who has types checked derives from the class below instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import stateful_processor as spark

from .task_coordinator import TaskCoordinator

if TYPE_CHECKING:
    # Not PySpark's, by which a processor must take whatever handle there is.
    _Processor = ABC
else:
    _Processor = spark.StatefulProcessor


class ProcessorHandle(spark.StatefulProcessorHandle):
    """What ``init`` gets: PySpark's handle, and the way to the job's coordinator.

    def init(self, handle: mixedmode.ProcessorHandle) -> None:
        self.total = handle.getValueState("total", "amount long")
        self.coordinator = handle.coordinator
    """

    @property
    @abstractmethod
    def coordinator(self) -> TaskCoordinator:
        """Where events to the job's coordinator are sent, from handlers; it refuses if the job has none."""


class StatefulProcessor(_Processor):
    """PySpark's ``StatefulProcessor`` with types that fit a processor; at run time the same class.

        class Totals(mixedmode.StatefulProcessor):
            def init(self, handle: mixedmode.ProcessorHandle) -> None:
                self.total = handle.getValueState("total", "amount long")

            def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
                total = sum(row.amount for row in rows) + (self.total.get() or (0,))[0]
                self.total.update((total,))
                yield Row(customer=key[0], total=total)

            def close(self) -> None: ...

    After ``cogroup``, ``handleInputRows`` takes ``key, left, right, timerValues``.
    """

    if TYPE_CHECKING:

        @abstractmethod
        def init(self, handle: ProcessorHandle) -> None: ...

        @abstractmethod
        def handleInputRows(self, *args: Any, **kwargs: Any) -> Iterator[Any]: ...

        @abstractmethod
        def close(self) -> None: ...


#: What ``transformWithState`` takes; one of the two at run time.
AnyProcessor = spark.StatefulProcessor | StatefulProcessor
