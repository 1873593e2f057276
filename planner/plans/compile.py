"""Compiles a described job into an :class:`ExecutionPlan` and the :class:`JobSpec` that executes it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from ...runtime.catalyst.columns import columns_ddl
from ...runtime.catalyst.spark_plans import size_bytes
from ...runtime.catalyst.spark_session import session_settings
from ...runtime.connectors.late_rows import LateRows
from ...runtime.connectors.sinks import Sink
from ...runtime.connectors.sources.live_query import delivers_one_batch
from ...runtime.connectors.sources.source_lanes import Lane, live_frame
from ...runtime.operators.output_transform import OutputTransform
from ...runtime.spark_io.file_rows import has_file_rows
from ...runtime.spec import JobSpec, Settings, StageSpec
from ..inputs.analysis import refuse_unsupported_on_streams
from ..inputs.inputs import Inputs
from ..options.layers import Layer, ResolvedOptions, resolve_options, session_layer
from ..stages.output_transform import plan_output_transform, plan_union
from .backlog_engine import BacklogEngine
from .final_watermark import FinalWatermark, max_refusal, refuse_max, with_final_watermarks
from .graph import StageGraph
from .job_facts import JobFacts, runs_sorted
from .observed_metrics import observed_once
from .output.planned_output import OutputRequest, plan_output
from .output.sink_request import (
    SinkRequest,
    check_names,
    check_update,
    output_mode_of,
    output_mode_of_union,
    sink_format,
)
from .phases import plan_phases
from .plan import ExecutionPlan
from .plan_parts import source_plans, stage_plans
from .real_time.interval import check_interval, real_time_ms
from .real_time.real_time_plan import RealTime, RealTimeJob, check_rows, plan_real_time
from .spark_settings import check_watermark_policy, fires_without_rows
from .timer_order import resolve_timers


def resolved_options(output: Inputs, file: Layer, explicit: Layer) -> ResolvedOptions:
    """The options of a job.

    Args:
        output: what comes out of the last stage.
        file: options from a file.
        explicit: options that were given to the writer; they are nearer than those of the file and of the session.

    Raises:
        OptionError: an option is unknown, or its value is not allowed.
    """
    return resolve_options(session_layer(session_settings(output.spark)), file, explicit)


def compile_job(output: Inputs, request: SinkRequest, file: Layer, explicit: Layer) -> tuple[ExecutionPlan, JobSpec]:
    """Check everything, decide, and describe the result twice: for people and for the runtime.

    Args:
        output: what comes out of the last stage.
        request: where it goes.
        file: options from a file.
        explicit: options that were given to the writer; they are nearer than those of the file.

    Raises:
        OptionError: an option is unknown, or its value is not allowed.
        PlanError: the job cannot be done as described.
    """
    graph = StageGraph.of(output)
    stage = graph.last
    unites = len(graph.outputs) > 1
    transform = (
        plan_union(output, dict(zip(graph.stages, graph.uids, strict=True)))
        if unites
        else plan_output_transform(stage, output.parts[0])
    )
    spark = stage.inputs.spark
    resolved = resolved_options(output, file, explicit)
    check_interval(spark, request.trigger)
    epoch_ms = real_time_ms(spark, request.trigger)
    format = sink_format(spark, request)
    check_names(spark, request, format)
    output_mode = output_mode_of_union(graph, request, format) if unites else output_mode_of(stage, request, format)
    check_update(graph, output_mode)
    refuse_max(resolved, max_refusal(stage, output_mode, len(graph.stages)))
    settings, why_timers = resolve_timers(resolved, needs_after_rows=len(graph.stages) == 1 and stage.needs_after_rows)
    asked = OutputRequest(graph, output, transform, request, format, output_mode, settings)
    planned = plan_output(asked, dict(resolved.sink_options))
    bounded = [bool(lane.inputs.histories) for lane in graph.lanes.lanes]
    specs, transform = observed_once(graph.specs(output_mode, settings), transform, settings, bounded)
    specs, finals = with_final_watermarks(resolved, settings, graph.stages, specs, output_mode)
    check_watermark_policy(spark, specs, planned.location)
    refuse_unsupported_on_streams(graph.lanes.parts)
    lanes = graph.lanes.frames()
    settings = _with_limits(settings, specs, live_frame(lanes), request)
    parallelism, engine = settings.shards(spark), BacklogEngine.of(settings, specs, lanes)
    first = graph.first
    real_time = plan_real_time(
        RealTimeJob(graph, specs, settings, transform, format, output_mode, planned.location), epoch_ms
    )
    plan = ExecutionPlan(
        name=request.query_name,
        sources=source_plans(graph),
        event_time=None if first.watermark is None else first.watermark.label,
        watermark_delay_ms=0 if first.watermark is None else first.watermark.delay_ms,
        stages=stage_plans(graph, specs, finals, output_mode, settings, parallelism),
        output_columns=columns_ddl(planned.sink.schema.fields),
        output_mode=output_mode,
        sink=planned.plan if real_time is None else real_time.sink(planned.plan),
        trigger=request.trigger if real_time is None else real_time.trigger(request.trigger),
        settings=settings,
        parallelism=parallelism,
        checkpoint_location=planned.location,
        phases=plan_phases(settings, _facts(graph, request, specs, finals, settings, why_timers, engine, real_time)),
        fallback=None if real_time is None else real_time.fallback,
        tail=() if transform is None else transform.names,
        tail_moves_rows=transform is not None and transform.moves_rows,
        united=() if transform is None else tuple(dict.fromkeys(branch.origin for branch in transform.branches)),
        unordered=_unordered_histories(graph, specs, lanes),
        ignored=tuple(dict.fromkeys([*[one for each in graph.stages for one in each.inputs.ignored], *output.ignored])),
    )
    job = _job(graph, plan, specs, planned.sink, transform, lanes, engine)
    if real_time is not None:
        check_rows(job)
    return plan, job


def _facts(
    graph: StageGraph,
    request: SinkRequest,
    specs: Sequence[StageSpec],
    finals: Sequence[FinalWatermark],
    settings: Settings,
    why_timers: str,
    engine: BacklogEngine,
    real_time: RealTime | None,
) -> JobFacts:
    """All of the job that decides which phases it runs in."""
    operators = [spec.operator for spec in specs]
    return JobFacts(
        backlog_engine=engine.words,
        has_history=any(not part.is_live for part in graph.lanes.parts),
        has_live=any(part.is_live for part in graph.lanes.parts),
        ends_by_itself=not {"availableNow", "once"}.isdisjoint(request.trigger),
        real_time_ms=None if real_time is None else real_time.epoch_ms,
        real_time_slots=None if real_time is None else real_time.slots.text,
        uses_event_time=any(operator.uses_event_time for operator in operators),
        uses_processing_time=any(operator.uses_processing_time for operator in operators),
        has_watermark=any(reader.watermark is not None for reader in graph.readers),
        final_watermarks={spec.uid: final for spec, final in zip(specs, finals, strict=True)},
        has_timers=any(operator.has_timers for operator in operators),
        why_timers=why_timers,
        has_joins=any(operator.has_first_pass for operator in operators),
        is_stateless=all(operator.is_stateless for operator in operators),
        bytes_per_shard=_bytes_per_shard(graph, specs, settings),
    )


def _with_limits(
    settings: Settings, specs: Sequence[StageSpec], live: DataFrame | None, request: SinkRequest
) -> Settings:
    """Whether the live source's limits hold in the backlog: without state there is nothing to gain from lifting them,
    and whoever takes the rows counts on portions of that size."""
    if settings.backlog_limits != "auto":
        return settings
    is_stateless = all(spec.operator.is_stateless for spec in specs)
    is_cut = is_stateless and "once" not in request.trigger and live is not None and not delivers_one_batch(live)
    return settings.model_copy(update={"backlog_limits": "source" if is_cut else "lifted"})


def _late_rows(graph: StageGraph, path: str | None) -> LateRows | None:
    if path is None:
        return None
    stages = zip(graph.uids, graph.stages, strict=True)
    late_rows = LateRows(path, {uid: stage.input_schema for uid, stage in stages})
    late_rows.check(graph.first.inputs.spark)
    return late_rows


def _job(
    graph: StageGraph,
    plan: ExecutionPlan,
    stages: tuple[StageSpec, ...],
    sink: Sink,
    output_transform: OutputTransform | None,
    lanes: tuple[Lane, ...],
    engine: BacklogEngine,
) -> JobSpec:
    stage = graph.first
    return JobSpec(
        spark=stage.inputs.spark,
        name=plan.name,
        lanes=lanes,
        live=live_frame(lanes),
        stages=stages,
        sink=sink,
        settings=plan.settings,
        phases=plan.phases,
        checkpoint_location=plan.checkpoint_location,
        live_inputs=graph.lanes.live_inputs,
        late_rows=_late_rows(graph, plan.settings.late_data_path),
        trigger=dict(plan.trigger),
        explain=plan.explain,
        output_transform=output_transform,
        plan_json=plan.model_dump_json(indent=1),
        begin_refused=_begin_refused(graph),
        fires_without_rows=fires_without_rows(stage.inputs.spark),
        scan_least_bytes=engine.least_bytes,
    )


def _begin_refused(graph: StageGraph) -> str | None:
    """Why the job must not begin with these inputs, though it may go on with them."""
    for part in graph.lanes.parts:
        if part.seam is not None and part.seam.refusal is not None:
            return f"history and {part.name} do not fit together: {part.seam.refusal}. {part.seam.hint}"
    return None


def _bytes_per_shard(graph: StageGraph, specs: Sequence[StageSpec], settings: Settings) -> int | None:
    """How much of its history a shard sorts at most, if that decides who sorts: rows that Spark aggregates are few."""
    if settings.sorter_engine != "auto" or not runs_sorted(settings):
        return None
    sizes = [
        size_bytes(history)
        for stage, spec in zip(graph.stages, specs, strict=True)
        if not spec.operator.aggregates_by_key and (history := stage.inputs.history) is not None
    ]
    known = [size for size in sizes if size is not None]
    return max(known) // settings.shards(graph.first.inputs.spark) if known else None


def _unordered_histories(graph: StageGraph, specs: Sequence[StageSpec], lanes: Sequence[Lane]) -> tuple[str, ...]:
    """The histories whose rows a stage needs in the order of their arrival, and of which nobody knows it."""
    found: dict[str, None] = {}
    for read in (read for spec in specs if spec.operator.keeps_arrival for read in spec.reads):
        history = lanes[read.lane].history
        if history is None:
            continue
        behind = history if read.template is None or read.template.isStreaming else read.template
        if not (has_file_rows(history) and has_file_rows(behind)):
            found.setdefault(graph.lanes.history_name(read.lane))
    return tuple(found)
