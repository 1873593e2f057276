"""File formats of Spark are asked before a job runs, and say what they would say to its first rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixedmode.errors import OptionError, PlanError
from mixedmode.runtime.connectors.sinks.file_formats import check_hadoop_folder, check_rows_writable, file_format
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

WINDOWED = "k string, window struct<start: timestamp, end: timestamp>, n long"


def refusal(
    spark: SparkSession, format: str, schema: StructType, options: dict[str, str], partition_by: list[str]
) -> Exception | None:
    """Why the format is refused; None: it is not."""
    try:
        check_rows_writable(spark, format, schema, options, partition_by)
    except (PlanError, OptionError) as error:
        return error
    return None


def spark_refuses(
    spark: SparkSession, folder: Path, format: str, schema: StructType, options: dict[str, str], partition_by: list[str]
) -> bool:
    """Whether Spark refuses to write no rows at all of the schema."""
    writer = spark.createDataFrame([], schema).write.format(format).options(**options)
    try:
        (writer.partitionBy(*partition_by) if partition_by else writer).save(str(folder / "written"))
    except (PySparkException, Py4JJavaError):  # planned, or run
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "ddl", "options", "partition_by"),
    [
        ("csv", WINDOWED, {}, []),
        ("csv", "k string, n long, day date", {"compression": "gzip"}, []),
        ("csv", "k string, tags map<string, int>", {}, ["k"]),
        ("csv", "k string, n long", {"compression": "shredder"}, []),
        ("csv", "k string, n long", {}, ["k"]),
        ("csv", "k string, n long", {}, ["k", "n"]),
        ("csv", "k string, n long", {}, ["K"]),
        ("csv", "k string, n long", {}, ["k", "K"]),
        ("text", "k string, n long", {}, ["N"]),
        ("json", "k string, x struct<>", {}, []),
        ("json", "k string, x struct<y: struct<>>", {}, []),
        ("json", "k string, x array<struct<>>", {}, []),
        ("orc", "k string, x struct<>", {}, []),
        ("parquet", "k string, x struct<>", {}, []),
        ("parquet", "k string, x array<struct<>>", {}, []),
        ("parquet", "k string, x map<string, struct<y: int>>", {}, []),
        ("json", WINDOWED, {}, []),
        ("json", WINDOWED, {}, ["window"]),
        ("orc", "k string, v variant", {}, []),
        ("orc", WINDOWED, {}, []),
        ("text", "k string", {}, []),
        ("text", "k string, n long", {}, []),
        ("text", "k string, n long", {}, ["n"]),
        ("text", "k string, b string", {}, []),
        ("xml", "k string, n long", {}, []),
        ("xml", WINDOWED, {"rowTag": "row"}, []),
    ],
)
def test_it_says_what_spark_would_say(
    spark: SparkSession, tmp_path: Path, format: str, ddl: str, options: dict[str, str], partition_by: list[str]
) -> None:
    """A schema with options and partitions is refused if and only if Spark itself would not write it."""
    schema = StructType.fromDDL(ddl)
    refused = refusal(spark, format, schema, options, partition_by)
    assert (refused is not None) == spark_refuses(spark, tmp_path, format, schema, options, partition_by), refused


def test_the_error_names_format_column_and_type(spark: SparkSession) -> None:
    """And what to do instead."""
    with pytest.raises(PlanError) as caught:
        check_rows_writable(spark, "csv", StructType.fromDDL(WINDOWED), {}, [])
    for part in ("format csv", "`window`", "STRUCT<start: TIMESTAMP", "parquet", "foreachBatch", "'window.start'"):
        assert part in str(caught.value)
    assert "SQLSTATE" not in str(caught.value)


def test_a_bad_option_is_an_option_error(spark: SparkSession) -> None:
    """The option that is wrong is in Spark's message, the values of the others are not repeated."""
    with pytest.raises(OptionError, match=r"format csv cannot write .* \(compression, key\): .*shredder") as caught:
        check_rows_writable(
            spark, "csv", StructType.fromDDL("k string"), {"compression": "shredder", "key": "hush"}, []
        )
    assert "hush" not in str(caught.value)


def test_a_name_that_a_format_cannot_store(spark: SparkSession, tmp_path: Path) -> None:
    """Names of columns are checked like types."""
    for number, name in enumerate(["a,b c;{}", ""]):
        schema = StructType([StructField(name, StringType())])
        refused = refusal(spark, "orc", schema, {}, [])
        assert (refused is not None) == spark_refuses(spark, tmp_path / str(number), "orc", schema, {}, [])


@pytest.mark.parametrize("format", ["jdbc", "noop", "no-such-format"])
def test_other_formats_are_not_asked(spark: SparkSession, format: str) -> None:
    """What is no file format answers when it is written."""
    assert file_format(spark, format) is None
    check_rows_writable(spark, format, StructType.fromDDL(WINDOWED), {}, [])


def test_a_version_of_spark_that_cannot_be_asked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Spark lacks what is called, nothing is refused: the write itself says it."""
    from mixedmode.runtime.connectors.sinks import file_formats
    from mixedmode.runtime.spark_io import spark_formats

    csv = file_format(spark, "csv")
    monkeypatch.setattr(spark_formats, "_PACKAGE", "org.apache.spark.sql.execution.elsewhere")
    assert file_format(spark, "csv") is None
    monkeypatch.setattr(file_formats, "file_format", lambda spark, name: csv)
    check_rows_writable(spark, "csv", StructType.fromDDL(WINDOWED), {}, [])


def test_a_file_in_place_of_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    """It is found through Spark's own filesystems, whether the path is plain or a URI."""
    (tmp_path / "file").touch()
    for path in (str(tmp_path / "file"), f"file://{tmp_path}/file", f"{tmp_path}/file/below"):
        with pytest.raises(OptionError, match=r"path = .* file"):
            check_hadoop_folder(spark, path, {})
    check_hadoop_folder(spark, str(tmp_path / "new" / "folder"), {})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_filesystem_that_spark_does_not_have(spark: SparkSession) -> None:
    """Its scheme is named."""
    with pytest.raises(OptionError, match=r"path = 'nowhere://out' cannot be reached by Spark: .*nowhere"):
        check_hadoop_folder(spark, "nowhere://out", {})


def test_a_filesystem_gets_the_options_of_the_write(spark: SparkSession) -> None:
    """What it needs may be in them, such as its class here."""
    options = {"fs.nowhere.impl": "org.apache.hadoop.fs.Missing"}
    with pytest.raises(OptionError, match=r"cannot be reached by Spark: .*Class org\.apache\.hadoop\.fs\.Missing"):
        check_hadoop_folder(spark, "nowhere://out", options)
