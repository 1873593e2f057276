"""Whether rows can be appended to a table of the catalog, asked before there is a row.

Spark compares a table with what is appended to it when it is appended: here after a whole backlog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from ...errors import OptionError, PlanError
from .file_formats import NOT_THERE, file_format, spark_says

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


def table_format(spark: SparkSession, table: str) -> str | None:
    """The format of a table; None: it does not exist yet, or has none.

    Raises:
        OptionError: that is no name of a table.
    """
    try:
        if not spark.catalog.tableExists(table):
            return None
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Provider'").collect()
    except PySparkException as error:
        raise _unusable(table, error) from error
    return str(rows[0].data_type) if rows else None


def check_table(spark: SparkSession, table: str, format: str, schema: StructType) -> None:
    """Raise if a table could not take rows of the schema, or cannot be made.

    Raises:
        OptionError: it is a view, of another format, or in no schema that exists.
        PlanError: it has other columns.
    """
    stored = table_format(spark, table)
    try:
        if spark.catalog.tableExists(table):
            _check_existing(spark, table, stored, format, schema)
        else:
            _check_namespace(spark, table)
    except PySparkException as error:
        raise _unusable(table, error) from error


def _unusable(table: str, error: PySparkException) -> OptionError:
    return OptionError(
        f"toTable({table!r}): {spark_says(error)}; allowed: the name of a table that exists or can be made, such as"
        " 'totals' or 'shop.totals'"
    )


def _check_namespace(spark: SparkSession, table: str) -> None:
    session: Any = spark._jsparkSession
    parts = session.sessionState().sqlParser().parseMultipartIdentifier(table)
    namespace = ".".join(str(parts.apply(place)) for place in range(parts.size() - 1))
    if namespace and not spark.catalog.databaseExists(namespace):
        raise OptionError(f"toTable({table!r}): there is no schema {namespace}; create it, or give another table")


def _check_existing(spark: SparkSession, table: str, stored: str | None, format: str, schema: StructType) -> None:
    if str(spark.catalog.getTable(table).tableType) == "VIEW":
        raise OptionError(f"toTable({table!r}): it is a view; give the name of a table, or of one that can be made")
    held = None if stored is None else file_format(spark, stored)
    if held is None:
        return  # a temporary view, beside which a table can be made, or a format with rules of its own
    given = file_format(spark, format)
    if given is not None and _class(given) != _class(held):
        raise OptionError(f"format is {format}, but table {table} is of format {stored}; leave the format out")
    sensitive = str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    fold: Callable[[str], str] = str if sensitive else str.lower
    columns = spark.table(table).schema
    if sorted(map(fold, columns.fieldNames())) != sorted(map(fold, schema.fieldNames())):
        raise PlanError(
            f"table {table} has the columns {', '.join(columns.fieldNames())}, the output has"
            f" {', '.join(schema.fieldNames())}; both must have the same: append to another table"
        )
    _check_types(spark, table, columns, schema, fold)


def _check_types(
    spark: SparkSession, table: str, columns: StructType, schema: StructType, fold: Callable[[str], str]
) -> None:
    """Raise PlanError for a column that Spark would not store in the table's column of that name."""
    if str(spark.conf.get("spark.sql.storeAssignmentPolicy", "ANSI")).upper() != "ANSI":
        return  # of the others one takes everything, one hardly anything
    jvm: Any = spark._jvm
    outputs = {fold(field.name): field for field in schema.fields}
    for column in columns.fields:
        field = outputs[fold(column.name)]
        try:
            java_type = jvm.org.apache.spark.sql.types.DataType.fromJson
            fits = jvm.org.apache.spark.sql.catalyst.expressions.Cast.canANSIStoreAssign(
                java_type(field.dataType.json()), java_type(column.dataType.json())
            )
        except NOT_THERE as error:
            logger.debug("types of table %s cannot be compared before it is written: %s", table, error)
            return
        if not fits:
            raise PlanError(
                f"column {column.name} of table {table} is of type {column.dataType.simpleString()}, which cannot hold"
                f" the output's {field.name}, {field.dataType.simpleString()}; append to another table"
            )


def _class(format: Any) -> str:
    return str(format.getClass().getName())
