"""What Spark's file formats (csv, json, orc, text, xml, avro, …) say to a write, asked before there is a row.

Each format takes other types and options, and Spark looks at them when the first rows are written: here after a whole
backlog.  So the very functions that its writer calls first are called when the job is planned; no table of types of our
own, and no Spark job.  They are internals of Spark: where a version lacks one, the question stays open and the write
itself answers it, as it does for formats that are no files (jdbc, a Python data source, delta).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from ....errors import OptionError, PlanError
from ...platform.columns import is_case_sensitive
from ...platform.folder_checks import check_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

#: What stands before a message: the Java class of the error, its name in Spark.
_ERROR_CLASS = re.compile(r"^([\w.$]+(Exception|Error): )?(\[[A-Z0-9_.]+\] )?")
#: What Py4J raises for a class or method that this version of Spark does not have (a package is not callable).
NOT_THERE = (Py4JError, TypeError)
#: What tasks write, whatever the format of the output.
_STAGING_FORMAT = "parquet"
_PACKAGE = "org.apache.spark.sql.execution.datasources"


def file_format(spark: SparkSession, name: str) -> Any:
    """Spark's own object for a file format; None: the format is none, or cannot be found."""
    try:
        found = _new(spark, _datasources(spark).DataSource.lookupDataSource(name, _state(spark).conf()))
        if is_instance_of(_gateway(spark), found, f"{_PACKAGE}.v2.FileDataSourceV2"):
            found = _new(spark, found.fallbackFileFormat())
        return found if is_instance_of(_gateway(spark), found, f"{_PACKAGE}.FileFormat") else None
    except (PySparkException, *NOT_THERE) as error:
        logger.debug("format %s cannot be asked before it is written: %s", name, error)
        return None


def column_fold(spark: SparkSession) -> Callable[[str], str]:
    """What makes two names of columns equal if the session takes them for one."""
    return str if is_case_sensitive(spark) else str.lower


def check_writable(
    spark: SparkSession, name: str, schema: StructType, options: Mapping[str, str], partition_by: Sequence[str]
) -> None:
    """Raise if a file format would refuse rows of this schema; says nothing about other formats.

    Raises:
        PlanError: it has no place for a column's name or type.
        OptionError: it does not take an option's value, or lacks one.
    """
    format = file_format(spark, name)
    if format is None:
        return
    try:
        _check_columns(spark, name, format, schema, partition_by)
        if name == _STAGING_FORMAT:
            _check_groups(spark, schema)
        _check_options(spark, name, format, schema, options, partition_by)
    except NOT_THERE as error:
        logger.debug("format %s cannot be asked before it is written: %s", name, error)


def check_stageable(spark: SparkSession, schema: StructType) -> None:
    """Raise PlanError for columns that cannot wait in Parquet files for their checkpoint, as all output does."""
    check_writable(spark, _STAGING_FORMAT, schema, {}, ())


def check_hadoop_folder(spark: SparkSession, path: str, options: Mapping[str, str]) -> None:
    """Raise OptionError if a folder that Spark is to write to is a file, or is local and cannot be written to.

    Which filesystem a plain path is on is Spark's to say.  One that does not answer now may do so when rows are there.
    """
    jvm: Any = spark._jvm
    try:
        given = jvm.org.apache.hadoop.fs.Path(path)
        filesystem = given.getFileSystem(_hadoop_conf(spark, options))
    except (PySparkException, Py4JError) as error:
        raise OptionError(f"path = {path!r} cannot be reached by Spark: {spark_says(error)}") from error
    if str(filesystem.getUri().getScheme()) == "file":
        check_folder("path", str(filesystem.makeQualified(given).toUri().getPath()))
        return
    try:
        is_file = filesystem.exists(given) and filesystem.getFileStatus(given).isFile()
    except (PySparkException, Py4JError) as error:
        logger.warning("whether %r can be written to cannot be told yet: %s", path, spark_says(error))
        return
    if is_file:
        raise OptionError(f"path = {path!r} is a file; allowed: a folder, or one that can be made")


def _check_columns(
    spark: SparkSession, name: str, format: Any, schema: StructType, partition_by: Sequence[str]
) -> None:
    spark_util = _datasources(spark)
    data = _java_schema(spark, schema, partition_by)
    try:
        if partition_by:
            jvm: Any = spark._jvm
            columns = jvm.PythonUtils.toSeq(list(partition_by))
            whole = _java_schema(spark, schema)
            spark_util.PartitioningUtils.validatePartitionColumn(whole, columns, is_case_sensitive(spark))
        spark_util.DataSourceUtils.checkFieldNames(format, data)
        spark_util.DataSourceUtils.verifySchema(format, data, False)
        spark_util.DataSource.validateSchema(name, _java_schema(spark, schema), _state(spark).conf())
    except PySparkException as error:
        hint = (
            "use other types"
            if name == _STAGING_FORMAT
            else "use a format that can, such as parquet, or foreachBatch, and in it rows.select(…) with columns that"
            " the format takes ('window.start' of a window)"
        )
        raise PlanError(
            f"format {name} cannot hold the output ({_columns(schema)}): {spark_says(error)}; {hint}"
        ) from error


def _check_groups(spark: SparkSession, schema: StructType) -> None:
    """What Parquet itself asks of a schema: Spark leaves that to the first task that writes."""
    jvm: Any = spark._jvm
    try:
        converter = _datasources(spark).parquet.SparkToParquetSchemaConverter(_state(spark).conf())
        jvm.org.apache.parquet.schema.TypeUtil.checkValidWriteSchema(converter.convert(_java_schema(spark, schema)))
    except Py4JJavaError as error:
        if str(error.java_exception.getClass().getSimpleName()) != "InvalidSchemaException":
            raise
        raise PlanError(
            f"format parquet cannot hold the output ({_columns(schema)}): {spark_says(error)}; use other types"
        ) from error


def _check_options(
    spark: SparkSession,
    name: str,
    format: Any,
    schema: StructType,
    options: Mapping[str, str],
    partition_by: Sequence[str],
) -> None:
    """What the format prepares before a write: it reads its options, and text counts its columns."""
    jvm: Any = spark._jvm
    job = jvm.org.apache.hadoop.mapreduce.Job.getInstance(_hadoop_conf(spark, options))
    given = jvm.PythonUtils.toScalaMap(dict(options))
    try:
        format.prepareWrite(spark._jsparkSession, job, given, _java_schema(spark, schema, partition_by))
    except PySparkException as error:
        set_to = f" with its options ({', '.join(options)})" if options else ""  # values may be secrets
        raise OptionError(
            f"format {name} cannot write the output ({_columns(schema)}){set_to}: {spark_says(error)}"
        ) from error


def check_partition_columns(partition_by: Sequence[str], schema: StructType, fold: Callable[[str], str]) -> None:
    """Raise OptionError if the output lacks a column that partitionBy names."""
    columns = {fold(name) for name in schema.fieldNames()}
    missing = [name for name in partition_by if fold(name) not in columns]
    if missing:
        raise OptionError(
            f"partitionBy names {', '.join(missing)}, which the output does not have; its columns are"
            f" {', '.join(schema.fieldNames())}"
        )


def _java_schema(spark: SparkSession, schema: StructType, without: Sequence[str] = ()) -> Any:
    jvm: Any = spark._jvm
    fold = column_fold(spark)
    left_out = {fold(name) for name in without}
    left = StructType([field for field in schema.fields if fold(field.name) not in left_out])
    return jvm.org.apache.spark.sql.types.DataType.fromJson(left.json())


def _columns(schema: StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)


def spark_says(error: Exception) -> str:
    """What Spark says, without the Java stack, the error's class and its state."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    cause = next((line.partition(": ")[2] for line in lines if line.startswith(": ")), lines[0] if lines else "")
    text = _ERROR_CLASS.sub("", cause.split(" SQLSTATE:", 1)[0].split(" Please ", 1)[0])
    return text.strip().rstrip(".") or type(error).__name__


def _new(spark: SparkSession, java_class: Any) -> Any:
    jvm: Any = spark._jvm
    nothing = _gateway(spark).new_array(jvm.java.lang.Object, 0)
    return java_class.getConstructor(_gateway(spark).new_array(jvm.java.lang.Class, 0)).newInstance(nothing)


def _gateway(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway


def _hadoop_conf(spark: SparkSession, options: Mapping[str, str]) -> Any:
    """As the write will have it: its options may hold what a filesystem needs."""
    jvm: Any = spark._jvm
    return _state(spark).newHadoopConfWithOptions(jvm.PythonUtils.toScalaMap(dict(options)))


def _state(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState()


def _datasources(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.execution.datasources
