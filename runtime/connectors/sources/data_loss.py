"""Finds messages that a live source lost before the job read them: retention does not wait for readers.

Offsets of a partition only grow, and what retention takes are the first ones.  So what is lost can be told exactly:
from where the job stands, or a micro-batch begins, to where the partition begins now.  A partition that ends before the
job's position belongs to a topic that was deleted and made anew, and so does one of a topic that has another id.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from ....errors import MixedModeError
from ...spark_io.spark_kafka import NoSuchTopic, TopicClient, TopicRange
from .live_sources import LiveSourceFacts, live_sources

logger = logging.getLogger(__name__)

#: Offsets by topic and partition, as Spark writes them.
Offsets = Mapping[str, Mapping[int, int]]

#: Kafka's ids of topics, by name.
TopicIds = Mapping[str, str]

#: ``gone``: before anybody read them.  ``perhaps``: while they were read.  ``made-anew``: the topic was, and Spark goes
#: on behind what it holds now, or where it stood in the old one.  ``no-partition``: it is there no more.
Fate = Literal["gone", "perhaps", "made-anew", "no-partition"]


@dataclass(frozen=True)
class ForgottenMessages:
    """Messages of one partition that the job has not read, and never will."""

    topic: str
    partition: int
    first: int
    #: Before ``first`` if there are none (a topic made anew, and empty yet).
    last: int
    #: Whether the source was told to go on without them.
    is_tolerated: bool
    fate: Fate = "gone"
    #: Of a topic made anew: up to where the job had come in the old one.
    reached: int | None = None

    def __str__(self) -> str:
        where = f"topic {self.topic}, partition {self.partition}"
        if self.fate == "no-partition":
            return f"{where}, offsets from {self.first} on"
        if self.fate == "made-anew":
            return f"{where}, offsets from {self.reached} on (the topic was made anew, and {self._instead})"
        return f"{where}, offsets {self.first} to {self.last}"

    @property
    def _instead(self) -> str:
        """What a topic made anew has where the old one had what the job has read."""
        has = f"offsets {self.first} to {self.last}"
        if self.reached is not None and self.last >= self.reached - 1:
            return f"other messages have {has}" if self.first <= self.last else "what came first is gone"
        return f"has {has}" if self.first <= self.last else "has no messages"


@dataclass(frozen=True)
class ReadPosition:
    """Up to where a Kafka source was read."""

    source: LiveSourceFacts
    offsets: Offsets
    #: Of the topics that the offsets are of; of others it is not known.
    topic_ids: TopicIds = field(default_factory=dict)


#: Options by which a source reads the partitions that it names, and none that are added.
_FIXED = {"assign", "endingoffsets"}


def is_tolerant(source: LiveSourceFacts) -> bool:
    """Whether a source goes on without what it has lost."""
    return source.options.get("failondataloss", "true").lower() == "false"


def logged_offsets(line: str) -> Offsets | None:
    """An offset of Kafka's as Spark's log has it; None: it is none."""
    try:
        return {
            topic: {int(number): int(at) for number, at in partitions.items()}
            for topic, partitions in json.loads(line).items()
        }
    except (ValueError, AttributeError, TypeError):
        return None


def kafka_offsets(
    live: DataFrame, numbers: Sequence[int], offset_entry: str, topic_ids: Mapping[int, TopicIds]
) -> list[ReadPosition]:
    """The Kafka sources of a live frame, with their part of a position.

    Args:
        live: the frame.
        numbers: for each of its sources the number under which Spark's log has its offset.
        offset_entry: Spark's entry of the position.
        topic_ids: those of the topics that were read, by the source's number.
    """
    lines, found = offset_entry.splitlines()[2:], []
    for source, number in zip(live_sources(live), numbers, strict=True):
        offsets = logged_offsets(lines[number]) if source.name == "kafka" and number < len(lines) else None
        if offsets is not None:
            found.append(ReadPosition(source, offsets, topic_ids.get(number, {})))
    return found


def forgotten_messages(spark: SparkSession, positions: Sequence[ReadPosition]) -> list[ForgottenMessages]:
    """What the topics do not have any more behind positions.  A cluster that gives no answer says nothing.

    Args:
        spark: the session.
        positions: of Kafka sources, where the job goes on.
    """
    found: list[ForgottenMessages] = []
    for reached in positions:
        source = reached.source
        try:
            with TopicClient(spark, source.options) as client:
                for topic in reached.offsets:
                    found += forgotten_in(client, topic, reached)
        except MixedModeError as error:  # Spark may know a way in that its options do not tell
            logger.info("it is unknown whether messages after the job's position still exist: %s", error)
    return list(dict.fromkeys(found))


def forgotten_in(client: TopicClient, topic: str, reached: ReadPosition) -> list[ForgottenMessages]:
    """What a topic does not have any more behind a position.

    Args:
        client: of its cluster.
        topic: its name.
        reached: the position, in this topic and perhaps others.

    Raises:
        PlanError: there is no answer.
    """
    source, at = reached.source, reached.offsets[topic]
    known = _range_of(client, topic)
    if _FIXED & source.options.keys():
        known = replace(known, begins={one: begin for one, begin in known.begins.items() if one in at})
    is_another = known.topic_id is not None and reached.topic_ids.get(topic, known.topic_id) != known.topic_id
    return list(behind(topic, at, known, is_tolerated=is_tolerant(source), is_another=is_another))


def _range_of(client: TopicClient, topic: str) -> TopicRange:
    try:
        return client.range_of(topic)
    except NoSuchTopic:
        return TopicRange({}, {})


def behind(
    topic: str, at: Mapping[int, int], known: TopicRange, *, is_tolerated: bool, is_another: bool = False
) -> Iterator[ForgottenMessages]:
    """What a topic lacks behind a position.

    Args:
        topic: its name.
        at: the position, by partition.
        known: which offsets the topic has.
        is_tolerated: whether its reader goes on without.
        is_another: whether it is another topic than the one that the position is in.
    """
    for number in sorted({*at, *known.begins}):
        position = at.get(number, 0)  # a partition that was added: all of it is to be read
        if number not in known.begins:
            yield ForgottenMessages(topic, number, position, position - 1, is_tolerated, "no-partition")
            continue
        begin, end = known.begins[number], known.ends[number]
        if end < position or (is_another and position > 0):
            last = min(end, position) - 1
            yield ForgottenMessages(topic, number, min(begin, last + 1), last, is_tolerated, "made-anew", position)
        if end >= position and begin > position:
            yield ForgottenMessages(topic, number, position, begin - 1, is_tolerated)


def between(
    topic: str,
    start: Mapping[int, int],
    end: Mapping[int, int],
    before: Mapping[int, int],
    after: Mapping[int, int],
) -> Iterator[ForgottenMessages]:
    """What a micro-batch lacks, whose reader goes on without.

    Args:
        topic: the topic.
        start: where the micro-batch begins, by partition.
        end: the first offsets behind it.
        before: the topic's first offsets, before the micro-batch was read; of partitions that are there.
        after: the same afterwards.
    """
    for number in sorted({*start, *end}):
        first = start.get(number, 0)
        if number not in end:
            yield ForgottenMessages(topic, number, first, first - 1, True, "no-partition")
            continue
        last = end[number]
        if last < first:
            begin = min(before.get(number, 0), last)
            yield ForgottenMessages(topic, number, begin, last - 1, True, "made-anew", first)
            continue
        gone = min(max(before.get(number, first), first), last)
        perhaps = min(max(after.get(number, gone), gone), last)
        if gone > first:
            yield ForgottenMessages(topic, number, first, gone - 1, True)
        if perhaps > gone:
            yield ForgottenMessages(topic, number, gone, perhaps - 1, True, "perhaps")
