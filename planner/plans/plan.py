"""The execution plan: what ``start()`` will do, as frozen data that can be printed, compared and stored.

It is made by the writer's ``plan()``; ``start()`` makes the same plan and executes its ``phases``.  As text it is a
heading, aligned facts, and every phase in order with all that the mode rules say about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ...runtime.operators.stateless import KIND as STATELESS
from ...runtime.spec import Phase, Settings
from ...runtime.support.notebook_html import details_html, facts_html
from ..options.option import format_value
from ..options.registry import OPTIONS
from ..options.values import format_duration_ms, format_rows_per_call
from .plan_text import trigger_text, value_text, wrapped

#: What only the extended text says: how it is done, behind what is done.
_EXTENDED_FACTS = frozenset({"second driver", "between stages"})
_EXTENDED_DETAILS = frozenset({"scheduling", "failure", "keyed state", "sort"})
_NOT_FENCED = "not fenced: a driver that lost its location stops by its own clock, the output cannot refuse it"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SourcePlan(_Part):
    """One input of the job."""

    name: str
    #: ``bounded`` ends, ``unbounded`` does not.
    boundedness: Literal["bounded", "unbounded"]
    #: The input's columns, as DDL.
    columns: str
    #: Spark's plan of the input, for the extended explain.
    spark_plan: str
    #: How far the watermark of a live input stays behind its own greatest event time; None: no watermark, or no stream.
    watermark_delay_ms: int | None = None
    #: Of a live input: how it goes on from its history, and what that rests on; None: nobody has said.
    seam: str | None = None
    #: Gaps and overlaps that the seam has, and that the job begins with all the same; None: there are none.
    warning: str | None = None


class SinkPlan(_Part):
    """Where the output goes, and what a reader of it may rely on."""

    name: str
    description: str
    guarantee: Literal["exactly-once", "at-least-once"]
    #: How a driver that was paused and has lost its location is kept out; None: only by its own clock.
    fencing: str | None = None
    #: What was asked for and is not done; None: nothing.
    warning: str | None = None


class StagePlan(_Part):
    """One keyed stage of the job."""

    #: Id under which its state is stored.
    uid: str
    #: Whether the user has given it.
    is_named: bool
    #: The operator's own description of itself (JSON values only).
    operator: dict[str, Any]
    #: Sources, or ids of earlier stages, that it takes rows from.
    reads: tuple[str, ...]
    #: Of a stage that reads sources: column of its watermark; None: it has none, or follows other stages alone.
    event_time: str | None = None
    #: How far that stays behind the greatest event time; of several live inputs, behind each one's own.
    watermark_delay_ms: int = 0
    watermark_delays_ms: dict[str, int] = {}
    #: Class of its coordinator; None: it has none.
    coordinator: str | None = None
    #: What it warns of; None: of nothing.
    warning: str | None = None
    #: The earlier stage in whose shards its rows stay, as its key contains that one's; None: they are moved.
    in_shards_of: str | None = None
    #: The watermark that each of its keys gets at the end of a sorted backlog, and why; None: there is no such backlog.
    final_watermark: Literal["max", "observed"] | None = None
    why_final_watermark: str | None = None


class ExecutionPlan(_Part):
    """All decisions about a job; ``str(plan)`` is the text that ``explain()`` prints.

    For example:

        plan = frame.writeStream.format("parquet").option("path", "out").plan()
        print(plan)
        again = mixedmode.ExecutionPlan.model_validate_json(plan.model_dump_json())
    """

    name: str | None
    sources: tuple[SourcePlan, ...]
    #: Event-time column and delay of the watermark; None: ``withWatermark`` was not called.
    event_time: str | None
    watermark_delay_ms: int
    #: In the order in which rows go through them.
    stages: tuple[StagePlan, ...]
    output_columns: str
    output_mode: str
    sink: SinkPlan
    trigger: dict[str, Any]
    #: Why micro-batches take the place of Real-Time Mode, which was asked for; None: they do not.
    fallback: str | None = None
    settings: Settings
    #: Shards of a fresh run; a restart keeps the checkpoint's unless ``pipeline.parallelism`` says otherwise.
    parallelism: int
    checkpoint_location: str | None
    phases: tuple[Phase, ...]
    #: What is done to the last stage's rows before they are staged, in order.
    tail: tuple[str, ...] = ()
    #: Whether that is a Spark job of its own, as rows are moved for it.
    tail_moves_rows: bool = False
    #: Ids of the stages whose rows together are the output; empty: it is the last one's.
    united: tuple[str, ...] = ()
    #: Operations that were asked for and have no effect.
    ignored: tuple[str, ...] = ()
    #: Histories of which nobody knows in which order a stream would have brought the rows, where that matters.
    unordered: tuple[str, ...] = ()

    @property
    def operator(self) -> dict[str, Any]:
        """The description of the operator of the last stage."""
        return self.stages[-1].operator

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about unexpected results or state that grows for ever; ``start()`` logs them."""
        found = [source.warning for source in self.sources if source.warning is not None]
        found += [stage.warning for stage in self.stages if stage.warning is not None]
        found += [self.sink.warning] if self.sink.warning is not None else []
        found += [phase.details["warning"] for phase in self.phases if "warning" in phase.details]
        if len(self.stages) > 1 and self._unnamed:
            found.append(self._unnamed)
        return tuple(found)

    @property
    def _is_stateless(self) -> bool:
        """Whether rows go from the sources to the sink, and nothing is kept."""
        return all(stage.operator.get("operator") == STATELESS for stage in self.stages)

    @property
    def _unnamed(self) -> str:
        """What to do about stages without a name; empty: all have one."""
        unnamed = [stage.uid for stage in self.stages if not stage.is_named]
        if not unnamed:
            return ""
        if len(self.stages) == 1:
            what = "the keyed stage has no name of its own"
        else:
            what = f"{len(unnamed)} of {len(self.stages)} keyed stages have no name of their own ({', '.join(unnamed)})"
        return f"{what}: set .uid('…'), so that its state is found again in savepoints when the job changes"

    def explain(self, extended: bool = False) -> str:
        """Returns the plan as text.

        Args:
            extended: also how each phase works, all settings, and Spark's plans of the inputs.
        """
        title = f"== mixedmode plan: {self.name} ==" if self.name else "== mixedmode plan =="
        lines = [title, *wrapped(_facts(self, extended=extended)), ""]
        total = len(self.phases)
        for number, phase in enumerate(self.phases, start=1):
            lines += [*_phase(number, total, phase, extended=extended), ""]
        if extended:
            lines += _extended(self)
        return "\n".join(lines).rstrip("\n")

    def __str__(self) -> str:
        return self.explain()

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = list(_facts(self, extended=False))
        rows += [(f"{number}. {phase.kind}", phase.reason) for number, phase in enumerate(self.phases, start=1)]
        rows.append(("", details_html("all of it", self.explain(extended=True))))
        return facts_html(f"plan: {self.name}" if self.name else "plan", rows)


def _facts(plan: ExecutionPlan, *, extended: bool) -> Iterator[tuple[str, str]]:
    """Name and value of each fact, of the long ones only if they are asked for."""
    return ((name, value) for name, value in _all_facts(plan) if extended or name not in _EXTENDED_FACTS)


def _all_facts(plan: ExecutionPlan) -> Iterator[tuple[str, str]]:
    yield from _input_facts(plan)
    yield from _graph(plan)
    yield from _stage_facts(plan)
    yield from _output_facts(plan)
    yield from _run_facts(plan)


def _input_facts(plan: ExecutionPlan) -> Iterator[tuple[str, str]]:
    yield "runtime mode", plan.settings.runtime_mode
    for source in plan.sources:
        yield source.name, f"{source.boundedness}: {source.columns}"
        if source.seam is not None:
            yield "seam", source.seam
        if source.warning is not None:
            yield "warning", source.warning
    for text in _watermarks(plan):
        yield "watermark", text
    late = plan.settings.late_data_path
    if late is not None:
        each = ", in stage=<uid> those that are late for each stage" if len(plan.stages) > 1 else ""
        yield "late rows", f"parquet files in {late}{each}: exactly-once, visible when a checkpoint completes"
    if plan.unordered:
        yield (
            "order of rows",
            f"unknown for {', '.join(plan.unordered)}: rows of a key with the same event time come in any order. The"
            " order of files is kept only if the history is a read of files without a shuffle, join or cache after it,"
            " and has no rows made in memory",
        )
    if plan.settings.rows_per_call is not None:
        yield "rows per call", _rows_per_call(plan, format_rows_per_call(plan.settings.rows_per_call))


def _stage_facts(plan: ExecutionPlan) -> Iterator[tuple[str, str]]:
    for stage in plan.stages:
        yield from _stage(stage, named=len(plan.stages) > 1)
        if stage.warning is not None:
            yield "warning", stage.warning
        if stage.coordinator is not None:
            yield (
                "coordinator",
                f"{stage.coordinator}, in the driver: exchanges events with the processors of the shards, each exactly"
                f" once and in order; what shards send in a backlog reaches it {_hand_over(plan)}",
            )
    if plan._unnamed:
        yield "warning", plan._unnamed


def _output_facts(plan: ExecutionPlan) -> Iterator[tuple[str, str]]:
    if plan.tail:
        where = "inside the keyed stage's Spark job"
        if plan.tail_moves_rows:
            where = (
                "in a Spark job of its own in each epoch, over what the keyed stage hands on, as Spark moves rows for"
                " it (a static side that it does not broadcast, say)"
            )
        if plan.united:
            where = "in a Spark job of its own in each epoch, over what the keyed stages hand on"
        yield "behind it", f"{', '.join(plan.tail)}: {where}, before rows are staged"
    if plan.ignored:
        why = "the last call counts" if plan._is_stateless else "a keyed stage distributes rows to its shards itself"
        yield "without effect", f"{', '.join(plan.ignored)}: {why}"
    yield "output", f"{plan.output_mode}: {plan.output_columns}"
    sink = plan.sink
    yield "sink", sink.description if sink.guarantee in sink.description else f"{sink.description} ({sink.guarantee})"
    if sink.warning is not None:
        yield "warning", sink.warning


def _run_facts(plan: ExecutionPlan) -> Iterator[tuple[str, str]]:
    settings, sink = plan.settings, plan.sink
    yield "second driver", f"fenced: {sink.fencing}" if sink.fencing else _NOT_FENCED
    yield "trigger", ", ".join(trigger_text(name, value) for name, value in plan.trigger.items())
    if plan.fallback is not None:
        yield "warning", plan.fallback
    if not plan._is_stateless:
        shares = f"{plan.parallelism} over {settings.max_parallelism} key groups"
        yield "shards", f"{shares}: one Spark task and one state store for each"
    yield "checkpoints in", plan.checkpoint_location or "a temporary folder, removed at the end"
    if settings.savepoint_path is not None:
        yield "begins with", f"savepoint {settings.savepoint_path}, unless there are checkpoints already"


def _rows_per_call(plan: ExecutionPlan, cut: str) -> str:
    """What ``execution.backlog.rows-per-call`` comes to."""
    called = ("transformWithState", "applyInPandasWithState")
    if not any(stage.operator.get("operator") in called for stage in plan.stages):
        return f"{cut} (execution.backlog.rows-per-call) has no effect: no stage calls a function with a key's rows"
    if not any(phase.style == "sorted" for phase in plan.phases):
        return f"{cut} (execution.backlog.rows-per-call) has no effect: the job runs as a stream throughout"
    span = "" if cut.isdigit() else " of event time"
    return f"at most {cut}{span} of a key in the backlog (execution.backlog.rows-per-call)"


def _graph(plan: ExecutionPlan) -> Iterator[tuple[str, str]]:
    """What leads where, if there is more than one stage."""
    if len(plan.stages) == 1:
        return
    names = dict.fromkeys(source.name for source in plan.sources)
    for place, stage in enumerate(plan.stages):
        reads = " + ".join(name if name in names else f"[{name}]" for name in stage.reads)
        yield "" if place else "graph", f"{reads} -> [{stage.uid}]"
    last = plan.united or (plan.stages[-1].uid,)
    yield "", f"{' + '.join(f'[{uid}]' for uid in last)} -> {plan.sink.name}"
    yield (
        "between stages",
        "in each epoch a stage is one Spark job over the output of the stages before it, and its watermark is theirs;"
        " state and output of all stages change together, and a checkpoint covers all of them",
    )


def _stage(stage: StagePlan, *, named: bool) -> Iterator[tuple[str, str]]:
    """What a stage's operator says of itself; its output mode is said with the output."""
    described = {name: value for name, value in stage.operator.items() if name != "output mode"}
    operator, key = described.pop("operator", "keyed stage"), described.pop("key", [])
    uid = described.pop("uid", None)
    if operator == STATELESS:
        yield "keyed stage", "none: rows go from the sources to the sink"
        return
    title = f"[{uid}]" if named else "keyed stage"
    yield title, f"{operator} by {value_text(key) or 'nothing: one group'}{f', uid {uid}' if uid and not named else ''}"
    for name, value in described.items():
        yield name, value_text(value)
    if stage.in_shards_of is not None:
        yield (
            "shuffle",
            f"none: its key contains that of [{stage.in_shards_of}], in whose shards its rows stay (where shards are"
            " pinned to executors: in the backlog)",
        )


def _hand_over(plan: ExecutionPlan) -> str:
    """When the shards' events of a backlog reach the coordinator."""
    kinds = {phase.kind for phase in plan.phases}
    if "backlog" not in kinds:
        return "after each epoch"
    return "at the switch" if "switch" in kinds else "at its end, before the operators finish"


def _watermarks(plan: ExecutionPlan) -> Iterator[str]:
    """The watermark of the stages that read sources: one text, if it is the same for all."""
    names = {source.name for source in plan.sources}
    own = {
        stage.uid: _watermark(plan, stage.event_time, stage.watermark_delay_ms, stage.watermark_delays_ms)
        for stage in plan.stages
        if not names.isdisjoint(stage.reads)
    }
    if len(set(own.values())) > 1:
        yield from (f"[{uid}] {text}" for uid, text in own.items())
        return
    delays_ms = {s.name: s.watermark_delay_ms for s in plan.sources if s.watermark_delay_ms is not None}
    yield _watermark(plan, plan.event_time, plan.watermark_delay_ms, delays_ms)


def _watermark(plan: ExecutionPlan, event_time: str | None, delay_ms: int, delays_ms: Mapping[str, int]) -> str:
    if event_time is None:
        return "none"
    seen = f"greatest {event_time} seen"
    if len(delays_ms) < 2:
        return f"{seen} - {format_duration_ms(delay_ms)}" if delay_ms else seen
    each = ", ".join(f"{name} - {format_duration_ms(delay)}" for name, delay in delays_ms.items())
    timeout_ms = plan.settings.watermark_idle_timeout_ms
    idle = "no timeout for idle ones" if timeout_ms is None else f"idle after {format_duration_ms(timeout_ms)}"
    return f"{seen}; the least of the live inputs' own ({each}; {idle})"


def _phase(number: int, total: int, phase: Phase, *, extended: bool) -> Iterator[str]:
    heading = f"Phase {number} of {total}: {phase.kind}"
    if phase.sources:
        heading += f" (reads {' + '.join(phase.sources)})"
    yield heading
    details = ((name, value) for name, value in phase.details.items() if extended or name not in _EXTENDED_DETAILS)
    yield from wrapped([("why", phase.reason), *details])


def _extended(plan: ExecutionPlan) -> Iterator[str]:
    yield "== Settings =="
    yield from wrapped((option.name, format_value(option, getattr(plan.settings, option.field))) for option in OPTIONS)
    for source in plan.sources:
        yield ""
        yield f"== Spark's plan of {source.name} =="
        yield from source.spark_plan.strip().splitlines()
