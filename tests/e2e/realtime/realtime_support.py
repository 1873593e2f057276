"""Lives of a job in Real-Time Mode, and what its reader sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import driver_realtime
import kafka_support
from driver_jvm import DriverJvm
from kafka_broker import Broker
from mixedmode.runtime.connectors.sinks.kafka.live_messages import (
    EPOCH_HEADER,
    RUN_HEADER,
    SEQUENCE_HEADER,
    SINCE_HEADER,
)

DRIVER = Path(driver_realtime.__file__)


@dataclass(frozen=True)
class Message:
    """A message of the output; of micro-batches it says nothing of its run."""

    key: str
    value: str
    run: int | None
    since: int
    epoch: int
    sequence: int


@dataclass(frozen=True)
class RealTimeJob:
    """One job, from topic to topic."""

    broker: Broker
    jvm: DriverJvm
    folder: Path
    kind: str

    @classmethod
    def of(cls, broker: Broker, jvm: DriverJvm, folder: Path, kind: str) -> RealTimeJob:
        """A job of a kind, with topics of its own."""
        folder.mkdir(exist_ok=True)
        (folder / "source").write_text(broker.create("source", 2))
        (folder / "target").write_text(broker.create("target", 1))
        return cls(broker, jvm, folder, kind)

    def send(self, values: Iterable[int]) -> None:
        """Have messages in the source before the next life begins."""
        kafka_support.send(self.broker, (self.folder / "source").read_text(), values)

    def life(self, life: str, *told: str, real_time: str | None = "1 second", points: str = "") -> int:
        """One life of its driver; returns the exit code.  ``real_time`` None: with micro-batches.

        Args:
            life: what it does.
            told: options of the job, or its master: ``name=value``.
            real_time: length of an epoch.
            points: where who dies.
        """
        trigger = ("processingTime", "0 seconds") if real_time is None else ("realTime", real_time)
        done = self.jvm.run(
            DRIVER, self.folder, self.broker.bootstrap, self.kind, *trigger, life, *told, MIXEDMODE_FAILPOINTS=points
        )
        return done.returncode

    def messages(self) -> list[Message]:
        """All messages of the output, in order."""
        found = []
        for key, value, headers in kafka_support.messages(self.broker, (self.folder / "target").read_text()):
            told = {name: int(number) for name, number in headers}
            numbers = (told.get(name, 0) for name in (SINCE_HEADER, EPOCH_HEADER, SEQUENCE_HEADER))
            found.append(Message(key, value, told.get(RUN_HEADER), *numbers))
        return found

    def output(self) -> list[Message]:
        """Without what later runs have replaced."""
        messages = self.messages()
        begins = {one.run: one.since for one in messages if one.run is not None}
        return [
            one
            for one in messages
            if one.run is None or all(one.epoch < since for run, since in begins.items() if run > one.run)
        ]


def each_once(messages: list[Message]) -> list[tuple[str, int, int]]:
    """Key, value and number of the messages of a job that numbers its rows."""
    return [(one.key, *map(int, one.value.split(","))) for one in messages]
