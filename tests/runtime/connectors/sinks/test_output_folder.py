"""Output that readers of its folder would not see is refused before there is any."""

from __future__ import annotations

from pathlib import Path

import mixedmode
import pytest
from mixedmode.errors import OptionError
from mixedmode.runtime.connectors.sinks.output_folder import OutputFolder
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from session_options import session_options

_BOTH = "readers would see one of the two only"


def check(spark: SparkSession, folder: Path, *partition_by: str) -> None:
    OutputFolder(spark, "path", str(folder), str(folder)).check_shown(partition_by, str.lower)


@pytest.mark.parametrize(
    ("there", "partition_by", "problem"),
    [
        (["x.parquet"], (), None),
        (["x.parquet", "sub/y.parquet", "_mixedmode/j/z.parquet", "_delta_log/k=1/z"], (), None),
        (
            ["x.parquet"],
            ("k",),
            rf"partitionBy is k, but .* is not laid out in folders.*{_BOTH}.*leave partitionBy out",
        ),
        (["K=1/x.parquet"], ("k",), None),
        (["k=1/x.parquet"], (), rf"partitionBy is not set, .* laid out by k, .*{_BOTH}.*use \.partitionBy\('k'\)"),
        (["k=1/x.parquet"], ("j",), r"partitionBy is j, but what path = '.*' holds is laid out by k"),
        (["k=1/x.parquet"], ("k", "j"), r"partitionBy is k, j, .* laid out by k,"),
        (["k=1/j=2/x.parquet"], ("k",), r"partitionBy is k, .* laid out by k, j, "),
        (["k=1/j=2/x.parquet"], ("k", "j"), None),
        (["_k=1/x.parquet"], ("_k",), None),
        (["a%3Ab=1/x.parquet"], ("a:b",), None),
        (["k=1/_SUCCESS", "_SUCCESS", ".x.crc"], ("j",), None),
        ([], ("j",), None),
        (["_spark_metadata/0", "x.parquet"], (), r"path = '.*' is the output of a stock streaming query"),
        (["sub/_spark_metadata/0", "x.parquet"], (), None),
    ],
)
def test_what_is_there_decides(
    spark: SparkSession, tmp_path: Path, there: list[str], partition_by: tuple[str, ...], problem: str | None
) -> None:
    """Files of one layout only, none that belong to a stock query; what readers skip does not count."""
    for name in there:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    if problem is None:
        check(spark, tmp_path, *partition_by)
        return
    with pytest.raises(OptionError, match=problem):
        check(spark, tmp_path, *partition_by)


def test_a_log_that_the_session_ignores(spark: SparkSession, tmp_path: Path) -> None:
    """With Spark's setting for that, its readers see every file."""
    (tmp_path / "_spark_metadata").mkdir()
    with session_options(spark, {"spark.sql.streaming.fileStreamSink.ignoreMetadata": "true"}):
        check(spark, tmp_path)


def test_start_asks(spark: SparkSession, tmp_path: Path) -> None:
    """Of the output, whoever writes it, and of late rows; stock Spark does not see such rows."""
    rows = spark.sql("select 'a' as k, 1 as n")
    stock, plain, out = (tmp_path / name for name in ("stock", "plain", "out"))
    (stock / "_spark_metadata").mkdir(parents=True)
    (stock / "_spark_metadata" / "0").write_text("v1")
    rows.write.mode("append").parquet(str(stock))
    assert spark.read.schema(rows.schema).parquet(str(stock)).count() == 0
    rows.write.parquet(str(plain))

    writer = mixedmode.read(history=rows).groupBy("k").agg(F.sum("n").alias("n")).writeStream
    writer.option("checkpointLocation", str(tmp_path / "ck"))
    for format in ("parquet", "json"):
        with pytest.raises(OptionError, match=rf"^path = '{stock}' is the output of a stock streaming query"):
            writer.format(format).start(str(stock))
        with pytest.raises(OptionError, match=rf"^partitionBy is k, but what path = '{plain}' holds is not laid out"):
            writer.partitionBy("k").start(str(plain))
        writer.partitionBy([])
    with pytest.raises(OptionError, match=rf"^pipeline\.late-data\.path = '{stock}' is the output of a stock"):
        writer.option("pipeline.late-data.path", str(stock)).start(str(out))
    assert not (tmp_path / "ck").exists() and not out.exists()
