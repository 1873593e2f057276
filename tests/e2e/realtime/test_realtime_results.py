"""The live phase in Real-Time Mode gives what a batch over the topic gives, whichever phases the rows came in."""

from __future__ import annotations

from pathlib import Path

import driver_realtime
import kafka_support
import pytest
from driver_jvm import DriverJvm
from kafka_broker import Broker
from kafka_support import check_each_once
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from realtime_support import RealTimeJob, each_once

pytestmark = pytest.mark.kafka


def over_phases(job: RealTimeJob) -> None:
    """A backlog, real time, micro-batches, and real time again; keys come in all of them."""
    job.send(range(30))
    assert job.life("30-50") == 0
    assert job.life("50-70", real_time=None) == 0
    assert job.life("70-90") == 0


def rows_over_phases(job: RealTimeJob, spark: SparkSession) -> DataFrame:
    """The rows of all of them, for a batch."""
    over_phases(job)
    assert len({one.run for one in job.messages()} - {None}) == 2, "two lives were in Real-Time Mode"
    given = {"kafka.bootstrap.servers": job.broker.bootstrap, "subscribe": (job.folder / "source").read_text()}
    return kafka_support.parsed(spark.read.format("kafka").options(**given).load())


def test_an_aggregate_equals_a_batch(spark: SparkSession, kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """In update mode the last message of each key is the key's row in a batch."""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "aggregate")
    batch = rows_over_phases(job, spark).groupBy("key").agg(F.format_string("%06d", F.max("value")).alias("value"))
    assert {one.key: one.value for one in job.output()} == dict(batch.collect())


def test_what_is_around_an_aggregate_equals_a_batch(
    spark: SparkSession, kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path
) -> None:
    """Filters and expressions before the stage, behind it and within it; the text of each value is Spark's."""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "counts")
    rows = rows_over_phases(job, spark).withColumn("text", F.format_string("%06d", F.col("value")))
    assert {one.key: one.value for one in job.output()} == dict(driver_realtime.counts(rows).collect())


def test_a_query_starts_again_at_once_in_the_same_application(
    kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path
) -> None:
    """The tasks of the query that was stopped, which hold most of the slots, do not go on to the end of their epoch."""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "processor")
    job.send(range(30))
    assert job.life("twice:30-50", real_time="10 seconds") == 0
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
    over_phases(job)
    assert job.life("0-95") == 0  # all of them again, and some more
    assert sorted((one.key, one.value) for one in job.messages()) == sorted(
        (f"k{value % 5}", f"{value:06d}") for value in range(95)
    )


def test_timers_fire_as_with_micro_batches(kafka: Broker, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """An event-time timer of a processor fires, once, with the epoch that the watermark has passed it before."""
    job = RealTimeJob.of(kafka, driver_jvm, tmp_path, "sessions")
    assert job.life("0-20") == 0
    assert job.life("200-220") == 0
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
