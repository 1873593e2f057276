"""``applyInPandasWithState``: a function with PySpark's ``GroupState`` as a processor with one state and one timer.

The rules are PySpark's: one call for a key's rows with all of them, one for its timeout; what a call sets as timeout
holds until the next call, which begins without one.  (Stock forgets the last rule where a call neither changes the
state nor sets a timeout, and then calls again in each micro-batch for a timeout that has passed.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from pyspark.sql.types import StructType

from .....errors import OutputSchemaError, StateSchemaError

if TYPE_CHECKING:
    import pandas as pd

#: Name of the state variable: on-disk contract.
STATE_NAME = "groupState"

#: What ``applyInPandasWithState`` is given.
GroupFunction = Callable[[Any, Iterator[Any], GroupState], Iterable[Any]]


class GroupStateFunction(StatefulProcessor):
    """A user's function as a processor on pandas frames.

    Args:
        function: the user's, of key, frames and state.
        state_schema: of the state's value.
        timeout: one of ``GroupStateTimeout``'s.
        columns: names of the columns that its frames have.
        has_watermark: whether there is a watermark that it may ask for.
    """

    def __init__(
        self,
        function: GroupFunction,
        state_schema: StructType,
        timeout: str,
        columns: list[str],
        *,
        has_watermark: bool,
    ) -> None:
        self.function = function
        self._state_schema = state_schema
        self._timeout = timeout
        self._columns = columns
        self._has_watermark = has_watermark

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._value = handle.getValueState(STATE_NAME, self._state_schema)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        return self._call(key, rows, timerValues, None)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Any]:
        import pandas as pd

        # As in PySpark: one frame without rows.
        nothing = iter([pd.DataFrame(columns=self._columns)])
        return self._call(key, nothing, timerValues, expiredTimerInfo.getExpiryTimeInMs())

    def _call(
        self, key: Any, frames: Iterator[pd.DataFrame], times: TimerValues, expired_ms: int | None
    ) -> Iterator[Any]:
        """One call of the function; what it does to the state counts when all that it yields has been taken."""
        import pandas as pd

        if self._timeout != GroupStateTimeout.NoTimeout:
            for set_before in self._handle.listTimers():
                self._handle.deleteTimer(set_before)
        state = self._state(times, timed_out=expired_ms is not None)
        rows = self.function(key, frames, state)
        if isinstance(rows, pd.DataFrame):
            raise OutputSchemaError(
                f"the function returned a pandas DataFrame for key {key!r}; yield it, or return an iterable of frames"
            )
        yield from rows
        try:
            if state._removed:
                self._value.clear()
            elif state._updated:
                self._value.update(tuple(state._value))
        except StateSchemaError as error:
            raise StateSchemaError(f"{error}\nin state.update() for key {key!r}") from error
        if state._timeout_timestamp != GroupState.NO_TIMESTAMP:
            self._handle.registerTimer(int(state._timeout_timestamp))

    def _state(self, times: TimerValues, *, timed_out: bool) -> GroupState:
        """The current key's state as a call finds it."""
        value = self._value.get()
        return GroupState(
            optionalValue=value,
            batchProcessingTimeMs=times.getCurrentProcessingTimeInMs(),
            eventTimeWatermarkMs=times.getCurrentWatermarkInMs(),
            timeoutConf=self._timeout,
            hasTimedOut=timed_out,
            watermarkPresent=self._has_watermark,
            defined=value is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=GroupState.NO_TIMESTAMP,
            keyAsUnsafe=b"",
            valueSchema=self._state_schema,
        )
