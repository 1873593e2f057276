"""Ways of Spark's own to say which messages are read, and what is taken of a message."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import mixedmode
import support
from kafka_broker import Broker
from pyspark.sql import functions as F
from support import World

START_MS = 1_704_067_200_000


def send(broker: Broker, topic: str, seconds: range) -> None:
    """A message for each second, with that as its time, and a header."""
    from confluent_kafka import Producer  # which not every environment of these tests has

    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "log_level": 0})
    for second in seconds:
        headers = {"mark": f"h{second % 3}".encode()}
        at_ms = START_MS + second * 1000
        producer.produce(topic, str(second), partition=second % 2, timestamp=at_ms, headers=headers)
    assert producer.flush(60) == 0


def counted(rows: Any) -> Any:
    """Messages by topic and ten seconds of their own time, with what one header holds."""
    mark = F.element_at("headers", 1)["value"].cast("string")
    rows = rows.select(
        "topic", "timestamp", F.col("value").cast("string").cast("long").alias("value"), mark.alias("mark")
    )
    return (
        rows.withWatermark("timestamp", "1 minute")
        .groupBy("topic", F.window("timestamp", "10 seconds").alias("span"))
        .agg(F.count("*").alias("n"), F.sum("value").alias("total"), F.max("mark").alias("most"))
    )


def rows(windows: Any) -> list[tuple[Any, ...]]:
    """What windows hold, sorted."""
    flat = windows.select("topic", F.unix_seconds("span.start"), "n", "total", "most")
    return sorted(map(tuple, flat.collect()))


def test_topics_by_a_pattern_with_times_and_headers_of_messages(world: World, kafka: Broker) -> None:
    """All topics of a pattern, one that is made while the job is live among them, in more tasks than partitions; event
    times are those of the messages.  Windows come out as plain batch over the topics has them, each once."""
    token = secrets.token_hex(4)
    first, second = (kafka.create(f"many-{token}", 2) for _ in range(2))
    send(kafka, first, range(60))
    send(kafka, second, range(30, 90))
    there = {"kafka.bootstrap.servers": kafka.bootstrap, "includeHeaders": "true", "minPartitions": "5"}
    there |= {"subscribePattern": f"many-{token}.*", "startingOffsets": "earliest", "failOnDataLoss": "false"}

    def start() -> mixedmode.MixedQuery:
        live = world.spark.readStream.format("kafka").options(**there).load()
        return world.start(counted(mixedmode.read(live=live)), {"execution.backlog.final-watermark": "observed"})

    query = start()
    support.live(query)
    send(kafka, first, range(90, 110))
    query.processAllAvailable()
    third = kafka.create(f"many-{token}", 2)
    send(kafka, third, range(110, 140))
    deadline = time.monotonic() + 120
    while not any(third in (one.sources[-1].get("endOffset") or {}) for one in query.recentProgress):
        assert time.monotonic() < deadline and query.isActive, query.exception()
        query.processAllAvailable()
    query.stop()
    send(kafka, second, range(140, 200))
    query = start()
    support.finish(query)
    assert not support.details(query, "data-lost")
    batch = counted(world.spark.read.format("kafka").options(**there).load())
    closed = batch.where(F.col("span.end") <= F.timestamp_millis(F.lit(START_MS + 139_000)))  # 199 s less a minute
    assert rows(world.spark.read.parquet(str(world.out))) == rows(closed)
    assert {topic for topic, *_ in rows(closed)} == {first, second, third}


def test_partitions_that_are_named(world: World, kafka: Broker) -> None:
    """Of the others nothing is read, and what they have forgotten is no loss of the job's."""
    topic = kafka.create("assigned", 2)
    send(kafka, topic, range(20))
    offsets = json.dumps({topic: {"0": 4}})
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "assign": json.dumps({topic: [0]}),
        "startingOffsets": offsets,
    }

    def run() -> list[int]:
        live = world.spark.readStream.format("kafka").options(**options).load()
        rows = mixedmode.read(live=live.select(F.col("value").cast("string").cast("long").alias("value")))
        query = world.start(rows.dropDuplicates(["value"]))
        support.finish(query)
        return sorted(value for (value,) in world.output())

    assert run() == list(range(8, 20, 2))
    send(kafka, topic, range(20, 30))
    kafka.forget(topic, {1: 9})
    assert run() == list(range(8, 30, 2))


def test_first_message_of_a_key_stays_in_a_backlog_as_its_partition_has_it(world: World, kafka: Broker) -> None:
    """Values fall, and Spark reads a partition in several tasks."""
    topic = kafka.create("ordered", 2)
    kafka.send(topic, [(place % 2, f"{place % 10},{-place}") for place in range(500)])
    messages = mixedmode.kafka.snapshot(world.spark, kafka.bootstrap, topic, options={"minPartitions": "7"})
    fields = F.split(messages.value.cast("string"), ",")
    history = messages.select(fields[0].cast("int").alias("k"), fields[1].cast("int").alias("v")).where("v < -20")
    query = world.start(mixedmode.read(history=history).dropDuplicates(["k"]))
    query.awaitTermination()
    assert sorted(world.output()) == [(key, -30 if key == 0 else -20 - key) for key in range(10)]
