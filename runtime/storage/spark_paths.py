"""Paths as Spark must be given them: it reaches the filesystems that pyarrow does under names of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..jvm.gateway import java_class, scala_map, session_state
from .filesystem import uri

#: What Hadoop raises through Spark for a filesystem that cannot be had.
UNREACHABLE = (PySparkException, Py4JError)


def spark_uri(spark: SparkSession, location: str, path: str) -> str:
    """As :func:`uri`, under a scheme that this session knows: ``s3a`` for S3, unless it has something for ``s3``.

    Args:
        spark: the session.
        location: a path or URI of the same filesystem, as the user gave it.
        path: the path, as pyarrow has it.
    """
    found = uri(location, path)
    scheme, _, rest = found.partition("://")
    if scheme in ("s3", "s3n") and hadoop_conf(spark).get(f"fs.{scheme}.impl") is None:
        return f"s3a://{rest}"
    return found


def hadoop_conf(spark: SparkSession, options: Mapping[str, str] | None = None) -> Any:
    """Hadoop's configuration, with the session's settings.

    Args:
        spark: the session.
        options: those of a write, which may hold what a filesystem needs.
    """
    state = session_state(spark)
    return state.newHadoopConf() if options is None else state.newHadoopConfWithOptions(scala_map(spark, options))


def missing_client(spark: SparkSession, said: str) -> str:
    """What to do about a filesystem whose class Spark does not have, to be put behind what it says; empty: it has it.

    Args:
        spark: the session.
        said: Hadoop's message.
    """
    if "ClassNotFoundException" not in said and "NoClassDefFoundError" not in said:
        return ""
    version = java_class(spark, "org.apache.hadoop.util.VersionInfo").getVersion()
    return (
        "; Spark's client for it is not on the class path (for S3: start Spark with spark.jars.packages ="
        f" org.apache.hadoop:hadoop-aws:{version})"
    )


class HadoopPlace:
    """A path as Hadoop sees it: which filesystem a plain path is on is Spark's to say.

    Args:
        spark: the session.
        path: a path or URI.
        options: as for :func:`hadoop_conf`.

    Raises:
        UNREACHABLE: there is no such filesystem, or it does not answer; so do all questions below.
    """

    def __init__(self, spark: SparkSession, path: str, options: Mapping[str, str] | None = None) -> None:
        self._spark = spark
        self._path = java_class(spark, "org.apache.hadoop.fs.Path")(path)
        self._filesystem = self._path.getFileSystem(hadoop_conf(spark, options))

    @classmethod
    def of_uri(cls, spark: SparkSession, uri: str, options: Mapping[str, str] | None = None) -> HadoopPlace:
        """The place that a URI of Spark's own logs names.

        Args:
            spark: the session.
            uri: the URI, in which what is special is encoded.
            options: as for :func:`hadoop_conf`.
        """
        return cls(spark, java_class(spark, "java.net.URI")(uri), options)

    def modified_ms(self) -> int | None:
        """When the file was last written, in ms since 1970; None: it is not there."""
        return int(self._filesystem.getFileStatus(self._path).getModificationTime()) if self.exists() else None

    def local_path(self) -> str | None:
        """The whole path on the local filesystem; None: it is on another one."""
        if str(self._filesystem.getUri().getScheme()) != "file":
            return None
        return str(self._filesystem.makeQualified(self._path).toUri().getPath())

    def exists(self) -> bool:
        """True if a file or folder is there."""
        return bool(self._filesystem.exists(self._path))

    def entries(self, most: int) -> Iterator[tuple[str, bool]]:
        """What is in the folder, by name, and whether it is a file; no more than ``most`` of them."""
        found = self._filesystem.listStatusIterator(self._path)
        while most > 0 and found.hasNext():
            entry = found.next()
            yield str(entry.getPath().getName()), bool(entry.isFile())
            most -= 1

    def is_file(self) -> bool:
        """True if a file is there."""
        return self.exists() and bool(self._filesystem.getFileStatus(self._path).isFile())

    def read_text(self) -> str:
        """The content of the file."""
        stream = self._filesystem.open(self._path)
        try:
            return str(java_class(self._spark, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, text: str) -> None:
        """Write the file, in place of one that is there; folders above it are made."""
        stream = self._filesystem.create(self._path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
