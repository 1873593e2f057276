"""Plans ``transformWithState``, with rows or pandas frames: checks its arguments and describes the operator."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from ...errors import invalid_processor
from ...runtime.operators.contract import KeyedOperator
from ...runtime.operators.keyed.keyed_input import KeyedInput
from ...runtime.operators.processor.cogroup.cogroup_form import Cogrouped
from ...runtime.operators.processor.definition import (
    BLOCK_HANDLER,
    CallingConvention,
    EventLimits,
    ProcessorHooks,
    TimeMode,
)
from ...runtime.operators.processor.frames.frame_form import FramesForm
from ...runtime.operators.processor.initial_state import InitialState
from ...runtime.operators.processor.operator import ProcessorOperator
from ...runtime.operators.processor.rows.row_form import Form, RowsForm
from ...runtime.protocols.operator_events.coordinator import OperatorCoordinator
from ...runtime.protocols.operator_events.event_codec import types_by_name
from ...runtime.spec import Settings
from ...runtime.support.user_functions import kind_that_waits, why_not_called_with, why_not_sent
from ..inputs.environment import refuse_connect
from ..inputs.event_time import check_event_time
from ..inputs.schemas import check_distinct_columns, find_column, missing_column, same_type
from .declared_schema import declared_schema
from .frame_settings import frame_settings
from .processor_rows import ProcessorRows
from .rows_per_call import rows_per_call
from .stage import KeyedStage, check_output_mode, stages_of

#: Who calls.
TWS, TWS_IN_PANDAS = "transformWithState", "transformWithStateInPandas"
_TIME_MODES: dict[str, TimeMode] = {"none": "none", "processingtime": "processingTime", "eventtime": "eventTime"}
#: What handleExpiredTimer is called with, by keyword.
_TIMER_KEYWORDS = ("key", "timerValues", "expiredTimerInfo")
#: What handleInputRows is called with, by how many inputs there are; by position, as Spark does it.
_ROWS_ARGUMENTS = {1: ("key", "rows", "timerValues"), 2: ("key", "left", "right", "timerValues")}
#: Methods of a processor that may yield rows, and those that are called for what they do or return.
_YIELDING = ("handleInputRows", "handleExpiredTimer", "handleEvent", BLOCK_HANDLER)
_NOT_YIELDING = ("init", "close", "handleInitialState", "snapshotShard", "restoreShard")


def plan_processor(
    rows: ProcessorRows,
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
    """The keyed stage of a processor over ``rows``; the other arguments are those of ``transformWithState``, and
    ``in_pandas``: its handlers get and yield pandas frames, as with ``transformWithStateInPandas``."""
    method = TWS_IN_PANDAS if in_pandas else TWS
    check_processor(processor, 1 if rows.sides is None else 2)
    check_coordinator(coordinator, processor)
    output_schema = declared_schema("outputStructType", output)
    check_distinct_columns("outputStructType", output_schema, case_sensitive=rows.inputs.case_sensitive)
    mode = check_output_mode(output_mode, f"outputMode of {method}", "append, update or complete")
    times = time_mode_of(time_mode)
    watermark = rows.watermark
    if times == "eventTime" and watermark is None:
        raise invalid_processor(
            f"timeMode eventTime needs an event time; call withWatermark('<column>', '<delay>') before groupBy"
            f"{'' if rows.sides is None else ' of one side, or of both'}, or use timeMode processingTime or none"
        )
    if event_time_column:
        _check_event_time_column(event_time_column, output_schema)
        if watermark is None and all(stage.watermark is None for stage in stages_of(rows.inputs)):
            raise invalid_processor(
                f"eventTimeColumnName {event_time_column!r} of {method} needs a watermark, as in Spark; call"
                " withWatermark('<column>', '<delay>') before groupBy, or leave the column's name out"
            )
    initial = None if initial_state is None else _initial_state(initial_state, rows.key_schema)
    event_time = None if watermark is None else watermark.event_time
    form: Form = FramesForm(frame_settings(rows.inputs.spark)) if in_pandas else RowsForm()
    if rows.sides is not None:
        form = Cogrouped(form, *rows.sides)

    takes_blocks = check_block_handler(processor, initial is not None, in_pandas, rows.sides is not None)
    whole_keys = why_whole_keys(takes_blocks=takes_blocks, cogrouped=rows.sides is not None)
    spoken = f"processor {type(processor).__name__}"

    def build(uid: str, output_mode: str, settings: Settings) -> KeyedOperator:
        if takes_blocks:
            check_block_order(processor, times, settings)
        return ProcessorOperator(
            processor,
            uid=uid,
            rows=KeyedInput(rows.taken, rows.columns.names, rows.key_schema, event_time, bool(rows.inputs.outputs)),
            output_schema=output_schema,
            time_mode=times,
            initial=initial,
            events=EventLimits(coordinator is not None, settings.operator_event_max_bytes),
            calls=CallingConvention(form, rows_per_call(settings, spoken, event_time, whole_keys)),
            output_mode=mode,
        )

    return KeyedStage(
        inputs=rows.inputs,
        watermark=watermark,
        input_schema=rows.schema,
        output_schema=output_schema,
        output_mode=mode,
        build=build,
        key_inputs=rows.columns.names,
        coordinator=coordinator,
        needs_after_rows=takes_blocks and times == "eventTime",
        output_event_time=event_time_column or None,
    )


def check_processor(processor: Any, inputs: int) -> None:
    """Raise PlanError unless this is a processor of so many inputs that can be sent to the tasks."""
    if isinstance(processor, type) and issubclass(processor, StatefulProcessor):
        raise invalid_processor(
            f"statefulProcessor is the class {processor.__name__}; give an instance, {processor.__name__}()"
        )
    if not isinstance(processor, StatefulProcessor):
        raise invalid_processor(
            f"statefulProcessor must be a pyspark.sql.streaming.StatefulProcessor, got {type(processor).__name__}"
        )
    name = type(processor).__name__
    _check_that_calls_run(processor, (*_YIELDING, *ProcessorHooks.of(processor).at_end), may_yield=True)
    _check_that_calls_run(processor, _NOT_YIELDING)
    try:
        inspect.signature(processor.handleExpiredTimer, follow_wrapped=False).bind(**dict.fromkeys(_TIMER_KEYWORDS))
    except TypeError as error:
        raise invalid_processor(
            f"{name}.handleExpiredTimer is called with keywords {', '.join(_TIMER_KEYWORDS)}, which it does not take:"
            f" {error}; name its parameters so"
        ) from error
    _check_rows_handler(processor, name, inputs)
    unsent = why_not_sent(processor)
    if unsent is not None:
        raise invalid_processor(
            f"{name} {unsent}; make what cannot be pickled (connections, say) in the first handler that needs it:"
            " init() also runs in the driver, at each start()"
        )


def _check_that_calls_run(instance: Any, methods: Iterable[str], *, may_yield: bool = False) -> None:
    """Raise PlanError for a method that only makes something for others to run (``async def``, mostly)."""
    for method in methods:
        kind = kind_that_waits(getattr(instance, method, None), may_yield=may_yield)
        if kind is not None:
            without = "yield" if kind == "a generator function" else "async"
            raise invalid_processor(
                f"{type(instance).__name__}.{method} is {kind}: a call does not run its body; make it an ordinary one"
                f" (def, without {without})"
            )


def _check_rows_handler(processor: StatefulProcessor, name: str, inputs: int) -> None:
    """Raise unless ``handleInputRows`` takes the rows of so many inputs."""
    if _takes(processor.handleInputRows, _ROWS_ARGUMENTS[inputs]):
        return
    message = (
        f"{name}.handleInputRows is called with {', '.join(_ROWS_ARGUMENTS[inputs])}, which it does not take"
        f" ({name}.handleInputRows{inspect.signature(processor.handleInputRows)})"
    )
    if not _takes(processor.handleInputRows, _ROWS_ARGUMENTS[3 - inputs]):
        raise invalid_processor(f"{message}; give it these parameters")
    if inputs == 1:
        raise invalid_processor(
            f"{message}: it is a processor of two inputs; group both and bring them together, as in"
            " a.groupBy(…).cogroup(b.groupBy(…)).transformWithState(…)"
        )
    raise invalid_processor(
        f"{message}: it is a processor of one input; behind cogroup it gets two iterators, of the left side's rows and"
        " of the right side's"
    )


def check_block_handler(processor: Any, has_initial_state: bool, in_pandas: bool, has_two_inputs: bool) -> bool:
    """Whether the processor gets its rows as blocks of keys; PlanError if it cannot."""
    handler = getattr(processor, BLOCK_HANDLER, None)
    if not callable(handler):
        return False
    name = type(processor).__name__
    if not _takes(handler, ("block", "timerValues")):
        raise invalid_processor(
            f"{name}.{BLOCK_HANDLER} is called with block, timerValues, which it does not take"
            f" ({name}.{BLOCK_HANDLER}{inspect.signature(handler)}); give it these parameters"
        )
    for is_so, what in (
        (in_pandas, TWS_IN_PANDAS),
        (has_two_inputs, "cogroup"),
        (has_initial_state, "initialState"),
    ):
        if is_so:
            raise invalid_processor(
                f"{name} defines {BLOCK_HANDLER}, which {what} does not know; use {TWS} with one input and without"
                " initial state, or take the handler away"
            )
    return True


def check_block_order(processor: Any, time_mode: str, settings: Settings) -> None:
    """Raise PlanError if timers would fire between the rows of a key, of which a block has all."""
    if time_mode == "eventTime" and settings.timers == "in-order":
        raise invalid_processor(
            f"{type(processor).__name__} gets many keys at once, by {BLOCK_HANDLER}, and pipeline.timers is"
            " in-order, under which timers fire between the rows of a key; set pipeline.timers to after-rows, or"
            f" take {BLOCK_HANDLER} away: handleInputRows gets each event time of a key by itself"
        )


def why_whole_keys(*, takes_blocks: bool, cogrouped: bool) -> str | None:
    """Why calls of a processor get whole keys; None: they need not."""
    if takes_blocks:
        return f"gets whole keys by {BLOCK_HANDLER}"
    return "gets the rows of two inputs side by side" if cogrouped else None


def _takes(method: Any, arguments: tuple[str, ...]) -> bool:
    return why_not_called_with(method, *arguments) is None


def check_coordinator(coordinator: Any, processor: StatefulProcessor) -> None:
    """Raise PlanError unless this is a coordinator, or None."""
    types_by_name(getattr(processor, "eventTypes", ()), type(processor).__name__)
    if coordinator is None:
        return
    if isinstance(coordinator, type) and issubclass(coordinator, OperatorCoordinator):
        raise invalid_processor(
            f"coordinator is the class {coordinator.__name__}; give an instance, {coordinator.__name__}()"
        )
    if not isinstance(coordinator, OperatorCoordinator):
        raise invalid_processor(
            f"coordinator must be a mixedmode.OperatorCoordinator, got {type(coordinator).__name__}"
        )
    types_by_name(coordinator.eventTypes, type(coordinator).__name__)
    _check_that_calls_run(coordinator, (name for name in vars(OperatorCoordinator) if not name.startswith("_")))


def time_mode_of(value: Any) -> TimeMode:
    """The time mode that an argument gives, in any case."""
    mode = _TIME_MODES.get(value.strip().lower()) if isinstance(value, str) else None
    if mode is None:
        raise invalid_processor(f"timeMode is {value!r}; use none, processingTime or eventTime")
    return mode


def _check_event_time_column(name: str, output: StructType) -> None:
    """``eventTimeColumnName`` only matters to a later stage; it must still be right."""
    if name not in output.fieldNames():
        raise missing_column("eventTimeColumnName", name, output)
    check_event_time(name, output[name].dataType)


def _initial_state(initial: Any, keys: StructType) -> InitialState:
    """The initial state; its keys must have the types of the stage's keys."""
    refuse_connect(initial)
    if not isinstance(initial, GroupedData):
        raise invalid_processor(
            f"initialState must be a grouped batch DataFrame (initial.groupBy('<key>')), got {type(initial).__name__}"
        )
    rows: DataFrame = initial._df
    if rows.isStreaming:
        raise invalid_processor("initialState is a streaming DataFrame; it must be a batch one")
    key_fields = initial.count().schema.fields[:-1]
    columns = []
    for field in key_fields:
        column = find_column(field.name, rows.schema, case_sensitive=False)
        if column is None or not same_type(rows.schema[column].dataType, field.dataType):
            raise invalid_processor(
                f"initialState is grouped by {field.name}, which is not one of its columns; add it with"
                " withColumn first"
            )
        columns.append(column)
    found = [field.dataType.simpleString() for field in key_fields]
    wanted = [field.dataType.simpleString() for field in keys.fields]
    if found != wanted:
        raise invalid_processor(
            f"initialState is grouped by ({', '.join(found)}), the stage by ({', '.join(wanted)}); group both by"
            " keys of the same types"
        )
    return InitialState(rows.schema, tuple(columns), rows)
