"""Checks at ``start()`` that rows can be appended to a table of the catalog.

Spark compares a table with what is appended to it when it is appended: here after a whole backlog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ....errors import OptionError, PlanError
from ...catalyst.columns import column_fold
from ...jvm.spark_errors import NOT_THERE, spark_says
from ...spark_io.spark_tables import can_store, check_name, has_catalog, name_parts
from .file_formats import file_format
from .formats import format_of

logger = logging.getLogger(__name__)

#: Spark's own catalog, which has rules for names of tables.
_SESSION_CATALOG = "spark_catalog"


def table_format(spark: SparkSession, table: str) -> str | None:
    """The format of a table; None: it does not exist yet, or has none.

    Raises:
        OptionError: that is no name of a table.
    """
    return _details(spark, table).get("Provider")


def table_folder(spark: SparkSession, table: str) -> str | None:
    """Where a table keeps files to which rows are added; None: it does not exist yet, or is of another kind.

    Raises:
        OptionError: that is no name of a table.
    """
    details = _details(spark, table)
    return details.get("Location") if format_of(details.get("Provider", "")).is_files else None


def _details(spark: SparkSession, table: str) -> dict[str, str]:
    """What Spark says of a table; nothing of one that does not exist."""
    try:
        if not spark.catalog.tableExists(table):
            return {}
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    except PySparkException as error:
        raise _unusable(table, error) from error
    # Columns come first, and they may have any name; only a heading has no type.
    headings = [
        at for at, row in enumerate(rows) if row.col_name == "# Detailed Table Information" and not row.data_type
    ]
    return {str(row.col_name): str(row.data_type) for row in (rows[headings[-1] :] if headings else [])}


def check_table(
    spark: SparkSession, table: str, format: str, schema: StructType, partition_by: Sequence[str] = ()
) -> None:
    """Raise if a table could not take rows of the schema, or cannot be made.

    Raises:
        OptionError: it is a view, of another format, laid out in another way, or in no schema that exists, or it cannot
            have that name.
        PlanError: it has other columns.
    """
    stored = table_format(spark, table)
    try:
        if spark.catalog.tableExists(table):
            _check_existing(spark, table, stored, format, schema, partition_by)
        else:
            _check_new(spark, table)
    except PySparkException as error:
        raise _unusable(table, error) from error


def _unusable(table: str, error: PySparkException) -> OptionError:
    return OptionError(
        f"toTable({table!r}): {spark_says(error)}; allowed: the name of a table that exists or can be made, such as"
        " 'totals' or 'shop.totals'"
    )


def _check_new(spark: SparkSession, table: str) -> None:
    *above, name = name_parts(spark, table)
    namespace = ".".join(above)
    if namespace and not spark.catalog.databaseExists(namespace):
        raise OptionError(f"toTable({table!r}): there is no schema {namespace}; create it, or give another table")
    try:
        catalog = above[0] if above and has_catalog(spark, above[0]) else spark.catalog.currentCatalog()
        if catalog.lower() == _SESSION_CATALOG:
            check_name(spark, name)
    except NOT_THERE as error:
        logger.debug("the name of table %s cannot be checked before the table exists: %s", table, error)


def _check_existing(
    spark: SparkSession, table: str, stored: str | None, format: str, schema: StructType, partition_by: Sequence[str]
) -> None:
    if str(spark.catalog.getTable(table).tableType) == "VIEW":
        raise OptionError(f"toTable({table!r}): it is a view; give the name of a table, or of one that can be made")
    kinds = {format.lower(), "" if stored is None else stored.lower()}
    if stored is not None and len(kinds) > 1 and any(format_of(kind).overwrites for kind in kinds):
        raise OptionError(
            f"format is {format}, but table {table} is of format {stored}; leave the format out",
            code="MIXEDMODE_LAYOUT_DIFFERS",
        )
    held = None if stored is None else file_format(spark, stored)
    if held is None:
        return  # a temporary view, beside which a table can be made, or a format with rules of its own
    given = file_format(spark, format)
    if given is not None and not given.is_the_same_as(held):
        raise OptionError(
            f"format is {format}, but table {table} is of format {stored}; leave the format out",
            code="MIXEDMODE_LAYOUT_DIFFERS",
        )
    fold = column_fold(spark)
    columns = spark.table(table).schema
    if sorted(map(fold, columns.fieldNames())) != sorted(map(fold, schema.fieldNames())):
        raise PlanError(
            f"table {table} has the columns {', '.join(columns.fieldNames())}, the output has"
            f" {', '.join(schema.fieldNames())}; both must have the same: append to another table",
            code="MIXEDMODE_OUTPUT_MISFIT",
        )
    _check_types(spark, table, columns, schema, fold)
    _check_layout(spark, table, partition_by, fold)


def _check_layout(spark: SparkSession, table: str, partition_by: Sequence[str], fold: Callable[[str], str]) -> None:
    """Raise OptionError if the table has other partitions or has buckets: Spark takes an append laid out alike only."""
    columns = spark.catalog.listColumns(table)
    buckets = [column.name for column in columns if column.isBucket]
    if buckets:
        raise OptionError(
            f"table {table} is bucketed by {', '.join(buckets)}, and Spark does not append to it without bucketBy,"
            " which a stream does not have; append to another table, or use insertInto in foreachBatch"
        )
    partitions = [column.name for column in columns if column.isPartition]
    if list(map(fold, partitions)) != list(map(fold, partition_by)):
        asked = f"partitionBy is {', '.join(partition_by)}" if partition_by else "partitionBy is not set"
        held = f"partitioned by {', '.join(partitions)}" if partitions else "not partitioned"
        use = f"use .partitionBy({', '.join(map(repr, partitions))})" if partitions else "leave partitionBy out"
        raise OptionError(
            f"{asked}, but table {table} is {held}; {use}, or append to another table", code="MIXEDMODE_LAYOUT_DIFFERS"
        )


def _check_types(
    spark: SparkSession, table: str, columns: StructType, schema: StructType, fold: Callable[[str], str]
) -> None:
    """Raise PlanError for a column that Spark would not store in the table's column of that name."""
    if str(spark.conf.get("spark.sql.storeAssignmentPolicy", "ANSI")).upper() != "ANSI":
        return  # of the others one takes everything, one hardly anything
    outputs = {fold(field.name): field for field in schema.fields}
    for column in columns.fields:
        field = outputs[fold(column.name)]
        try:
            fits = can_store(spark, field.dataType, column.dataType)
        except NOT_THERE as error:
            logger.debug("types of table %s cannot be compared before it is written: %s", table, error)
            return
        if not fits:
            raise PlanError(
                f"column {column.name} of table {table} is of type {column.dataType.simpleString()}, which cannot hold"
                f" the output's {field.name}, {field.dataType.simpleString()}; append to another table",
                code="MIXEDMODE_OUTPUT_MISFIT",
            )
