"""``limit`` of rows that are no whole result: the first rows of the stream, planned as a keyed stage."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException

from ...errors import PlanError
from ...runtime.jvm.spark_errors import error_text
from ...runtime.operators.contract import KeyedOperator
from ...runtime.operators.limit import LimitOperator
from ...runtime.spec import Settings
from .dedup import output_event_time
from .output_transform import check_output
from .stage import KeyedStage, StageInput


def plan_limit(rows: StageInput, num: Any) -> KeyedStage:
    """The keyed stage that hands on the first rows, over all epochs.

    Args:
        rows: its input.
        num: how many.

    Raises:
        PlanError: that is no number of rows, or the columns cannot cross into Python.
    """
    try:
        rows.inputs.template.limit(num)
    except PySparkException as error:
        raise PlanError(f"limit({num!r}): {error_text(error)}") from error
    except Exception as error:
        raise PlanError(f"limit({num!r}) is not allowed; give a number of rows, 0 or more") from error
    check_output(rows.schema, case_sensitive=rows.inputs.case_sensitive)
    watermark, inputs = rows.watermark, rows.inputs

    def build(uid: str, output_mode: str, settings: Settings) -> KeyedOperator:
        return LimitOperator(
            uid=uid,
            rows=num,
            schema=rows.schema,
            event_time=None if watermark is None else watermark.event_time,
            follows_a_stage=bool(inputs.outputs),
        )

    return KeyedStage(
        inputs=inputs,
        watermark=watermark,
        input_schema=rows.schema,
        output_schema=rows.schema,
        output_mode=None,
        build=build,
        key_inputs=(None,),
        refuses_complete="after limit without an aggregation behind it, as in Spark",
        refuses_update="limit",
        output_event_time=output_event_time(rows),
    )
