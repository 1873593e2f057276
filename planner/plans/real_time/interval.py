"""Reads durations from triggers: the length of an epoch from ``trigger(realTime="60 seconds")``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....errors import PlanError
from ....runtime.catalyst.types.spark_durations import duration_ms, setting_ms
from ...options.values import format_duration_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The trigger's argument.
NAME = "realTime"
_LEAST = "spark.sql.streaming.realTimeMode.minBatchDuration"
#: Spark's own default of that.
_LEAST_MS = 5_000


def real_time_ms(spark: SparkSession, trigger: Mapping[str, Any]) -> int | None:
    """The length of an epoch in milliseconds; None: the trigger is another one.

    Raises:
        PlanError: it is not a duration, or shorter than Spark allows.
    """
    interval_ms = _interval_ms(spark, trigger, NAME, "60 seconds")
    if interval_ms is not None and interval_ms < (least_ms := setting_ms(spark, _LEAST, _LEAST_MS)):
        raise PlanError(
            f"trigger({NAME}={trigger[NAME]!r}) is shorter than {format_duration_ms(least_ms)}, the least that Spark"
            f" allows ({_LEAST}). It is the length of an epoch: rows are shown at once anyway. Use for example '60"
            " seconds'"
        )
    return interval_ms


def check_interval(spark: SparkSession, trigger: Mapping[str, Any]) -> None:
    """Raise PlanError if micro-batches are to follow each other in something else than a duration."""
    interval_ms = _interval_ms(spark, trigger, "processingTime", "5 seconds")
    if interval_ms is not None and interval_ms < 0:
        raise PlanError(f"trigger(processingTime={trigger['processingTime']!r}) is negative; use '0 seconds' or more")


def _interval_ms(spark: SparkSession, trigger: Mapping[str, Any], name: str, example: str) -> int | None:
    """An argument of a trigger; None: the trigger is another one."""
    interval = trigger.get(name)
    try:
        return None if interval is None else duration_ms(spark, interval)
    except ValueError as error:
        raise PlanError(
            f"trigger({name}={interval!r}) is not a duration ({error}); use for example {example!r}"
        ) from error
