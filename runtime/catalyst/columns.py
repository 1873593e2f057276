"""Column names as Spark's parser takes them, and the names that are ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, StructField, StructType, TimestampNTZType

from .spark_session import is_on

#: Columns that the runtime adds to a frame on its way to the tasks; a column of the user's must not be called so.
RESERVED = re.compile(
    r"__(kg|arrived_\w+|shard|pin|row_kind|initial_state|grouping_id|time|event_time|rows|side|max_ts|session_start|session_end|input|emitted_ms|late_\w+|key_?\d+|[kablr]\d+)",
    re.IGNORECASE,
)


def is_case_sensitive(spark: SparkSession) -> bool:
    """True if the session tells names of columns apart by case."""
    return is_on(spark, "spark.sql.caseSensitive", default=False)


def column_fold(spark: SparkSession) -> Callable[[str], str]:
    """What makes two names of columns equal if the session takes them for one."""
    return str if is_case_sensitive(spark) else str.lower


def quoted(name: str) -> str:
    """A column's name in backticks, whatever characters are in it."""
    return "`" + name.replace("`", "``") + "`"


def event_time_us(frame: DataFrame, column: str) -> Column:
    """An event-time column as microseconds since the epoch (timestamp_ntz counts as UTC wall clock)."""
    return F.expr(event_time_sql(frame, column))


def event_time_sql(frame: DataFrame, column: str) -> str:
    """The same as SQL: a call of a function on columns is a dozen calls to the JVM, and epochs pay for them."""
    return time_us_sql(quoted(column), frame.schema[column].dataType)


def time_us_sql(value: str, data_type: DataType) -> str:
    """A time, given as SQL, as microseconds since the epoch, as SQL; ``data_type``: its type."""
    if isinstance(data_type, TimestampNTZType):
        # Part by part: Spark's functions of timestamps would take it for one of the session's zone, whose clock jumps.
        days = f"CAST(unix_date(CAST({value} AS DATE)) AS BIGINT)"
        minutes = f"({days} * 1440 + hour({value}) * 60 + minute({value}))"
        return f"({minutes} * 60000000 + CAST(extract(SECOND FROM {value}) * 1000000 AS BIGINT))"
    return f"unix_micros({value})"


def holds_floats(data_type: DataType) -> bool:
    """True if a float is somewhere in the type: equal keys may then differ in bits."""
    if isinstance(data_type, ArrayType):
        return holds_floats(data_type.elementType)
    if isinstance(data_type, StructType):
        return any(holds_floats(field.dataType) for field in data_type.fields)
    return isinstance(data_type, (FloatType, DoubleType))


def normalise_floats(column: Column, data_type: DataType) -> Column:
    """The column with one NaN and one zero, as Spark's own grouping does it."""
    if isinstance(data_type, (FloatType, DoubleType)):
        kind = data_type.simpleString()
        return (
            F.when(column == 0, F.lit(0.0).cast(kind))
            .when(F.isnan(column), F.lit(float("nan")).cast(kind))
            .otherwise(column)
        )
    if isinstance(data_type, StructType) and holds_floats(data_type):
        fields = [normalise_floats(column[field.name], field.dataType).alias(field.name) for field in data_type.fields]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(data_type, ArrayType) and holds_floats(data_type):
        element = data_type.elementType
        return F.transform(column, lambda item: normalise_floats(item, element))
    return column


def columns_ddl(fields: Iterable[StructField]) -> str:
    """Names and types as text: ``tailnum string, legs bigint``."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
