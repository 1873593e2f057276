"""Senders against a real broker, killed and paused for real: readers see each row once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from kafka_broker import Broker
from mixedmode.errors import CheckpointError, OptionError
from mixedmode.runtime.connectors.sinks.kafka.client import (
    Client,
    committed,
    may_write,
    offsets_are_kept_ms,
)
from mixedmode.runtime.connectors.sinks.kafka.client_options import client_options
from mixedmode.runtime.connectors.sinks.kafka.markers import Marker
from mixedmode.runtime.connectors.sinks.kafka.messages import MessageColumns
from mixedmode.runtime.connectors.sinks.kafka.probe import probe
from mixedmode.runtime.connectors.sinks.kafka.sender import Interrupted
from mixedmode.runtime.support.failpoints import VARIABLE

sys.path.append(str(Path(__file__).parent))

import lane_process

ROWS = 45


@pytest.fixture(scope="module")
def topic(kafka: Broker) -> str:
    """One that all tests of the module send to, each with values of its own."""
    return kafka.create("sink", 2)


def start(broker: Broker, topic: str, name: str, token: str, points: str) -> subprocess.Popen[str]:
    words = [broker.bootstrap, topic, name, token, str(ROWS)]
    command = [sys.executable, lane_process.__file__, *words]
    return subprocess.Popen(command, env={**os.environ, VARIABLE: points}, stdout=subprocess.PIPE, text=True)


def seen(broker: Broker, topic: str, token: str) -> list[str]:
    return [value.decode() for _, value, _ in broker.committed(topic) if value.startswith(token.encode())]


def rows(token: str, upto: int = ROWS) -> list[str]:
    return sorted(f"{token}{at}" for at in range(upto))


@pytest.mark.slow
@pytest.mark.kill
def test_senders_that_are_killed(kafka: Broker, topic: str) -> None:
    """Killed before a transaction is committed, with all of its messages in the log, or behind it: the next sender goes
    on behind what readers see, and they see no message of the dead one that was not committed."""
    for points, upto in (("kafka-before-commit=kill:2", 20), ("kafka-after-commit=kill", 40)):
        killed = start(kafka, topic, "lane-killed", "k", points)
        killed.communicate(timeout=120)
        assert killed.returncode == -signal.SIGKILL
        last = lane_process.lane(kafka.bootstrap, topic, "lane-killed", "", 0)
        last.send(lambda _: [])  # ends what is open, and sends nothing
        assert sorted(seen(kafka, topic, "k")) == rows("k", upto)
    rest = lane_process.lane(kafka.bootstrap, topic, "lane-killed", "k", ROWS)
    assert rest.send(lambda _: lane_process.numbers("k", ROWS)) == ROWS - 40
    assert sorted(seen(kafka, topic, "k")) == rows("k")


@pytest.mark.slow
@pytest.mark.kill
def test_a_sender_that_wakes_up(kafka: Broker, topic: str) -> None:
    """Paused with a whole transaction in the log, while another one sends: awake it cannot commit that, sees how far
    the lane is, and sends nothing; and where a newer driver has fenced the lane, it says so."""
    paused = start(kafka, topic, "lane-paused", "p", "kafka-before-commit=stop")
    until, state = time.monotonic() + 60, Path(f"/proc/{paused.pid}/stat")
    while state.read_text().rpartition(")")[2].split()[0] != "T":
        assert paused.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    other = lane_process.lane(kafka.bootstrap, topic, "lane-paused", "p", ROWS)
    assert other.send(lambda _: lane_process.numbers("p", ROWS)) == ROWS
    paused.send_signal(signal.SIGCONT)
    assert paused.communicate(timeout=120)[0].strip() == "0"
    assert sorted(seen(kafka, topic, "p")) == rows("p")
    assert lane_process.lane(kafka.bootstrap, topic, "lane-paused", "", 0, branch=2).fence([topic])
    with pytest.raises(CheckpointError, match="taken this job over"):
        lane_process.lane(kafka.bootstrap, topic, "lane-paused", "q", ROWS).send(lambda _: [])


def test_what_the_brokers_say(kafka: Broker, topic: str) -> None:
    """A first look finds brokers that do not answer and topics that are not there; what fails in between is told as
    what to do about it, and what another try may mend as that."""
    config = client_options({"kafka.bootstrap.servers": kafka.bootstrap, "kafka.message.max.bytes": "2000"})
    probe(config, topic)
    assert may_write(config, topic) and offsets_are_kept_ms(config) == 7 * 24 * 3_600_000
    assert committed(config, "nobody") == []
    with pytest.raises(OptionError, match="topic = 'no-such-topic' is not known to the brokers"):
        probe(config, "no-such-topic")
    columns = MessageColumns(topic, {"value": 0})
    client = Client(config, "lane-told", columns)
    with pytest.raises(CheckpointError, match=r"MSG_SIZE_TOO_LARGE.*max\.request\.size"):
        client.send(pa.RecordBatch.from_pydict({"value": ["x" * 3000]}))
    again = Client(config, "lane-told", columns)
    with pytest.raises(Interrupted) as caught:
        client.mark(Marker(0, "a", 1, topic))
    assert caught.value.is_fenced
    again.close()


def test_brokers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their address is in the error."""
    for module in ("client", "probe"):
        monkeypatch.setattr(f"mixedmode.runtime.connectors.sinks.kafka.{module}.REQUEST_S", 0.2)
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers = '127\.0\.0\.1:1': the brokers do not answer"):
        probe(client_options({"kafka.bootstrap.servers": "127.0.0.1:1"}), None)
