"""Checks at ``start()`` that rows can be added to a Delta or Iceberg table.

Both compare a table with what is written to it when it is written: here after a whole backlog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    MapType,
    StructType,
    YearMonthIntervalType,
)

from ....errors import OptionError, PlanError
from ...catalyst.columns import column_fold
from ...jvm.spark_errors import NOT_THERE, spark_says
from ...spark_io.spark_delta import delta_reads
from ...spark_io.spark_iceberg import iceberg_partitions
from ...spark_io.spark_tables import can_store
from .formats import format_of

logger = logging.getLogger(__name__)

#: What Delta calls a session without its extension and catalog.
_NOT_CONFIGURED = "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG"
#: By which a write may add columns: an option, and the session's setting.
_MERGE, _ALWAYS_MERGE = "mergeschema", "spark.databricks.delta.schema.autoMerge.enabled"
#: What the name of a column may not have in it without Delta's column mapping.
_UNNAMEABLE = set(" ,;{}()\n\t=")
_MAPPING = ("delta.columnmapping.mode", "spark.databricks.delta.properties.defaults.columnMapping.mode")
#: Name of a folder that is not there.
_NOTHING = "_mixedmode_no_table"
_INTERVALS = (DayTimeIntervalType, YearMonthIntervalType, CalendarIntervalType)


def check_lake(
    spark: SparkSession,
    format: str,
    place: tuple[str | None, str | None],
    schema: StructType,
    partition_by: Sequence[str],
    options: Mapping[str, str],
) -> None:
    """Raise if a table could not take rows of the schema; says nothing about other formats.

    Args:
        spark: the session.
        format: name of the format.
        place: name of the table, or None, and its path, or None.
        schema: columns of the output.
        partition_by: columns that the output is laid out by.
        options: those of the write.

    Raises:
        OptionError: the session lacks the format's extension, or the table is laid out in another way.
        PlanError: it has other columns, or cannot have these.
    """
    kind = format.lower()
    if not format_of(kind).overwrites:
        return
    _check_types(kind, schema)
    held = _held(spark, kind, *place)
    label = f"{format} table {place[0] or place[1]}"
    given = {name.lower(): value for name, value in options.items()}
    fold = column_fold(spark)
    if kind == "delta" and {*map(fold, partition_by)} == {*map(fold, schema.fieldNames())}:
        raise OptionError(
            f"partitionBy is {', '.join(partition_by)}, all columns of the output; a Delta table needs another one"
            " beside those that it is laid out by"
        )
    if held is None:
        _check_names(spark, kind, schema, given)
        return
    try:
        _check_layout(label, _partitions(kind, held), partition_by, fold)
        _check_columns(spark, kind, label, held.schema, schema, given, by_name=place[0] is not None)
    except NOT_THERE as error:
        logger.debug("%s cannot be checked before it is written: %s", label, error)


def _held(spark: SparkSession, kind: str, table: str | None, path: str | None) -> DataFrame | None:
    """The table as it is; None: there is none yet."""
    if table is not None and kind == "delta":  # a session without Delta's catalog finds no table by its name
        _held(spark, kind, None, f"{spark.conf.get('spark.sql.warehouse.dir')}/{_NOTHING}")
    try:
        return spark.table(table) if table is not None else spark.read.format(kind).load(path)
    except AnalysisException as error:
        if _NOT_CONFIGURED in str(error):
            raise OptionError(
                f"format {kind} needs a session with its extension and its catalog: spark.sql.extensions ="
                " 'io.delta.sql.DeltaSparkSessionExtension' and spark.sql.catalog.spark_catalog ="
                " 'org.apache.spark.sql.delta.catalog.DeltaCatalog', set before the session is made"
            ) from error
        logger.debug("there is no %s table at %s yet: %s", kind, table or path, spark_says(error))
        return None


def _partitions(kind: str, held: DataFrame) -> tuple[str, ...] | None:
    """The columns by which a table is laid out; None: not known."""
    if kind == "iceberg":
        return iceberg_partitions(held)
    found = delta_reads(held)
    return found[0].partition_by if len(found) == 1 else None


def _check_layout(
    label: str, held: tuple[str, ...] | None, partition_by: Sequence[str], fold: Callable[[str], str]
) -> None:
    """Without partitionBy the table's own layout is used."""
    if not partition_by or held is None or list(map(fold, held)) == list(map(fold, partition_by)):
        return
    there = f"partitioned by {', '.join(held)}" if held else "not partitioned"
    raise OptionError(
        f"partitionBy is {', '.join(partition_by)}, but {label} is {there}; leave partitionBy out, by which the table's"
        " own layout is used, or write to another table",
        code="MIXEDMODE_LAYOUT_DIFFERS",
    )


def _check_columns(
    spark: SparkSession,
    kind: str,
    label: str,
    held: StructType,
    schema: StructType,
    options: Mapping[str, str],
    *,
    by_name: bool,
) -> None:
    fold = column_fold(spark)
    columns = {fold(field.name): field.dataType for field in held.fields}
    merges = options.get(_MERGE, str(spark.conf.get(_ALWAYS_MERGE, "false"))).lower() == "true"
    more = [field.name for field in schema.fields if fold(field.name) not in columns]
    if more and not merges:
        raise PlanError(
            f"{label} has the columns {', '.join(held.fieldNames())}, and not the output's {', '.join(more)}; set"
            " option mergeSchema to true to add them, or write to another table",
            code="MIXEDMODE_OUTPUT_MISFIT",
        )
    casts = by_name or kind == "iceberg"
    for field in schema.fields:
        column = columns.get(fold(field.name))
        if column is None:
            continue
        fits = can_store(spark, field.dataType, column) if casts else _same(field.dataType, column)
        if not fits:
            raise PlanError(
                f"column {field.name} of {label} is of type {column.simpleString()}, the output's of type"
                f" {field.dataType.simpleString()}, and a write does not change it; cast the output's, or write to"
                " another table",
                code="MIXEDMODE_OUTPUT_MISFIT",
            )


def _same(one: DataType, other: DataType) -> bool:
    """True for one type, whatever may be null in it."""
    return one.simpleString().lower() == other.simpleString().lower()


def _check_types(kind: str, schema: StructType) -> None:
    for field in schema.fields:
        wrong = next((part for part in _parts(field.dataType) if isinstance(part, _INTERVALS)), None)
        if wrong is not None:
            raise PlanError(
                f"format {kind} has no place for intervals, and column {field.name} is of type"
                f" {field.dataType.simpleString()}; use a number instead",
                code="MIXEDMODE_OUTPUT_MISFIT",
            )


def _parts(data_type: DataType) -> list[DataType]:
    inside: list[DataType] = []
    if isinstance(data_type, StructType):
        inside = [field.dataType for field in data_type.fields]
    elif isinstance(data_type, ArrayType):
        inside = [data_type.elementType]
    elif isinstance(data_type, MapType):
        inside = [data_type.keyType, data_type.valueType]
    return [data_type, *[part for one in inside for part in _parts(one)]]


def _check_names(spark: SparkSession, kind: str, schema: StructType, options: Mapping[str, str]) -> None:
    option, setting = _MAPPING
    mapping = options.get(option, str(spark.conf.get(setting, "none")))
    wrong = [name for name in schema.fieldNames() if _UNNAMEABLE & set(name)]
    if kind == "delta" and mapping.lower() == "none" and wrong:
        raise PlanError(
            f"a new Delta table cannot have a column called {wrong[0]!r}; give it another name by alias(…), or set"
            " option delta.columnMapping.mode to name",
            code="MIXEDMODE_OUTPUT_MISFIT",
        )
