"""Plans ``applyInPandasWithState``: checks its arguments as PySpark does, and describes the operator."""

from __future__ import annotations

from typing import Any

from ...errors import invalid_processor
from ...runtime.operators.contract import KeyedOperator
from ...runtime.operators.keyed.keyed_input import KeyedInput
from ...runtime.operators.processor.group_state.operator import TIME_MODES, GroupStateOperator
from ...runtime.spec import Settings
from ...runtime.support.user_functions import kind_that_waits, why_not_called_with, why_not_sent
from ..inputs.schemas import check_distinct_columns
from .declared_schema import declared_schema
from .frame_settings import frame_settings
from .keys import Keys
from .rows_per_call import rows_per_call
from .stage import KeyedStage, StageInput, check_output_mode

METHOD = "applyInPandasWithState"


def plan_group_state(
    rows: StageInput,
    keys: Keys,
    function: Any,
    output: Any,
    state: Any,
    output_mode: Any,
    timeout: Any,
) -> KeyedStage:
    """The keyed stage of a function; the arguments are those of ``applyInPandasWithState``."""
    _check_function(function)
    output_schema = declared_schema("outputStructType", output)
    state_schema = declared_schema("stateStructType", state)
    for name, schema in (("outputStructType", output_schema), ("stateStructType", state_schema)):
        check_distinct_columns(name, schema, case_sensitive=rows.inputs.case_sensitive)
    usable = "append or update"
    mode = check_output_mode(output_mode, f"outputMode of {METHOD}", usable)
    if mode == "complete":
        raise invalid_processor(f"outputMode complete of {METHOD} is not supported, as in Spark; use {usable}")
    if timeout not in TIME_MODES:
        raise invalid_processor(f"timeoutConf is {timeout!r}; use GroupStateTimeout.{', .'.join(TIME_MODES)}")
    watermark = rows.watermark
    if TIME_MODES[timeout] == "eventTime" and watermark is None:
        raise invalid_processor(
            f"timeoutConf {timeout} needs an event time; call withWatermark('<column>', '<delay>') before groupBy, or"
            " use ProcessingTimeTimeout or NoTimeout"
        )
    if keys.has_session:
        raise invalid_processor(
            f"a session window cannot be a key of {METHOD}: its extent depends on other rows; use agg, or keep the"
            " session in the function's state"
        )
    columns = keys.as_columns(rows.inputs)
    event_time = None if watermark is None else watermark.event_time
    spoken = f"function {getattr(function, '__name__', type(function).__name__)}"

    def build(uid: str, output_mode: str, settings: Settings) -> KeyedOperator:
        if output_mode != mode:
            raise invalid_processor(
                f"outputMode {mode} of {METHOD} does not go with outputMode {output_mode} of the writer, as in Spark;"
                " give both the same"
            )
        return GroupStateOperator(
            function,
            uid=uid,
            rows=KeyedInput(rows.schema, columns.names, columns.schema, event_time, bool(rows.inputs.outputs)),
            output_schema=output_schema,
            state_schema=state_schema,
            timeout=timeout,
            settings=frame_settings(rows.inputs.spark, exact_columns=True),
            rows_per_call=rows_per_call(settings, spoken, event_time, None),
        )

    return KeyedStage(
        inputs=columns.inputs,
        watermark=watermark,
        input_schema=rows.schema,
        output_schema=output_schema,
        output_mode=mode,
        build=build,
        key_inputs=columns.names,
    )


def _check_function(function: Any) -> None:
    if not callable(function):
        raise invalid_processor(f"func must be a function of key, frames and state, got {type(function).__name__}")
    name = getattr(function, "__name__", type(function).__name__)
    kind = kind_that_waits(function, may_yield=True)
    if kind is not None:
        raise invalid_processor(
            f"func {name} is {kind}: a call does not run its body; make it a generator of frames (def, with yield)"
        )
    misfit = why_not_called_with(function, None, None, None)
    if misfit is not None:
        raise invalid_processor(f"func {name} is called with key, frames and state, which it does not take: {misfit}")
    unsent = why_not_sent(function)
    if unsent is not None:
        raise invalid_processor(f"func {name} {unsent}; make what cannot be pickled (connections, say) inside it")
