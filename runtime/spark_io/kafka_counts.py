"""Checks that the offsets of a topic count its messages: the real-time live phase commits by that.

In a compacted topic offsets are missing, and a transaction takes one for its end in each partition that it wrote to.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...errors import PlanError
from .spark_kafka import PREFIX, TopicClient, TopicRange

logger = logging.getLogger(__name__)

#: How many of the last offsets of each partition are compared with the messages that are there.
_LAST = 100


def why_uncountable(spark: SparkSession, topic: str, options: Mapping[str, str]) -> tuple[TopicRange, str | None]:
    """The offsets of a topic, and why they do not count its messages; None: as far as can be seen, they do.

    Args:
        spark: the session, with Spark's connector.
        topic: its name.
        options: of the source.

    Raises:
        PlanError: there is no such topic, or no answer.
        SetupError: the session lacks the connector.
    """
    with TopicClient(spark, options) as client:
        offsets = client.range_of(topic)
        if any(
            name.lower() == "kafka.isolation.level" and value.lower() == "read_committed"
            for name, value in options.items()
        ):
            return offsets, "is read with kafka.isolation.level = read_committed, which leaves out aborted transactions"
        try:
            policy = client.setting_of(topic, "cleanup.policy")
            if "compact" in policy:
                return offsets, f"is compacted (cleanup.policy = {policy}), so offsets are missing"
            if client.has_transactions(topic, offsets.begins):
                return offsets, "has transactions, each of which takes offsets without a message"
        except PlanError as error:  # the user may read messages, and not ask about the topic
            logger.info("whether topic %s is compacted or has transactions is not known: %s", topic, error)
    return offsets, _gaps(spark, topic, options, offsets)


def _gaps(spark: SparkSession, topic: str, options: Mapping[str, str], offsets: TopicRange) -> str | None:
    """What is missing among the last messages; None: nothing, or they cannot be read."""
    begins = {number: max(begin, offsets.ends[number] - _LAST) for number, begin in offsets.begins.items()}
    expected = sum(offsets.ends[number] - begin for number, begin in begins.items())
    if not expected:
        return None
    reader = spark.read.format("kafka").options(
        **{name: value for name, value in options.items() if name.lower().startswith(PREFIX)},
        subscribe=topic,
        startingOffsets=_option(topic, begins),
        endingOffsets=_option(topic, offsets.ends),
    )
    try:
        found = reader.load().count()
    except PySparkException as error:
        logger.info("the last messages of topic %s cannot be counted: %s", topic, error)
        return None
    if found == expected:
        return None
    return f"has {found} messages at its last {expected} offsets: it has transactions, or it was compacted before"


def _option(topic: str, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(number): offset for number, offset in offsets.items()}})
