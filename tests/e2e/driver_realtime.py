"""A job in Real-Time Mode in a process of its own: ``python driver_realtime.py <folder> <brokers> <kind> <trigger>``."""

from __future__ import annotations

import sys
from typing import Any

import kafka_support
from mixedmode import read
from pyspark.sql import functions as F


def job(spark: Any, brokers: str, source: str, target: str, checkpoints: str, kind: str) -> Any:
    """The writer of a job of a kind, from one topic to another."""
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", source)
    rows = read(live=kafka_support.without_positions(stream.option("startingOffsets", "earliest").load()))
    writer = KINDS[kind](rows).writeStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    writer = writer.option("topic", target).option("checkpointLocation", checkpoints).option("pipeline.parallelism", 2)
    return writer.outputMode("update").queryName(kind)


class Counting(kafka_support.Numbered):
    """Hands on its rows as messages, numbered by key."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for name, value, number in super().handleInputRows(key, rows, timerValues):
            yield name, f"{value},{number}"


def processor(rows: Any) -> Any:
    return rows.groupBy("key").transformWithState(Counting(), "key string, value string", "update", "none")


KINDS = {"processor": processor}
