"""Options of a session, for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session_options(spark: SparkSession, *layers: Mapping[str, str]) -> Iterator[None]:
    """Set options, later layers over earlier ones; afterwards they are what they were."""
    asked = {name: value for layer in layers for name, value in layer.items()}
    before = {name: spark.conf.get(name, None) for name in asked}
    for name, value in asked.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
