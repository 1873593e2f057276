"""How far each aircraft has flown: Kafka to Kafka, with a live phase in Spark's Real-Time Mode.

Each flight of December is answered by a message as soon as its own message lands.  The answers' headers say which of
them count, and their times how long they took.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mixedmode
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from .data import SCHEMA, Flights

if TYPE_CHECKING:
    from kafka_broker import Broker

    from .jobs import Job

#: Spark commits an epoch this often; the demo is short.
EPOCH = "5 seconds"
SHARDS = 2
TOTAL = "tailnum string, legs long, miles long"


class Miles(StatefulProcessor):
    """Per aircraft: adds up legs and miles, and says both behind the rows of each call."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "legs long, miles long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        legs, miles = self._total.get() or (0, 0)
        sent_ms = None
        for row in rows:
            if row.dep_time is not None:  # filters are for the processor: each message must reach its shard
                legs, miles, sent_ms = legs + 1, miles + row.distance, row.sent_ms
        if key[0] is None or not legs:
            return
        self._total.update((legs, miles))
        yield Row(key=key[0], value=json.dumps({"legs": legs, "miles": miles, "sent_ms": sent_ms}))

    def close(self) -> None:
        pass


def miles(spark: SparkSession, flights: Flights, job: Job, answers: str) -> Any:
    """The job; ``answers``: the topic that it writes to."""
    assert job.topic is not None, "it reads a topic"
    history = spark.read.schema(SCHEMA).parquet(str(flights.lake)).withColumn("sent_ms", F.lit(None).cast("long"))
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.topic.brokers)
    messages = stream.option("subscribe", job.topic.name).option("startingOffsets", "earliest").load()
    sent = messages.select("value", F.unix_millis("timestamp").alias("sent_ms"))
    live = sent.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("flight"), "sent_ms")
    return (
        mixedmode.read(history=history, live=live.select("flight.*", "sent_ms"))
        .groupBy("tailnum")
        .transformWithState(Miles(), "key string, value string", "update", "none")
        .uid("miles")
        .writeStream.queryName(job.name)
        .format("kafka")
        .outputMode("update")
        .option("kafka.bootstrap.servers", job.topic.brokers)
        .option("topic", answers)
        .option("checkpointLocation", str(job.checkpoints))
        .option("pipeline.parallelism", SHARDS)
        .trigger(realTime=EPOCH)
    )


def expected_miles(flights: DataFrame) -> DataFrame:
    """What plain Spark says about all flights."""
    departed = flights.where("tailnum is not null and dep_time is not null")
    return departed.groupBy("tailnum").agg(F.count("*").alias("legs"), F.sum("distance").alias("miles"))


@dataclass(frozen=True)
class Answers:
    """What is in the topic of answers."""

    #: The last one of each aircraft.
    totals: list[tuple[str, int, int]]
    #: Milliseconds from a flight's message to its answer, sorted.
    latencies_ms: list[int]

    @classmethod
    def of(cls, broker: Broker, topic: str) -> Answers:
        """Those of a topic of one partition, whose broker says when a message has come."""
        from confluent_kafka import Consumer, TopicPartition

        (end,) = broker.ends(topic).values()
        options = {"bootstrap.servers": broker.bootstrap, "group.id": "answers", "enable.auto.commit": False}
        consumer = Consumer({**options, "isolation.level": "read_committed", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, 0, 0)])
        newest: dict[str, tuple[int, int, int]] = {}
        totals: dict[str, tuple[int, int]] = {}
        latencies_ms: list[int] = []
        try:
            while end and (message := consumer.poll(60)) is not None and message.error() is None:
                key, body = message.key().decode(), json.loads(message.value())
                position = _position(message.headers())
                if position is not None and body["sent_ms"] is not None:
                    latencies_ms.append(message.timestamp()[1] - body["sent_ms"])
                if position is None or position > newest.get(key, (-1, -1, -1)):
                    newest[key] = position or (-1, -1, -1)
                    totals[key] = body["legs"], body["miles"]
        finally:
            consumer.close()
        return cls([(key, *total) for key, total in totals.items()], sorted(latencies_ms))

    def percentile_ms(self, percent: int) -> int:
        """The latency that so many of a hundred answers had at most."""
        return self.latencies_ms[min(len(self.latencies_ms) - 1, len(self.latencies_ms) * percent // 100)]


def _position(headers: list[tuple[str, bytes]] | None) -> tuple[int, int, int] | None:
    """Run, epoch and sequence of an answer of the real-time phase; None: it is of the backlog."""
    found = {name: int(value) for name, value in headers or () if name.startswith("mixedmode.")}
    return (found["mixedmode.run"], found["mixedmode.epoch"], found["mixedmode.sequence"]) if found else None
