"""Spark's plans as text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def whole_plans(spark: SparkSession) -> Iterator[None]:
    """Has Spark show plans and expressions whole: it cuts long lists unless it is told not to."""
    conf, option = spark.conf, "spark.sql.debug.maxToStringFields"
    shown = conf.get(option)
    conf.set(option, str(2**31 - 1))
    try:
        yield
    finally:
        conf.set(option, str(shown))
