"""The demo's two jobs on real flights: October and November as history, a week of December file by file."""

from __future__ import annotations

import shutil
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import flights.rotations
from flights.compare import compare, expected_hours, expected_rotations, watermark_of
from flights.data import SCHEMA, Flights, prepare
from flights.jobs import DELAY, Job, hours, rotations
from flights.rotations import OUTPUT, QUIET_MS

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(flights.rotations)

#: Files of the feed that are used: it has twenty, in order of arrival.
FEED_FILES = 5


@pytest.fixture(scope="module")
def autumn(tmp_path_factory: pytest.TempPathFactory) -> Flights:
    """Real flights from October to the first week of December, out of order as they are."""
    whole = prepare(tmp_path_factory.mktemp("year") / "flights")
    some = Flights(tmp_path_factory.mktemp("autumn"))
    some.lake.mkdir()
    some.december.mkdir()
    for month in ("10", "11"):
        shutil.copy(whole.lake / f"2013-{month}.parquet", some.lake)
    for path in sorted(whole.december.glob("*.parquet"))[:FEED_FILES]:
        shutil.copy(path, some.december)
    return some


def everything(spark: SparkSession, data: Flights) -> DataFrame:
    return spark.read.schema(SCHEMA).parquet(str(data.lake), str(data.december))


def run(describe: Any, spark: SparkSession, data: Flights, job: Job) -> None:
    """The job over its history and the feed: two files wait at the start, the others come one by one."""
    job.landing.mkdir(parents=True)
    feed = sorted(data.december.glob("*.parquet"))
    for path in feed[:2]:
        shutil.copy(path, job.landing)
    query = describe(spark, data, job).start()
    try:
        query.processAllAvailable()
        for path in feed[2:]:
            shutil.copy(path, job.landing / f"{path.name}.coming")
            (job.landing / f"{path.name}.coming").rename(job.landing / path.name)
            query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    assert {progress["mode"] for progress in query.recentProgress} == {"backlog", "streaming"}


def test_rotations_equal_a_batch_over_everything(spark: SparkSession, autumn: Flights, tmp_path: Path) -> None:
    """Every rotation that the watermark has closed is committed once, as window functions over all flights have it."""
    job = Job("rotations", tmp_path)
    run(rotations, spark, autumn, job)
    flown = everything(spark, autumn).where("tailnum is not null and dep_time is not null")
    expected = expected_rotations(everything(spark, autumn), timedelta(milliseconds=QUIET_MS))
    closed = expected.where(expected.ends <= watermark_of(flown, DELAY)).drop("ends")
    outcome = compare(spark.read.schema(OUTPUT).parquet(str(job.output)), closed)

    assert outcome.equal, outcome
    assert outcome.rows > 20_000


def test_hours_equal_a_batch_over_everything(spark: SparkSession, autumn: Flights, tmp_path: Path) -> None:
    """Every closed hour of every carrier is committed once, as Spark's own groupBy has it."""
    job = Job("hours", tmp_path)
    run(hours, spark, autumn, job)
    expected = expected_hours(everything(spark, autumn))
    closed = expected.where(expected.hour.end <= watermark_of(everything(spark, autumn), DELAY))
    outcome = compare(spark.read.parquet(str(job.output)), closed)

    assert outcome.equal, outcome
    assert outcome.rows > 10_000
