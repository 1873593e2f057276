"""Compiles a described job into an :class:`ExecutionPlan` and the :class:`JobSpec` that executes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ...errors import PlanError
from ...runtime.catalyst.spark_plans import size_bytes
from ...runtime.catalyst.spark_session import session_settings
from ...runtime.catalyst.types.spark_durations import duration_ms
from ...runtime.checkpoints.store import has_checkpoint
from ...runtime.connectors.late_rows import OPTION as LATE_PATH
from ...runtime.connectors.late_rows import LateRows
from ...runtime.connectors.sinks import Deliveries, Sink, check_guarantee, make_sink
from ...runtime.connectors.sinks.formats import format_of
from ...runtime.connectors.sources.lanes import Lane, live_frame
from ...runtime.connectors.sources.live_query import delivers_one_batch
from ...runtime.connectors.sources.live_sources import at_most_once
from ...runtime.operators.contract import KeyedOperator
from ...runtime.operators.output_transform import OutputTransform
from ...runtime.spec import JobSpec, Settings, StageSpec
from ..inputs.analysis import spark_plan
from ..inputs.inputs import InputPart, Inputs
from ..inputs.loose_tables import loose_tables
from ..inputs.schemas import columns_ddl
from ..options.layers import Layer, resolve_options, session_layer
from ..stages.stage import KeyedStage
from ..stages.tail import check_order_column, output_key, plan_tail, plan_union
from .backlog_engine import choose_backlog_engine
from .final_watermark import max_refusal, refuse_max, with_final_watermarks
from .folders import (
    check_apart,
    check_goes_on,
    check_no_credentials,
    check_not_read,
    check_replaced,
    checkpoint_location,
    checkpoints_in_output,
)
from .graph import StageGraph
from .key_groups import earlier_shards
from .observed import observed_once
from .phases import JobFacts, plan_phases, runs_sorted
from .plan import ExecutionPlan, SinkPlan, SourcePlan, StagePlan
from .row_order import unordered_histories
from .sink_request import (
    SinkRequest,
    check_names,
    check_replaceable,
    check_update,
    options_of_replaced,
    output_mode_of,
    output_mode_of_union,
    sink_format,
    whole_result,
)
from .spark_settings import check_watermark_policy, fires_without_rows
from .timer_order import resolve_timers


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
    last = graph.outputs
    unites = len(last) > 1
    tail = (
        plan_union(output, dict(zip(graph.stages, graph.uids, strict=True)))
        if unites
        else plan_tail(stage, output.parts[0])
    )
    spark = stage.inputs.spark
    resolved = resolve_options(session_layer(session_settings(spark)), file, explicit)
    sink_options = dict(resolved.sink_options)
    _check_trigger(spark, request.trigger)
    format = sink_format(spark, request)
    check_names(spark, request, format)
    output_mode = output_mode_of_union(graph, request, format) if unites else output_mode_of(stage, request, format)
    check_update(graph, output_mode)
    refuse_max(resolved, max_refusal(stage, output_mode, len(graph.stages)))
    settings, why_timers = resolve_timers(resolved, needs_after_rows=len(graph.stages) == 1 and stage.needs_after_rows)
    given = _take(sink_options, "checkpointLocation")
    location = checkpoint_location(spark, request.query_name, format, given, sink_options)
    check_goes_on(format, output_mode, location)
    replaced = options_of_replaced(request, sink_options)
    path = _take(sink_options, "path")
    # What ignores the path has nothing there.
    used_path = None if request.table is None and not format_of(format).takes_path else path
    is_sparks = request.table is not None or not format_of(format).is_ours
    others = {
        "checkpointLocation": location,
        LATE_PATH: settings.late_data_path,
        "execution.savepoint.on-sigterm": settings.savepoint_on_sigterm,
    }
    check_no_credentials(path=path, **others, **{"execution.savepoint.path": settings.savepoint_path})
    check_apart(path=used_path, path_is_sparks=is_sparks, **others)
    if settings.sink_existing == "replace":
        check_replaced(used_path, **others)
    read = [(part.name, part.frame) for part in graph.lanes.parts]
    check_not_read(read, path=None if is_sparks else used_path, **others)
    for one in last:
        check_order_column(settings.sink_order_column, one, tail)
    sink = make_sink(
        format,
        path,
        sink_options,
        request.query_name,
        stage.output_schema if tail is None else tail.schema,
        request.foreach_batch,
        table=request.table,
        partition_by=request.partition_by,
        transactional=settings.sink_transactional,
        guarantee=settings.sink_delivery_guarantee,
        deliveries=_deliveries(
            graph,
            output.parts[0],
            output_mode,
            request,
            format,
            Deliveries(
                order_column=settings.sink_order_column,
                whole=whole_result(output, stage, output_mode, format),
                known=request.known,
            ),
        ),
    )
    check_guarantee(sink, settings.sink_delivery_guarantee)
    check_replaceable(sink, settings)
    sink.check(spark)
    bounded = [bool(lane.inputs.histories) for lane in graph.lanes.lanes]
    specs, tail = observed_once(graph.specs(output_mode, settings), tail, settings, bounded)
    specs, finals = with_final_watermarks(resolved, settings, graph.stages, specs, output_mode)
    if not has_checkpoint(location):  # a job that goes on keeps the policy that it began with, as in Spark
        check_watermark_policy(spark, specs)
    first = graph.first
    operators = [spec.operator for spec in specs]
    lanes = graph.lanes.frames()
    settings = _with_limits(settings, specs, live_frame(lanes), request)
    parallelism = settings.shards(spark)
    facts = JobFacts(
        backlog_engine=choose_backlog_engine(settings, specs, lanes),
        has_history=any(not part.is_live for part in graph.lanes.parts),
        has_live=any(part.is_live for part in graph.lanes.parts),
        ends_by_itself=not {"availableNow", "once"}.isdisjoint(request.trigger),
        uses_event_time=any(operator.uses_event_time for operator in operators),
        uses_processing_time=any(operator.uses_processing_time for operator in operators),
        has_watermark=any(reader.watermark is not None for reader in graph.readers),
        final_watermarks={spec.uid: final for spec, final in zip(specs, finals, strict=True)},
        has_timers=any(operator.has_timers for operator in operators),
        why_timers=why_timers,
        has_joins=any(operator.has_first_pass for operator in operators),
        is_stateless=all(operator.is_stateless for operator in operators),
        bytes_per_shard=_bytes_per_shard(graph, specs, settings, parallelism),
    )
    plan = ExecutionPlan(
        name=request.query_name,
        sources=_sources(graph),
        event_time=None if first.watermark is None else first.watermark.label,
        watermark_delay_ms=0 if first.watermark is None else first.watermark.delay_ms,
        stages=tuple(
            StagePlan(
                uid=spec.uid,
                is_named=spec.uid not in graph.unnamed,
                operator=_described(spec.operator),
                reads=graph.reads(stage),
                event_time=None if stage.watermark is None or not spec.reads else stage.watermark.label,
                watermark_delay_ms=max(spec.delays_ms.values(), default=spec.watermark_delay_ms),
                watermark_delays_ms=dict(spec.delays_ms),
                coordinator=None if spec.coordinator is None else type(spec.coordinator).__name__,
                warning=_warning(stage, output_mode if stage in graph.outputs else "append", settings),
                in_shards_of=earlier_shards(spec, specs, settings, parallelism),
                final_watermark=final.value if runs_sorted(settings) else None,
                why_final_watermark=final.reason if runs_sorted(settings) else None,
            )
            for spec, stage, final in zip(specs, graph.stages, finals, strict=True)
        ),
        output_columns=columns_ddl(sink.schema.fields),
        output_mode=output_mode,
        sink=_sink_plan(sink, (replaced, checkpoints_in_output(location, used_path))),
        trigger=request.trigger,
        settings=settings,
        parallelism=parallelism,
        checkpoint_location=location,
        phases=plan_phases(settings, facts),
        tail=() if tail is None else tail.names,
        tail_moves_rows=tail is not None and tail.moves_rows,
        united=() if tail is None else tuple(dict.fromkeys(branch.origin for branch in tail.branches)),
        unordered=unordered_histories(graph, specs, lanes),
        ignored=tuple(dict.fromkeys([*[one for each in graph.stages for one in each.inputs.ignored], *output.ignored])),
    )
    return plan, _job(graph, plan, specs, sink, tail, lanes)


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


def _warning(stage: KeyedStage, output_mode: str, settings: Settings) -> str | None:
    waits = output_mode == "append" and settings.runtime_mode != "batch"
    return stage.waits_for_end if waits and stage.waits_for_end is not None else stage.warning


def _late_rows(graph: StageGraph, path: str | None) -> LateRows | None:
    if path is None:
        return None
    stages = zip(graph.uids, graph.stages, strict=True)
    late_rows = LateRows(path, {uid: stage.input_schema for uid, stage in stages})
    late_rows.check(graph.first.inputs.spark)
    return late_rows


def _deliveries(
    graph: StageGraph, part: InputPart, output_mode: str, request: SinkRequest, format: str, all_rows: Deliveries
) -> Deliveries:
    """What is handed over per checkpoint: all rows, or of each key the last; of a key that is gone every update."""
    if output_mode != "update" or not any(stage.is_aggregate for stage in graph.outputs):
        return all_rows
    if len(graph.outputs) > 1:  # a row of one is not replaced by one of another
        return replace(all_rows, key_is_gone=True)
    stage = graph.last
    per_epoch = request.table is None and request.foreach_batch is None and format_of(format).is_ours
    key = stage.output_key if per_epoch else output_key(stage, part)
    return replace(all_rows, key=key, key_is_gone=key is None)


def _job(
    graph: StageGraph,
    plan: ExecutionPlan,
    stages: tuple[StageSpec, ...],
    sink: Sink,
    tail: OutputTransform | None,
    lanes: tuple[Lane, ...],
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
        tail=tail,
        plan_json=plan.model_dump_json(indent=1),
        begin_refused=_begin_refused(graph),
        fires_without_rows=fires_without_rows(stage.inputs.spark),
    )


def _begin_refused(graph: StageGraph) -> str | None:
    """Why the job must not begin with these inputs, though it may go on with them."""
    for part in graph.lanes.parts:
        if part.seam is not None and part.seam.refusal is not None:
            return f"history and {part.name} do not fit together: {part.seam.refusal}. {part.seam.hint}"
    return None


def _take(options: dict[str, str], name: str) -> str | None:
    """Take an option out, whatever its case."""
    for written in options:
        if written.lower() == name.lower():
            return options.pop(written)
    return None


def _check_trigger(spark: SparkSession, trigger: dict[str, Any]) -> None:
    interval = trigger.get("processingTime")
    if interval is None:
        return
    try:
        interval_ms = duration_ms(spark, interval)
    except ValueError as error:
        raise PlanError(
            f"trigger(processingTime={interval!r}) is not a duration ({error}); use for example '5 seconds'"
        ) from error
    if interval_ms < 0:
        raise PlanError(f"trigger(processingTime={interval!r}) is negative; use '0 seconds' or more")


def _sources(graph: StageGraph) -> tuple[SourcePlan, ...]:
    """Each history and live input as the first stage that reads it takes it."""
    histories, lives = [], []
    for number, lane in enumerate(graph.lanes.lanes):
        stage, taken = lane.takers[0]
        watermark, inputs = stage.watermark, Inputs(taken)
        history = inputs.history
        if history is not None:
            histories.append(
                SourcePlan(
                    name=graph.lanes.history_name(number),
                    boundedness="bounded",
                    columns="; ".join(dict.fromkeys(_columns(stage, part) for part in inputs.histories)),
                    spark_plan=spark_plan(history),
                    warning=loose_tables(history),
                )
            )
        lives += [
            SourcePlan(
                name=part.name,
                boundedness="unbounded",
                columns=_columns(stage, own),
                spark_plan=spark_plan(own.frame),
                watermark_delay_ms=None
                if watermark is None or own.name in watermark.without
                else watermark.delay_of(own.name),
                seam=None if part.seam is None else part.seam.text,
                warning=(None if part.seam is None else part.seam.warning) or at_most_once(part.frame),
            )
            for part, own in zip(lane.parts, taken, strict=True)
            if part.is_live
        ]
    return (*histories, *lives)


def _columns(stage: KeyedStage, part: InputPart) -> str:
    """The columns of a source as the stage takes it."""
    return columns_ddl((stage.input_schema if part.columns is None else part.columns).fields)


def _sink_plan(sink: Sink, warnings: Sequence[str | None]) -> SinkPlan:
    return SinkPlan(
        name=sink.name,
        description=sink.describe(),
        guarantee=sink.guarantee,
        fencing=sink.fencing,
        warning="; ".join(filter(None, warnings)) or None,
    )


def _described(operator: KeyedOperator) -> dict[str, Any]:
    """The operator's description in plain JSON values, so that a stored plan equals the one it was made from."""
    described: dict[str, Any] = json.loads(json.dumps(operator.describe(), default=str))
    return described


def _bytes_per_shard(graph: StageGraph, specs: Sequence[StageSpec], settings: Settings, parallelism: int) -> int | None:
    """How much of its history a shard sorts at most, if that decides who sorts: rows that Spark aggregates are few."""
    if settings.sorter_engine != "auto" or not runs_sorted(settings):
        return None
    sizes = [
        size_bytes(history)
        for stage, spec in zip(graph.stages, specs, strict=True)
        if not spec.operator.aggregates_by_key and (history := stage.inputs.history) is not None
    ]
    known = [size for size in sizes if size is not None]
    return max(known) // parallelism if known else None
