"""Kafka as the live side of a job: behind a lake, alone, from now on, and over failures."""

from __future__ import annotations

import re
from typing import Any

import kafka_support
import mixedmode
import pytest
import support
from kafka_broker import Broker
from kafka_support import check_each_once, numbered, parsed, send, without_positions
from mixedmode import kafka as topics
from pyspark import cloudpickle
from support import World

cloudpickle.register_pickle_by_value(kafka_support)


def live(world: World, broker: Broker, topic: str, **options: str) -> Any:
    reader = world.spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    return without_positions(reader.options(subscribe=topic, **options).load())


def lake(world: World, broker: Broker, topic: str, condition: str = "true") -> Any:
    """What the topic holds now, kept in Parquet with the position of each message."""
    path = str(world.folder / "lake")
    topics.snapshot(world.spark, broker.bootstrap, topic, parse=parsed).where(condition).write.parquet(path)
    return world.spark.read.parquet(path)


def open_end(world: World, broker: Broker, topic: str) -> Any:
    reader = world.spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    return without_positions(reader.option("subscribe", topic).load())


def events(query: mixedmode.MixedQuery, name: str) -> list[str]:
    return [event.detail for event in query.lifecycle if event.event == name]


def test_a_topic_goes_on_right_behind_the_lake(world: World, kafka: Broker) -> None:
    """By the lake's positions live begins behind its greatest offsets, at the earliest of a partition that it lacks; a
    waiting topic is one pass with the lake, offsets and lag are in the progress, and a restart reads nothing again."""
    topic = kafka.create("flights", 3)
    send(kafka, topic, range(60), 3)
    history = lake(world, kafka, topic, "partition < 2")
    send(kafka, topic, range(60, 90), 3)
    described = numbered(topics.read(world.spark, kafka.bootstrap, topic, parse=without_positions, history=history))
    assert "{0: 20, 1: 20, 2: earliest}" in described.writeStream.format("noop").plan().explain().replace("\n", " ")
    query = world.start(described)
    assert query.wait_for("live", 120)
    (seam,) = support.details(query, "seam")
    assert f"live began at {topic} {{0: 20, 1: 20, 2: 0}}; was read up to {topic} {{0: 30, 1: 30, 2: 30}}" in seam
    assert seam.endswith("history and live meet, without gap or overlap")
    (backlog,) = query.recentProgress
    source = backlog.sources[-1]
    assert (backlog.numInputRows, source["endOffset"]) == (90, {topic: {"0": 30, "1": 30, "2": 30}})
    send(kafka, topic, range(90, 120), 3)
    query.processAllAvailable()
    source = query.lastProgress.sources[-1]
    assert source["startOffset"] == {topic: {"0": 30, "1": 30, "2": 30}}
    assert source["endOffset"] == source["latestOffset"] == {topic: {"0": 40, "1": 40, "2": 40}}
    assert source["lag"] == {topic: {"0": 0, "1": 0, "2": 0}} and "maxOffsetsBehindLatest" in source["metrics"]
    query.stop()
    # The lake goes on, the topic forgets, gets another partition: a job that goes on asks neither where to begin.
    kafka.forget(topic, {0: 35})
    kafka.enlarge(topic, 4)
    send(kafka, topic, range(120, 160), 4)
    again = topics.read(world.spark, kafka.bootstrap, topic, parse=without_positions, history=history)
    query = world.start(numbered(again))
    query.processAllAvailable()
    check_each_once(world.output(), range(160))
    query.stop()


def test_flaws_of_positions_are_told_before_anything_runs(world: World, kafka: Broker) -> None:
    """What the topic has forgotten before the lake had it, what the lake has twice, and rows of no position."""
    topic = kafka.create("gaps", 2)
    send(kafka, topic, range(20))
    history = lake(world, kafka, topic, "offset < 5 and partition = 0")
    kafka.forget(topic, {0: 8, 1: 2})
    doubled = history.union(history).union(history.selectExpr("key", "ts", "value", "null", "offset"))

    def read(rows: Any, **options: Any) -> Any:
        return numbered(topics.read(world.spark, kafka.bootstrap, topic, history=rows, parse=parsed, **options))

    error = support.refusal(lambda: world.start(read(doubled)))
    for part in (
        r"partition 0: the history ends with offset 4, and the topic begins at offset 8: the messages 5 to 7 are",
        r"partition 1: the history has none of it, and the topic begins at offset 2: the messages 0 to 1 are in",
        r"partition 0: the history has 10 rows of the offsets 0 to 4, so some messages are in it more than once",
        r"5 rows of the history do not say which message they were",
        r"tolerate_gaps",
    ):
        assert re.search(part, str(error))
    assert not world.out.exists()
    tolerant = read(history, tolerate_gaps=True)
    assert "messages 5 to 7 are in neither" in tolerant.writeStream.format("noop").plan().warnings[0]
    query = world.start(tolerant)
    assert query.wait_for("live", 120)
    query.stop()
    check_each_once(world.output(), [*range(0, 10, 2), 16, 18, *range(5, 20, 2)])
    with pytest.raises(mixedmode.PlanError, match=r"endingOffsets = 'latest'.*kafka\.snapshot"):
        mixedmode.read(history=open_end(world, kafka, topic), live=live(world, kafka, topic))
    other = kafka.create("other", 1)
    for rows, topic_name, words in (
        (history.withColumn("partition", history.partition + 7), topic, "partition 7"),
        (history, other, "ends at 0"),
        (history.drop("offset"), topic, "column offset does not exist"),
        (history, "no-such-topic", "no-such-topic"),
    ):
        with pytest.raises(mixedmode.PlanError, match=words):
            topics.read(world.spark, kafka.bootstrap, topic_name, history=rows, parse=parsed)


def test_a_topic_alone_and_cut_by_time(world: World, kafka: Broker) -> None:
    """Without a history the topic is the backlog; cut by time each side has its rows, although they overlap; behind a
    snapshot of itself a topic goes on where that ends.  Each is one pass."""
    topic = kafka.create("alone", 2)
    send(kafka, topic, range(40))
    history = lake(world, kafka, topic).drop("partition", "offset")
    send(kafka, topic, range(40, 50))
    alone = numbered(topics.read(world.spark, kafka.bootstrap, topic, parse=without_positions))

    def cut(rows: Any, moment: str) -> Any:
        how: Any = {"parse": without_positions, "history": rows, "cut": ("ts", moment)}
        return topics.read(world.spark, kafka.bootstrap, topic, **how)

    both = cut(history, "2024-01-01 00:00:30")
    snapshot = topics.snapshot(world.spark, kafka.bootstrap, topic, parse=without_positions)
    send(kafka, topic, range(50, 60))
    behind = topics.read(world.spark, kafka.bootstrap, topic, parse=without_positions, history=snapshot)
    for number, described in enumerate((alone, numbered(both), numbered(behind))):
        mine = World(world.spark, world.folder / str(number))
        query = mine.start(described, None, availableNow=True)
        query.awaitTermination(120)
        check_each_once(mine.output(), range(60))
        assert len([one for one in query.recentProgress if one.numInputRows]) == len(query.recentProgress) == 1
    with pytest.raises(mixedmode.PlanError, match="'tomorrow' is no point in time"):
        cut(history, "tomorrow")
    for how, words in (
        ({"cut": "2024-01-01"}, "cut = '2024-01-01' must be a pair"),
        ({"cut": ("nope", "2024-01-01")}, "nope"),
        ({"cut": ("value", "2024-01-01")}, "value"),
        ({"cut": ("ts", "2024-01-01"), "history": None}, "there is none"),
        ({"positions": ("offset",)}, "positions = .* must be a pair"),
        ({"history": live(world, kafka, topic)}, "history is a stream"),
        ({"history": "lake"}, "history is a str"),
        ({"parse": "value"}, "parse = 'value' must be a function"),
    ):
        with pytest.raises(mixedmode.PlanError, match=words):
            topics.read(world.spark, kafka.bootstrap, topic, **{"history": history, "parse": without_positions, **how})
    with pytest.raises(mixedmode.PlanError, match="topic = None must be a text"):
        topics.read(world.spark, kafka.bootstrap, None)  # type: ignore[arg-type]
    with pytest.raises(mixedmode.OptionError, match="startingOffsets = 'latest' says which messages"):
        topics.read(world.spark, kafka.bootstrap, topic, options={"startingOffsets": "latest"})
    assert "by time: rows with ts < 2024-01-01 00:00:30" in str(numbered(both).writeStream.format("noop").plan())
    # The messages were sent just now: what it forgets of them may well belong behind a cut of long ago.
    kafka.forget(topic, {1: 3})
    error = support.refusal(lambda: world.start(numbered(cut(history, "2024-01-01 00:00:30"))))
    assert "partition 1: the topic has forgotten the messages before offset 3 and begins at" in str(error)


@pytest.mark.parametrize(("options", "is_warned"), [({}, True), ({"startingOffsets": "latest"}, False)])
def test_a_source_that_begins_with_later_messages_by_default_is_warned_of(
    world: World, kafka: Broker, options: dict[str, str], is_warned: bool
) -> None:
    """Spark's default leaves out what the topic holds at the first start; whoever asks for it has no warning."""
    reader = world.spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    whole = without_positions(reader.option("subscribe", kafka.create("unsaid", 1)).options(**options).load())
    warnings = numbered(mixedmode.read(live=whole)).writeStream.format("noop").plan().warnings
    assert any("has no startingOffsets, and Spark's default is 'latest'" in said for said in warnings) == is_warned


def test_messages_that_retention_took_behind_a_checkpoint(world: World, kafka: Broker) -> None:
    """A job that comes back too late is refused, with topic, partition and offsets; with ``failOnDataLoss = false`` it
    goes on without them and says which they were.  Limits of the source are for the stream; partitions may be added."""
    topic = kafka.create("kept", 2)
    send(kafka, topic, range(40))

    def start(**options: str) -> mixedmode.MixedQuery:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "20", **options}
        return world.start(numbered(mixedmode.read(live=live(world, kafka, topic, **options))))

    query = start()
    assert query.wait_for("live", 120)
    kafka.enlarge(topic, 3)
    send(kafka, topic, range(100, 130), 3)
    query.processAllAvailable()
    rows = [(one.phase, one.numInputRows) for one in query.recentProgress]
    assert rows[0] == ("backlog", 40) and sum(count for phase, count in rows[1:] if phase == "live") == 30
    assert max(count for _, count in rows[1:]) <= 20
    query.stop()
    send(kafka, topic, range(40, 60))
    kafka.forget(topic, {0: 35, 1: 32})
    error = support.refusal(start)
    lost = [f"topic {topic}, partition 0, offsets 30 to 34", f"topic {topic}, partition 1, offsets 30 to 31"]
    assert isinstance(error, mixedmode.CheckpointError) and "; ".join(lost) in str(error)
    query = start(failOnDataLoss="false")
    query.processAllAvailable()
    assert [event.split(":")[0] for event in events(query, "data-lost")] == lost
    query.stop()
    check_each_once(world.output(), {*range(60), *range(100, 130)} - {40, 42, 44, 46, 48, 41, 43})


def test_output_goes_to_a_topic(world: World, kafka: Broker) -> None:
    """Rows with a value become messages when a checkpoint completes, sent by either client as is asked for; what would
    not is refused by start()."""
    topic, shown = kafka.create("in", 1), kafka.create("out", 1)
    send(kafka, topic, range(10), 1)
    rows = numbered(topics.read(world.spark, kafka.bootstrap, topic, parse=without_positions))
    messages = rows.selectExpr("key", "concat_ws(',', key, value, number) AS value")
    there = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": shown}

    def start(frame: Any) -> mixedmode.MixedQuery:
        writer = frame.writeStream.format("kafka").options(**there).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(world.checkpoints)).start()

    for frame, words in (
        (rows.drop("value"), "needs a column value"),
        (rows, "value is of type bigint"),
        (messages.withColumn("partition", messages["key"]), "partition is of type string"),
    ):
        assert words in str(support.refusal(lambda frame=frame: start(frame)))
    del there["topic"]
    assert "needs a topic" in str(support.refusal(lambda: start(messages)))
    there["topic"] = shown
    messages = messages.withColumn("number", messages["key"])  # which Spark leaves out, too
    for guarantee in ("exactly-once", "at-least-once"):
        there["sink.delivery-guarantee"] = guarantee
        query = start(messages)
        query.awaitTermination(120)
        assert f"topic {shown}: {guarantee}" in query.lastProgress.sink["description"]
        send(kafka, topic, range(10, 20), 1)
    found = topics.snapshot(world.spark, kafka.bootstrap, shown).selectExpr("CAST(value AS STRING)").collect()
    check_each_once([(key, int(value), int(n)) for key, value, n in (row[0].split(",") for row in found)], range(20))
