"""Topics whose offsets do not count their messages are found: compacted ones, and those with transactions."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from kafka_broker import Broker
from mixedmode.errors import PlanError
from mixedmode.runtime.spark_io import spark_kafka
from mixedmode.runtime.spark_io.kafka_counts import why_uncountable
from pyspark.sql import SparkSession


def refusal(spark: SparkSession, kafka: Broker, topic: str, **options: str) -> str | None:
    source = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return why_uncountable(spark, topic, {**source, **options})[1]


def transaction(kafka: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, value="a", partition=0)
    producer.commit_transaction(60)


def test_a_plain_topic_counts(spark: SparkSession, kafka: Broker) -> None:
    topic = kafka.create("plain", 3)
    assert refusal(spark, kafka, topic) is None
    kafka.send(topic, [(number % 2, str(number)) for number in range(300)])
    assert refusal(spark, kafka, topic) is None
    kafka.forget(topic, {0: 100, 1: 149})
    offsets, why = why_uncountable(spark, topic, {"kafka.bootstrap.servers": kafka.bootstrap})
    assert why is None
    assert offsets.begins == {0: 100, 1: 149, 2: 0}


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_is_refused(spark: SparkSession, kafka: Broker, policy: str) -> None:
    topic = kafka.create("compacted", **{"cleanup.policy": policy})
    assert f"is compacted (cleanup.policy = {policy})" in str(refusal(spark, kafka, topic))


def test_a_topic_that_transactions_write_to_is_refused(spark: SparkSession, kafka: Broker) -> None:
    topic = kafka.create("transactional")
    transaction(kafka, topic)
    assert "has transactions" in str(refusal(spark, kafka, topic))


def test_a_reader_of_committed_messages_is_refused(spark: SparkSession, kafka: Broker) -> None:
    topic = kafka.create("isolated")
    options = {"kafka.isolation.level": "read_committed"}
    assert "kafka.isolation.level = read_committed" in str(refusal(spark, kafka, topic, **options))


def test_gaps_show_what_brokers_do_not_say(spark: SparkSession, kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """They forget producers after a day, and need not tell everybody; the offsets among the messages do not change."""
    monkeypatch.setattr(spark_kafka.TopicClient, "has_transactions", lambda *_: False)
    topic = kafka.create("forgotten")
    kafka.send(topic, [(0, "a"), (0, "b")])
    assert refusal(spark, kafka, topic) is None
    transaction(kafka, topic)
    assert "has 3 messages at its last 4 offsets" in str(refusal(spark, kafka, topic))

    def not_allowed(*_: object) -> str:
        raise PlanError("not allowed to")

    monkeypatch.setattr(spark_kafka.TopicClient, "setting_of", not_allowed)
    assert "has 3 messages at its last 4 offsets" in str(refusal(spark, kafka, topic))
