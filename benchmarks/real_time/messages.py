"""All messages of a topic, read without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka_broker import Broker


class Message(NamedTuple):
    """One of them."""

    #: When the broker appended it, in ms.
    appended_ms: int
    key: str
    value: str
    partition: int
    offset: int


def read(broker: Broker, topic: str) -> Iterator[Message]:
    """From the first to the last there is now; within a partition in order."""
    from confluent_kafka import Consumer, TopicPartition

    ends = broker.ends(topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    left = set(ends)
    while left:
        for each in consumer.consume(10000, 1.0):
            if each.error() is None:
                key, value = each.key().decode(), each.value().decode()
                yield Message(each.timestamp()[1], key, value, each.partition(), each.offset())
            else:
                left.discard(each.partition())
    consumer.close()


def write_times(broker: Broker, topic: str, path: str) -> None:
    """A line for each: when the broker appended it in ms, and when it was produced in us."""
    with open(path, "w") as file:
        for each in read(broker, topic):
            file.write(f"{each.appended_ms}\t{each.value.rpartition('|')[2]}\n")
