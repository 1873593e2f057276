"""The live phase in Real-Time Mode gives what a batch over the topic gives, whichever phases the rows came in."""

from __future__ import annotations

from pathlib import Path

import driver_realtime
import kafka_support
import pytest
from driver_jvm import DriverJvm
from kafka_broker import Broker
from kafka_support import check_each_once
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from realtime_support import RealTimeJob, each_once

pytestmark = pytest.mark.kafka


def over_phases(job: RealTimeJob, last: str) -> None:
    """A backlog, real time, micro-batches, and real time again; keys come in all of them.

    Args:
        job: the job.
        last: the values that come at last.
    """
    job.send(range(30))
    assert job.life("30-50") == 0
    assert job.life("50-70", real_time=None) == 0
    assert job.life(last) == 0
    assert len({one.run for one in job.messages()} - {None}) == 2, "two lives were in Real-Time Mode"


def test_an_aggregate_and_what_is_around_it_equals_a_batch(
    spark: SparkSession, kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path
) -> None:
    """In update mode the last message of each key is the key's row in a batch: with filters and expressions before the
    stage, behind it and within it.  The text of each value is Spark's.  (An aggregate that is written as it is:
    tests/chaos/test_live_chaos.py.)"""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "counts")
    over_phases(job, "70-90")
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": (tmp_path / "source").read_text()}
    rows = kafka_support.parsed(spark.read.format("kafka").options(**given).load())
    batch = driver_realtime.counts(rows.withColumn("text", F.format_string("%06d", F.col("value"))))
    assert {one.key: one.value for one in job.output()} == dict(batch.collect())


def test_a_query_starts_again_at_once_in_the_same_application(
    kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path
) -> None:
    """The tasks of the query that was stopped, which hold most of the slots, do not go on to the end of their epoch."""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "processor")
    job.send(range(30))
    assert job.life("twice:30-50", real_time="3 seconds") == 0
    check_each_once(each_once(job.output()), range(50))


def test_micro_batches_take_the_place_of_missing_slots(kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """With the option a job that has too few slots runs, and goes on in Real-Time Mode when it needs fewer."""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "processor")
    job.send(range(30))
    assert job.life("30-50", "pipeline.parallelism=3", "execution.realtime.fallback=micro-batch") == 0
    assert {one.run for one in job.messages()} == {None}
    assert job.life("50-70", "execution.realtime.fallback=micro-batch") == 0
    check_each_once(each_once(job.output()), range(70))
    assert len({one.run for one in job.messages()}) == 2


def test_a_deduplication_equals_a_batch(kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """Each key comes out once, though its rows come in several phases."""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "deduplication")
    over_phases(job, "0-95")  # all of them again, and some more
    assert sorted((one.key, one.value) for one in job.messages()) == sorted(
        (f"k{value % 5}", f"{value:06d}") for value in range(95)
    )


def test_timers_fire_as_with_micro_batches(kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """An event-time timer of a processor fires, once, with the epoch that the watermark has passed it before."""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "sessions")
    assert job.life("0-20,200-220") == 0
    assert job.life("400-420") == 0
    assert job.life("600-601", real_time=None) == 0
    start_ms = kafka_support.START_S * 1000
    ends = {
        (f"k{value % 5}", str(start_ms + (value + 60) * 1000))
        for last in (20, 220, 420)
        for value in range(last - 5, last)
    }
    found = [(one.key, one.value) for one in job.output()]
    assert sorted(found) == sorted(ends)
