"""Asks Spark's file formats (csv, json, orc, text, xml, avro, …) whether they take a write, before any row.

Each format takes other types and options, and Spark looks at them when the first rows are written: here after a whole
backlog.  So the very functions that its writer calls first are called when the job is planned; no table of types of our
own, and no Spark job.  They are internals of Spark: where a version lacks one, the question stays open and the write
itself answers it, as it does for formats that are no files (jdbc, a Python data source, delta).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ....errors import OptionError, PlanError
from ...catalyst.columns import columns_ddl
from ...jvm.spark_errors import NOT_THERE, spark_says
from ...spark_io import spark_formats
from ...spark_io.spark_formats import FileFormat, UnwritableOptions, UnwritableSchema, check_parquet_schema
from ...storage.folder_checks import check_folder
from ...storage.spark_paths import UNREACHABLE, HadoopPlace

logger = logging.getLogger(__name__)

#: What tasks write, whatever the format of the output.
_STAGING_FORMAT = "parquet"


def file_format(spark: SparkSession, name: str) -> FileFormat | None:
    """Spark's own format of files of that name; None: it is none of files, or cannot be found."""
    try:
        return spark_formats.file_format(spark, name)
    except (PySparkException, *NOT_THERE) as error:
        logger.debug("format %s cannot be checked before it is written: %s", name, error)
        return None


def check_rows_writable(
    spark: SparkSession, name: str, schema: StructType, options: Mapping[str, str], partition_by: Sequence[str]
) -> None:
    """Raise if a file format would refuse rows of this schema; says nothing about other formats.

    Args:
        spark: the session.
        name: the format's.
        schema: columns of the output.
        options: those of the write.
        partition_by: columns that the output is laid out by.

    Raises:
        PlanError: it has no place for a column's name or type.
        OptionError: it does not take an option's value, or lacks one.
    """
    format = file_format(spark, name)
    if format is None:
        return
    try:
        _check_columns(format, schema, partition_by)
        if name == _STAGING_FORMAT:
            _check_groups(spark, schema)
        _check_options(format, schema, options, partition_by)
    except NOT_THERE as error:
        logger.debug("format %s cannot be checked before it is written: %s", name, error)


def check_jdbc(spark: SparkSession, name: str, options: Mapping[str, str]) -> None:
    """Raise OptionError if the format is jdbc and its options do not say where to; Spark's own class reads them."""
    try:
        spark_formats.check_jdbc_options(spark, name, options)
    except UnwritableOptions as error:
        names = ", ".join(options) or "none"  # values may be secrets
        raise OptionError(
            f"format {name} cannot write with its options ({names}): {error}; it needs url and dbtable, and a driver"
            " for that url on Spark's class path"
        ) from error
    except NOT_THERE as error:
        logger.debug("the options of format %s cannot be checked before it is written: %s", name, error)


def check_stageable(spark: SparkSession, schema: StructType) -> None:
    """Raise PlanError for columns that cannot wait in Parquet files for their checkpoint, as all output does."""
    check_rows_writable(spark, _STAGING_FORMAT, schema, {}, ())


def check_hadoop_folder(spark: SparkSession, path: str, options: Mapping[str, str]) -> None:
    """Raise OptionError if a folder that Spark is to write to is a file, or is local and cannot be written to.

    Which filesystem a plain path is on is Spark's to say.  One that does not answer now may do so when rows are there.
    """
    try:
        place = HadoopPlace(spark, path, options)
    except UNREACHABLE as error:
        raise OptionError(
            f"path = {path!r} cannot be reached by Spark: {spark_says(error)}", code="MIXEDMODE_LOCATION_UNUSABLE"
        ) from error
    local = place.local_path()
    if local is not None:
        check_folder("path", local)
        return
    try:
        is_file = place.is_file()
    except UNREACHABLE as error:
        logger.warning("it is unknown whether %r can be written: %s", path, spark_says(error))
        return
    if is_file:
        raise OptionError(
            f"path = {path!r} is a file; allowed: a folder, or one that can be made", code="MIXEDMODE_LOCATION_UNUSABLE"
        )


def _check_columns(format: FileFormat, schema: StructType, partition_by: Sequence[str]) -> None:
    try:
        format.check_columns(schema, partition_by)
    except PySparkException as error:
        hint = (
            "use other types"
            if format.name == _STAGING_FORMAT
            else "use a format that can, such as parquet, or foreachBatch, and in it rows.select(…) with columns that"
            " the format takes ('window.start' of a window)"
        )
        raise PlanError(
            f"format {format.name} cannot hold the output ({columns_ddl(schema.fields)}): {spark_says(error)}; {hint}",
            code="MIXEDMODE_OUTPUT_MISFIT",
        ) from error


def _check_groups(spark: SparkSession, schema: StructType) -> None:
    try:
        check_parquet_schema(spark, schema)
    except UnwritableSchema as error:
        raise PlanError(
            f"format parquet cannot hold the output ({columns_ddl(schema.fields)}): {spark_says(error)};"
            " use other types",
            code="MIXEDMODE_OUTPUT_MISFIT",
        ) from error


def _check_options(
    format: FileFormat, schema: StructType, options: Mapping[str, str], partition_by: Sequence[str]
) -> None:
    """What the format prepares before a write: it reads its options, and text counts its columns."""
    try:
        format.check_options(schema, options, partition_by)
    except PySparkException as error:
        set_to = f" with its options ({', '.join(options)})" if options else ""  # values may be secrets
        raise OptionError(
            f"format {format.name} cannot write the output ({columns_ddl(schema.fields)}){set_to}: {spark_says(error)}"
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
