"""When rows of a query can be seen in its sink: each micro-batch has a number, and the moment when it shows is kept."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq

_PATIENCE_S = 60
_LOOK_EVERY_S = 0.002


class Visible(Protocol):
    """A sink as those who read it see it."""

    def into(self, writer: Any) -> Any:
        """A query's writer that writes here."""

    def newest(self) -> int:
        """The greatest number that can be seen; -1: none."""

    def close(self) -> None:
        """Nobody looks any more."""


def wait(sink: Visible, number: int) -> float:
    """Return when a micro-batch can be seen: the moment, by the monotonic clock."""
    deadline = time.monotonic() + _PATIENCE_S
    while sink.newest() < number:
        if time.monotonic() > deadline:
            raise TimeoutError(f"rows of micro-batch {number} cannot be seen after {_PATIENCE_S} s")
        time.sleep(_LOOK_EVERY_S)
    return time.monotonic()


class Function:
    """A function of ``foreachBatch`` that collects what it is given."""

    def __init__(self) -> None:
        self._newest = -1

    def into(self, writer: Any) -> Any:
        return writer.foreachBatch(self._take)

    def _take(self, rows: Any, number: int) -> None:
        self._newest = max([self._newest, *(row["number"] for row in rows.collect())])

    def newest(self) -> int:
        return self._newest

    def close(self) -> None:
        pass


class Folder:
    """Parquet files, read as Spark reads them: where there is a log of complete files only those count."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: set[str] = set()
        self._newest = -1

    def into(self, writer: Any) -> Any:
        return writer.format("parquet").option("path", str(self._folder))

    def newest(self) -> int:
        log = self._folder / "_spark_metadata"
        if log.exists():
            complete = "".join(entry.read_text() for entry in log.iterdir() if entry.name[0].isdigit())
            files = [file for file in self._folder.glob("*.parquet") if file.name in complete]
        else:
            files = list(self._folder.glob("*.parquet"))
        for file in files:
            if file.name not in self._seen:
                numbers = pq.read_table(file, columns=["number"])["number"].to_pylist()
                self._newest = max([self._newest, *numbers])
                self._seen.add(file.name)
        return self._newest

    def close(self) -> None:
        pass


class Topic:
    """A topic, read as one who wants complete transactions only."""

    def __init__(self, bootstrap: str, topic: str, **options: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._bootstrap, self._topic, self._options = bootstrap, topic, options
        self._newest = -1
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 5,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def into(self, writer: Any) -> Any:
        writer = writer.format("kafka").option("kafka.bootstrap.servers", self._bootstrap).option("topic", self._topic)
        for name, value in self._options.items():
            writer = writer.option(name, value)
        return writer

    def _read(self) -> None:
        while not self._closed.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self._newest = max(self._newest, int(message.value()))

    def newest(self) -> int:
        return self._newest

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._consumer.close()
