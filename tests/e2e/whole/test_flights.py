"""The demo's two jobs on real flights: October and November as history, a week of December file by file."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

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


@pytest.mark.slow
def test_rotations_equal_a_batch_over_everything(spark: SparkSession, autumn: Flights, tmp_path: Path) -> None:
    """Every rotation that the watermark has closed is committed once, as window functions over all flights have it."""
    job = Job("rotations", tmp_path)
    run(rotations, spark, autumn, job)
    flown = everything(spark, autumn).where("tailnum is not null and dep_time is not null")
    expected = expected_rotations(everything(spark, autumn), timedelta(milliseconds=QUIET_MS))
    closed = expected.where(expected.ends <= watermark_of(flown, DELAY))
    outcome = compare(spark.read.schema(OUTPUT).parquet(str(job.output)), closed)

    assert outcome.equal, outcome
    assert outcome.rows > 20_000


@pytest.mark.slow
def test_hours_equal_a_batch_over_everything(spark: SparkSession, autumn: Flights, tmp_path: Path) -> None:
    """Every closed hour of every carrier is committed once, as Spark's own groupBy has it."""
    job = Job("hours", tmp_path)
    run(hours, spark, autumn, job)
    expected = expected_hours(everything(spark, autumn))
    closed = expected.where(expected.hour.end <= watermark_of(everything(spark, autumn), DELAY))
    outcome = compare(spark.read.parquet(str(job.output)), closed)

    assert outcome.equal, outcome
    assert outcome.rows > 10_000


@dataclass(frozen=True)
class Elsewhere(Job):
    """A job that goes on from another one's savepoint: its feed is the same, all else is its own."""

    origin: Job

    @property
    def landing(self) -> Path:
        return self.origin.landing


@pytest.mark.slow
@pytest.mark.parametrize("drain", [False, True], ids=["without drain", "with drain"])
def test_december_goes_on_elsewhere(spark: SparkSession, autumn: Flights, tmp_path: Path, drain: bool) -> None:
    """A job stopped in the middle of December goes on in another place, with another parallelism.

    Without drain both together give what the undisturbed run gives.  With drain the first gives every rotation of the
    flights until then, the open ones too, and the second those of the flights since, as if there had been none before.
    """
    feed = sorted(autumn.december.glob("*.parquet"))
    first = Job("first", tmp_path / "first")
    second = Elsewhere("second", tmp_path / "second", first)
    first.landing.mkdir(parents=True)

    def land(path: Path) -> None:
        shutil.copy(path, first.landing / f"{path.name}.coming")
        (first.landing / f"{path.name}.coming").rename(first.landing / path.name)

    land(feed[0])
    query = rotations(spark, autumn, first).option("pipeline.parallelism", 2).start()
    assert query.wait_for("live", 300), query.exception()
    land(feed[1])
    query.processAllAvailable()
    savepoint = query.stopWithSavepoint(str(tmp_path / "savepoint"), drain=drain)
    shutil.rmtree(first.checkpoints)
    moved = shutil.move(savepoint, tmp_path / "moved")

    for path in feed[2:]:
        land(path)
    writer = rotations(spark, autumn, second).option("pipeline.parallelism", 3)
    query = writer.option("execution.savepoint.path", str(moved)).start()
    try:
        assert query.wait_for("live", 300), query.exception()
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    assert {progress["mode"] for progress in query.recentProgress} == {"streaming"}, "the history is not read again"

    quiet = timedelta(milliseconds=QUIET_MS)
    flown = everything(spark, autumn).where("tailnum is not null and dep_time is not null")
    outputs = [spark.read.schema(OUTPUT).parquet(str(job.output)) for job in (first, second)]
    if drain:
        until = spark.read.schema(SCHEMA).parquet(str(autumn.lake), *map(str, feed[:2]))
        since = spark.read.schema(SCHEMA).parquet(*map(str, feed[2:]))
        expected = [expected_rotations(until, quiet), expected_rotations(since, quiet)]
        expected[1] = expected[1].where(expected[1].ends <= watermark_of(flown, DELAY))
    else:
        outputs = [outputs[0].unionAll(outputs[1])]
        whole = expected_rotations(everything(spark, autumn), quiet)
        expected = [whole.where(whole.ends <= watermark_of(flown, DELAY))]
    for output, wanted in zip(outputs, expected, strict=True):
        outcome = compare(output, wanted)
        assert outcome.equal, outcome
        assert outcome.rows > 500
