"""Messages that retention takes from a job while it runs: refused, or gone on without and told, never passed over."""

from __future__ import annotations

import socket

import kafka_support
import mixedmode
import pytest
import support
from failing import fail_at
from kafka_broker import Broker
from kafka_support import check_each_once, numbered, send, without_positions
from mixedmode import kafka as topics
from pyspark import cloudpickle
from support import World

cloudpickle.register_pickle_by_value(kafka_support)


class Job:
    """A job over a topic, in several lives."""

    def __init__(self, world: World, broker: Broker, topic: str) -> None:
        self.world, self.broker, self.topic = world, broker, topic

    def start(self, **options: str) -> mixedmode.MixedQuery:
        reader = self.world.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.broker.bootstrap)
        reader = reader.options(subscribe=self.topic, startingOffsets="earliest", **options)
        live = reader.option("fetchOffset.retryIntervalMs", "10").load()
        again = {"execution.backlog.reuse-finished-shards": "false"}
        return self.world.start(numbered(mixedmode.read(live=without_positions(live))), again)

    def forget_while_live(self, query: mixedmode.MixedQuery, values: range, before: dict[int, int]) -> None:
        """Messages come, and some of them are gone before an epoch has read them."""
        support.live(query)
        with query._runner.context.turn:  # no epoch begins meanwhile
            send(self.broker, self.topic, values)
            self.broker.forget(self.topic, before)


def told(query: mixedmode.MixedQuery) -> dict[int, set[int]]:
    """The offsets that progress says are lost, by partition."""
    lost: dict[int, set[int]] = {}
    for progress in query.recentProgress:
        for one in progress.sources[-1].get("dataLost", ()):
            lost.setdefault(one["partition"], set()).update(range(one["firstOffset"], one["lastOffset"] + 1))
    return lost


def test_what_is_lost_between_a_rewind_and_its_replay_and_live(
    world: World, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default the job ends with topic, partition and offsets; with ``failOnDataLoss = false`` it goes on and tells
    exactly those, in lifecycle and progress.  A topic that was made anew is told as that, one that is gone, too."""
    topic = kafka.create("lossy", 2)
    job = Job(world, kafka, topic)
    send(kafka, topic, range(40))  # of each partition the offsets 0 to 19
    fail_at(monkeypatch, "backlog-epoch-applied=raise")
    with pytest.raises(mixedmode.QueryError, match="failpoint"):
        job.start().awaitTermination(120)
    fail_at(monkeypatch, "")
    kafka.forget(topic, {0: 3})
    with pytest.raises(
        mixedmode.QueryError, match=f"topic {topic}, partition 0, offsets 0 to 2.*failOnDataLoss"
    ) as ended:
        job.start().awaitTermination(120)
    assert isinstance(ended.value.__cause__, mixedmode.DataLossError)
    query = job.start(failOnDataLoss="false")
    job.forget_while_live(query, range(40, 60), {0: 24, 1: 21})
    support.finish(query)
    assert told(query) == {0: {0, 1, 2, 20, 21, 22, 23}, 1: {20}}
    events = support.details(query, "data-lost")
    assert events[0].startswith(f"topic {topic}, partition 0, offsets 0 to 2: gone from the source, never read")
    read = {*range(60)} - {0, 2, 4, 40, 42, 44, 46, 41}
    check_each_once(world.output(), read)
    # The same while live, of a source that does not go on without.
    query = job.start()
    job.forget_while_live(query, range(60, 70), {1: 32})
    with pytest.raises(mixedmode.QueryError, match=f"topic {topic}, partition 1, offsets 30 to 31"):
        query.awaitTermination(120)
    # Messages of the other partition may have been there for an epoch of their own before.
    more = {value for _, value, _ in world.output()} & {*range(60, 70, 2)}
    read |= more
    check_each_once(world.output(), read)
    kafka.remake(topic)
    send(kafka, topic, range(100, 104))
    error = support.refusal(job.start)
    anew = f"offsets from {30 + len(more)} on (the topic was made anew, and has offsets 0 to 1"
    assert f"topic {topic}, partition 0, {anew}" in str(error)
    query = job.start(failOnDataLoss="false")
    query.processAllAvailable()
    send(kafka, topic, range(104, 110))
    support.finish(query)
    assert told(query) == {0: {0, 1}, 1: {0, 1}}
    check_each_once(world.output(), read | {*range(104, 110)})
    # Made anew with more messages than had been read: offsets alone do not tell.
    kafka.remake(topic)
    send(kafka, topic, range(200, 220))
    error = support.refusal(job.start)
    anew = "(the topic was made anew, and other messages have offsets 0 to 4)"
    assert f"topic {topic}, partition 1, offsets from 5 on {anew}" in str(error)
    query = job.start(failOnDataLoss="false")
    support.finish(query)
    assert told(query) == {0: {*range(5)}, 1: {*range(5)}}
    check_each_once(world.output(), read | {*range(104, 110), *range(210, 220)})
    kafka.delete(topic)
    assert f"topic {topic}, partition 1, offsets from 10 on" in str(support.refusal(job.start))
    assert not any(value in (100, 101) for _, value, _ in world.output())


def test_brokers_that_nobody_reaches_are_named_by_start(world: World, kafka: Broker) -> None:
    """Within seconds, with the option that names them; whoever describes the job by the topic is told at once."""
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        nobody = Broker(f"127.0.0.1:{bound.getsockname()[1]}")
        for begin in (
            lambda: Job(world, nobody, "t").start(),
            lambda: topics.read(world.spark, nobody.bootstrap, "t"),
            lambda: topics.snapshot(world.spark, nobody.bootstrap, "t"),
        ):
            error = support.refusal(begin)
            assert isinstance(error, mixedmode.PlanError)
            assert f"kafka.bootstrap.servers = '{nobody.bootstrap}': {nobody.bootstrap} (" in str(error)
    with pytest.raises(mixedmode.PlanError, match="topic 'no-such-topic'"):
        topics.read(world.spark, kafka.bootstrap, "no-such-topic")
