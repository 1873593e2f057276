"""The tables of Spark's HyperLogLog++."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from ..jvm.gateway import java_class


def hyperloglog_tables(spark: SparkSession, precision: int) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """For a precision of 4 or more: the threshold of linear counting, the raw estimates, and their biases."""
    tables = java_class(spark, "org.apache.spark.sql.catalyst.util.HyperLogLogPlusPlusHelper")
    arrays = java_class(spark, "java.util.Arrays")

    def numbers(array: Any) -> tuple[float, ...]:
        return tuple(map(float, str(arrays.toString(array)).strip("[]").split(", ")))

    place = precision - 4
    return (
        numbers(tables.THRESHOLDS())[place],
        numbers(tables.RAW_ESTIMATE_DATA()[place]),
        numbers(tables.BIAS_DATA()[place]),
    )
