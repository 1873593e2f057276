"""Options of Spark's Kafka client as those of the client that sends exactly once."""

from __future__ import annotations

import pytest
from mixedmode.errors import OptionError
from mixedmode.runtime.connectors.sinks.kafka.client import check_config
from mixedmode.runtime.connectors.sinks.kafka.client_options import client_options, not_to_be_had, of_all_clients

SERVERS = {"kafka.bootstrap.servers": "b:1"}
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a b" password="p\\"w";'


def test_options_are_handed_over() -> None:
    """By their names in any case, translated where only the name differs; our own are not for users to change."""
    given = {"KAFKA.Linger.ms": "5", "kafka.max.request.size": "2000000", "kafka.buffer.memory": "33554432"}
    config = client_options({**SERVERS, **given, "topic": "t"})
    expected = {"linger.ms": "5", "message.max.bytes": "2000000", "queue.buffering.max.kbytes": "32768"}
    assert expected.items() <= config.items() and "topic" not in config
    assert config["partitioner"] == "murmur2_random", "keys go where Java's client has them"
    assert client_options({**SERVERS, "kafka.enable.idempotence": "false"})["enable.idempotence"] == "true"
    assert of_all_clients(config).keys() == {"bootstrap.servers", "log_level"}
    assert check_config(config) is None
    with pytest.raises(OptionError, match=r"kafka\.transactional\.id = 'mine' is set by the job"):
        client_options({**SERVERS, "kafka.transactional.id": "mine"})


def test_credentials() -> None:
    """A login module of user and password is taken apart; what only Java can read is refused, without the secret."""
    secured = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "SCRAM-SHA-512"}
    config = client_options({**SERVERS, **secured, "kafka.sasl.jaas.config": SCRAM})
    assert (config["sasl.username"], config["sasl.password"]) == ("a b", 'p"w')
    assert {"sasl.username", "sasl.password", "security.protocol"} <= of_all_clients(config).keys()
    assert check_config(config) is None
    for refused in (
        {"kafka.sasl.jaas.config": 'com.sun.security.auth.module.Krb5LoginModule required keyTab="secret";'},
        {"kafka.sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required user="secret";'},
        {"kafka.ssl.truststore.type": "JKS", "kafka.ssl.truststore.password": "secret"},
    ):
        with pytest.raises(OptionError, match="delivery-guarantee = at-least-once") as caught:
            client_options({**SERVERS, **refused})
        assert "secret" not in str(caught.value)
    pem = {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": "/ca.pem"}
    assert client_options({**SERVERS, **pem})["ssl.ca.location"] == "/ca.pem"


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("kafka.max.block.ms", "5", r"option kafka\.max\.block\.ms = '5' is not for .*No such configuration property"),
        ("kafka.linger.ms", "long", r"kafka\.linger\.ms = 'long'"),
        ("kafka.acks", "1", r"kafka\.acks = '1'"),
        ("kafka.delivery.timeout.ms", "900000", r"kafka\.delivery\.timeout\.ms = '900000'"),
    ],
)
def test_what_the_client_does_not_take(option: str, value: str, words: str) -> None:
    """It is named, with its value, before anything is connected."""
    refused = check_config(client_options({**SERVERS, option: value}))
    assert refused is not None
    with pytest.raises(OptionError, match=words):
        raise not_to_be_had(*refused)
