"""Paths as Spark must be given them: it reaches the filesystems that pyarrow does under names of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .filesystem import uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_uri(spark: SparkSession, location: str, path: str) -> str:
    """As :func:`uri`, under a scheme that this session knows: ``s3a`` for S3, unless it has something for ``s3``."""
    found = uri(location, path)
    scheme, _, rest = found.partition("://")
    if scheme in ("s3", "s3n") and hadoop_conf(spark).get(f"fs.{scheme}.impl") is None:
        return f"s3a://{rest}"
    return found


def hadoop_conf(spark: SparkSession) -> Any:
    """Hadoop's configuration, with the session's settings."""
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()
