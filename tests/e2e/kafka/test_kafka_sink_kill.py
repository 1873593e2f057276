"""A job that sends to Kafka, killed at every point of it: readers see each row of the output once."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
import support
from driver_jvm import KILLED, DriverJvm
from kafka_broker import Broker
from mixedmode.runtime.support.failpoints import VARIABLE

DRIVER = Path(__file__).parents[1] / "driver_kafka_sink.py"
EVENTS = support.stream_of(420, seed=7)


@pytest.mark.kill
def test_each_row_is_seen_once_over_kills(kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """The driver is killed behind ``_metadata``, with transactions in the log that nobody has committed, when all are,
    before the next ``_metadata``, and where it sends by itself; workers are killed before and behind a commit, and
    their tasks run again: what readers of committed messages see is what a batch gives, each message once."""
    topic = kafka.create("sessions", 3)
    (tmp_path / "pending").mkdir()
    support.write(tmp_path / "history.parquet", EVENTS[:300])
    support.write(tmp_path / "pending" / "01.parquet", EVENTS[300:])
    support.write(tmp_path / "pending" / "02.parquet", support.flush_after(EVENTS))

    def life(points: str, name: str = "") -> int:
        environment = {VARIABLE: points, "TEST_LIFE": name}
        return driver_jvm.run(DRIVER, tmp_path, kafka.bootstrap, topic, **environment).returncode

    def seen() -> list[tuple]:
        rows = [json.loads(value) for _, value, _ in kafka.committed(topic)]
        shown = [
            (row["key"], datetime.fromisoformat(row["start"]).replace(tzinfo=None), row["count"], row["total"])
            for row in rows
        ]
        return support.without_flush(sorted(shown, key=repr))

    def killed_once(point: str) -> str:
        return f"{point}=kill-once:{tmp_path / point}"

    assert life("kafka-before-sending=kill") == KILLED
    assert sum(kafka.ends(topic).values()) == 0
    assert life("kafka-before-commit=stop", "inside") == KILLED
    assert seen() == [], "what is in the log is committed by nobody"
    points = ("kafka-before-commit", "kafka-after-commit")
    workers = ";".join(f"{point}=kill-once:{tmp_path / point}" for point in points)
    assert life(f"{workers};sink-after-function=kill") == KILLED
    at_the_switch = seen()
    assert at_the_switch and len(set(at_the_switch)) == len(at_the_switch)
    assert all((tmp_path / point).exists() for point in points)
    # It first finds all of the switch in the topic; what it dies with is another checkpoint's.
    assert life("checkpoint-before-metadata=kill") == KILLED
    assert seen() == at_the_switch
    # A small checkpoint is sent by the driver itself.
    assert life("kafka-before-commit=kill", "small") == KILLED
    assert seen() == at_the_switch
    assert life("kafka-after-commit=kill", "small") == KILLED
    assert len(seen()) > len(at_the_switch)
    assert life("", "small") == 0
    assert seen() == support.sessions_of(EVENTS)
