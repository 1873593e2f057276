"""Sends messages at once from a task in Real-Time Mode: at least once, and each says what it is of.

A message says the run, the epoch, the shard, and its place among those of the shard in that epoch, as text in headers.
What an epoch has sent that is never committed is sent again by a later run, perhaps with other contents, and perhaps in
a later epoch: the first ones of a run may have no output.  So a message also says with which epoch its run began.  It
is replaced if a later run began with its epoch or an earlier one, and the last message of a key is that with the
greatest run, epoch and sequence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .....errors import CheckpointError
from .....state.keys.keygroups import ShardId
from ....support.ids import EpochNumber
from .client import REQUEST_S, explained_kafka_error
from .client_options import client_options
from .messages import MessageColumns

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

#: The headers of a message.
RUN_HEADER, EPOCH_HEADER = "mixedmode.run", "mixedmode.epoch"
SHARD_HEADER, SEQUENCE_HEADER = "mixedmode.shard", "mixedmode.sequence"
SINCE_HEADER = "mixedmode.since"
#: How long a message waits for others, unless the user has said it; each ms is one of its latency.
_LINGER_MS = "2"
#: Messages between two looks at what has become of earlier ones.
_POLL_EVERY = 100
#: What the brokers have not taken, and of which topic, of one process's producers.
_Failures = list[tuple["KafkaError", str]]


def live_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of the producers.

    Args:
        options: the writer's.

    Raises:
        OptionError: as of :func:`~.client_options.client_options`.
    """
    has_linger = any(name.lower() == "kafka.linger.ms" for name in options)
    return {**client_options(options), **({} if has_linger else {"linger.ms": _LINGER_MS})}


@dataclass(frozen=True)
class LiveMessages:
    """How messages are made and sent.

    Args:
        config: of the producer.
        columns: which columns make a message.
        run: number of the run: greater than those of all runs before.
        since: the epoch that it begins with: the first one that was not committed then.
    """

    config: Mapping[str, str]
    columns: MessageColumns
    run: int
    since: EpochNumber


class LiveSender:
    """Sends what comes of a shard in an epoch; takes an operator's rows.

    Args:
        messages: how.
        epoch: the epoch's number.
        shard: the shard's.
    """

    def __init__(self, messages: LiveMessages, epoch: EpochNumber, shard: ShardId) -> None:
        self._columns = messages.columns
        self._producer, self._failures = _kept_producer(messages.config)
        self._failures.clear()  # an epoch that was given up has left them
        numbers = {
            RUN_HEADER: messages.run,
            SINCE_HEADER: messages.since,
            EPOCH_HEADER: epoch,
            SHARD_HEADER: shard,
        }
        self._token = [(name, _text(number)) for name, number in numbers.items()]
        #: How many messages were sent.
        self.sent = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Send rows; they are on their way when this returns, and in the topic soon."""
        for topic, value, key, partition, headers in self._columns.messages(rows):
            self.sent += 1
            told = [*(headers or ()), *self._token, (SEQUENCE_HEADER, _text(self.sent))]
            self._produce(topic, value, key, partition, told)
            if self.sent % _POLL_EVERY == 0:
                self.look()

    def _produce(self, topic: str, value: Any, key: Any, partition: int, headers: Any) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
                return
            except BufferError:  # what is waiting must go first
                self._producer.poll(1.0)
                self.look()
            except KafkaException as error:
                raise explained(error.args[0], f"a message for topic {topic!r}: ") from error

    def look(self) -> None:
        """Raise CheckpointError if the brokers have not taken a message."""
        self._producer.poll(0)
        if self._failures:
            error, topic = self._failures[0]
            raise explained(error, f"a message for topic {topic!r}: ")

    def flush(self) -> None:
        """Return when the brokers have all messages.

        Raises:
            CheckpointError: they have not.
        """
        left = self._producer.flush(REQUEST_S)
        self.look()
        if left:
            raise CheckpointError(f"Kafka has not taken {left} messages within {REQUEST_S:.0f} s")


def explained(error: KafkaError, about: str) -> CheckpointError:
    """What a failure of the client means here.

    Args:
        error: the client's.
        about: what it is about.
    """
    meant = explained_kafka_error(error, about)
    return meant if isinstance(meant, CheckpointError) else CheckpointError(f"Kafka has not taken {meant}")


#: What a process keeps from epoch to epoch, and may be without: a producer takes up to 120 ms until it can send.  A
#: child that was forked makes its own.
_producers: dict[tuple[int, tuple[tuple[str, str], ...]], tuple[Producer, _Failures]] = {}


def _kept_producer(config: Mapping[str, str]) -> tuple[Producer, _Failures]:
    from confluent_kafka import KafkaException, Producer

    slot = (os.getpid(), tuple(sorted(config.items())))
    if slot not in _producers:
        failures: _Failures = []

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failures.append((error, message.topic()))

        made = Producer({**config, "on_delivery": delivered, "delivery.report.only.error": True})
        try:
            made.list_topics(timeout=REQUEST_S)  # connects
        except KafkaException as error:
            raise explained(error.args[0], "") from error
        _producers[slot] = made, failures
    return _producers[slot]


def _text(number: int) -> bytes:
    return str(number).encode()
