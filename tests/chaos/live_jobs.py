"""The jobs of disturbed runs in Real-Time Mode, from topic to topic, and the batch that their state must equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka_support
from mixedmode import read
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_SEEN = "n long, total long, squares long"


class Summing(kafka_support.Numbered):
    """Hands on its rows as messages, numbered by key, and sums them up."""

    def init(self, handle: Any) -> None:
        self._seen = handle.getValueState("seen", _SEEN)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        n, total, squares = self._seen.get() or (0, 0, 0)
        for row in rows:
            n, total, squares = n + 1, total + row.value, squares + row.value * row.value
            yield key[0], f"{row.value},{n}"
        self._seen.update((n, total, squares))


def text(value: int) -> str:
    """The text of a row: of a key the greatest may be that of any row."""
    return f"{value * 7919 % 100_003:06d}"


def _with_text(messages: DataFrame) -> DataFrame:
    return messages.withColumn("text", F.format_string("%06d", F.col("value") * 7919 % 100_003))


def _processor(rows: Any) -> Any:
    return rows.groupBy("key").transformWithState(Summing(), "key string, value string", "update", "none")


def _aggregate(rows: Any) -> Any:
    return rows.groupBy("key").agg(F.max("text").alias("value"), F.count("*").alias("n"), F.sum("value").alias("total"))


def _deduplication(rows: Any) -> Any:
    return rows.select("key", F.col("text").alias("value")).dropDuplicates(["key", "value"])


_JOBS = {"processor": _processor, "aggregate": _aggregate, "deduplication": _deduplication}


def writer(spark: SparkSession, brokers: str, source: str, target: str, kind: str) -> Any:
    """The described job of a kind."""
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", source)
    messages = kafka_support.without_positions(stream.option("startingOffsets", "earliest").load())
    described = _JOBS[kind](read(live=_with_text(messages))).writeStream.format("kafka")
    described = described.option("kafka.bootstrap.servers", brokers).option("topic", target)
    return described.outputMode("update").queryName(kind)


def batches(spark: SparkSession, brokers: str, source: str, kind: str, ends: DataFrame) -> DataFrame:
    """What plain batches over a topic give, each up to some offsets: number, key, and an array of values as text.

    Args:
        spark: the session.
        brokers: of the topic.
        source: the topic.
        kind: of the job.
        ends: number, partition, and the offset before which a batch ends.
    """
    topic = spark.read.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", source)
    rows = _with_text(kafka_support.parsed(topic.load())).join(F.broadcast(ends), "partition").where("offset < end")
    groups = rows.groupBy("number", "key")
    if kind == "deduplication":
        return groups.agg(F.sort_array(F.collect_set("text")).alias("values"))
    sums: list[Any] = [F.count("*"), F.sum("value"), F.sum(F.col("value") * F.col("value"))]
    if kind == "aggregate":
        sums = [F.max("text"), *sums[:2]]
    return groups.agg(F.array(*(one.cast("string") for one in sums)).alias("values"))
