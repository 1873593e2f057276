"""Reading back, with Spark, files that we have written."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

#: Spark's own switch, of its file streams: without it brackets, braces, ``*`` and ``?`` in a path are a pattern.
_PATTERNS = "__globPaths__"


#: What a session may have told Spark to overlook, and the check of page checksums, where pages have them.
_WHOLE = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
}


def read_parquet(spark: SparkSession, schema: StructType, *paths: str, whole: bool = False) -> DataFrame:
    """The rows of files or folders, by their names as they are.

    Args:
        spark: the session.
        schema: the columns.
        paths: files or folders.
        whole: fail over a file that is missing or damaged, whatever the session's settings say.
    """
    options = _WHOLE if whole else {}
    return spark.read.option(_PATTERNS, "false").options(**options).schema(schema).parquet(*paths)
