"""Spark's data sources and file formats, asked what its own writer asks them before the first row.

These are internals of Spark: where a version lacks one, the question raises one of :data:`..jvm.spark_errors.NOT_THERE`
and stays open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from ..catalyst.columns import column_fold, is_case_sensitive
from ..catalyst.spark_expressions import class_name
from ..jvm.gateway import (
    is_instance,
    java_class,
    java_session,
    java_type,
    new,
    scala_map,
    scala_sequence,
    session_state,
)
from ..jvm.spark_errors import spark_says
from ..storage.spark_paths import hadoop_conf

_PACKAGE = "org.apache.spark.sql.execution.datasources"
_PYTHON_SOURCE = f"{_PACKAGE}.v2.python.PythonDataSourceV2"
#: Classes and interfaces of what batch jobs can write.
_WRITABLE = (
    "org.apache.spark.sql.sources.CreatableRelationProvider",
    f"{_PACKAGE}.FileFormat",
    f"{_PACKAGE}.v2.FileDataSourceV2",
    f"{_PACKAGE}.noop.NoopDataSource",
    _PYTHON_SOURCE,
)


class UnwritableSchema(Exception):
    """What a format's own library says of a schema that it cannot write."""


class UnwritableOptions(Exception):
    """What a source's own reading of its options says."""


class FileFormat:
    """One of Spark's formats of files.

    Args:
        spark: the session.
        name: the name under which it was asked for.
        found: Spark's own object.
    """

    def __init__(self, spark: SparkSession, name: str, found: Any) -> None:
        self.name = name
        self._spark = spark
        self._found = found

    def is_the_same_as(self, other: FileFormat) -> bool:
        """True for two names of one format."""
        return str(self._found.getClass().getName()) == str(other._found.getClass().getName())

    def check_columns(self, schema: StructType, partition_by: Sequence[str]) -> None:
        """Raise PySparkException if it has no place for a column's name or type, or rows cannot be partitioned so."""
        spark = self._spark
        data, utils = self._data(schema, partition_by), java_class(spark, f"{_PACKAGE}.DataSourceUtils")
        whole = java_type(spark, schema)
        if partition_by:
            partitioning = java_class(spark, f"{_PACKAGE}.PartitioningUtils")
            columns = scala_sequence(spark, partition_by)
            partitioning.validatePartitionColumn(whole, columns, is_case_sensitive(spark))
        utils.checkFieldNames(self._found, data)
        utils.verifySchema(self._found, data, False)
        source = java_class(spark, f"{_PACKAGE}.DataSource")
        source.validateSchema(self.name, whole, session_state(spark).conf())

    def check_options(self, schema: StructType, options: Mapping[str, str], partition_by: Sequence[str]) -> None:
        """Have it prepare a write, as it reads its options then.

        Args:
            schema: columns of the output.
            options: those of the write.
            partition_by: columns that are in the names of folders.

        Raises:
            PySparkException: it does not take them.
        """
        spark = self._spark
        job = java_class(spark, "org.apache.hadoop.mapreduce.Job").getInstance(hadoop_conf(spark, options))
        data = self._data(schema, partition_by)
        self._found.prepareWrite(java_session(spark), job, scala_map(spark, options), data)

    def _data(self, schema: StructType, partition_by: Sequence[str]) -> Any:
        """The columns that are in the files, and not in the names of folders."""
        fold = column_fold(self._spark)
        left_out = {fold(name) for name in partition_by}
        left = StructType([field for field in schema.fields if fold(field.name) not in left_out])
        return java_type(self._spark, left)


def file_format(spark: SparkSession, name: str) -> FileFormat | None:
    """The format of that name; None: it is none of files.

    Raises:
        PySparkException: there is no data source of that name.
    """
    found = new(spark, data_source(spark, name))
    if is_instance(spark, found, f"{_PACKAGE}.v2.FileDataSourceV2"):
        found = new(spark, found.fallbackFileFormat())
    return FileFormat(spark, name, found) if is_instance(spark, found, f"{_PACKAGE}.FileFormat") else None


def data_source(spark: SparkSession, name: str) -> Any:
    """The class of a data source, of whatever kind.

    Raises:
        PySparkException: there is none of that name.
    """
    source = java_class(spark, f"{_PACKAGE}.DataSource")
    return source.lookupDataSource(name, session_state(spark).conf())


def is_only_read(spark: SparkSession, name: str) -> bool:
    """True if Spark can read a data source of that name, and not write one: ``rate``, ``socket``, ``statestore``.

    Whether a source of others can be written is asked of its table, which takes the options of a write.

    Raises:
        PySparkException: there is none of that name.
    """
    kind = data_source(spark, name)
    found = new(spark, kind)
    if any(is_instance(spark, found, one) for one in _WRITABLE):
        return False
    of_sparks_own = str(kind.getName()).startswith("org.apache.spark.sql.execution.")
    return of_sparks_own or not is_instance(spark, found, "org.apache.spark.sql.connector.catalog.TableProvider")


def python_data_source(spark: SparkSession, name: str) -> type[Any] | None:
    """The class of a data source that is written in Python; None: it is written in another language.

    Raises:
        PySparkException: there is no data source of that name.
        Exception: whatever a class that cannot be loaded here raises.
    """
    if not is_instance(spark, new(spark, data_source(spark, name)), _PYTHON_SOURCE):
        return None
    found = session_state(spark).dataSourceManager().lookupDataSource(name)
    kind: type[Any] = cloudpickle.loads(bytes(found.dataSourceCls().command().unsafeArray()))
    return kind


def check_jdbc_options(spark: SparkSession, name: str, options: Mapping[str, str]) -> None:
    """Have Spark read the options of a write, if that is the name of jdbc.

    Args:
        spark: the session.
        name: name of a data source.
        options: those of the write.

    Raises:
        UnwritableOptions: one is missing, or there is no driver.
    """
    if str(data_source(spark, name).getName()) != f"{_PACKAGE}.jdbc.JdbcRelationProvider":
        return
    try:
        java_class(spark, f"{_PACKAGE}.jdbc.JdbcOptionsInWrite")(scala_map(spark, options))
    except (PySparkException, Py4JJavaError) as error:
        raise UnwritableOptions(spark_says(error)) from error


def check_parquet_schema(spark: SparkSession, schema: StructType) -> None:
    """What Parquet itself asks of a schema: Spark leaves that to the first task that writes.

    Raises:
        UnwritableSchema: a group of it has no columns.
    """
    try:
        converter = java_class(spark, f"{_PACKAGE}.parquet.SparkToParquetSchemaConverter")(session_state(spark).conf())
        converted = converter.convert(java_type(spark, schema))
        java_class(spark, "org.apache.parquet.schema.TypeUtil").checkValidWriteSchema(converted)
    except Py4JJavaError as error:
        if class_name(error.java_exception) != "InvalidSchemaException":
            raise
        raise UnwritableSchema(str(error)) from error


def parquet_holds(spark: SparkSession, data_type: DataType) -> bool:
    """True if a column of that type can be in a Parquet file."""
    parquet = java_class(spark, f"{_PACKAGE}.parquet.ParquetFileFormat")()
    return bool(parquet.supportDataType(java_type(spark, data_type)))
