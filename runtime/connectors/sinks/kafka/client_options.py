"""The user's ``kafka.*`` options as the client takes them that sends exactly once.

It is librdkafka; Spark's own writer has the Java client.  Most of their options have one name and one meaning.  Where
only the name differs, or the client needs what another option holds, it is translated; what cannot be is refused, with
the other guarantee as the way out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .....errors import OptionError
from .guarantee import OPTION

PREFIX = "kafka."
#: Options that are the sender's own.
_OURS = ("transactional.id", "group.id", "isolation.level", "delivery.report.only.error")
#: Java's names -> librdkafka's.
_NAMES = {
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
#: What all clients take, those that only look, too.
_OF_ALL_CLIENTS = re.compile(
    r"bootstrap\.servers|client\.|security\.|sasl\.|ssl\.|socket\.|broker\.|reconnect\.|connections\.|metadata\.|"
    r"api\.version|enable\.ssl|log_level|debug|resolve\."
)
_JAAS = re.compile(r"\.(Plain|Scram)LoginModule\b")
_JAAS_VALUE = r'{}\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"]+)'
_SECRET = re.compile(r"password|jaas|\.key|secret|\.pem|token")
#: Where users have a say, and otherwise: a key goes to the partition that Java's client chooses for it, the broker may
#: be slow, and what goes wrong is raised, so that nothing need be printed.
_DEFAULTS = {"partitioner": "murmur2_random", "linger.ms": "20", "log_level": "0", "compression.type": "none"}
_FIXED = {"enable.idempotence": "true"}


def client_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a producer, without those that are the sender's own.

    Args:
        options: the writer's.

    Raises:
        OptionError: one of them is ours to set, or the client does not know it.
    """
    given = {name.lower()[len(PREFIX) :]: text for name, text in options.items() if name.lower().startswith(PREFIX)}
    config = dict(_DEFAULTS)
    for name, text in given.items():
        if name in _OURS:
            raise OptionError(f"option {PREFIX}{name} = {text!r} is set by the job itself; leave it out")
        config.update(_translated(name, text, given))
    return {**config, **_FIXED}


def of_all_clients(config: Mapping[str, str]) -> dict[str, Any]:
    """Of a producer's options those by which any client finds its way to the brokers."""
    return {name: text for name, text in config.items() if _OF_ALL_CLIENTS.match(name)}


def shown(name: str, text: str) -> str:
    """An option for an error message, without what nobody should read there."""
    return f"{PREFIX}{name}" if _SECRET.search(name) else f"{PREFIX}{name} = {text!r}"


def not_to_be_had(name: str, text: str, why: str) -> OptionError:
    """The error for an option that the client does not take.

    Args:
        name: the option's, without the prefix.
        text: its value.
        why: what the client says.
    """
    return OptionError(
        f"option {shown(name, text)} is not for the client that sends exactly once, which is librdkafka ({why}); give"
        f" it librdkafka's options, or set {OPTION} = at-least-once, which sends with Spark's own client"
    )


def _translated(name: str, text: str, given: Mapping[str, str]) -> dict[str, str]:
    if name == "sasl.jaas.config":
        return _login(text)
    if name == "buffer.memory" and text.isdecimal():
        return {"queue.buffering.max.kbytes": str(max(1, int(text) >> 10))}
    if name == "ssl.endpoint.identification.algorithm" and not text:
        return {name: "none"}
    if name in ("ssl.truststore.type", "ssl.keystore.type"):
        kinds = ("PEM",) if "trust" in name else ("PEM", "PKCS12")
        if text.upper() not in kinds:
            raise not_to_be_had(name, text, f"it reads {' and '.join(kinds)}")
        return {}
    if name == "ssl.truststore.location" and given.get("ssl.truststore.type", "").upper() == "PEM":
        return {"ssl.ca.location": text}
    return {_NAMES.get(name, name): text}


def _login(jaas: str) -> dict[str, str]:
    """User and password of a login module that has nothing else."""
    found = {name: re.search(_JAAS_VALUE.format(name), jaas) for name in ("username", "password")}
    if not _JAAS.search(jaas) or not all(found.values()):
        raise not_to_be_had("sasl.jaas.config", jaas, "of login modules it takes PlainLoginModule and ScramLoginModule")
    return {f"sasl.{name}": _unquoted(match[1]) for name, match in found.items() if match}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
