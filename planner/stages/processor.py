"""``transformWithState``, with rows or pandas frames, planned: arguments checked, keys made columns, the operator
described."""

from __future__ import annotations

import inspect
from typing import Any, Literal

from pyspark import cloudpickle
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from ...errors import PlanError
from ...runtime.operators.contract import KeyedOperator
from ...runtime.operators.processor.frame_form import Frames
from ...runtime.operators.processor.operator import ProcessorOperator
from ...runtime.protocols.operator_events.coordinator import OperatorCoordinator
from ...runtime.protocols.operator_events.event_codec import types_by_name
from ...runtime.spec import Settings
from ..inputs.environment import refuse_connect
from ..inputs.event_time import check_event_time
from ..inputs.schemas import check_distinct_columns, find_column, missing_column, same_type
from .declared_schema import declared_schema
from .frame_settings import frame_settings
from .keys import Keys
from .stage import KeyedStage, StageInput, check_output_mode

TimeMode = Literal["none", "processingTime", "eventTime"]
_TIME_MODES: dict[str, TimeMode] = {"none": "none", "processingtime": "processingTime", "eventtime": "eventTime"}
#: Callbacks that are called by keyword, and with which.
_KEYWORD_CALLBACKS = {
    "handleExpiredTimer": ("key", "timerValues", "expiredTimerInfo"),
}


def plan_processor(
    rows: StageInput,
    keys: Keys,
    processor: Any,
    output: Any,
    output_mode: Any,
    time_mode: Any,
    initial_state: Any,
    event_time_column: str,
    coordinator: Any = None,
    *,
    in_pandas: bool = False,
) -> KeyedStage:
    """The keyed stage of a processor; the arguments are those of ``transformWithState``, and ``in_pandas``: its
    handlers get and yield pandas frames, as with ``transformWithStateInPandas``."""
    method = "transformWithStateInPandas" if in_pandas else "transformWithState"
    _check_processor(processor)
    _check_coordinator(coordinator, processor)
    output_schema = declared_schema("outputStructType", output)
    check_distinct_columns("outputStructType", output_schema, case_sensitive=rows.inputs.case_sensitive)
    mode = check_output_mode(output_mode, f"outputMode of {method}", "append, update or complete")
    times = _time_mode(time_mode)
    watermark = rows.watermark
    if times == "eventTime" and watermark is None:
        raise PlanError(
            "timeMode eventTime needs an event time; call withWatermark('<column>', '<delay>') before groupBy, or use"
            " timeMode processingTime or none"
        )
    if keys.has_session:
        raise PlanError(
            f"a session window cannot be a key of {method}: its extent depends on other rows; use agg, or keep"
            " the session in the processor's state"
        )
    if event_time_column:
        _check_event_time_column(event_time_column, output_schema)
    initial, initial_key = (None, ()) if initial_state is None else _initial_state(initial_state, keys)
    columns = keys.as_columns(rows.inputs)
    input_schema = rows.schema
    event_time = None if watermark is None else watermark.event_time

    def build(uid: str, output_mode: str, settings: Settings) -> KeyedOperator:
        return ProcessorOperator(
            processor,
            uid=uid,
            key_columns=columns.names,
            input_schema=input_schema,
            key_schema=columns.schema,
            output_schema=output_schema,
            time_mode=times,
            event_time=event_time,
            follows_a_stage=bool(rows.inputs.outputs),
            initial_state=initial,
            initial_state_key=initial_key,
            has_coordinator=coordinator is not None,
            event_max_bytes=settings.operator_event_max_bytes,
            form=Frames(frame_settings(rows.inputs.spark)) if in_pandas else None,
        )

    return KeyedStage(
        inputs=columns.inputs,
        watermark=watermark,
        input_schema=input_schema,
        output_schema=output_schema,
        output_mode=mode,
        build=build,
        key_inputs=columns.names,
        coordinator=coordinator,
        output_event_time=event_time_column or None,
    )


def _check_processor(processor: Any) -> None:
    if isinstance(processor, type) and issubclass(processor, StatefulProcessor):
        raise PlanError(
            f"statefulProcessor is the class {processor.__name__}; give an instance, {processor.__name__}()"
        )
    if not isinstance(processor, StatefulProcessor):
        raise PlanError(
            f"statefulProcessor must be a pyspark.sql.streaming.StatefulProcessor, got {type(processor).__name__}"
        )
    name = type(processor).__name__
    for callback, keywords in _KEYWORD_CALLBACKS.items():
        try:
            inspect.signature(getattr(processor, callback)).bind(**dict.fromkeys(keywords))
        except TypeError as error:
            raise PlanError(
                f"{name}.{callback} is called with keywords {', '.join(keywords)}, which it does not take: {error};"
                " name its parameters so"
            ) from error
    try:
        cloudpickle.dumps(processor)
    except Exception as error:  # whatever the processor's own __reduce__ raises
        raise PlanError(
            f"{name} cannot be sent to the tasks ({error}); make what cannot be pickled (connections, say) in the first"
            " handler that needs it: init() also runs in the driver, at each start()"
        ) from error


def _check_coordinator(coordinator: Any, processor: StatefulProcessor) -> None:
    types_by_name(getattr(processor, "eventTypes", ()), type(processor).__name__)
    if coordinator is None:
        return
    if isinstance(coordinator, type) and issubclass(coordinator, OperatorCoordinator):
        raise PlanError(f"coordinator is the class {coordinator.__name__}; give an instance, {coordinator.__name__}()")
    if not isinstance(coordinator, OperatorCoordinator):
        raise PlanError(f"coordinator must be a mixedmode.OperatorCoordinator, got {type(coordinator).__name__}")
    types_by_name(coordinator.eventTypes, type(coordinator).__name__)


def _time_mode(value: Any) -> TimeMode:
    mode = _TIME_MODES.get(value.strip().lower()) if isinstance(value, str) else None
    if mode is None:
        raise PlanError(f"timeMode is {value!r}; use none, processingTime or eventTime")
    return mode


def _check_event_time_column(name: str, output: StructType) -> None:
    """``eventTimeColumnName`` only matters to a later stage; it must still be right."""
    if name not in output.fieldNames():
        raise missing_column("eventTimeColumnName", name, output)
    check_event_time(name, output[name].dataType)


def _initial_state(initial: Any, keys: Keys) -> tuple[DataFrame, tuple[str, ...]]:
    """Rows and key columns of the initial state; the keys must have the types of the stage's keys."""
    refuse_connect(initial)
    if not isinstance(initial, GroupedData):
        raise PlanError(
            f"initialState must be a grouped batch DataFrame (initial.groupBy('<key>')), got {type(initial).__name__}"
        )
    rows: DataFrame = initial._df
    if rows.isStreaming:
        raise PlanError("initialState is a streaming DataFrame; it must be a batch one")
    key_fields = initial.count().schema.fields[:-1]
    columns = []
    for field in key_fields:
        column = find_column(field.name, rows.schema, case_sensitive=False)
        if column is None or not same_type(rows.schema[column].dataType, field.dataType):
            raise PlanError(
                f"initialState is grouped by {field.name}, which is not one of its columns; add it with"
                " withColumn first"
            )
        columns.append(column)
    found = [field.dataType.simpleString() for field in key_fields]
    wanted = [field.dataType.simpleString() for field in keys.schema.fields]
    if found != wanted:
        raise PlanError(
            f"initialState is grouped by ({', '.join(found)}), the stage by ({', '.join(wanted)}); group both by"
            " keys of the same types"
        )
    return rows, tuple(columns)
