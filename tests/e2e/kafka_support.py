"""Messages, rows made of them, and a processor that shows each of them once: for tests with a Kafka broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

if TYPE_CHECKING:
    from kafka_broker import Broker

#: Columns of the rows that :class:`Numbered` gives.
NUMBERED_SCHEMA = "key string, value long, number long"
START_S = 1_704_067_200


def parsed(messages: DataFrame) -> DataFrame:
    """``key,seconds,value`` as columns; a row knows which message it was."""
    fields = F.split(messages.value.cast("string"), ",")
    return messages.select(
        fields[0].alias("key"),
        F.timestamp_seconds(fields[1].cast("long") + START_S).alias("ts"),
        fields[2].cast("long").alias("value"),
        "partition",
        "offset",
    )


def without_positions(messages: DataFrame) -> DataFrame:
    """The same, and a row does not know it."""
    return parsed(messages).drop("partition", "offset")


def send(broker: Broker, topic: str, values: Iterable[int], partitions: int = 2) -> None:
    """A message for each value, with event times that grow by a second each."""
    broker.send(topic, [(value % partitions, f"k{value % 5},{value},{value}") for value in values])


#: Key, value, and headers as confluent-kafka has them.
Message = tuple[str, str, list[tuple[str, bytes]]]


def messages(broker: Broker, topic: str) -> list[Message]:
    """All committed messages of a topic whose keys and values are texts, each partition's in order."""
    from confluent_kafka import Consumer, TopicPartition

    options = {"group.id": "tests", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer, found = Consumer({"bootstrap.servers": broker.bootstrap, **options}), []
    ends = broker.ends(topic)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    while ends:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is None:
            found.append((message.key().decode(), message.value().decode(), message.headers() or []))
        else:
            ends.pop(message.partition(), None)
    consumer.close()
    return found


def token(headers: list[tuple[str, bytes]]) -> tuple[int, int, int] | None:
    """Run, since and epoch of a message that was sent in Real-Time Mode; None: it was not."""
    told = {name: int(value) for name, value in headers if name.startswith("mixedmode.")}
    return (told["mixedmode.run"], told["mixedmode.since"], told["mixedmode.epoch"]) if told else None


class Numbered(StatefulProcessor):
    """Hands on its rows, numbered by key."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        count = self._count.get()[0] if self._count.exists() else 0
        for row in rows:
            count += 1
            yield (key[0], row.value, count)
        self._count.update((count,))


def numbered(rows: Any) -> Any:
    """The job of most tests: each message comes out once, and the numbers of a key leave none out."""
    return rows.groupBy("key").transformWithState(Numbered(), NUMBERED_SCHEMA, "append", "none")


def check_each_once(output: Iterable[tuple[Any, ...]], values: Iterable[int]) -> None:
    """Exactly these messages came out, and the state of each key has seen its own."""
    rows, expected = list(output), sorted(values)
    assert sorted(value for _, value, _ in rows) == expected
    for key in {f"k{value % 5}" for value in expected}:
        mine = sorted(number for of, _, number in rows if of == key)
        assert mine == list(range(1, len(mine) + 1))
