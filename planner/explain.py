"""An :class:`~mixedmode.planner.plan.ExecutionPlan` as plain text: a heading, aligned facts, the phases with reasons.

Nothing is decided here.  Every phase of the plan is printed, in order, with all that the mode rules say about it.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from ..runtime.spec import Phase
from .grouped import STAGE_UID
from .options import OPTIONS, format_value
from .plan import ExecutionPlan
from .values import format_duration_ms

#: Text is wrapped here; Spark's own plans are printed as they come.
_WIDTH = 110


def render(plan: ExecutionPlan, *, extended: bool = False) -> str:
    """The explain text, without a newline at the end."""
    title = f"== mixedmode plan: {plan.name} ==" if plan.name else "== mixedmode plan =="
    lines = [title, *_table(_facts(plan)), ""]
    total = len(plan.phases)
    for number, phase in enumerate(plan.phases, start=1):
        lines += _phase(number, total, phase)
        lines.append("")
    if extended:
        lines += _extended(plan)
    return "\n".join(lines).rstrip("\n")


def _facts(plan: ExecutionPlan) -> Iterator[tuple[str, str]]:
    settings = plan.settings
    yield "mode", settings.runtime_mode
    for source in plan.sources:
        yield source.name, f"{source.boundedness}: {source.columns}"
    if plan.event_time is None:
        yield "watermark", "none"
    else:
        yield "watermark", f"{plan.event_time} - {format_duration_ms(plan.watermark_delay_ms)}{_per_input(plan)}"
    late = plan.settings.late_data_path
    if late is not None:
        yield "late rows", f"parquet files in {late}: exactly-once, visible when a checkpoint completes"
    yield "keyed stage", ", ".join(f"{name}: {_text(value)}" for name, value in plan.operator.items())
    if plan.coordinator is not None:
        yield (
            "coordinator",
            f"{plan.coordinator}, in the driver: exchanges events with the shards, each exactly once and in order;"
            f" those of a backlog are handed over {_hand_over(plan)}",
        )
    if plan.operator.get("uid") == STAGE_UID:
        yield (
            "warning",
            "the keyed stage has no name of its own: set .uid('…'), so that its state is found again in savepoints"
            " when the job changes",
        )
    yield "output", f"{plan.output_mode}: {plan.output_columns}"
    sink = plan.sink
    yield "sink", sink.description if sink.guarantee in sink.description else f"{sink.description} ({sink.guarantee})"
    yield "trigger", ", ".join(f"{name} = {_text(value)}" for name, value in plan.trigger.items())
    yield "shards", f"{plan.parallelism} over {settings.max_parallelism} key groups"
    yield "checkpoints in", plan.checkpoint_location or "a temporary folder, removed at the end"
    if settings.savepoint_path is not None:
        yield "begins with", f"savepoint {settings.savepoint_path}, unless there are checkpoints already"


def _hand_over(plan: ExecutionPlan) -> str:
    """When the shards' events of a backlog reach the coordinator."""
    kinds = {phase.kind for phase in plan.phases}
    if "backlog" not in kinds:
        return "after each epoch"
    return "at the switch" if "switch" in kinds else "at its end, before the operators finish"


def _per_input(plan: ExecutionPlan) -> str:
    """What several live inputs do to the watermark."""
    delays_ms = {s.name: s.watermark_delay_ms for s in plan.sources if s.watermark_delay_ms is not None}
    if len(delays_ms) < 2:
        return ""
    each = ", ".join(f"{name} - {format_duration_ms(delay_ms)}" for name, delay_ms in delays_ms.items())
    timeout_ms = plan.settings.watermark_idle_timeout_ms
    idle = "no timeout for idle ones" if timeout_ms is None else f"idle after {format_duration_ms(timeout_ms)}"
    return f"; the least of the live inputs' own ({each}; {idle})"


def _phase(number: int, total: int, phase: Phase) -> Iterator[str]:
    heading = f"Phase {number} of {total}: {phase.kind}"
    if phase.sources:
        heading += f" ({' + '.join(phase.sources)})"
    yield heading
    yield from _table([("why", phase.reason), *phase.details.items()])


def _extended(plan: ExecutionPlan) -> Iterator[str]:
    yield "== Settings =="
    yield from _table((option.name, format_value(option, getattr(plan.settings, option.field))) for option in OPTIONS)
    for source in plan.sources:
        yield ""
        yield f"== Spark's plan of {source.name} =="
        yield from source.spark_plan.strip().splitlines()


def _table(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names padded to one width, values wrapped beside them."""
    rows = list(facts)
    width = max((len(name) for name, _ in rows), default=0)
    indent = " " * (2 + width + 2)
    for name, value in rows:
        yield from textwrap.wrap(
            value,
            _WIDTH,
            initial_indent=f"  {name:<{width}}  ",
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [f"  {name}"]


def _text(value: Any) -> str:
    """A described value without the noise of JSON where it is plain."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return json.dumps(value)
