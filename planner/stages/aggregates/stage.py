"""An aggregate as a keyed stage: its operator, and what a plan asks of it."""

from __future__ import annotations

from typing import Any

from ....runtime.operators.aggregate.grouping import SPARKS_GROUPING_ID, GroupingSets
from ....runtime.operators.aggregate.operator import AggregateOperator
from ....runtime.operators.contract import KeyedOperator
from ....runtime.spec import Settings
from ...inputs.schemas import check_distinct_columns
from ..keys import Keys
from ..stage import STAGE_UID, KeyedStage, StageInput, presented_as
from .aggregate import InputTraits, checked_output_mode, plan_aggregate
from .pivot import Pivot

#: Why MAX_WATERMARK may not come at the switch where some grouping sets have no event time.
WHY_OBSERVED = (
    "MAX_WATERMARK would write the groups that are by no event time, which are complete only when all input ends"
)


def aggregate_stage(
    rows: StageInput, keys: Keys, given: Any, grouping: GroupingSets | None, pivot: Pivot | None
) -> KeyedStage:
    """Describe an aggregate of rows.

    Args:
        rows: what is aggregated.
        keys: the grouping.
        given: the expressions, or one dict of column to function name.
        grouping: the grouping sets; None: one, of all keys.
        pivot: the values that each aggregate is computed of; None: all rows.

    Raises:
        PlanError: an expression does not fit these columns, or a function is not supported.
    """
    inputs, watermark = rows.inputs, rows.watermark
    event_time = None if watermark is None else watermark.event_time

    # All but the output mode is checked here, where the expressions are written.
    operator = plan_aggregate(
        inputs.template,
        keys.given,
        given,
        event_time=event_time,
        output_mode=None,
        uid=STAGE_UID,
        traits=InputTraits(bounded=True, schema=inputs.schema, follows_a_stage=bool(inputs.outputs)),
        grouping=grouping,
        pivot=pivot,
    )
    case_sensitive = inputs.case_sensitive
    # No format of Spark's writes or reads such rows, so the job would fail when its first ones are there.
    check_distinct_columns("the result of groupBy and agg", operator.output_schema, case_sensitive=case_sensitive)
    known = None if operator.group_columns is None else operator.group_columns.known

    def build(uid: str, output_mode: str, settings: Settings) -> KeyedOperator:
        bounded = settings.runtime_mode == "batch" or not inputs.is_streaming
        label = None if watermark is None else watermark.label
        mode = checked_output_mode(output_mode, operator.keys, label, bounded=bounded)
        if mode == "complete" and settings.runtime_mode == "batch":
            mode = "append"  # a key is forgotten when its row is written, and each is written once
        return operator.with_output_mode(mode, uid)

    return KeyedStage(
        inputs=inputs,
        watermark=watermark,
        input_schema=rows.schema,
        output_schema=operator.output_schema,
        output_mode=None,
        build=build,
        is_aggregate=True,
        output_key=_output_key(operator),
        why_observed=WHY_OBSERVED if operator.timeless_ids else None,
        waits_for_end=_waiting(operator) if operator.timeless_ids and inputs.is_streaming else None,
        key_inputs=_key_inputs(keys, operator),
        output_event_time=next(
            (operator.output_schema.names[place] for place, key in enumerate(operator.keys) if key.event_time),
            None,
        ),
        known=known,
        presented=None if known is None else presented_as(known.fields),
    )


def _waiting(operator: AggregateOperator) -> str:
    assert operator.grouping is not None
    assert operator.time_key is not None
    place = operator.keys.index(operator.time_key)
    without = [places for places in operator.grouping.sets if place not in places]
    sets = ", ".join(operator.grouping.of(without).described([key.name for key in operator.keys]))
    return (
        f"outputMode append writes the groups of {operator.grouping.method} that are by no event time, {sets}, when all"
        " input ends: no watermark completes them, and Spark's own stream never writes them. Use outputMode update or"
        " complete to have them before"
    )


def _output_key(operator: AggregateOperator) -> tuple[str, ...] | None:
    """The output columns that say which group a row is of; None: two groups may look the same."""
    key = tuple(operator.output_schema.names[: len(operator.output_keys)])
    if operator.grouping is None:
        return key
    shown = next((output.name for output in operator.partials.outputs if output.text == SPARKS_GROUPING_ID), None)
    return None if shown is None else (*key, shown)


def _key_inputs(keys: Keys, operator: AggregateOperator) -> tuple[str | None, ...]:
    """For each column of the operator's key the input's that it is; grouping sets put nulls into theirs."""
    if operator.grouping is not None:
        return ()
    return tuple(plain for plain, key in zip(keys.plain, operator.keys, strict=True) if key.kind != "session")
