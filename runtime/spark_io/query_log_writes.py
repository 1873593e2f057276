"""Speeds up how Spark writes the log of a streaming query: offsets before, a commit after each micro-batch.

Either way a file is written under another name and renamed.  By default Spark does it by an interface of Hadoop's that,
without Hadoop's native library, starts some thirty processes (``chmod``, ``readlink``) for each micro-batch on a local
disk, which takes longer than all else.  The other interface, which Spark takes where it does not find the first one,
still starts six: for the modes of three files and of their checksum files.  Over the raw local file system that lies
below Hadoop's own one there are no checksum files.  Up to Hadoop 3.4 it leaves modes to the process's umask; from 3.5
on it sets them, too, so a subclass is taken that does not, compiled by the compiler that Spark has for its own code.
:meth:`~mixedmode.runtime.checkpoints.spark_log.SparkLog.seal` writes those that recovery looks at.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ..catalyst.spark_expressions import class_name, items
from ..jvm.compiled_class import compiled_class
from ..jvm.gateway import java_class, java_session, new

OPTION = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming"
_LOCAL = ("file:", "/")
#: What Hadoop takes off the modes of files, and its default.
_UMASK, _USUAL_UMASK = "fs.permissions.umask-mode", "022"
#: Where versions of Spark have it.
_NAMES = tuple(f"{_PACKAGE}.{place}FileSystemBasedCheckpointFileManager" for place in ("checkpointing.", ""))
_RAW = "LocalFilesWithoutModes"
_RAW_SOURCE = f"""
public class {_RAW} extends org.apache.hadoop.fs.RawLocalFileSystem {{
    public void setPermission(org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission mode) {{}}
}}
"""
#: How long Spark may take to make a query's sources.
_PATIENCE_MS = 10_000
_LOCK = threading.Lock()
#: How many queries are being started in a session with the option set by us.
_STARTING: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()


def started(writer: DataStreamWriter, sessions: Sequence[SparkSession], folder: str) -> StreamingQuery:
    """A query that writes its log without other processes, if that is on a local disk; what the user has set stays.

    Spark reads the option while it makes a query and its sources, and nothing of a query can say it for itself alone.
    So it is there as long as that takes, a fraction of a second.

    Args:
        writer: starts the query.
        sessions: the query's session, and those of its sources.
        folder: its checkpoint folder, as a URI.
    """
    with ExitStack() as settings:
        for spark in sessions:
            settings.enter_context(without_processes(spark, folder))
        query = writer.start()
        with contextlib.suppress(Py4JError, PySparkException):  # one that fails at once tells so by itself
            execution = query._jsq.streamingQuery()
            execution.awaitInitialization(_PATIENCE_MS)
            logs = [execution.offsetLog(), execution.commitLog()]
            if folder.startswith(_LOCAL):
                write_raw(sessions[0], [*logs, *_source_logs(execution)])
    return query


def write_raw(spark: SparkSession, logs: Sequence[Any]) -> None:
    """Have logs written without processes and without checksum files, from now on; nothing changes for others.

    Args:
        spark: a session.
        logs: Spark's, on a local disk.
    """
    settings = java_session(spark).sessionState().newHadoopConf()
    if settings.get(_UMASK, _USUAL_UMASK) not in ("22", _USUAL_UMASK):
        return  # Hadoop is to set other modes than a process does by itself
    raw = without_modes(spark, settings)
    for log in logs:
        manager = log.fileManager()
        kind = manager.getClass()
        if kind.getName() in _NAMES:
            field = kind.getDeclaredField("fs")
            field.setAccessible(True)
            field.set(manager, raw)


def without_modes(spark: SparkSession, settings: Any) -> Any:
    """A local file system that leaves modes to the process's umask; where it cannot be had, Hadoop's own raw one.

    Args:
        spark: a session.
        settings: Hadoop's.
    """
    try:
        found = new(spark, compiled_class(spark, _RAW, _RAW_SOURCE))
        found.initialize(java_class(spark, "java.net.URI").create("file:///"), settings)
    except (Py4JError, PySparkException, TypeError):  # another version of Spark
        return java_class(spark, "org.apache.hadoop.fs.FileSystem").getLocal(settings).getRaw()
    return found


def _source_logs(execution: Any) -> list[Any]:
    """What a query's file sources write down of what they have read."""
    found = []
    for source in items(execution.sources()):
        if class_name(source) == "FileStreamSource":
            field = source.getClass().getDeclaredField("metadataLog")
            field.setAccessible(True)
            found.append(field.get(source))
    return found


@contextmanager
def without_processes(spark: SparkSession, folder: str) -> Iterator[None]:
    """Queries that are started meanwhile, and have made their sources, write such a log; nothing changes where
    ``folder`` is not on a local disk."""
    name = manager_class(spark) if folder.startswith(_LOCAL) else None
    if name is None or not _begin(spark, name):
        yield
        return
    try:
        yield
    finally:
        _end(spark)


def _begin(spark: SparkSession, name: str) -> bool:
    with _LOCK:
        count = _STARTING.get(spark, 0)
        if count == 0 and spark.conf.get(OPTION, None) is not None:
            return False
        spark.conf.set(OPTION, name)
        _STARTING[spark] = count + 1
        return True


def _end(spark: SparkSession) -> None:
    with _LOCK:
        _STARTING[spark] -= 1
        if not _STARTING[spark]:
            spark.conf.unset(OPTION)


def manager_class(spark: SparkSession) -> str | None:
    return next((name for name in _NAMES if isinstance(java_class(spark, name), JavaClass)), None)
