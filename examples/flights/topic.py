"""December as messages: a topic on a broker of the demo's own, and the producer that fills it while a query runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .data import SCHEMA

# The tests' broker and the jars that it takes.
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
import maven_jars
from kafka_broker import Broker, Use

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTITIONS = 4
#: Where the history ends and the topic begins: midnight in New York, in the session's time zone, which is UTC.
DECEMBER = "2013-12-01 05:00:00"
#: Messages that are on their way at a time: of those a micro-batch may see a later one of one partition first.
_ON_THEIR_WAY = 100


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A broker for as long as the demo runs; its jars are fetched once."""
    try:
        use = Use(folder, maven_jars.jars("broker"))
    except maven_jars.NotToBeHad as error:
        raise SystemExit(f"the demo needs a Kafka broker: {error}") from None
    try:
        yield Broker(use.bootstrap)
    finally:
        use.close()


def connector() -> list[Path]:
    """The jars of Spark's connector."""
    try:
        return maven_jars.jars("connector")
    except maven_jars.NotToBeHad as error:
        raise SystemExit(f"the demo needs Spark's connector to Kafka: {error}") from None


@dataclass(frozen=True)
class Topic:
    """Where a job's December comes from."""

    brokers: str
    name: str

    @classmethod
    def made(cls, broker: Broker, name: str) -> Topic:
        """A new one."""
        return cls(broker.bootstrap, broker.create(name, PARTITIONS))


def flights_of(messages: DataFrame) -> DataFrame:
    """The flights that messages hold as JSON."""
    return messages.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("flight")).select("flight.*")


class Producer:
    """A thread that sends the prepared files of the feed, flight by flight, keyed by aircraft.

    Args:
        source: the files, in the order of their names.
        topic: where the flights go.
        pause_s: time between two files.
        per_second: how many flights are sent in a second; None: as many as the broker takes.
    """

    def __init__(self, source: Path, topic: Topic, pause_s: float, per_second: int | None = None) -> None:
        self._files = sorted(source.glob("*.parquet"))
        self._topic = topic
        self._pause_s = pause_s
        self._per_second = per_second
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """True until the last flight is sent."""
        if self._error is not None:
            raise self._error
        return self._thread.is_alive()

    def stop(self) -> None:
        """Send no further file."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        from confluent_kafka import Producer as Client

        try:
            at_a_time = _ON_THEIR_WAY if self._per_second is None else max(1, self._per_second // 50)
            pace_s = 0.0 if self._per_second is None else at_a_time / self._per_second
            client = Client({"bootstrap.servers": self._topic.brokers, "linger.ms": 1, "log_level": 0})
            for path in self._files:
                flights = _messages(path)
                while some := list(islice(flights, at_a_time)):
                    for key, value in some:
                        client.produce(self._topic.name, value=value, key=key)
                    if client.flush(60):
                        raise TimeoutError(f"the broker at {self._topic.brokers} takes no messages")
                    if pace_s and self._stop.wait(pace_s):
                        return
                if self._stop.wait(self._pause_s):
                    return
        except BaseException as error:
            self._error = error


def _messages(path: Path) -> Iterator[tuple[str | None, str]]:
    """Key and value of each flight of a file, in its order."""
    table: Any = pd.read_parquet(path)
    keys: Mapping[int, Any] = dict(enumerate(table["tailnum"]))
    lines = table.to_json(orient="records", lines=True, date_format="iso").splitlines()
    for number, line in enumerate(lines):
        yield keys[number], line
