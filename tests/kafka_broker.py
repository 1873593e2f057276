"""A real Kafka broker for tests: one Java process on the loopback, as long as anybody of the run uses it.

Whoever uses it holds a lock, which the kernel takes back however that process ends.  The broker is the child of a
keeper, a process of its own that waits until nobody holds the lock, then ends the broker and removes its files.  So all
processes of a run share one broker, and none is left behind.

``python kafka_broker.py <folder> <jar>…`` is the keeper.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_START_S = 120
_JAVA = (
    *("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("-Xlog:cds*=off", "-Dlog4j2.level=ERROR"),
)
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.enable=false
num.network.threads=1
num.io.threads=2
# Event times of tests are old, and retention goes by them.
log.retention.ms=-1
"""


class Broker:
    """What tests do with a broker, beside reading it with Spark.

    Args:
        bootstrap: its address.
    """

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.bootstrap = bootstrap
        self._client = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(self._client)

    def create(self, name: str, partitions: int = 2, **config: str) -> str:
        """Make a topic with a name of its own, which begins with this one."""
        from confluent_kafka.admin import NewTopic

        topic = f"{name}-{secrets.token_hex(4)}"
        made = self._admin.create_topics([NewTopic(topic, partitions, 1, config=config)])
        made[topic].result(60)
        return topic

    def delete(self, topic: str) -> None:
        """Remove a topic."""
        self._admin.delete_topics([topic])[topic].result(60)

    def remake(self, topic: str, partitions: int = 2) -> None:
        """Remove a topic, and make another one of the same name."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        self.delete(topic)
        until = time.monotonic() + 60
        while True:
            try:
                self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
                return
            except KafkaException:  # the old one is not quite gone yet
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def enlarge(self, topic: str, partitions: int) -> None:
        """Give a topic so many partitions."""
        from confluent_kafka.admin import NewPartitions

        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)

    def forget(self, topic: str, before: Mapping[int, int]) -> None:
        """Remove the messages before an offset of each partition, as retention does."""
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for future in self._admin.delete_records(asked).values():
            future.result(60)

    def send(self, topic: str, messages: Iterable[tuple[int, str]], timestamp_ms: int = 0) -> None:
        """Send messages, each a partition and a text; returns when all are there.

        Args:
            topic: where to.
            messages: what.
            timestamp_ms: their time; 0: now.
        """
        from confluent_kafka import Producer

        producer = Producer({**self._client, "linger.ms": 0})  # an older one may not know a new partition yet
        for partition, text in messages:
            producer.produce(topic, value=text, partition=partition, timestamp=timestamp_ms)
            producer.poll(0)
        assert producer.flush(60) == 0

    def committed(self, topic: str) -> list[tuple[bytes | None, bytes, int]]:
        """What a reader of committed messages sees: key, value and partition, each partition's in order."""
        from confluent_kafka import Consumer, TopicPartition

        options = {"group.id": "tests", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer, found = Consumer({**self._client, **options, "enable.auto.commit": False}), []
        ends = self.ends(topic)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        while ends:
            message = consumer.poll(60)
            assert message is not None, f"{topic} has open transactions"
            if message.error() is None:
                found.append((message.key(), message.value(), message.partition()))
            else:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                ends.pop(message.partition(), None)
        consumer.close()
        return found

    def ends(self, topic: str) -> dict[int, int]:
        """The end of each partition: the offset that its next message gets."""
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        until = time.monotonic() + 120
        while True:
            partitions = self._admin.list_topics(topic, 60).topics[topic].partitions
            asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions}
            try:
                found = self._admin.list_offsets(asked)
                return {at.partition: future.result(60).offset for at, future in found.items()}
            except KafkaException as error:
                # A broker that stood still leads its partitions anew, which one of its next answers tells.
                if error.args[0].name() not in ("FENCED_LEADER_EPOCH", "_NOENT") or time.monotonic() > until:
                    raise


class Use:
    """Somebody's use of the broker of a folder, which is started if it does not run.

    Args:
        folder: of the run; all that use the same one share a broker.
        jars: the broker's class path.
    """

    def __init__(self, folder: Path, jars: Iterable[Path]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._mine = open(folder / "users", "w")  # noqa: SIM115
        with open(folder / "starting", "w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            fcntl.flock(self._mine, fcntl.LOCK_SH)  # waits for a keeper that is just ending another broker
            if not _answers(folder / "address"):
                self._start(folder, jars)
        self.bootstrap = (folder / "address").read_text()

    def _start(self, folder: Path, jars: Iterable[Path]) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
        with open(folder / "keeper.log", "w") as log:
            keeper = subprocess.Popen(
                [sys.executable, __file__, str(folder), *map(str, jars)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + _START_S
        while not _answers(folder / "address"):
            if keeper.poll() is not None or time.monotonic() > until:
                keeper.kill()
                said = "\n".join(path.read_text()[-2000:] for path in folder.glob("*.log"))
                raise RuntimeError(f"the Kafka broker did not start: {said}")
            time.sleep(0.05)

    def close(self) -> None:
        """Use it no more."""
        self._mine.close()

    def signal(self, number: int) -> None:
        """Send the broker's process a signal; for brokers that nobody else uses."""
        mine = str(self._folder / "server.properties").encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "cmdline").read_bytes().rstrip(b"\0").endswith(b"kafka.Kafka\0" + mine):
                    os.kill(int(process.name), number)
                    return
        raise ProcessLookupError(f"no broker of {self._folder}")


def _answers(address: Path) -> bool:
    if not address.exists():
        return False
    host, port = address.read_text().split(":")
    with socket.socket() as tried:
        return tried.connect_ex((host, int(port))) == 0


def keep(folder: Path, jars: list[str]) -> None:
    """Start a broker, and end it when nobody uses it."""
    broker: subprocess.Popen[bytes] | None = None
    with open(folder / "users", "w") as users:
        try:
            for _ in range(3):  # somebody else may take a port first
                broker, address = _launch(folder, jars)
                if _comes_up(broker, address):
                    made = folder / "address.made"
                    made.write_text(address)
                    made.rename(folder / "address")
                    fcntl.flock(users, fcntl.LOCK_EX)
                    return
                broker.kill()
        finally:
            (folder / "address").unlink(missing_ok=True)
            if broker is not None:
                broker.kill()
                broker.wait()
            shutil.rmtree(folder / "data", ignore_errors=True)
    sys.exit("the broker does not come up")


def _launch(folder: Path, jars: list[str]) -> tuple[subprocess.Popen[bytes], str]:
    broker, controller = _free_port(), _free_port()
    shutil.rmtree(folder / "data", ignore_errors=True)
    (folder / "data").mkdir()
    # What Kafka's own tool writes, in a JVM of its own that takes as long to start as the broker.
    identity = f"version=1\ncluster.id={_uuid()}\nnode.id=1\ndirectory.id={_uuid()}\n"
    (folder / "data" / "meta.properties").write_text(identity)
    properties = folder / "server.properties"
    properties.write_text(_PROPERTIES.format(broker=broker, controller=controller))
    home = os.environ.get("JAVA_HOME")
    command = [f"{home}/bin/java" if home else "java", *_JAVA, "-cp", ":".join(jars), "kafka.Kafka", str(properties)]
    # Files of properties are Latin-1, and names in the command line are of the locale; a path may have any letter.
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    with open(folder / "broker.log", "w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env=environment, preexec_fn=_die_with_parent
        )
    return process, f"127.0.0.1:{broker}"


def _free_port() -> int:
    """One below those that the kernel gives to whoever asks for any: nobody else gets it while the broker starts."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


def _uuid() -> str:
    return urlsafe_b64encode(bytes([1]) + secrets.token_bytes(15)).decode().rstrip("=")


def _die_with_parent() -> None:
    prctl: Any = getattr(ctypes.CDLL(None), "prctl", None)  # Linux alone has it
    if prctl is not None:
        prctl(1, signal.SIGKILL)


def _comes_up(broker: subprocess.Popen[bytes], address: str) -> bool:
    host, port = address.split(":")
    until = time.monotonic() + _START_S / 3
    while broker.poll() is None and time.monotonic() < until:
        with socket.socket() as tried:
            if tried.connect_ex((host, int(port))) == 0:
                return True
        time.sleep(0.05)
    return False


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2:])
