"""Checks the arguments of a harness, and describes the stage that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from ..errors import PlanError
from ..planner.options.file import option_text
from ..planner.options.layers import Layer, ResolvedOptions, resolve_options
from ..planner.options.values import parse_duration_ms
from ..planner.plans.final_watermark import resolve_final_watermark
from ..planner.plans.timer_order import resolve_timers
from ..planner.stages.declared_schema import declared_schema
from ..planner.stages.processor import (
    check_block_handler,
    check_block_order,
    check_coordinator,
    check_processor,
    time_mode_of,
    why_whole_keys,
)
from ..planner.stages.rows_per_call import rows_per_call
from ..runtime.protocols.operator_events.coordinator import OperatorCoordinator
from ..runtime.spec import Settings
from .local_job import MAX_PARALLELISM
from .local_stage import LocalStage, sides_of, with_initial
from .row_tables import GivenRows, moment_ms, plain_rows

OptionValue = str | int | float | bool


@dataclass(frozen=True)
class HarnessArguments:
    """What a harness was made with, to make another one like it."""

    stage: LocalStage
    settings: Settings
    #: What each key gets at the end of a backlog that the stream follows.
    final_watermark: Literal["max", "observed"]
    shards: int
    start_ms: int


def harness_arguments(
    processor: StatefulProcessor,
    key: Any,
    schema: StructType | str | tuple[StructType | str, StructType | str],
    output: StructType | str,
    time_mode: str,
    event_time: str | tuple[str | None, str | None] | None,
    delay: str,
    *,
    in_pandas: bool,
    initial_state: GivenRows | None,
    initial_schema: StructType | str | None,
    coordinator: OperatorCoordinator | None,
    options: Mapping[str, OptionValue],
    shards: int,
    processing_time: int | datetime,
    time_zone: str | None,
) -> HarnessArguments:
    """Check what a harness is made with; the arguments are those of :class:`~.harness.Harness`.

    Raises:
        PlanError: an argument does not fit; the message names it.
        OptionError: an option is unknown, or its value is not allowed.
    """
    schemas = schema if isinstance(schema, tuple) else (schema,)
    check_processor(processor, len(schemas))
    check_coordinator(coordinator, processor)
    takes_blocks = check_block_handler(processor, initial_state is not None, in_pandas, len(schemas) > 1)
    keys = _keys_of(key, len(schemas))
    times = event_time if isinstance(event_time, tuple) else (event_time,) * len(schemas)
    if len(times) != len(schemas):
        raise PlanError(f"event_time is {event_time!r}, but there are {len(schemas)} inputs; name one column each")
    mode = time_mode_of(time_mode)
    if mode == "eventTime" and not any(times):
        raise PlanError("time_mode eventTime needs an event time; give event_time='<column>', and a delay")
    stage = LocalStage(
        processor,
        sides_of([declared_schema("schema", one) for one in schemas], keys, times),
        declared_schema("output", output),
        mode,
        _delay_ms(delay),
        in_pandas,
        time_zone,
        None,
        coordinator,
        1 if shards == 1 else MAX_PARALLELISM,
    )
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MAX_PARALLELISM:
        raise PlanError(f"shards is {shards!r}; give a number from 1 to {MAX_PARALLELISM}")
    if initial_state is not None:
        if initial_schema is None:
            raise PlanError("initial_state needs initial_schema, the columns of its rows")
        rows = plain_rows(initial_state, "initial_state")
        stage = with_initial(stage, declared_schema("initial_schema", initial_schema), rows)
    resolved = _resolved(options)
    settings, _ = resolve_timers(resolved, needs_after_rows=takes_blocks and mode == "eventTime")
    if takes_blocks:
        check_block_order(processor, mode, settings)
    whole_keys = why_whole_keys(takes_blocks=takes_blocks, cogrouped=stage.is_cogroup)
    rows_per_call(settings, f"processor {type(processor).__name__}", stage.event_time, whole_keys)
    final = resolve_final_watermark(
        resolved,
        None,
        straddles="event-time timers" if mode == "eventTime" else None,
        ends=settings.runtime_mode == "batch",
    )
    return HarnessArguments(stage, settings, final.value, shards, moment_ms(processing_time, "processing_time"))


def _keys_of(key: Any, inputs: int) -> list[list[str]]:
    """The key columns of each input."""
    if isinstance(key, str):
        return [[key]] * inputs
    if inputs == 2 and len(key) == 2 and all(not isinstance(one, str) for one in key):
        return [list(one) for one in key]
    return [list(key)] * inputs


def _delay_ms(delay: str) -> int:
    if not isinstance(delay, str):
        raise PlanError(f"delay is {delay!r}; give a duration such as '1 hour', or leave it out for none")
    try:
        return parse_duration_ms(delay)
    except (ValueError, AttributeError) as error:
        raise PlanError(f"delay is {delay!r}, which is not a duration such as '1 hour': {error}") from error


def _resolved(options: Mapping[str, OptionValue]) -> ResolvedOptions:
    texts = {name: option_text(value) for name, value in options.items()}
    return resolve_options(Layer("options of Harness", texts, takes_sink_options=False))
