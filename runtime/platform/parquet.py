"""Reading back, with Spark, files that we have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Spark's own switch, of its file streams: without it brackets, braces, ``*`` and ``?`` in a path are a pattern.
_PATTERNS = "__globPaths__"


def read_parquet(spark: SparkSession, schema: StructType, *paths: str) -> DataFrame:
    """The rows of files or folders, by their names as they are."""
    return spark.read.option(_PATTERNS, "false").schema(schema).parquet(*paths)
