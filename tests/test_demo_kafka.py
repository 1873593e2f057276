"""The demo whose December is messages, with a few flights and the broker of the tests."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from mixedmode.testing import Harness
from pyspark import cloudpickle
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import demo
import flights
import flights.rotations
from flights.data import Flights, cut, read_table, write_parquet
from flights.real_time import Answers, Miles
from flights.screen import Screen

if TYPE_CHECKING:
    from kafka_broker import Broker


@pytest.mark.kafka
def test_messages_give_what_one_batch_over_history_and_december_does(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """The query goes through the history, switches, and takes messages while they come; its output is EQUAL, and the
    screen shows that, and that it goes live."""
    cloudpickle.register_pickle_by_value(flights.rotations)
    data, table = Flights(tmp_path / "flights"), read_table()
    data.lake.mkdir(parents=True)
    data.december.mkdir()
    months = table.pop("month")
    write_parquet(table[months == 11].tail(600), data.lake / "2013-11.parquet")
    for number, some in enumerate(cut(table[months == 12].head(3_000), 3)):
        write_parquet(some, data.december / f"{number:02d}.parquet")
    shown = io.StringIO()
    made = demo.Demo(tmp_path, Screen(out=shown), kafka=True, pause_s=0)
    assert made.queries(spark, data, kafka, count=1) == [True], shown.getvalue()
    text = shown.getvalue()
    assert "EQUAL" in text and " phase      live" in text


def test_miles_are_added_up_and_told_behind_each_call() -> None:
    """Cancelled flights, and flights without an aircraft, count nothing; the history has no time of a message."""
    flight = "tailnum string, dep_time int, distance int, sent_ms long"
    with Harness(Miles(), key="tailnum", schema=flight, output="key string, value string") as harness:
        rows = [("N1", 517, 100, None), ("N2", None, 50, None), ("N1", 600, 20, None), (None, 1, 9, None)]
        told = [(row.key, json.loads(row.value)) for row in harness.backlog(rows)]
        assert told == [("N1", {"legs": 2, "miles": 120, "sent_ms": None})]
        (row,) = harness.push([("N1", 700, 3, 1_000), ("N1", None, 9, 2_000)])
        assert json.loads(row.value) == {"legs": 3, "miles": 123, "sent_ms": 1_000}


@pytest.mark.kafka
def test_the_answers_that_count_are_found(kafka: Broker) -> None:
    """Of an aircraft that with the greatest run, epoch and sequence, or the last of the backlog; latencies of all that
    came in real time."""
    topic = kafka.create("answers", 1, **{"message.timestamp.type": "LogAppendTime"})
    assert Answers.of(kafka, topic) == Answers([], [])
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0})

    def answer(key: str, legs: int, position: tuple[int, int, int] | None = None, sent_ms: int | None = None) -> None:
        names = ("mixedmode.run", "mixedmode.epoch", "mixedmode.sequence")
        headers = [] if position is None else [(name, str(at)) for name, at in zip(names, position, strict=True)]
        value = json.dumps({"legs": legs, "miles": 10 * legs, "sent_ms": sent_ms})
        producer.produce(topic, key=key, value=value, headers=headers)

    now_ms = int(time.time() * 1000)
    for legs in (1, 2):
        answer("a", legs)
    answer("b", 1)
    answer("b", 3, (2, 10, 1), now_ms)
    answer("b", 2, (2, 9, 5), now_ms)
    answer("b", 9, (1, 12, 7), now_ms)
    producer.flush(60)
    found = Answers.of(kafka, topic)
    assert sorted(found.totals) == [("a", 2, 20), ("b", 3, 30)]
    assert len(found.latencies_ms) == 3
    assert found.percentile_ms(99) == max(found.latencies_ms)
    assert found.percentile_ms(1) == min(found.latencies_ms)
