"""Queries of ours and of Spark's with the same job, fed with the same micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mixedmode
from dataset import Dataset, Shape
from micro_batches import Feed, live_run, parts, trigger_s, watched
from mixedmode.runtime.spark_io.query_log_writes import started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from workload import Job

OURS = "streaming"
STOCK = "stock"


def stream(spark: SparkSession, shape: Shape, folder: Path) -> DataFrame:
    """A micro-batch for each file of a folder."""
    reader = spark.readStream.schema(shape.ddl).option("maxFilesPerTrigger", 1)
    return reader.option("latestFirst", False).parquet(str(folder))


def start(
    keyed: Any,
    checkpoints: Path,
    available_now: bool,
    output_mode: str = "update",
    log_as_ours: SparkSession | None = None,
    **options: str,
) -> Any:
    """Start a query, of ours or of Spark's.

    Args:
        keyed: the job.
        checkpoints: its checkpoint location.
        available_now: True: it ends with what is there; False: one micro-batch after the other.
        output_mode: as Spark calls it.
        log_as_ours: the session of a query of Spark's whose log is written as our live query's; None: as by default.
        options: of the writer.
    """
    writer = keyed.writeStream.format("noop").outputMode(output_mode).option("checkpointLocation", str(checkpoints))
    for name, value in options.items():
        writer = writer.option(name, value)
    trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
    writer = writer.trigger(**trigger)
    return writer.start() if log_as_ours is None else started(writer, [log_as_ours], str(checkpoints))


def told(found: Mapping[str, list[Any]]) -> tuple[dict[str, list[float]], tuple[str, ...]]:
    """Seconds of the micro-batches by way, and where they go."""
    seconds = {way: [trigger_s(batch) for batch in batches] for way, batches in found.items()}
    return seconds, tuple(f"{way}: {parts(batches)}" for way, batches in found.items())


def feed_both(
    spark: SparkSession,
    job: Job,
    history: Dataset,
    small: Dataset,
    bench: Any,
    output_mode: str = "update",
    same_log: bool = False,
) -> dict[str, list[Any]]:
    """Every small micro-batch, of us and of stock: both queries hold the same state and get the same rows in turn.

    Args:
        spark: the session.
        job: the job of both.
        history: what makes the state, in one file.
        small: the micro-batches, a file each.
        bench: where scratch folders come from.
        output_mode: of both queries.
        same_log: True: stock writes its log as our live query does, without starting processes; False: as it does
            by default.
    """
    with bench.scratch() as folder, watched(spark) as batches:
        ours_feed = Feed(folder / "ours-in", small.files)
        stock_feed = Feed(folder / "stock-in", [*history.files, *small.files])
        before = spark.read.schema(history.shape.ddl).parquet(*history.files)
        live = stream(spark, small.shape, ours_feed.folder)
        ours = start(job(mixedmode.read(history=before, live=live)), folder / "ours", False, output_mode)
        stock: StreamingQuery | None = None
        try:
            assert ours.wait_for("live", 600), ours.exception()
            ours_id = live_run(ours)
            # What a watermark has made due waits for the next rows: a micro-batch without rows would disturb ours.
            spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
            rows = stream(spark, small.shape, stock_feed.folder)
            stock = start(job(rows), folder / "stock", False, output_mode, spark if same_log else None)
            stock_id, loaded = str(stock.runId), len(batches.of(ours_id))
            stock_feed.land()
            batches.wait_for(stock_id, 1)
            for number in range(1, len(small.files) + 1):
                ours_feed.land()
                batches.wait_for(ours_id, loaded + number)
                stock_feed.land()
                batches.wait_for(stock_id, 1 + number)
        finally:
            spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
            ours.stop()
            if stock is not None:
                stock.stop()
        return {OURS: batches.of(ours_id)[loaded:], STOCK: batches.of(stock_id)[1:]}
