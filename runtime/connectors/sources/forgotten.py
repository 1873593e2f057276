"""What a live source has forgotten of that which comes behind a job's position: retention does not wait for readers."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....errors import MixedModeError
from ...platform.spark_kafka import topic_range
from .live_sources import LiveSourceFacts, live_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ForgottenMessages:
    """Messages of one partition that the job has not read, and never will."""

    topic: str
    partition: int
    first: int
    last: int
    #: Whether the source was told to go on without them.
    is_tolerated: bool

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offsets {self.first} to {self.last}"


def forgotten_messages(
    spark: SparkSession, live: DataFrame, numbers: Sequence[int], offset_entry: str
) -> list[ForgottenMessages]:
    """What the topics of a live frame do not have any more.  A cluster that gives no answer says nothing.

    Args:
        spark: the session.
        live: the frame.
        numbers: for each of its sources the number under which Spark's log has its offset.
        offset_entry: Spark's entry of the position, from which the job goes on.
    """
    offsets, found = offset_entry.splitlines()[2:], []
    for source, number in zip(live_sources(live), numbers, strict=True):
        if source.name == "kafka" and number < len(offsets) and offsets[number].startswith("{"):
            found += _of(spark, source, json.loads(offsets[number]))
    return list(dict.fromkeys(found))


def _of(spark: SparkSession, source: LiveSourceFacts, offset: dict[str, dict[str, int]]) -> list[ForgottenMessages]:
    is_tolerated = source.options.get("failondataloss", "true").lower() == "false"
    found = []
    for topic, partitions in offset.items():
        try:
            begins = topic_range(spark, topic, source.options).begins
        except MixedModeError as error:  # Spark may know a way in that its options do not tell
            logger.info("whether messages behind the last checkpoint are still there is not known: %s", error)
            continue
        for number, at in sorted((int(number), at) for number, at in partitions.items()):
            if begins.get(number, at) > at:
                found.append(ForgottenMessages(topic, number, at, begins[number] - 1, is_tolerated))
    return found
