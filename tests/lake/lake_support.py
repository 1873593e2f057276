"""Sessions and tables for tests with Delta and Iceberg."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import maven_jars
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

START_S = 1_704_067_200
#: What a session must be made with to have both kinds of tables; Iceberg's are in catalog ``ice``.
EXTENSIONS = {
    "spark.sql.extensions": (
        "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    ),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
    "spark.sql.catalog.ice.cache-enabled": "false",
    # Its default is fifty, for each look at a table.
    "spark.databricks.delta.snapshotPartitions": "1",
}


def jars() -> str:
    """The jars of both, as ``spark.jars`` takes them; raises NotToBeHad."""
    return ",".join(str(path) for use in ("delta", "iceberg") for path in maven_jars.jars(use))


def settings(folder: Path) -> dict[str, str]:
    """Settings of a session whose tables are below a folder."""
    return {
        **EXTENSIONS,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
    }


def numbers(spark: SparkSession, values: Iterable[int]) -> DataFrame:
    """A row for each value, with event times that grow by a second each."""
    frame = spark.createDataFrame([(value,) for value in values], "value long").coalesce(1)
    key, ts = F.concat(F.lit("k"), F.col("value") % 5), F.timestamp_seconds(F.col("value") + START_S)
    return frame.select(key.alias("key"), ts.alias("ts"), "value")


def append(spark: SparkSession, path: Any, values: Iterable[int], **options: Any) -> None:
    """Add the rows of some values to a Delta table, in one commit."""
    numbers(spark, values).write.format("delta").mode("append").options(**options).save(str(path))
