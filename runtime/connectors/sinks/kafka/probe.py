"""Checks at ``start()`` that brokers take what the sink will send.

A transaction without messages is made, which commits a marker, as the job's own will; so a broker without transactions
and users without rights are found.  What it leaves is an offset of a group that nobody uses, which Kafka forgets by
itself; jobs that start at once may end each other's, and know then that transactions work.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from .....errors import CheckpointError, OptionError
from ....support.ids import JobId
from .client import REQUEST_S, Client, may_write
from .client_options import PREFIX
from .markers import Marker, transactional_id
from .messages import MessageColumns
from .sender import Interrupted

#: How long a broker may need to make a topic, where it does so by itself.
_CREATION_S = 3.0
_PAUSE_S = 0.1


def probe(config: Mapping[str, str], topic: str | None) -> None:
    """Try the brokers.

    Args:
        config: of the producer.
        topic: where to; None: rows say it.

    Raises:
        OptionError: they cannot be reached, have no such topic, or do not take transactions of this user.
    """
    where, until = f"{PREFIX}bootstrap.servers = {config.get('bootstrap.servers')!r}", time.monotonic() + REQUEST_S
    while True:
        try:
            _try_out(config, topic)
            return
        except Interrupted as error:
            if error.is_fenced:  # by another job that just starts
                return
            if time.monotonic() > until:
                said = f"the brokers do not answer as they should within {REQUEST_S:g} s: {error}"
                raise OptionError(f"{where}: {said}", code="MIXEDMODE_KAFKA_UNREACHABLE") from error
            time.sleep(_PAUSE_S)
        except CheckpointError as error:
            raise OptionError(f"{where}: {error}", code="MIXEDMODE_KAFKA_UNREACHABLE") from error


def _try_out(config: Mapping[str, str], topic: str | None) -> None:
    client = Client(config, transactional_id(JobId("check"), 0), MessageColumns(topic, {}))
    try:
        if topic is not None:
            _check_topic(client, config, topic)
            client.mark(Marker(0, "check", 0, topic))
            client.commit()
    finally:
        client.close()


def _check_topic(client: Client, config: Mapping[str, str], topic: str) -> None:
    until = time.monotonic() + _CREATION_S
    while not client.has_topic(topic):
        if time.monotonic() > until:
            raise OptionError(
                f"topic = {topic!r} is not known to the brokers, and they do not make it; make it",
                code="MIXEDMODE_KAFKA_UNREACHABLE",
            )
        time.sleep(_PAUSE_S)
    if not may_write(config, topic):
        raise OptionError(
            f"topic = {topic!r}: the job's user may not write to it; it needs WRITE", code="MIXEDMODE_KAFKA_UNREACHABLE"
        )
