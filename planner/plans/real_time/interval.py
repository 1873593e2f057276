"""Reads the length of an epoch from ``trigger(realTime="60 seconds")``."""

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
    interval = trigger.get(NAME)
    if interval is None:
        return None
    try:
        interval_ms = duration_ms(spark, interval)
    except ValueError as error:
        raise PlanError(
            f"trigger({NAME}={interval!r}) is not a duration ({error}); use for example '60 seconds'"
        ) from error
    least_ms = setting_ms(spark, _LEAST, _LEAST_MS)
    if interval_ms < least_ms:
        raise PlanError(
            f"trigger({NAME}={interval!r}) is shorter than {format_duration_ms(least_ms)}, the least that Spark allows"
            f" ({_LEAST}). It is the length of an epoch: rows are shown at once anyway. Use for example '60 seconds'"
        )
    return interval_ms
