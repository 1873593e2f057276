"""Asks a Kafka cluster about topics, through the clients that Spark's connector brings along."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

from ...errors import PlanError, SetupError
from ..jvm.gateway import java_class
from .brokers import OPTION, check_reachable
from .connector_packages import package_hint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_ADMIN = "org.apache.kafka.clients.admin"
_COMMON = "org.apache.kafka.common"
#: What Spark's connector hands on to Kafka's clients begins so.
PREFIX = "kafka."
#: How long a cluster that takes connections and does not answer is waited for; Kafka's own default is a minute.
_LONGEST_MS = "10000"

#: The id that brokers give which have none.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"

#: A topic and the number of a partition.
Place = tuple[str, int]


@dataclass(frozen=True)
class TopicRange:
    """Which messages of a topic are there, by partition."""

    #: The offset of the first one; of an empty partition its end.
    begins: Mapping[int, int]
    #: The offset that the next one gets.
    ends: Mapping[int, int]
    #: The time of the first one, in milliseconds since 1970; not of a partition without messages, or without times.
    first_times_ms: Mapping[int, int] = field(default_factory=dict)
    #: What tells the topic from another one of its name; None: the brokers do not say.
    topic_id: str | None = None


class NoSuchTopic(PlanError):
    """There is no topic of that name."""

    code = "MIXEDMODE_TOPIC_UNKNOWN"


class TopicClient:
    """A client of one cluster, for questions about offsets; to be closed.

    Args:
        spark: the session, with Spark's connector.
        options: as of Spark's connector: ``kafka.bootstrap.servers``, and what it takes to be let in.

    Raises:
        PlanError: nobody is there, or the options make no client.
        SetupError: the session lacks the connector.
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        check_reachable(options)
        self._spark = spark
        self._options = options
        self._admin = _admin(spark, options)
        #: Java's objects for partitions: each epoch asks for the same ones.
        self._keys: dict[Place, Any] = {}

    def __enter__(self) -> TopicClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ask nothing any more."""
        self._admin.close()

    def range_of(self, topic: str) -> TopicRange:
        """The offsets that a topic has now.

        Raises:
            NoSuchTopic: there is none of that name.
            PlanError: there is no answer.
        """
        try:
            names = java_class(self._spark, "java.util.Collections").singletonList(topic)
            described = self._admin.describeTopics(names).allTopicNames().get().get(topic)
            places = [(topic, int(one.partition())) for one in described.partitions()]
            spec = java_class(self._spark, f"{_ADMIN}.OffsetSpec")
            asked = [self._ask(places, one) for one in (spec.earliest(), spec.latest(), spec.forTimestamp(0))]
            begins, ends, times = (one() for one in asked)
            return TopicRange(
                {number: int(begin.offset()) for (_, number), begin in begins.items()},
                {number: int(end.offset()) for (_, number), end in ends.items()},
                {number: int(one.timestamp()) for (_, number), one in times.items() if one.timestamp() >= 0},
                _id_of(described),
            )
        except Py4JJavaError as error:
            raise self._refused(topic, error) from error

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """What tells topics from others of their names; none of those that are not there, or whose brokers do not say.

        Raises:
            PlanError: there is no answer.
        """
        names = java_class(self._spark, "java.util.ArrayList")()
        asked = sorted(topics)
        for topic in asked:
            names.add(topic)
        answers, found = self._admin.describeTopics(names).topicNameValues(), {}
        for topic in asked:
            try:
                told = _id_of(answers.get(topic).get())
            except Py4JJavaError as error:
                refused = self._refused(topic, error)
                if not isinstance(refused, NoSuchTopic):
                    raise refused from error
                continue
            if told is not None:
                found[topic] = told
        return found

    def begins(self, places: Iterable[Place]) -> Callable[[], dict[Place, int]]:
        """Ask for the first offset of partitions that are there, and go on; the answer is in what is returned.

        Raises:
            PlanError: there is no answer; mostly when it is looked at.
        """
        asked = sorted(places)
        told = ", ".join(sorted({topic for topic, _ in asked}))
        try:
            answer = self._ask(asked, java_class(self._spark, f"{_ADMIN}.OffsetSpec").earliest())
        except Py4JJavaError as error:
            raise self._refused(told, error) from error

        def offsets() -> dict[Place, int]:
            try:
                return {place: int(begin.offset()) for place, begin in answer().items()}
            except Py4JJavaError as error:
                raise self._refused(told, error) from error

        return offsets

    def setting_of(self, topic: str, name: str) -> str:
        """A setting of a topic, its own or the brokers' default; empty: it has none of that name.

        Raises:
            PlanError: there is no answer.
        """
        kinds = java_class(self._spark, f"{_COMMON}.config.ConfigResource$Type")
        resource = java_class(self._spark, f"{_COMMON}.config.ConfigResource")(kinds.TOPIC, topic)
        asked = java_class(self._spark, "java.util.Collections").singletonList(resource)
        try:
            entry = self._admin.describeConfigs(asked).all().get().get(resource).get(name)
        except Py4JJavaError as error:
            raise self._refused(topic, error, "settings") from error
        return "" if entry is None else str(entry.value())

    def has_transactions(self, topic: str, partitions: Iterable[int]) -> bool:
        """Whether a producer that brokers remember (for a day, by default) has written to a topic in a transaction.

        Args:
            topic: its name.
            partitions: its partitions.

        Raises:
            PlanError: there is no answer.
        """
        asked = java_class(self._spark, "java.util.ArrayList")()
        for number in partitions:
            asked.add(java_class(self._spark, f"{_COMMON}.TopicPartition")(topic, number))
        try:
            states = self._admin.describeProducers(asked).all().get().values()
        except Py4JJavaError as error:
            raise self._refused(topic, error, "producers") from error
        return any(
            producer.coordinatorEpoch().orElse(-1) >= 0 or producer.currentTransactionStartOffset().isPresent()
            for state in states
            for producer in state.activeProducers()
        )

    def _ask(self, places: Iterable[Place], spec: Any) -> Callable[[], dict[Place, Any]]:
        """Ask for the offset of each partition that a specification means, with its time."""
        request, keys = java_class(self._spark, "java.util.HashMap")(), {}
        for place in places:
            if place not in self._keys:
                self._keys[place] = java_class(self._spark, f"{_COMMON}.TopicPartition")(*place)
            keys[place] = self._keys[place]
            request.put(keys[place], spec)
        future = self._admin.listOffsets(request).all()

        def answer() -> dict[Place, Any]:
            found = future.get()
            return {place: found.get(key) for place, key in keys.items()}

        return answer

    def _refused(self, topic: str, error: Py4JJavaError, what: str = "offsets") -> PlanError:
        brokers = next((value for name, value in self._options.items() if name.lower() == OPTION), None)
        root = _root_of(error)
        kind = NoSuchTopic if "UnknownTopicOrPartitionException" in root else PlanError
        return kind(
            f"topic {topic!r} at {OPTION} = {brokers!r} cannot be asked for its {what}: {root}; check the"
            " address, the topic's name, and the kafka.* options"
        )


def topic_range(spark: SparkSession, topic: str, options: Mapping[str, str]) -> TopicRange:
    """Ask a cluster for the partitions of a topic, and which offsets they have now.

    Args:
        spark: the session, with Spark's connector.
        topic: its name.
        options: as of :class:`TopicClient`.

    Raises:
        NoSuchTopic: there is none of that name.
        PlanError: there is no answer.
        SetupError: the session lacks the connector.
    """
    with TopicClient(spark, options) as client:
        return client.range_of(topic)


def check_topic(spark: SparkSession, topic: str, options: Mapping[str, str]) -> None:
    """Raise if brokers can be reached, and say that there is no such topic.

    Args:
        spark: the session, with Spark's connector.
        topic: its name.
        options: as of :class:`TopicClient`.

    Raises:
        NoSuchTopic: they say so.
        PlanError: nobody is there.
        SetupError: the session lacks the connector.
    """
    check_reachable(options)
    try:
        topic_range(spark, topic, options)
    except NoSuchTopic:
        raise
    except PlanError as error:  # Spark may know a way in that its options do not tell
        logger.info("whether topic %s is there is not known: %s", topic, error)


def _admin(spark: SparkSession, options: Mapping[str, str]) -> Any:
    properties = java_class(spark, "java.util.Properties")()
    properties.setProperty("default.api.timeout.ms", _LONGEST_MS)
    properties.setProperty("request.timeout.ms", _LONGEST_MS)
    for name, value in options.items():
        if name.lower().startswith(PREFIX):
            properties.setProperty(name[len(PREFIX) :], value)
    try:
        return java_class(spark, f"{_ADMIN}.Admin").create(properties)
    except Py4JJavaError as error:
        raise PlanError(f"a Kafka client cannot be made of the kafka.* options: {_root_of(error)}") from error
    except (Py4JError, TypeError) as error:
        raise SetupError(
            f"the session lacks Spark's connector to Kafka; {package_hint('kafka', spark.version)}",
            code="MIXEDMODE_CONNECTOR_MISSING",
        ) from error


def _id_of(described: Any) -> str | None:
    told = str(described.topicId().toString())
    return None if told == _NO_ID else told


def _root_of(error: Py4JJavaError) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString())
