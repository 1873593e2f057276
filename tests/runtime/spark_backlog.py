"""A backlog of an aggregate, and the same in plain Spark."""

from __future__ import annotations

import uuid
from typing import Any

import mixedmode
from pyspark.sql import DataFrame, Row


def ours(frame: DataFrame, keys: list[Any], wanted: list[Any], engine: str = "spark") -> list[Row]:
    """What a job of ours over a history gives; ``engine``: who reads it."""
    name = f"backlog_{uuid.uuid4().hex}"
    stage = mixedmode.read(history=frame).groupBy(*keys).agg(*wanted)
    writer = stage.writeStream.outputMode("update").format("memory").queryName(name)
    writer.option("execution.backlog.engine", engine).start().awaitTermination()
    return sorted(frame.sparkSession.table(name).collect(), key=str)


def plain(frame: DataFrame, keys: list[Any], wanted: list[Any]) -> list[Row]:
    """What a batch of Spark's gives."""
    return sorted(frame.groupBy(*keys).agg(*wanted).collect(), key=str)
