"""Names of tables and views, and what a table's columns can hold, by the rules of Spark's parser and catalogs."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

from ..catalyst.spark_expressions import items
from ..jvm.gateway import java_class, java_type, session_state


def is_view_name(spark: SparkSession, name: str) -> bool:
    """True if a temporary view can have that name: one part, without catalog and schema."""
    try:
        return len(name_parts(spark, name)) == 1
    except PySparkException:
        return False


def name_parts(spark: SparkSession, table: str) -> list[str]:
    """Catalog, schema and table, as far as the name says them.

    Raises:
        ParseException: that is no name of a table.
    """
    return [str(part) for part in items(session_state(spark).sqlParser().parseMultipartIdentifier(table))]


def has_catalog(spark: SparkSession, name: str) -> bool:
    """True if the session has a catalog of that name."""
    return bool(session_state(spark).catalogManager().isCatalogRegistered(name))


def check_name(spark: SparkSession, table: str) -> None:
    """Raise AnalysisException unless a table of Spark's own catalog can have that name, given without its schema."""
    session_state(spark).catalog().validateName(table)


def can_store(spark: SparkSession, given: DataType, column: DataType) -> bool:
    """True if values of one type go into a column of another by the ANSI rules of store assignment.

    Args:
        spark: the session.
        given: type of the values.
        column: type of the table's column.
    """
    cast = java_class(spark, "org.apache.spark.sql.catalyst.expressions.Cast")
    return bool(cast.canANSIStoreAssign(java_type(spark, given), java_type(spark, column)))
