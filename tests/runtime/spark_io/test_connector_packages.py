"""A session without the package of a format is told which one to add, for its own version of Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import mixedmode
import pytest
from mixedmode import delta, iceberg, kafka
from mixedmode.errors import OptionError, SetupError
from mixedmode.planner.cli.inspect import local_session
from mixedmode.runtime.spark_io import connector_packages
from mixedmode.runtime.spark_io.connector_packages import package_hint
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("format", "version", "parts"),
    [
        ("kafka", "4.3.0", ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0'"]),
        ("delta", "4.1.0", ["'io.delta:delta-spark_4.1_2.13:4.4.0', spark.sql.extensions = "]),
        ("Delta", "4.3.0", ["'io.delta:delta-spark_4.3_2.13:<version>'", "use pyspark 4.1 with 'io.delta:"]),
        ("iceberg", "4.1.1", ["'org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0'", "SparkCatalog"]),
    ],
)
def test_the_package_goes_with_the_version(format: str, version: str, parts: list[str]) -> None:
    """The coordinates have Spark's version; where none was tried, the hint says with which Spark one was."""
    hint = package_hint(format, version)
    assert hint is not None
    assert all(part in hint for part in parts), hint
    assert package_hint("papyrus", version) is None


def test_reading_without_the_package(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """delta.read, iceberg.read and kafka.read name it before they ask for a table or a broker."""

    def unknown(spark: SparkSession, name: str) -> Any:
        raise AnalysisException(f"[DATA_SOURCE_NOT_FOUND] {name}")

    monkeypatch.setattr(connector_packages, "data_source", unknown)  # other tests' sessions have the connector
    for read, format, package in (
        (lambda: delta.read(spark, "lake/flights"), "delta", "io.delta:delta-spark_"),
        (lambda: iceberg.read(spark, "lake.flights"), "iceberg", "org.apache.iceberg:iceberg-spark-runtime-"),
        (lambda: kafka.read(spark, "nowhere:1", "t"), "kafka", "org.apache.spark:spark-sql-kafka-0-10_2.13:"),
        (lambda: kafka.snapshot(spark, "nowhere:1", "t"), "kafka", "org.apache.spark:spark-sql-kafka-0-10_2.13:"),
    ):
        with pytest.raises(SetupError) as caught:
            read()
        first, rest = str(caught.value).split("\n", 1)
        assert caught.value.code == "MIXEDMODE_CONNECTOR_MISSING"
        assert f"does not know the format '{format}'" in first and len(first) <= 120
        assert package in rest


def test_writing_without_the_package(spark: SparkSession, tmp_path: Path) -> None:
    """The writer names it, too; of a format that nobody knows it says what there is."""
    keyed = mixedmode.read(history=spark.range(1)).groupBy("id").count()
    writer = keyed.writeStream.option("checkpointLocation", str(tmp_path / "ck")).option("path", str(tmp_path / "out"))
    with pytest.raises(SetupError, match=r"format 'iceberg' is not known to this session\n.*iceberg-spark-runtime-"):
        writer.format("iceberg").plan()
    with pytest.raises(OptionError, match="format 'papyrus' is not supported"):
        writer.format("papyrus").plan()


def test_a_command_that_starts_spark_asks_for_java_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """mixedmode inspect without Java says what to install, in place of Spark's JAVA_GATEWAY_EXITED."""
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(os.environ, "PYSPARK_PYTHON", "python")
    with pytest.raises(SetupError, match=r"Java was not found.*install Java 17") as caught:
        local_session()
    assert caught.value.code == "MIXEDMODE_JAVA_MISSING"
