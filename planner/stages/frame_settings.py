"""Reads the session's settings for pandas frames when the job starts, as PySpark does for pandas functions."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ...runtime.catalyst.spark_session import is_on
from ...runtime.operators.processor.frames.frame_settings import NO_LIMIT, FrameSettings

#: As in Spark.
_MAX_BYTES = 64 * 1024 * 1024


def frame_settings(spark: SparkSession, *, exact_columns: bool = False) -> FrameSettings:
    """The settings of a session.

    Args:
        spark: the session.
        exact_columns: whether frames with more columns than the output schema are an error.
    """

    def conf(name: str, default: str) -> str:
        return str(spark.conf.get(f"spark.sql.{name}", default))  # not every version knows all of them

    def asked(name: str, *, default: bool) -> bool:
        return is_on(spark, f"spark.sql.{name}", default=default)

    max_rows = int(conf("execution.arrow.maxRecordsPerBatch", "10000"))
    return FrameSettings(
        time_zone=str(spark.conf.get("spark.sql.session.timeZone")),
        max_rows=max_rows if max_rows > 0 else NO_LIMIT,
        max_bytes=_bytes(conf("execution.arrow.maxBytesPerBatch", str(_MAX_BYTES))),
        by_name=asked("legacy.execution.pandas.groupedMap.assignColumnsByName", default=True),
        safe=asked("execution.pandas.convertToArrowArraySafely", default=False),
        int_to_decimal=asked("execution.pythonUDF.pandas.intToDecimalCoercionEnabled", default=False),
        int_extension_dtypes=asked("execution.pythonUDF.pandas.preferIntExtensionDtype", default=False),
        exact_columns=exact_columns,
    )


def _bytes(value: str) -> int:
    """A size as ``spark.conf`` gives it, in bytes: digits, a unit perhaps; no limit for what is none."""
    digits, unit = value.rstrip("bBkKmMgG"), value.lstrip("0123456789").lower().rstrip("b")
    if not digits.isdigit() or int(digits) <= 0:
        return NO_LIMIT
    return int(digits) * {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(unit, 1)
