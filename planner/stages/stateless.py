"""Rows that no keyed stage takes, planned as the one stage of a job that keeps nothing."""

from __future__ import annotations

from dataclasses import replace

from ...runtime.operators.contract import KeyedOperator
from ...runtime.operators.stateless import StatelessOperator
from ...runtime.spec import Settings
from ..inputs.inputs import Inputs
from .output_transform import check_output
from .stage import KeyedStage

#: Id of the stage; a job has one at most, and no user gives it a name.
STATELESS_UID = "stateless"


def plan_stateless(inputs: Inputs) -> KeyedStage:
    """The stage of a job whose rows go from its sources to the sink.

    Args:
        inputs: the rows, as the sink is to get them.

    Raises:
        PlanError: their columns cannot be written.
    """
    schema = inputs.schema
    check_output(schema, case_sensitive=inputs.case_sensitive)

    def build(uid: str, output_mode: str, settings: Settings) -> KeyedOperator:
        return StatelessOperator(uid, schema)

    return KeyedStage(
        inputs=inputs.for_writing,
        watermark=None,
        input_schema=schema,
        output_schema=schema,
        output_mode=None,
        build=build,
        uid=STATELESS_UID,
        refuses_complete="for a job without a keyed stage, as in Spark: only an aggregation has a complete result",
    )


def through_stages(output: Inputs) -> Inputs:
    """The output of a job with keyed stages; rows right from sources go through a stage that keeps none."""
    sources = tuple(part for part in output.parts if part.origin is None)
    if not sources:
        return output
    stage = plan_stateless(replace(output, parts=sources))
    return replace(output, parts=(*output.outputs, *stage.bare_output.parts))
