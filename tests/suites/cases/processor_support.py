"""What the cases of processors share: a processor that is written once, for rows and for pandas frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class Steps(StatefulProcessor):
    """A processor whose ``rows`` and ``timer`` give dictionaries, whichever of the two it is run as.

    Args:
        in_pandas: whether it is given frames, and gives some.
        more: what its subclass needs.
    """

    def __init__(self, in_pandas: bool = False, **more: Any) -> None:
        self.in_pandas = in_pandas
        self.__dict__.update(more)

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.declare(handle)

    def declare(self, handle: Any) -> None:
        """Declare the state variables."""

    def rows(self, key: tuple[Any, ...], rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        """What comes of the rows of a call."""
        raise NotImplementedError

    def timer(self, key: tuple[Any, ...], expired_ms: int, times: Any) -> Iterable[dict[str, Any]]:
        """What comes of a timer."""
        return ()

    def initial(self, key: tuple[Any, ...], row: Any, times: Any) -> None:
        """A row of the initial state."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        return self._given(self.rows(key, self._taken(rows), timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        return self._given(self.timer(key, expiredTimerInfo.getExpiryTimeInMs(), timerValues))

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        for row in self._taken([initialState]):
            self.initial(key, row, timerValues)

    def _taken(self, rows: Iterable[Any]) -> list[Any]:
        if not self.in_pandas:
            return list(rows)
        return [Row(**row) for frame in rows for row in frame.to_dict("records")]

    def _given(self, rows: Iterable[dict[str, Any]]) -> Iterator[Any]:
        for row in rows:
            yield pd.DataFrame([row]) if self.in_pandas else Row(**row)


def transformed(
    frame: Any,
    key: Sequence[str],
    processor: Steps,
    schema: str,
    *,
    output_mode: str = "update",
    time_mode: str = "none",
    initial: Any = None,
    event_time: str = "",
) -> Any:
    """The frame behind the processor."""
    keyed = frame.groupBy(*key)
    method = keyed.transformWithStateInPandas if processor.in_pandas else keyed.transformWithState
    given = None if initial is None else initial.groupBy(*key)
    return method(processor, schema, output_mode, time_mode, initialState=given, eventTimeColumnName=event_time)
