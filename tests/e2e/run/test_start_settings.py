"""What a job computes depends on the settings that the session has at start(), not on those that it gets later."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import mixedmode
import pytest
import support
from mixedmode.runtime.driver.run import runner
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support import World

EVENTS = support.stream_of(90, seed=21)
#: Settings that decide what expressions give: at the start of a job, and behind it.
AT_START = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "UTC"}
LATER = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "Asia/Kolkata"}


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[None]:
    """The session has those of the start, and its own in the end."""
    before = {name: spark.conf.get(name) for name in AT_START}
    _set(spark, AT_START)
    yield
    _set(spark, before)


def _set(spark: SparkSession, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)


def aggregated(rows: Any) -> Any:
    """Of each key: names are no numbers, which with ANSI is an error, and hours depend on the time zone."""
    numbers = F.count(F.col("key").cast("int")).alias("numbers")
    return rows.groupBy("key").agg(F.count("*").alias("rows"), numbers, F.max(F.hour("ts")).alias("hour"))


def in_two_stages(rows: Any) -> Any:
    """The second stage takes what the first one has counted by the hour, by what depends on either setting."""
    first = rows.withWatermark("ts", "0 seconds").groupBy("key", F.window("ts", "1 hour").alias("w"))
    counted = first.agg(F.count("*").alias("rows"), F.max(F.minute("ts")).alias("minute"))
    local = F.date_format("w.start", "yyyy-MM-dd HH:mm").alias("start")
    return counted.groupBy(local).agg(F.sum("rows").alias("rows"), F.count(F.col("key").cast("int")).alias("numbers"))


@pytest.mark.parametrize("described", [aggregated, in_two_stages])
def test_settings_are_those_of_the_start(
    world: World, monkeypatch: pytest.MonkeyPatch, settings: None, described: Any
) -> None:
    """Neither a backlog that is planned when they have changed nor the stream's first epoch behind it gives anything
    else than plain Spark gave at the start; what users ask of the session they get with its own."""
    spark, seen = world.spark, dict[Any, Any]()
    history, live = world.history(EVENTS[:60]), world.live()
    support.write(world.folder / "all.parquet", EVENTS)
    everything = spark.read.schema(support.ROW_SCHEMA).parquet(str(world.folder / "all.parquet"))
    wanted = {row[0]: tuple(row) for row in described(everything).collect()}

    def keep(rows: DataFrame, number: int) -> None:
        seen.update({row[0]: tuple(row) for row in rows.collect()})

    may = threading.Event()
    monkeypatch.setattr(runner, "failpoint", lambda name: may.wait(300))
    writer = described(mixedmode.read(history=history, live=live)).writeStream.foreachBatch(keep)
    query = writer.outputMode("update").option("checkpointLocation", str(world.checkpoints)).start()
    world.queries.append(query)
    _set(spark, LATER)
    may.set()
    support.live(query)
    world.feed(query, EVENTS[60:])
    query.stopWithSavepoint(str(world.folder / "savepoint"), drain=True)
    assert seen == wanted
    assert {name: spark.conf.get(name) for name in LATER} == LATER
