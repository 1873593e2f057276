"""What a Kafka cluster says of a topic, asked by the clients that Spark's connector brings along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

from ...errors import PlanError, SetupError
from .gateway import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADMIN = "org.apache.kafka.clients.admin"
_COMMON = "org.apache.kafka.common"
#: What Spark's connector hands on to Kafka's clients begins so.
_PREFIX = "kafka."
#: How long a cluster that does not answer is waited for; Kafka's own default is a minute.
_LONGEST_MS = "30000"


@dataclass(frozen=True)
class TopicRange:
    """Which messages of a topic are there, by partition."""

    #: The offset of the first one; of an empty partition its end.
    begins: Mapping[int, int]
    #: The offset that the next one gets.
    ends: Mapping[int, int]
    #: The time of the first one, in milliseconds since 1970; not of a partition without messages, or without times.
    first_times_ms: Mapping[int, int] = field(default_factory=dict)


def topic_range(spark: SparkSession, topic: str, options: Mapping[str, str]) -> TopicRange:
    """Ask a cluster for the partitions of a topic, and which offsets they have now.

    Args:
        spark: the session, with Spark's connector.
        topic: its name.
        options: as of Spark's connector: ``kafka.bootstrap.servers``, and what it takes to be let in.

    Raises:
        PlanError: there is no such topic, or no answer.
        SetupError: the session lacks the connector.
    """
    admin = _admin(spark, options)
    try:
        names = java_class(spark, "java.util.Collections").singletonList(topic)
        described = admin.describeTopics(names).allTopicNames().get().get(topic)
        partitions = [int(one.partition()) for one in described.partitions()]
        spec = java_class(spark, f"{_ADMIN}.OffsetSpec")
        begins, ends = (_ask(spark, admin, topic, partitions, one) for one in (spec.earliest(), spec.latest()))
        times = _ask(spark, admin, topic, partitions, spec.forTimestamp(0))
        return TopicRange(
            {number: int(begin.offset()) for number, begin in begins.items()},
            {number: int(end.offset()) for number, end in ends.items()},
            {number: int(first.timestamp()) for number, first in times.items() if first.timestamp() >= 0},
        )
    except Py4JJavaError as error:
        raise PlanError(
            f"topic {topic!r} at kafka.bootstrap.servers = {options.get('kafka.bootstrap.servers')!r} cannot be asked"
            f" for its offsets: {_root_of(error)}; check the address, the topic's name, and the kafka.* options"
        ) from error
    finally:
        admin.close()


def _admin(spark: SparkSession, options: Mapping[str, str]) -> Any:
    properties = java_class(spark, "java.util.Properties")()
    properties.setProperty("default.api.timeout.ms", _LONGEST_MS)
    properties.setProperty("request.timeout.ms", _LONGEST_MS)
    for name, value in options.items():
        if name.lower().startswith(_PREFIX):
            properties.setProperty(name[len(_PREFIX) :], value)
    try:
        return java_class(spark, f"{_ADMIN}.Admin").create(properties)
    except Py4JJavaError as error:
        raise PlanError(f"a Kafka client cannot be made of the kafka.* options: {_root_of(error)}") from error
    except (Py4JError, TypeError) as error:
        raise SetupError(
            "the session lacks Spark's connector to Kafka; make it with spark.jars.packages ="
            " 'org.apache.spark:spark-sql-kafka-0-10_2.13:<version of Spark>', or with its jars in spark.jars"
        ) from error


def _ask(spark: SparkSession, admin: Any, topic: str, partitions: list[int], spec: Any) -> dict[int, Any]:
    """The offset of each partition that a specification means, with its time."""
    asked, place = java_class(spark, "java.util.HashMap")(), java_class(spark, f"{_COMMON}.TopicPartition")
    for partition in partitions:
        asked.put(place(topic, partition), spec)
    found = admin.listOffsets(asked).all().get()
    return {partition: found.get(place(topic, partition)) for partition in sorted(partitions)}


def _root_of(error: Py4JJavaError) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString())
