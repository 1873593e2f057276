"""A keyed stage whose operator is a function of ``applyInPandasWithState``: a processor's, with words of its own."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import TimerValues
from pyspark.sql.types import StructType

from ....protocols.rows_per_call import RowsPerCall
from ....support.code_fingerprint import code_fingerprint
from ...keyed.keyed_input import KeyedInput
from ..definition import CallingConvention, TimeMode
from ..frames.frame_form import FramesForm, converted
from ..frames.frame_settings import FrameSettings
from ..operator import ProcessorOperator
from ..rows.shown_times import shown_watermark_ms
from .function import GroupFunction, GroupStateFunction

#: Which of a processor's timers are the timeouts.
TIME_MODES: dict[str, TimeMode] = {
    GroupStateTimeout.NoTimeout: "none",
    GroupStateTimeout.ProcessingTimeTimeout: "processingTime",
    GroupStateTimeout.EventTimeTimeout: "eventTime",
}


class GroupStateOperator(ProcessorOperator):
    """The stage of a user's function.

    Args:
        function: of key, frames and state; it is pickled to the tasks.
        uid: id under which the state is stored.
        rows: the function's input.
        output_schema: schema of the frames that the function yields.
        state_schema: schema of the state's value.
        timeout: one of ``GroupStateTimeout``'s.
        settings: what the session says of pandas.
        rows_per_call: how the rows of a key are cut into calls in a sorted pass; None: not at all, or by event time.
    """

    kind = "applyInPandasWithState"
    # Stock calls for a timeout when the watermark is past it: what a function compares with ``<`` is behind then.
    past_timer_ms = 1

    def __init__(
        self,
        function: GroupFunction,
        *,
        uid: str,
        rows: KeyedInput,
        output_schema: StructType,
        state_schema: StructType,
        timeout: str,
        settings: FrameSettings,
        rows_per_call: RowsPerCall | None = None,
    ) -> None:
        super().__init__(
            GroupStateFunction(
                function, state_schema, timeout, rows.schema.fieldNames(), has_watermark=rows.event_time is not None
            ),
            uid=uid,
            rows=rows,
            output_schema=output_schema,
            time_mode=TIME_MODES[timeout],
            calls=CallingConvention(GroupStateFrames(settings), rows_per_call),
        )
        self._timeout = timeout
        self.processor_name = getattr(function, "__name__", type(function).__name__)
        self._code = code_fingerprint(function) if isinstance(function, FunctionType) else None

    @property
    def spoken(self) -> str:
        return f"function {self.processor_name}"

    def code_of(self, processor: Any, handler: str) -> Any:
        return processor.function

    def describe(self) -> dict[str, Any]:
        described = super().describe()
        del described["time mode"]
        return {**described, "timeout": self._timeout}

    def times(self, processing_ms: int, watermark_ms: int) -> TimerValues:
        """Both, whatever the timeout: the function may ask for the watermark wherever there is one."""
        return TimerValues(processing_ms, -1 if self.event_time is None else shown_watermark_ms(watermark_ms))


class GroupStateFrames(FramesForm):
    """As a processor's frames; the key's values are numpy's, as PySpark's documentation promises."""

    @property
    def label(self) -> str:
        return ""

    def key(self, schema: pa.Schema) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
        shown, numbers = super().key(schema), [_numpy_value(field.type) for field in schema]
        return lambda values: converted(values if shown is None else shown(values), numbers, nulls=True)


def _numpy_value(data_type: pa.DataType) -> Callable[[Any], Any] | None:
    types = pa.types
    if types.is_integer(data_type) or types.is_floating(data_type):
        scalar = np.dtype(data_type.to_pandas_dtype()).type
        return lambda value: np.float64("nan") if value is None else scalar(value)
    if types.is_boolean(data_type):
        return lambda value: None if value is None else np.bool_(value)
    if types.is_timestamp(data_type):
        import pandas as pd

        return lambda value: pd.NaT if value is None else value
    return None
