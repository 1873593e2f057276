"""Describes the sources and the stages of a compiled job for its plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...runtime.catalyst.columns import columns_ddl
from ...runtime.connectors.sources.live_sources import at_most_once, latest_by_default
from ...runtime.operators.contract import KeyedOperator
from ...runtime.spec import Settings, StageSpec
from ..inputs.analysis import spark_plan
from ..inputs.changing_tables import loose_tables
from ..inputs.inputs import InputPart, Inputs
from ..stages.stage import STAGE_UID, KeyedStage
from .final_watermark import FinalWatermark
from .graph import StageGraph
from .job_facts import runs_sorted
from .kept_shards import earlier_shards
from .plan import SourcePlan, StagePlan


def source_plans(graph: StageGraph) -> tuple[SourcePlan, ...]:
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
                warning=(None if part.seam is None else part.seam.warning)
                or at_most_once(part.frame)
                or latest_by_default(part.frame),
            )
            for part, own in zip(lane.parts, taken, strict=True)
            if part.is_live
        ]
    return (*histories, *lives)


def stage_plans(
    graph: StageGraph,
    specs: Sequence[StageSpec],
    finals: Sequence[FinalWatermark],
    output_mode: str,
    settings: Settings,
    parallelism: int,
) -> tuple[StagePlan, ...]:
    """Each stage of the job.

    Args:
        graph: the stages as they were described.
        specs: the same as they run.
        finals: the final watermark of each.
        output_mode: of those whose rows go to the sink.
        settings: of the job.
        parallelism: how many shards it begins with.
    """
    is_sorted = runs_sorted(settings)
    return tuple(
        StagePlan(
            uid=spec.uid,
            is_named=stage.uid != STAGE_UID,
            operator=_described(spec.operator),
            reads=graph.reads(stage),
            event_time=None if stage.watermark is None or not spec.reads else stage.watermark.label,
            watermark_delay_ms=max(spec.delays_ms.values(), default=spec.watermark_delay_ms),
            watermark_delays_ms=dict(spec.delays_ms),
            coordinator=None if spec.coordinator is None else type(spec.coordinator).__name__,
            warning=_warning(stage, output_mode if stage in graph.outputs else "append", settings),
            in_shards_of=earlier_shards(spec, specs, settings, parallelism),
            final_watermark=final.value if is_sorted else None,
            why_final_watermark=final.reason if is_sorted else None,
        )
        for spec, stage, final in zip(specs, graph.stages, finals, strict=True)
    )


def _warning(stage: KeyedStage, output_mode: str, settings: Settings) -> str | None:
    waits = output_mode == "append" and settings.runtime_mode != "batch"
    return stage.waits_for_end if waits and stage.waits_for_end is not None else stage.warning


def _columns(stage: KeyedStage, part: InputPart) -> str:
    """The columns of a source as the stage takes it."""
    return columns_ddl((stage.input_schema if part.columns is None else part.columns).fields)


def _described(operator: KeyedOperator) -> dict[str, Any]:
    """The operator's description in plain JSON values, so that a stored plan equals the one it was made from."""
    described: dict[str, Any] = json.loads(json.dumps(operator.describe(), default=str))
    return described
