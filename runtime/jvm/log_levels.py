"""Loggers of Spark and PySpark that are quiet for a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from logging import LogRecord
from typing import TYPE_CHECKING

from pyspark.logger import PySparkLogger

from .gateway import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Two jobs that change the level of one logger would put back each other's.
_LOCK = threading.Lock()


@contextmanager
def changed(spark: SparkSession, levels: Mapping[str, str]) -> Iterator[None]:
    """With other levels of some of the driver's loggers.

    Args:
        spark: a session.
        levels: by logger the name of its level, such as ``OFF``.
    """
    configurator = java_class(spark, "org.apache.logging.log4j.core.config.Configurator")
    known = java_class(spark, "org.apache.logging.log4j.Level")
    manager = java_class(spark, "org.apache.logging.log4j.LogManager")
    with _LOCK:
        context = manager.getContext(False)
        loggers = context.getConfiguration().getLoggers()
        own = {name for name in levels if loggers.containsKey(name)}
        before = {name: manager.getLogger(name).getLevel() for name in levels}
        for name, level in levels.items():
            configurator.setLevel(name, getattr(known, level))
        try:
            yield
        finally:
            for name, level in before.items():
                if name in own:
                    configurator.setLevel(name, level)
                else:  # a level of its own, whichever, would have it print what sc.setLogLevel() says nobody wants
                    context.getConfiguration().removeLogger(name)
            context.updateLoggers()


@contextmanager
def unlogged() -> Iterator[None]:
    """Keeps PySpark from logging this thread's errors: what is tried here is not what the user has written."""
    thread = threading.get_ident()

    def is_elsewhere(record: LogRecord) -> bool:
        return record.thread != thread

    with ExitStack() as stack:
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logger = PySparkLogger.getLogger(name)
            logger.addFilter(is_elsewhere)
            stack.callback(logger.removeFilter, is_elsewhere)
        yield
