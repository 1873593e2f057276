"""A query is stopped while the brokers do not answer: it ends soon, and what it could not send the next one sends."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import kafka_broker
import maven_jars
import mixedmode
import pytest
from kafka_broker import Broker
from pyspark.sql import functions as F
from support import World, finish, stream_of

EVENTS = stream_of(60, seed=5)


@pytest.fixture
def own(kafka: Broker, tmp_path: Path) -> Iterator[kafka_broker.Use]:
    """A broker that nobody else uses; asked for beside the shared one, with which it may be had or not."""
    use = kafka_broker.Use(tmp_path / "broker", maven_jars.jars("broker"))
    yield use
    use.signal(signal.SIGCONT)
    use.close()


@pytest.mark.timeout(600)
def test_a_stop_does_not_wait_for_brokers_that_are_gone(world: World, own: kafka_broker.Use) -> None:
    """A broker that hangs while a checkpoint is sent: the stop gives up, which the query's error tells, far sooner than
    the client; the next start sends that checkpoint before anything else, and readers see each row once."""
    broker = Broker(own.bootstrap)
    topic = broker.create("hangs", 1)

    def start() -> mixedmode.MixedQuery:
        counts = world.read().groupBy("key").count()
        writer = counts.select(F.to_json(F.struct("key", "count")).alias("value")).writeStream.outputMode("update")
        writer = writer.format("kafka").option("kafka.bootstrap.servers", own.bootstrap).option("topic", topic)
        query = writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", 1).start()
        world.queries.append(query)
        return query

    world.land(EVENTS[:20])
    query = start()
    query.processAllAvailable()
    shown = len(broker.committed(topic))
    own.signal(signal.SIGSTOP)
    world.land(EVENTS[20:])
    staged, until = world.checkpoints / "mixedmode" / "output", time.monotonic() + 240
    while not any(path.name.startswith("sending-") for path in staged.iterdir()):
        assert time.monotonic() < until and query.isActive, query.exception()
        time.sleep(0.05)
    began = time.monotonic()
    query.stop()
    took_s = time.monotonic() - began
    error = query.exception()
    assert error is not None and "the query was stopped, and the brokers do not answer" in str(error)
    assert took_s < 100, "the client's own tries take minutes"
    own.signal(signal.SIGCONT)
    assert len(broker.committed(topic)) == shown
    again = start()
    finish(again)
    rows = [json.loads(value) for _, value, _ in broker.committed(topic)]
    assert len({json.dumps(row) for row in rows}) == len(rows)
    counted: dict[str, int] = {}
    for key, *_ in EVENTS:
        counted[key] = counted.get(key, 0) + 1
    assert {row["key"]: row["count"] for row in rows} == counted
