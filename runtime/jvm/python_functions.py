"""A Python function as Spark's plans have it, in one call to the JVM instead of a dozen.

All but the pickled function is the same for all functions of an application, so it is made once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType
from pyspark.sql.udf import _wrap_function

from .gateway import java_class

#: By Spark context what was the same, under all that it is made of.
_KNOWN: WeakKeyDictionary[Any, tuple[Any, _Common]] = WeakKeyDictionary()


class _Common:
    """What functions have in common."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        python = java_class(spark, "org.apache.spark.api.python.PythonUtils")
        #: Greater ones are sent by broadcast.
        self.most_bytes = int(python.getBroadcastThreshold(context._jsc))
        self._make = java_class(spark, "org.apache.spark.api.python.SimplePythonFunction")
        environment, lists = java_class(spark, "java.util.HashMap")(), java_class(spark, "java.util.ArrayList")
        for name, value in context.environment.items():
            environment.put(name, value)
        includes = lists()
        for one in context._python_includes:
            includes.add(one)
        self._rest = (environment, includes, context.pythonExec, context.pythonVer, lists(), context._javaAccumulator)

    def function(self, command: bytes) -> Any:
        """The function that a command is."""
        return self._make(bytearray(command), *self._rest)


def java_function(spark: SparkSession, function: Callable[..., Any], returns: DataType) -> Any:
    """A function for a node of a plan.

    Args:
        spark: the session.
        function: is pickled.
        returns: its type.
    """
    context: Any = spark.sparkContext
    command = CloudPickleSerializer().dumps((function, returns))
    common = _common(spark)
    if len(command) > common.most_bytes or any(True for _ in context._pickled_broadcast_vars):
        return _wrap_function(context, function, returns)
    return common.function(command)


def _common(spark: SparkSession) -> _Common:
    context: Any = spark.sparkContext
    by = (dict(context.environment), tuple(context._python_includes), context.pythonExec)
    known = _KNOWN.get(context)
    if known is None or known[0] != by:
        _KNOWN[context] = known = (by, _Common(spark))
    return known[1]
