"""The jobs of the demo, each described once for history and feed together."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mixedmode
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .data import SCHEMA, Flights
from .rotations import OUTPUT, Rotations

if TYPE_CHECKING:
    from .topic import Topic

#: Delayed flights come up to 19 hours after flights that were scheduled later.
DELAY = timedelta(days=1)
#: Messages of several partitions come in no order at all, and a cancelled flight comes at the end of its day.
TOPIC_DELAY = timedelta(days=2)


@dataclass(frozen=True)
class Job:
    """Where a job reads its feed and keeps what it makes."""

    name: str
    folder: Path
    #: The topic that the feed goes to; None: it is files that land in a folder.
    topic: Topic | None = field(default=None, kw_only=True)

    @property
    def delay(self) -> timedelta:
        """How late a flight may come."""
        return DELAY if self.topic is None else TOPIC_DELAY

    @property
    def waiting(self) -> Path:
        return self.folder / "waiting"

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"


def rotations(spark: SparkSession, flights: Flights, job: Job) -> Any:
    """Rotations of every aircraft, by a StatefulProcessor with an event-time timer."""
    return _to_parquet(_rotations(spark, flights, job), job)


def ended_days(spark: SparkSession, flights: Flights, job: Job) -> Any:
    """Rotations that end at each airport and day: a second stage on what the processor gives."""
    return _to_parquet(
        _rotations(spark, flights, job)
        .groupBy("airport", F.window("ends", "1 day").alias("day"))
        .agg(F.count("*").alias("rotations"), F.sum("legs").alias("legs"), F.sum("miles").alias("miles"))
        .uid("ended-days"),
        job,
    )


def _rotations(spark: SparkSession, flights: Flights, job: Job) -> Any:
    return (
        _read(spark, flights, job)
        .where("tailnum is not null and dep_time is not null")  # cancelled flights have no departure
        .withWatermark("ts", f"{job.delay.days} days")
        .groupBy("tailnum")
        .transformWithState(
            Rotations(),
            outputStructType=OUTPUT,
            outputMode="append",
            timeMode="eventTime",
            eventTimeColumnName="ends",  # event time goes on behind the stage
        )
        .uid("rotations")
    )


def hours(spark: SparkSession, flights: Flights, job: Job) -> Any:
    """Departures of every carrier and hour, by PySpark's own aggregate functions."""
    return _to_parquet(
        _read(spark, flights, job)
        .withWatermark("ts", f"{job.delay.days} days")
        .groupBy("carrier", F.window("ts", "1 hour").alias("hour"))
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_time").alias("departed"),
            F.sum("dep_delay").alias("delay_min"),
            F.max("dep_delay").alias("worst_delay_min"),
            F.avg("dep_delay").alias("mean_delay_min"),
        )
        .uid("hours"),
        job,
    )


def straddling(history: DataFrame, live: DataFrame, job: Job, final_watermark: str) -> Any:
    """Departures by hour, with a history that ends in the middle of an hour."""
    return (
        mixedmode.read(history=history, live=live)
        .withWatermark("ts", "1 minute")
        .groupBy(F.window("ts", "1 hour").alias("hour"))
        .agg(F.count("*").alias("flights"))
        .uid("departures")
        .writeStream.queryName(job.name)
        .format("parquet")
        .option("path", str(job.output))
        .option("checkpointLocation", str(job.checkpoints))
        .option("execution.backlog.final-watermark", final_watermark)
        .option("execution.checkpointing.interval", "1 s")
    )


def _read(spark: SparkSession, flights: Flights, job: Job) -> Any:
    history = spark.read.schema(SCHEMA).parquet(str(flights.lake))
    if job.topic is None:
        return mixedmode.read(history=history, live=spark.readStream.schema(SCHEMA).parquet(str(job.landing)))
    from .topic import DECEMBER, flights_of

    how: Any = {"parse": flights_of, "history": history, "cut": ("ts", DECEMBER)}
    return mixedmode.kafka.read(spark, job.topic.brokers, job.topic.name, **how)


def _to_parquet(result: Any, job: Job) -> Any:
    return (
        result.writeStream.queryName(job.name)
        .format("parquet")
        .option("path", str(job.output))
        .option("checkpointLocation", str(job.checkpoints))
        .option("execution.checkpointing.interval", "5 s")
    )
