"""A lane's producer and the group that its markers are in, by ``confluent-kafka``.

Every failure is one of two: :class:`.sender.Interrupted`, if another try may get through, or an error that says what is
to be done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent import futures
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .....errors import CheckpointError
from ....support.failpoints import failpoint
from .client_options import of_all_clients
from .guarantee import OPTION
from .markers import Marker
from .messages import MessageColumns
from .sender import Interrupted

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

#: How long one request may take, its repetitions by the client included.
REQUEST_S = 30.0
#: Messages between two looks at what has become of earlier ones.
_POLL_EVERY = 1_000
#: Kafka's default of offsets.retention.minutes.
_KEPT_MS = 7 * 24 * 3_600_000
#: The partition of a topic that a marker is committed for: every topic has it.
_PARTITION = 0

#: Somebody else has connected as the same sender.
_FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
#: What no further try would change: the names of codes, and what is to be done.
_FINAL: dict[str, str] = {
    "TOPIC_AUTHORIZATION_FAILED": "the job's user needs WRITE on the topic, and READ for the marker",
    "GROUP_AUTHORIZATION_FAILED": "the job's user needs READ on consumer groups like mixedmode-…",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the job's user needs WRITE on transactional ids like mixedmode-…",
    "CLUSTER_AUTHORIZATION_FAILED": "the job's user may not write to this cluster",
    "MSG_SIZE_TOO_LARGE": "kafka.max.request.size, and the topic's max.message.bytes, say how large a message may be",
    "RECORD_LIST_TOO_LARGE": "the topic's max.message.bytes says how large a batch may be",
    "INVALID_RECORD": "the broker does not take a message; a compacted topic needs keys",
    "TOPIC_EXCEPTION": "that is no name of a topic",
    "UNKNOWN_TOPIC_OR_PART": "there is no such topic or partition; make it",
    "_UNKNOWN_TOPIC": "there is no such topic; make it",
    "_UNKNOWN_PARTITION": "the topic has no such partition",
    "INVALID_TRANSACTION_TIMEOUT": "kafka.transaction.timeout.ms is more than the brokers allow",
    "UNSUPPORTED_VERSION": f"the brokers have no transactions; set {OPTION} = at-least-once",
    "_UNSUPPORTED_FEATURE": f"the brokers have no transactions; set {OPTION} = at-least-once",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": f"the brokers have no transactions; set {OPTION} = at-least-once",
    "_AUTHENTICATION": "the brokers do not take the job's credentials",
    "SASL_AUTHENTICATION_FAILED": "the brokers do not take the job's credentials",
    "_SSL": "the brokers cannot be reached that way",
}


def explained_kafka_error(error: KafkaError, about: str = "") -> Exception:
    """What a failure of the client means here.

    Args:
        error: the client's.
        about: what it is about; empty: it says so.
    """
    name, said = error.name(), f"{about}{error.str()}"
    hint = _FINAL.get(name)
    if hint is None:
        return Interrupted(f"{said} ({name})", is_fenced=name in _FENCED)
    return CheckpointError(
        f"Kafka does not take the output: {said} ({name}); {hint}", code="MIXEDMODE_KAFKA_UNREACHABLE"
    )


class Client:
    """One lane's producer: made, it has ended what an earlier one of the same name has left open.

    Args:
        config: of the producer.
        name: its transactional.id, and its group (:func:`.markers.transactional_id`).
        columns: which columns make a message.

    Raises:
        Interrupted: the brokers did not answer, or another try may get through.
        CheckpointError: no other try will.
    """

    def __init__(self, config: Mapping[str, str], name: str, columns: MessageColumns) -> None:
        from confluent_kafka import Producer

        self._config, self._name, self._columns = dict(config), name, columns
        self._failed: list[tuple[KafkaError, str]] = []
        self._said: list[KafkaError] = []
        self._begun = False
        self._group: Any = None
        callbacks: dict[str, Any] = {"on_delivery": self._delivered, "error_cb": self._said.append}
        callbacks["delivery.report.only.error"] = True
        self._producer = Producer({**config, "transactional.id": name, **callbacks})
        try:
            self._do(self._producer.init_transactions, REQUEST_S)
        except BaseException:
            self.close()
            raise

    def markers(self) -> list[Marker]:
        """What the transactions of this lane have committed; waits for one that is just ending."""
        return [Marker.read(at.topic, at.offset, at.metadata) for at in committed(self._config, self._name)]

    def has_topic(self, topic: str) -> bool:
        """Whether the brokers know a topic; some make it when they are asked."""
        from confluent_kafka import KafkaException

        try:
            error = self._producer.list_topics(topic, REQUEST_S).topics[topic].error
        except KafkaException as failure:
            raise explained_kafka_error(failure.args[0]) from failure
        if error is not None and error.name() not in ("UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE"):
            raise explained_kafka_error(error)
        return error is None

    def send(self, rows: pa.RecordBatch) -> str:
        """Send messages, in the transaction that they begin if there is none; returns the topic of the last."""
        self._begin()
        topic = ""
        for number, message in enumerate(self._columns.messages(rows)):
            topic = message[0]
            self._produce(*message)
            if number % _POLL_EVERY == 0:
                self._poll(0)
                failpoint("kafka-in-transaction")
        return topic

    def _begin(self) -> None:
        if not self._begun:
            self._do(self._producer.begin_transaction)
            self._begun = True

    def _produce(self, topic: str, value: Any, key: Any, partition: int, headers: Any) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                if headers is None:
                    self._producer.produce(topic, value, key, partition)
                else:
                    self._producer.produce(topic, value, key, partition, headers=headers)
                return
            except BufferError:  # what is waiting must go first
                self._poll(1.0)
            except KafkaException as error:
                raise explained_kafka_error(error.args[0], f"a message for topic {topic!r}: ") from error

    def mark(self, marker: Marker) -> None:
        """Have all messages in the log, and the marker in their transaction, which it begins if there is none."""
        from confluent_kafka import Consumer, TopicPartition

        self._begin()
        position = TopicPartition(marker.topic, _PARTITION, marker.position, marker.text())
        if self._group is None:  # of a consumer only its group's name counts: it joins nothing and reads nothing
            of_group = {**of_all_clients(self._config), "group.id": self._name}
            self._group = Consumer(of_group).consumer_group_metadata()
        self._do(self._producer.flush, REQUEST_S)
        self._do(self._producer.send_offsets_to_transaction, [position], self._group, REQUEST_S)

    def commit(self) -> None:
        """End the transaction: its messages and its marker are there together."""
        self._do(self._producer.commit_transaction)
        self._begun = False

    def close(self) -> None:
        """Give up what is open, so that readers do not wait for its end."""
        from confluent_kafka import KafkaException

        if self._begun:
            with contextlib.suppress(KafkaException):
                self._producer.abort_transaction(REQUEST_S / 3)
        del self._producer

    def _poll(self, seconds: float) -> None:
        self._do(self._producer.poll, seconds)

    def _do(self, act: Any, *args: Any) -> None:
        """Call the client; what has become of earlier messages says more than that something has."""
        from confluent_kafka import KafkaException

        try:
            act(*args)
        except KafkaException as error:
            with contextlib.suppress(KafkaException):
                self._producer.poll(0)
            self._raise_failed()
            said: KafkaError = error.args[0]
            more = [explained_kafka_error(one) for one in self._said]
            final = next((one for one in more if isinstance(one, CheckpointError)), None)
            raise final or explained_kafka_error(said) from error
        self._raise_failed()

    def _raise_failed(self) -> None:
        if self._failed:
            error, topic = self._failed[0]
            raise explained_kafka_error(error, f"a message for topic {topic!r}: ")

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None and error.name() not in ("_PURGE_QUEUE", "_PURGE_INFLIGHT"):
            self._failed.append((error, message.topic()))


def committed(config: Mapping[str, str], group: str) -> list[Any]:
    """The offsets of a group, those of a transaction only if it has been committed.

    Raises:
        Interrupted: another try may get through.
        CheckpointError: no other try will.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(of_all_clients(config))
    try:
        asked = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], require_stable=True, request_timeout=REQUEST_S
        )
        found = asked[group].result(REQUEST_S + 1).topic_partitions
    except KafkaException as error:
        raise explained_kafka_error(error.args[0]) from error
    except futures.TimeoutError as error:
        raise Interrupted(f"no answer on the offsets of group {group}") from error
    for at in found or ():
        if at.error is not None:
            raise explained_kafka_error(at.error)
    return [at for at in found or () if at.offset >= 0]


def silence(config: Mapping[str, str], topic: str | None, seconds: float) -> str | None:
    """Why brokers do not answer; None: they do.

    Args:
        config: of the producer.
        topic: one that they may be asked about; None: any.
        seconds: how long they are waited for.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(of_all_clients(config))
    try:
        if topic is None:
            admin.list_topics(timeout=seconds)
        else:
            admin.list_topics(topic, timeout=seconds)
    except KafkaException as error:
        said: KafkaError = error.args[0]
        return f"{said.str()} ({said.name()})"
    return None


def may_write(config: Mapping[str, str], topic: str) -> bool:
    """False if the brokers say that the user may not write to a topic."""
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import AclOperation, AdminClient

    admin = AdminClient(of_all_clients(config))
    asked = admin.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=REQUEST_S
    )
    try:
        allowed = asked[topic].result(REQUEST_S + 1).authorized_operations
    except (KafkaException, futures.TimeoutError):
        return True  # brokers that do not say
    return not allowed or AclOperation.WRITE in allowed


def offsets_are_kept_ms(config: Mapping[str, str]) -> int:
    """How long the brokers remember the offsets of a group that commits no more."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

    admin = AdminClient(of_all_clients(config))
    try:
        broker = str(next(iter(admin.list_topics(timeout=REQUEST_S).brokers)))
        resource = ConfigResource(ResourceType.BROKER, broker)
        found = admin.describe_configs([resource], request_timeout=REQUEST_S)[resource].result(REQUEST_S + 1)
        return int(found["offsets.retention.minutes"].value) * 60_000
    except (KafkaException, futures.TimeoutError, KeyError, TypeError, ValueError, StopIteration):
        return _KEPT_MS  # a user who may not look at it


def check_config(config: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The first option that the client does not take, its value and why; None: it takes all.  Nothing is connected."""
    from confluent_kafka import KafkaException, Producer

    def trouble(some: Mapping[str, str]) -> str | None:
        try:
            Producer({**some, "transactional.id": "mixedmode"})
        except KafkaException as error:
            return str(error.args[0].str())
        return None

    why = trouble(config)
    if why is None:
        return None
    for name, text in config.items():
        alone = trouble({name: text})
        if alone is not None:
            return name, text, alone
    named = next((name for name in config if name in why), next(iter(config)))
    return named, config[named], why
