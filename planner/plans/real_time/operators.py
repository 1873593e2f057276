"""Decides which keyed stages the real-time live phase can run."""

from __future__ import annotations

from ....runtime.operators.aggregate.definition import Aggregation
from ....runtime.operators.processor.definition import ProcessorStage
from ....runtime.spec import StageSpec

#: Kinds of operators that run in this phase.
KINDS = ("transformWithState", "agg", "dropDuplicates")


def operator_refusal(stage: StageSpec) -> str | None:
    """Why the phase cannot run a stage, to follow the operator's kind; None: it can."""
    operator = stage.operator
    if operator.kind not in KINDS:
        return f"(allowed: {', '.join(KINDS)})"
    if stage.coordinator is not None:
        return "with a coordinator, whose events go with micro-batches"
    if isinstance(operator, ProcessorStage):
        return _of_processor(operator)
    return _of_aggregation(operator) if isinstance(operator, Aggregation) else None


def _of_processor(operator: ProcessorStage) -> str | None:
    if operator.uses_processing_time:
        return "with timeMode processingTime: its timers would fire at an epoch's end only"
    if operator.initial is not None:
        return "with initial state, which is a second input"
    return None


def _of_aggregation(operator: Aggregation) -> str | None:
    if operator.windows:
        return "over windows of event time, which end with the watermark, at an epoch's end only"
    if operator.grouping is not None:
        return "with grouping sets (rollup, cube), which make several rows of one"
    if not operator.key_columns:
        return "without keys, which is one group in one shard"
    return None
