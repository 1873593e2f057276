"""Durations as Spark reads them, such as ``"1 hour 30 minutes"``."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ...jvm.gateway import java_class
from ...jvm.spark_errors import error_text

#: Days that Spark takes a month for in a duration.
_DAYS_PER_MONTH = 31
_TIMES = "org.apache.spark.network.util.JavaUtils"


def duration_ms(spark: SparkSession, text: str) -> int:
    """A duration in milliseconds.

    Raises:
        ValueError: it is not one.
    """
    try:
        return _duration(spark, text, "MILLISECONDS")
    except AnalysisException as error:
        raise ValueError(error_text(error)) from error


def setting_ms(spark: SparkSession, name: str, default_ms: int) -> int:
    """A duration among Spark's settings in milliseconds; without a unit it is in milliseconds already.

    Args:
        spark: the session.
        name: of the setting.
        default_ms: where it is not set, or this Spark does not know it.
    """
    text = spark.conf.get(name, None)
    return default_ms if text is None else int(java_class(spark, _TIMES).timeStringAsMs(text))


def window_us(spark: SparkSession, text: str) -> int:
    """A window's duration or slide in microseconds; Spark has checked it already, and refuses months in one."""
    return _duration(spark, text, "MICROSECONDS")


def _duration(spark: SparkSession, text: str, unit: str) -> int:
    intervals = java_class(spark, "org.apache.spark.sql.catalyst.util.IntervalUtils")
    units = java_class(spark, "java.util.concurrent.TimeUnit")
    return int(intervals.getDuration(intervals.fromIntervalString(text), getattr(units, unit), _DAYS_PER_MONTH))
