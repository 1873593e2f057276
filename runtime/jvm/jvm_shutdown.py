"""Has Python called when the JVM is told to end, before Spark's own shutdown.

A signal to the whole process group reaches the JVM as well, and under ``spark-submit`` the JVM alone.  It ends when its
shutdown hooks have; those of Hadoop's manager, among them Spark's, run one after the other.  While ours waits for
Python, Spark's jobs run as ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from .gateway import java_class

logger = logging.getLogger(__name__)

#: Spark's own hook has 40, Hadoop's for filesystems 10; the greatest is first.
_PRIORITY = 100
#: After which the JVM ends without us.
_LONGEST_S = 3600


class _Runnable:
    """What Java sees of a function."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    def run(self) -> None:
        self._function()

    class Java:
        implements = ("java.lang.Runnable",)


class ShutdownHook:
    """A function that the JVM of a session calls when it is told to end.

    Args:
        spark: the session.
        function: is called on a thread of Py4J's; the JVM waits for its return.
    """

    def __init__(self, spark: SparkSession, function: Callable[[], object]) -> None:
        gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)
        # A thread, though nobody starts it: Java knows it again when it is to be removed, unlike an object of Python's.
        self._hook = java_class(spark, "java.lang.Thread")(_Runnable(function))
        self._manager = java_class(spark, "org.apache.hadoop.util.ShutdownHookManager").get()
        seconds = java_class(spark, "java.util.concurrent.TimeUnit").SECONDS
        self._manager.addShutdownHook(self._hook, _PRIORITY, _LONGEST_S, seconds)

    def remove(self) -> None:
        """Have it not called any more, unless the JVM ends already."""
        try:
            self._manager.removeShutdownHook(self._hook)
        except Exception as error:  # the JVM is gone, or ends: it takes no removals then
            logger.debug("the hook for the end of the JVM stays: %s", error)
