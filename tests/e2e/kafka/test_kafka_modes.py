"""Kafka beside a history that knows nothing of it, in streaming mode, and when the stream falls behind."""

from __future__ import annotations

from typing import Any

import kafka_support
import mixedmode
import pytest
import support
from failing import fail_at
from kafka_broker import Broker
from kafka_support import check_each_once, numbered, send, without_positions
from pyspark import cloudpickle
from support import World

cloudpickle.register_pickle_by_value(kafka_support)
HISTORY = range(200, 220)


def rows(world: World, broker: Broker, topic: str, **options: str) -> Any:
    """The history, and the topic as Spark's own reader gives it."""
    reader = world.spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    live = without_positions(reader.options(subscribe=topic, **options).load())
    return mixedmode.read(history=world.history([(f"k{value % 5}", value, value) for value in HISTORY]), live=live)


def test_latest_is_the_first_start_whatever_happens(
    world: World, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In streaming mode the history comes first: what arrives meanwhile, and after a failure in it, is read once."""
    topic = kafka.create("latest")
    send(kafka, topic, range(10))

    def life(failing: str) -> mixedmode.MixedQuery:
        fail_at(monkeypatch, failing)
        return world.start(numbered(rows(world, kafka, topic)), {"execution.runtime-mode": "streaming"})

    with pytest.raises(mixedmode.QueryError, match="failpoint"):
        life("epoch-before-apply=raise").awaitTermination(120)
    send(kafka, topic, range(20, 30))
    query = life("")
    support.live(query)
    (begins,) = support.details(query, "positions")
    assert '"0":5' in begins and '"1":5' in begins
    send(kafka, topic, range(30, 40))
    support.finish(query)
    check_each_once(world.output(), [*HISTORY, *range(20, 40)])


def test_a_topic_that_is_behind_is_backlog_again(world: World, kafka: Broker) -> None:
    """What waits is one sorted chunk while the watermark lags, merged with the state; then it is a stream again."""
    topic = kafka.create("behind")
    job = rows(world, kafka, topic, startingOffsets="earliest").withWatermark("ts", "0 seconds")
    query = support.live(world.start(numbered(job), {"pipeline.backlog.watermark-lag-threshold": "1 hour"}))
    assert not query.status["isBacklog"]
    send(kafka, topic, range(300, 330))
    support.wait_beside(query, lambda: len(support.details(query, "switch")) >= 4, 120)
    switches = [detail.split(" after")[0] for detail in support.details(query, "switch")]
    assert switches[-2:] == ["live isBacklog=true", "live isBacklog=false"]
    send(kafka, topic, range(330, 340))
    query.processAllAvailable()
    modes = [progress.mode for progress in query.recentProgress if progress.phase == "live" and progress.numInputRows]
    assert modes[0] == "backlog" and modes[-1] == "streaming"
    query.stop()
    check_each_once(world.output(), [*HISTORY, *range(300, 340)])
